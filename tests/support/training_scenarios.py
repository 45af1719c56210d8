"""Trainings in processes of their own, with a network small enough to be killed many times."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forked_programs
import pytest
from waiting import end_by_its_input, wait_for_line

from engine.declare.context import Resources, TaskContext
from engine.declare.datasets import Dataset, dataset_from_json
from engine.declare.events import Event

PROCESSES = multiprocessing.get_context("forkserver")
# TensorFlow and MLflow are imported once, in the fork server, and not for each of the processes.
PROCESSES.set_forkserver_preload([*forked_programs.IMPORTED_TO_TRAIN])
_SERVER = multiprocessing.forkserver._forkserver  # type: ignore[attr-defined]
_start_server = _SERVER.ensure_running


def _fork_server() -> None:
    """In pytest the fork server is itself forked, from the process that has imported all that for all workers."""
    if forked_programs.shared is None:
        _start_server()
    elif _SERVER._forkserver_pid is None:  # else Python would ask for the end of a process that is no child of ours
        forks = forked_programs.shared()["import_training"]
        # In the session's folder, which goes before the process ends: Python, which makes one if there is none, would
        # print at its exit that it is gone.
        multiprocessing.current_process()._config["tempdir"] = tempfile.mkdtemp(prefix="pymp-")  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                multiprocessing.util,
                "spawnv_passfds",
                lambda _, command, handles: forks.start(command[-1], pass_fds=handles).pid,
            )
            _start_server()


_SERVER.ensure_running = _fork_server

TINY_WORKERS = "VOXELFLOW_TEST_WORKERS"
DROPOUT = {"VOXELFLOW_TEST_DROPOUT": "1"}
"""In a training's environment: the tiny network has a layer with a random state."""
REPLICAS = {"VOXELFLOW_TEST_REPLICAS": "2"}
"""In a training's environment: the process has two devices."""
_WORKER = Path(__file__).with_name("tiny_worker.py")
IMPORTED_S = 300.0
"""The most that a test waits for a process that imports TensorFlow: it takes ten seconds alone on two cores."""


@pytest.fixture(scope="module")
def tiny_workers() -> Iterator[str]:
    """Workers of groups are forked from one process that has TensorFlow, and train the tiny network."""
    with forking_workers() as address:
        yield address


@contextmanager
def forking_workers() -> Iterator[str]:
    """The same without pytest: gives the address of that process."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/socket"
        path = os.pathsep.join([str(_WORKER.parent), str(_WORKER.parents[2])])
        if forked_programs.shared is None:
            server = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER), "serve", address],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        else:
            forks = forked_programs.shared()["import_training"]
            code = f"import tiny_worker; tiny_worker.serve({address!r})"
            server = forks.start(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            wait_for_line(server, "^ready$", IMPORTED_S)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(TINY_WORKERS, address)
                yield address
        finally:
            end_by_its_input(server)  # TensorFlow takes its time to leave a busy machine


def tiny_program() -> tuple[str, ...]:
    """What to put in the place of `worker.PROGRAM` where the fixture `tiny_workers` is."""
    return ("-P", str(_WORKER), os.environ[TINY_WORKERS])


class Place:
    """Where one training has its folders, as the engine would make them for a fingerprint."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (self.out, self.scratch, root / "shared"):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def metrics(self, name: str) -> list[tuple[int, float]]:
        """The reported steps of a figure, in order, with those reported twice."""
        events = (event for event in self.events() if event["event"] == "metrics" and name in event["values"])
        return [(event["step"], event["values"][name]) for event in events]

    def worker_pid(self, rank: int) -> int:
        """The process of a worker of the newest attempt."""
        folder = max((self.scratch / "workers").glob("attempt-*"))
        pid: int = json.loads((folder / f"{rank}.seat.json").read_text())["pid"]
        return pid

    def context(self, node: str = "train", **more: Any) -> TaskContext:
        """For a task here with two cores; `more` are further fields of it."""
        folders = {"out": self.out, "shared": self.root / "shared", "scratch": self.scratch}
        given = {"run_id": "run", "node_id": node, "fingerprint": "0" * 64, "resources": Resources(cores=2), **folders}
        return TaskContext(**{**given, **more})

    def events(self) -> list[dict[str, Any]]:
        path = self.root / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def state(self) -> dict[str, bytes]:
        """Weights, optimizer and history of the finished training, and its best weights, to be compared bit for bit."""
        import numpy as np

        found = {}
        for path in self.out.glob("*_state.npz"):
            with np.load(path, allow_pickle=False) as file:
                found |= {f"{path.stem}/{name}": file[name].tobytes() for name in file.files}
        return found


