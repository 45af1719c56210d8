"""What the app's pages work with: one workspace, its catalogue and its run store.

`voxelflow studio` puts it in place before the server starts; pages ask for it. The catalogue comes
from outside, since `ui` knows no nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.catalog import Catalog
from engine.errors import UsageError
from engine.runs import RunStore
from engine.workspace import Workspace


@dataclass(frozen=True)
class Studio:
    """One running app. `base` is the folder at which relative paths in documents start (as on the command line)."""

    workspace: Workspace
    store: RunStore
    base: Path
    make_catalog: Callable[[Workspace], Catalog]


_installed: list[Studio] = []


def install(studio: Studio) -> None:
    """Make `studio` the one this process serves."""
    _installed[:] = [studio]


def studio() -> Studio:
    """The one this process serves. Raises `UsageError` when the app was started in another way."""
    if not _installed:
        raise UsageError("the app was not started by Voxelflow", hint="Start it with `voxelflow studio`.")
    return _installed[0]
