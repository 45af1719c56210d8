"""Runs on a disk that fills up: the reason is named, and after space was freed `resume` makes the same rows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from io_faults import FaultyDisk, build_library
from outside_parts import require
from running import Runner
from volumes import etl, expected_rows, rows_by_pyarrow, write_volumes

import voxelflow
from engine.catalog import Catalog
from engine.declare.datasets import VolumeDelta
from engine.document.pipeline import dump
from engine.profiles import Profile
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore, Task
from engine.workspace import Workspace, trust

pytestmark = pytest.mark.slow

MakeDisk = Callable[[Path], FaultyDisk]
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
    stopped_at = []
    for free in (350_000, 1_500_000):
        disk.leave(free)
        run, tasks = runner.resume(run_id)
        assert run.state == "failed"
        assert "no space left on" in run.error
        stopped_at.append(run.error.split(":")[0])
    # On a busy machine the run store may need what is left before the second task does.
    assert stopped_at[0] == "convert"
    if stopped_at[1] == "optimize":
        assert "1.1 MB needed for the node's output" in run.error
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


def test_a_full_storage_root_is_named(
    small_disk: MakeDisk, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    write_volumes(tmp_path / "volumes", COUNT, shape=SHAPE)
    storage = tmp_path / "storage"
    storage.mkdir()
    small_disk(storage).leave(100_000)
    profile = Profile(name="elsewhere", cores=2, memory_bytes=1 << 30, parallel_tasks=4, storage_root=storage)
    run, tasks = Runner(voxelflow.catalog(), workspace, store, profile).run(etl(tmp_path / "volumes"))
    assert run.state == "failed"
    assert run.error.startswith(f"convert: no space left on {storage}/")
    assert tasks["convert"].failure is not None
    assert tasks["convert"].failure["code"] == "disk-full"
    assert (tasks["table"].state, tasks["optimize"].state) == ("skipped", "skipped")
    assert "Traceback" in workspace.log_file(run.run_id, "convert").read_text()


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
    assert "a process may have 64 open (`ulimit -n`). Raise the limit" in run.error
