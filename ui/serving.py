"""One app a workspace: two would overwrite each other's drafts.

The lock file also says where the app is, so that a second start can point there. The kernel frees the
lock when the app dies, however it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import UsageError
from engine.run_lock import ProcessLock
from engine.workspace import Workspace


@contextmanager
def only_app(workspace: Workspace) -> Iterator[Callable[[str], None]]:
    """Hold the workspace while the app is served; yields what tells its URL to later starts.

    Raises `UsageError` with the URL of the app that serves the workspace already.
    """
    lock = ProcessLock(workspace.locks / "studio")
    if not lock.acquire():
        where = lock.path.read_text(encoding="utf-8").strip()
        raise UsageError(
            f"the workspace {workspace.root} is open in another app{f', at {where}' if where else ''}",
            hint="Open that address, as many people as you like, or choose another directory with --workspace.",
        )

    def tell(url: str) -> None:
        lock.path.write_text(f"{url}\n", encoding="utf-8")

    try:
        tell("")
        yield tell
    finally:
        lock.release()
