"""Runs on a disk that fills up: the reason is named, and after space was freed `resume` makes the same rows."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import runs_in_one_process
from building import box, pipeline
from command_line import NO_WORK
from file_handles import none_left
from io_faults import Action, FaultyDisk, build_library
from outside_parts import require
from running import Runner
from volumes import etl, expected_rows, rows_by_pyarrow, write_volumes

import voxelflow
from engine.catalog import Catalog
from engine.cli import main
from engine.declare.datasets import VolumeDelta
from engine.document.pipeline import dump, write_pipeline
from engine.document.plan import PLAN, require_plan
from engine.errors import FileError
from engine.profiles import Profile
from engine.profiles.file import to_toml
from engine.run import run_lock
from engine.run.supervisor import supervise
from engine.run.worker_process import PROGRAM
from engine.store import liveness
from engine.store.runs import RunStore, Task
from engine.workspace import Workspace, trust
from tests.torture.scene import whole_document

pytestmark = pytest.mark.slow

MakeDisk = Callable[[Path], FaultyDisk]
ROLE = 63
"""Of a process that has not called `io_faults_role`."""
COUNT, SHAPE = 120, (12, 12, 8, 2)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("compiler")
    return build_library(tmp_path_factory.mktemp("io_faults"))


@pytest.fixture
def small_disk(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeDisk:
    """Makes a folder the root of a small disk, for the processes started from then on."""

    def make(folder: Path) -> FaultyDisk:
        disk = FaultyDisk(library, folder, tmp_path / "disk")
        for name, value in disk.environment.items():
            monkeypatch.setenv(name, value)
        return disk

    return make


def no_studio(workspace: Workspace, **_: object) -> int:
    raise AssertionError("the app was started")


def rows(task: Task) -> list[tuple[str, float | None, bytes]]:
    table = task.outputs["out"]
    assert isinstance(table, VolumeDelta)
    return rows_by_pyarrow(table.uri, table.version)


def test_a_run_that_fills_the_disk_again_and_again_says_so_and_resumes_exactly(
    small_disk: MakeDisk, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    volumes = write_volumes(tmp_path / "volumes", COUNT, shape=SHAPE)
    disk = small_disk(workspace.root)
    runner = Runner(voxelflow.catalog(), workspace, store)
    disk.leave(0)
    run_id = runner.start(etl(tmp_path / "volumes"))
    run = runner.finish(run_id)
    assert (run.state, run.attempt) == ("failed", 1)
    assert run.error.startswith(f"no space left on {workspace.root}: runs.db could not be written")
    for free, node in ((350_000, "convert"), (1_500_000, "optimize")):
        disk.leave(free)
        run, tasks = runner.resume(run_id)
        assert run.state == "failed"
        # On a busy machine the run store may need what is left before the task does.
        if run.error.split(":")[0] == node:
            assert "no space left on" in run.error
            assert node == "convert" or "1.1 MB needed for the node's output" in run.error
        else:
            assert run.error.startswith(f"no space left on {workspace.root}: runs.db could not be written")
    disk.free()
    run, tasks = runner.resume(run_id)
    assert (run.state, run.error, run.attempt) == ("done", "", 4)
    assert {t.state for t in tasks.values()} == {"done"}
    assert rows(tasks["optimize"]) == expected_rows(volumes)


def test_the_end_is_known_when_not_one_byte_can_be_recorded(
    small_disk: MakeDisk, probes: Catalog, workspace: Workspace, store: RunStore, probe_gate: Path
) -> None:
    disk = small_disk(workspace.root)
    runner = Runner(probes, workspace, store)
    run_id = runner.start(
        pipeline(
            box("slow", "Make", text="slow", steps=10, step_s=0.05), box("end", "Join"), wires="slow.out>end.first"
        )
    )
    runner.wait_for_progress(run_id, "slow")
    disk.leave(0, removing_frees=False)
    probe_gate.touch()
    run = runner.finish(run_id)
    assert (run.state, run.attempt) == ("failed", 1)
    assert run.error.startswith(f"no space left on {workspace.root}: runs.db could not be written")
    # This process sees no full disk: its look has recorded the end.
    tasks = runner.tasks(run_id)
    assert {t.state for t in tasks.values()} == {"cancelled"}
    disk.free()
    run, tasks = runner.resume(run_id)
    assert (run.state, run.error, run.attempt) == ("done", "", 2)
    assert runner.text(tasks["end"]) == "slow"


@pytest.mark.parametrize(("free", "node"), [(100_000, "convert"), (1_500_000, "optimize")])
def test_a_full_storage_root_is_named(
    small_disk: MakeDisk,
    workspace: Workspace,
    store: RunStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    free: int,
    node: str,
) -> None:
    """By the command, which ends with status 1."""
    write_volumes(tmp_path / "volumes", COUNT, shape=SHAPE)
    storage, document = tmp_path / "storage", tmp_path / "p.json"
    storage.mkdir()
    write_pipeline(etl(tmp_path / "volumes"), document)
    profile = Profile(name="elsewhere", cores=2, memory_bytes=1 << 30, parallel_tasks=4, storage_root=storage)
    (workspace.root / "profiles.toml").write_text(to_toml(profile))
    small_disk(storage).leave(free)
    # Here, where the disk is seen to have space when the run begins.
    command = ["run", str(document), "--profile", "elsewhere", "--workspace", str(workspace.root)]
    assert main(voxelflow.catalog, no_studio, NO_WORK, command) == 1
    reason = f"{node}: no space left on {storage}/"
    assert reason in capsys.readouterr().err
    run = store.run("last")
    assert (run.state, run.error[: len(reason)]) == ("failed", reason)
    assert ", about 1.1 MB needed for the node's output, " in run.error
    tasks = {task.node: task for task in store.tasks(run.run_id)}
    failure = tasks[node].failure
    assert failure is not None
    assert failure["code"] == "disk-full"
    assert tasks["table"].state == ("skipped" if node == "convert" else "done")
    assert "Traceback" in workspace.log_file(run.run_id, node).read_text()


def test_each_node_after_the_table_names_a_full_disk(
    small_disk: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it begins to write, or when it publishes its result. In one process for all runs, not some for each."""
    write_volumes(tmp_path / "volumes", COUNT, shape=SHAPE)
    storage, document = tmp_path / "storage", tmp_path / "p.json"
    storage.mkdir()
    disk = small_disk(storage)
    write_pipeline(whole_document(tmp_path / "volumes", registers=True), document)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    command = [
        sys.executable,
        "-P",
        runs_in_one_process.__file__,
        *map(str, (tmp_path / "workspace", storage, document)),
    ]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        asked, answers = program.stdin, program.stdout
        assert asked is not None
        assert answers is not None

        def run(node: str, full_at: int) -> tuple[str, str]:
            """Run it again; the disk is full from that call on."""
            disk.heal()
            disk.strike(ROLE, full_at, Action.FILL_UP)
            print(node, file=asked, flush=True)
            state, error = json.loads(answers.readline())
            return state, error

        assert run("optimize", -1)[0] == "done"
        for node in ("split", "train", "predict", "evaluate", "report", "register"):
            assert run(node, -1)[0] == "done"
            calls = disk.calls[ROLE]
            # The last things first: what is done of a training is not done again.
            for share in (0.95, 0.4):
                state, error = run(node, int(share * calls))
                assert (state, error.split(f" {storage}/")[0]) == ("failed", f"{node}: no space left on"), disk.struck
                assert " could not be written, " in error
            assert run(node, -1)[0] == "done"


