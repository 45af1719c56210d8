"""What the battery's processes have imported, and are, when they are forked (`tests/support/forked_programs.py`)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from forked_programs import import_nodes

PREPARED = "tests.torture.warm:prepare"
"""For `forking`."""
LIBRARY = "VOXELFLOW_TORTURE_LIBRARY"
"""Environment variable: the preloaded library, which learns each process' role from it."""
ROLES = ("command", "supervisor", "tracker", "worker", "measuring")
"""What a process of Voxelflow can be; the worker of a task has a role of its own, by its node (`role_of`)."""


def role_of(node: str, nodes: Sequence[str]) -> int:
    """The number under which the calls of a node's worker are counted."""
    return len(ROLES) + nodes.index(node)


def _take_role(arguments: list[str]) -> None:
    """Count this process' calls under its own role; a worker is known by the file that it logs to."""
    nodes = os.environ.get("VOXELFLOW_TORTURE_NODES", "").split()
    verbs = {"_supervise": "supervisor", "_track": "tracker", "_worker": "worker"}
    # Without arguments it is the program with which ProfileTraining measures.
    verb = verbs.get(arguments[0], "command") if arguments else "measuring"
    number = ROLES.index(verb)
    if verb == "worker":
        node = Path(os.readlink("/proc/self/fd/2")).stem
        number = role_of(node, nodes) if node in nodes else number
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"{verb} {os.getpid()}"[:15])
    if LIBRARY in os.environ:
        ctypes.CDLL(os.environ[LIBRARY]).io_faults_role(number)


def prepare() -> Callable[[list[str]], None]:
    """Import what a run of the storage nodes, a training in NumPy and what follows it import."""
    import tests.torture.in_numpy  # noqa: F401 - the training

    # A probe of five seconds, the least that the node takes, would be half of a round.
    from nodes.storage_probe import measure

    for name in ("_SMALL", "_SMALL_AT_ONCE", "_RANDOM", "_RANDOM_AT_ONCE", "_SEQUENTIAL", "_TABLE", "_LIST"):
        setattr(measure, name, getattr(measure, name) / 10)
    tracked = ("mlflow", "mlflow.tracking", "engine.tracking", "mlflow.store.tracking.sqlalchemy_store")
    import_nodes(*(tracked if os.environ.get("VOXELFLOW_TRACKING") != "off" else ()))
    return _take_role
