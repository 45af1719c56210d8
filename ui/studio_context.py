"""What the app's pages work with: one workspace, its catalogue and its run store.

`voxelflow studio` puts it in place before the server starts; pages ask for it. The catalogue comes
from outside, since `ui` knows no nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.catalog import Catalog
from engine.errors import UsageError
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.views.shown import ShownDatasets


@dataclass(frozen=True)
class Studio:
    """One running app. `base` is the folder at which relative paths in documents start (as on the command line)."""

    workspace: Workspace
    store: RunStore
    base: Path
    make_catalog: Callable[[Workspace], Catalog]
    shown: ShownDatasets = field(default_factory=ShownDatasets)
    only_here: bool = True
    """Whether only people of this computer reach the app. To others it shows the workspace's folders and no more."""


_installed: list[Studio] = []


def install(studio: Studio) -> None:
    """Make `studio` the one this process serves."""
    _installed[:] = [studio]


def studio() -> Studio:
    """The one this process serves. Raises `UsageError` when the app was started in another way."""
    if not _installed:
        raise UsageError("the app was not started by Voxelflow", hint="Start it with `voxelflow studio`.")
    return _installed[0]
