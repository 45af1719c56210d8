"""What the battery's processes have imported, and are, when they are forked (`tests/support/forked_programs.py`)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forked_programs import import_nodes

PREPARED = "tests.torture.warm:prepare"
"""For `forking`."""
LIBRARY = "VOXELFLOW_TORTURE_LIBRARY"
"""Environment variable: the preloaded library, which learns each process' role from it."""
ROLES = ("command", "supervisor", "tracker", "worker")
"""What a process of Voxelflow can be; the worker of a task has a role of its own, by its node (`role_of`)."""


def role_of(node: str, nodes: Sequence[str]) -> int:
    """The number under which the calls of a node's worker are counted."""
    return len(ROLES) + nodes.index(node)


def _take_role(arguments: list[str]) -> None:
    """Count this process' calls under its own role; a worker is known by the file that it logs to."""
    nodes = os.environ.get("VOXELFLOW_TORTURE_NODES", "").split()
    verb = {"_supervise": "supervisor", "_track": "tracker", "_worker": "worker"}.get(arguments[0], "command")
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
    import numpy_learner

    from nodes.training.learner import FRAMEWORKS

    class KerasInName(numpy_learner.NumpyLearner):
        """The same, with the name of the model's file that TrainResNet3D looks for."""

        model_file = "model.keras"

        def save(self, folder: Path, **options: Any) -> None:
            """With a folder that MLflow's registry takes, though it could not load it."""
            super().save(folder, **options)
            packed = folder / "mlflow_model"
            packed.mkdir(exist_ok=True)
            (packed / "MLmodel").write_text(
                "artifact_path: model\nflavors:\n  python_function:\n    loader_module: none\n"
            )

    class InNumpy(numpy_learner.NumpyFramework):
        def learner(self, spec: Any, warn: Any) -> Any:
            return KerasInName(spec, self._seed)

    numpy_learner.KerasInName, numpy_learner.InNumpy = KerasInName, InNumpy  # type: ignore[attr-defined]
    FRAMEWORKS["keras"] = FRAMEWORKS["numpy"] = "numpy_learner:InNumpy"
    # Workers import what the nodes name ahead of time; nobody here needs TensorFlow.
    sys.modules["nodes.tensorflow_keras"] = None  # type: ignore[assignment]
    tracked = ("mlflow", "mlflow.tracking", "engine.tracking", "mlflow.store.tracking.sqlalchemy_store")
    import_nodes(*(tracked if os.environ.get("VOXELFLOW_TRACKING") != "off" else ()))
    return _take_role
