"""The installed distributions that this process can import."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

_ENDING = ".dist-info"


def installed_packages() -> dict[str, str]:
    """Version by normalised name, sorted.

    Read from the names of the `NAME-VERSION.dist-info` folders alone (the standard "Recording installed
    projects"): importlib.metadata reads every METADATA file for the same answer, 0.2 s at 180 packages.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        for folder in sorted(Path(place or ".").glob(f"*{_ENDING}")):
            name, dash, version = folder.name.removesuffix(_ENDING).rpartition("-")
            # What pip left of a removal that was cut off begins with a tilde.
            if dash and not name.startswith("~"):
                # The first one on the path is the one that is imported.
                found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return dict(sorted(found.items()))


def requirements(packages: Mapping[str, str]) -> str:
    """The packages as the text of a requirements file."""
    return "".join(f"{name}=={version}\n" for name, version in packages.items())
