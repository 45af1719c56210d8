"""The most memory that this process has held."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path


def peak_memory() -> int:
    """Bytes that this process has had resident at most."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    # Counts what the parent had before this program was started, so it is the second choice.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
