"""Processes that live on when their caller ends, as those of runs and sweeps do."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path


def start_detached(
    arguments: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; what it prints is appended to `log`.

    Raises `OSError` when it cannot be started, or its log cannot be written.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
            pass_fds=pass_fds,
        )
    # Reaped by a thread of its own: a long-lived caller must not collect dead processes.
    threading.Thread(target=process.wait, daemon=True).start()
    return process