def run_training(
    place: Place,
    data: Dataset,
    *,
    environment: dict[str, str] | None = None,
    validation: Dataset | None = None,
    test: Dataset | None = None,
    extends: Dataset | None = None,
    cancel_after: int | None = None,
    kill_worker: tuple[int, int] | None = None,
    **params: Any,
) -> int:
    """Train in a new process; its exit status (negative: the signal that ended it, 3: an error in events).

    `kill_worker` is a worker's rank (-1: the driver itself) and after how many reported steps it is killed.
    """
    process = PROCESSES.Process(
        target=_child,
        args=(
            str(place.root),
            [dataset.model_dump_json() if dataset else "" for dataset in (data, validation, test)],
            extends.model_dump_json() if extends else "",
            {name: os.environ[name] for name in (TINY_WORKERS, *DROPOUT) if name in os.environ} | (environment or {}),
            cancel_after,
            kill_worker,
            params,
        ),
    )
    process.start()
    process.join(240)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError("the training did not end")
    return process.exitcode


def _child(
    root: str,
    inputs: list[str],
    extends: str,
    environment: dict[str, str],
    cancel_after: int | None,
    kill_worker: tuple[int, int] | None,
    params: dict[str, Any],
) -> None:
    for name in (TINY_WORKERS, *DROPOUT, *REPLICAS):
        os.environ.pop(name, None)  # of the fork server's start, perhaps in another module's tests
    os.environ.update(environment)
    from engine.declare.progress import current_reporter
    from engine.errors import VoxelflowError
    from nodes.tensorflow_keras import models

    models.build_resnet3d = tiny_network
    if REPLICAS.items() <= os.environ.items():
        split_processor()
    if TINY_WORKERS in os.environ:
        from nodes.training.workers import worker

        worker.PROGRAM = tiny_program()
    place = Place(Path(root))
    steps = 0
    with (place.root / "events.jsonl").open("a") as sink:

        def emit(event: Event) -> None:
            nonlocal steps
            steps += event.event == "metrics"
            sink.write(event.model_dump_json() + "\n")
            sink.flush()
            if kill_worker is not None and event.event == "metrics" and steps == kill_worker[1]:
                os.kill(place.worker_pid(kill_worker[0]) if kill_worker[0] >= 0 else os.getpid(), signal.SIGKILL)

        def cancelled() -> bool:
            return cancel_after is not None and steps >= cancel_after

        class Reporter:
            def emit(self, event: Event, /) -> None:
                emit(event)

            def cancelled(self) -> bool:
                return cancelled()

        current_reporter.set(Reporter())
        extended = {"out": dataset_from_json(extends)} if extends else {}
        ctx = place.context(extends=extended, emit=emit, is_cancelled=cancelled)
        from nodes.train_resnet3d import train_resnet3d

        datasets = [dataset_from_json(text) if text else None for text in inputs]
        try:
            result = train_resnet3d(*datasets, ctx=ctx, **params)  # type: ignore[arg-type]
        except VoxelflowError as exc:
            sink.write(
                json.dumps({"event": "failure", "code": exc.code, "message": exc.message, "hint": exc.hint}) + "\n"
            )
            sink.flush()
            sys.exit(3)
        (place.root / "result.json").write_text(result.model_dump_json())


def split_processor() -> None:
    """Two devices where there is one processor, used as a machine's GPUs are."""
    from nodes.tensorflow_keras import runtime
    from nodes.tensorflow_keras.runtime import tf

    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    runtime.replica_devices = lambda: ["CPU:0", "CPU:1"]


def tiny_network(
    shape: Any,
    *,
    classes: int,
    mean: Any,
    variance: Any,
    target: Any = None,
    synchronized: bool = False,
    **_: Any,
) -> Any:
    """Batch norm and convolutions between the real network's ends: everything that a state holds."""
    from keras import layers

    from nodes.tensorflow_keras.models import LOGITS, answer, volume_input
    from nodes.training.architecture import output_count

    inputs, x = volume_input(shape, mean, variance)
    for filters in (4, 8):
        x = layers.Conv3D(filters, 3, 2, "same")(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9, synchronized=synchronized)(x))
    x = layers.GlobalAveragePooling3D()(x)
    if DROPOUT.items() <= os.environ.items():
        x = layers.Dropout(0.3)(x)
    return answer(inputs, layers.Dense(output_count(classes, target), name=LOGITS)(x), target, name="tiny")