def test_no_run_is_recorded_when_there_is_no_space_to_begin_one(
    small_disk: MakeDisk, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "p.json").write_text(dump(pipeline(box("s", "SyntheticVolumes", count=2, shape="4,4,2,1"))))
    small_disk(workspace.root).leave(20_000)
    command = [*PROGRAM, "run", str(tmp_path / "p.json"), "--workspace", str(workspace.root)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert "error: no space left on " in found.stderr
    assert "Free space there" in found.stderr
    assert store.runs() == []
    assert list((workspace.root / "runs").iterdir()) == []


def test_too_many_open_files_names_the_limit(workspace: Workspace, store: RunStore) -> None:
    (workspace.my_nodes / "greedy.py").write_text(
        "import resource\n"
        "from voxelflow import Report, TaskContext, node\n\n"
        '@node("Greedy", version=1, category="Probes")\n'
        "def greedy(*, ctx: TaskContext) -> Report:\n"
        '    """Open files without end."""\n'
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        '    files = [(ctx.out / str(i)).open("w") for i in range(100)]\n'
        "    return Report(uri=files[0].name)\n"
    )
    trust(workspace)
    run, _ = Runner(voxelflow.catalog(workspace), workspace, store).run(pipeline(box("greedy", "Greedy")))
    assert run.state == "failed"
    assert run.error.startswith("greedy: too many open files to open ")
    assert "a process may have 64 open (`ulimit -n`). Have an administrator raise the hard limit" in run.error


def test_too_many_open_files_stop_a_run_before_it_begins(
    workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are the first files that its process opens, and its plan is one of the next."""
    run_id = store.create_run("p", "{}", {}, "local", {PLAN: "{}"})
    with none_left(), pytest.raises(OSError, match="Too many open files"):
        require_plan(workspace, run_id)

    def refused(folder: Path, *args: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(folder / "lock"))

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # a run's process leaves Ctrl-C to its starter
    for place, name in ((run_lock, "handed_on"), (liveness, "is_held")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, refused)
            with pytest.raises(FileError, match=r"too many open files to open .*/lock: .*`ulimit -n`"):
                supervise(workspace, run_id, voxelflow.catalog(workspace))
