"""What is promised of every kind of child: tasks, processes that predict, workers that train and that measure.

Each is stopped at its start, where it opens a named pipe, so that nothing here needs TensorFlow. What holds for any
child is in tests/engine/processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from waiting import has_ended, wait_for_line, wait_until

from engine.declare.events import Event, Failure
from engine.processes.child import Child, same_modules
from engine.processes.messages import Listening
from engine.run.worker import TaskMessage, WorkerStart
from engine.run.worker_process import PROGRAM
from engine.workspace import open_workspace
from nodes.prediction import part_process
from nodes.profiling import worker as measuring_worker
from nodes.training.workers import worker

pytestmark = pytest.mark.slow

GATE = "import os\nprint('at the gate', flush=True)\nopen({gate!r}).read()\n"
PARENT = """
import json, os, sys, time
from engine.processes.child import Child, same_modules
for arguments, log, environment, session, first in json.loads(sys.argv[1]):
    child = Child(arguments, __import__("pathlib").Path(log), environment=same_modules(environment), session=session)
    child.send(first)
    print(child.pid, flush=True)
time.sleep(600)
"""


@dataclass
class Made:
    """A child as its kind starts it, and the pipe at which it waits."""

    arguments: list[str]
    folder: Path
    environment: dict[str, str]
    session: bool = False
    first: str = "{}"
    """The line that it reads first."""

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def gate(self) -> Path:
        return self.folder / "job.json"

    def start(self) -> Child:
        child = Child(self.arguments, self.log, environment=same_modules(self.environment), session=self.session)
        child.send(self.first)
        return child


def made(kind: str, folder: Path) -> Made:
    stubs = folder / "stubs"
    stubs.mkdir(parents=True)
    gate = folder / "job.json"
    os.mkfifo(gate)
    (stubs / "gate.py").write_text(GATE.format(gate=str(gate)))
    environment = {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(stubs)])}
    if kind == "task":
        workspace = open_workspace(folder / "workspace")
        start = WorkerStart(imports=("gate",)).model_dump_json()
        return Made([*PROGRAM[1:], "_worker", str(workspace.root)], folder, environment, True, start)
    if kind == "prediction":
        return Made([*part_process.PROGRAM, str(folder), "0"], folder, environment)
    program = worker.PROGRAM if kind == "training" else (*measuring_worker.PROGRAM, '{"warmup": 1, "steps": 1}')
    return Made([*program, str(folder), "0"], folder, environment)


def task_of_an_unknown_type(folder: Path) -> str:
    place = str(folder / "x")
    message = TaskMessage(
        run_id="r", node="n", node_type="NoSuchType", version=1, backend="embedded", params={}, inputs={},
        fingerprint="f", out=place, shared=place, scratch=place, cores=1, memory_bytes=1,
    )  # fmt: skip
    return message.model_dump_json()


KINDS = ("task", "prediction", "training", "measuring")


def test_all_end_with_their_parent(tmp_path: Path) -> None:
    """Also one that was killed, and also while they are busy with something else than reading."""
    children = [made(kind, tmp_path / kind) for kind in KINDS]
    given = [(c.arguments, str(c.log), c.environment, c.session, c.first) for c in children]
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, json.dumps(given)], stdout=subprocess.PIPE, env=same_modules({})
    )
    with parent:
        processes = [psutil.Process(int(wait_for_line(parent, r"^\d+$")[0])) for _ in children]
        gates = [child.gate.open("wb") for child in children]  # waits until each is there
        assert all(process.is_running() for process in processes)
        parent.kill()
    try:
        wait_until(lambda: all(map(has_ended, processes)))
    finally:
        for gate in gates:
            gate.close()


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_killed_says_how_and_one_that_fails_says_why(kind: str, tmp_path: Path) -> None:
    child = made(kind, tmp_path / "killed")
    with child.start() as process, child.gate.open("wb"):
        os.kill(process.pid, signal.SIGKILL)
        assert list(process.messages()) == []
        failure = process.failure()
    assert failure is not None
    assert (failure.code, process.exit_status) == ("worker-died", -signal.SIGKILL)
    assert failure.message == "its process was ended by SIGKILL before it was done"
    assert "memory" in failure.hint
    assert failure.details == ("at the gate\n" if kind == "task" else "")
    assert not psutil.pid_exists(process.pid)

    child = made(kind, tmp_path / "fails")
    with child.start() as process:
        with child.gate.open("wb") as gate:
            gate.write(b"no job")
        if kind == "task":
            process.send(task_of_an_unknown_type(tmp_path))
        sent: list[Event] = [event for event in process.messages() if not isinstance(event, Listening)]
        failure = process.failure()
    assert sent == [failure]
    assert isinstance(failure, Failure)
    assert process.exit_status == 1
    wanted = "the node type NoSuchType version 1 is gone" if kind == "task" else "validation error for Job"
    assert wanted in failure.message
    # An error of a task is one line for its reader; a view's is for whoever reports it.
    assert ("Traceback" in child.log.read_text()) == (kind != "task")
    assert wanted in child.log.read_text()
