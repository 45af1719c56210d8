"""Runs that are resumed, or done over: what they may take from before, and what has changed since they were planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner

from engine.catalog import build_catalog
from engine.cli.following import report_end
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.run import launch
from engine.run.clean import free, survey
from engine.run.job import scratch_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]

NODES = '''
from pathlib import Path
from typing import Annotated

from voxelflow import PathIn, Policy, Report, TaskContext, VolumeFiles, VoxelflowError, node


@node("Half", version=1, category="Probes")
def half(
    files: VolumeFiles | None = None,
    *,
    gate: Annotated[str, Policy()] = "",
    labels: Annotated[str | None, PathIn("file")] = None,
    ctx: TaskContext,
) -> Report:
    """Count its calls in its half-done work; fail while the file `gate` is there."""
    calls = ctx.scratch / "calls"
    before = len(calls.read_text()) if calls.exists() else 0
    calls.write_text("x" * (before + 1))
    if gate and Path(gate).exists():
        raise VoxelflowError("the gate is closed")
    path = ctx.out / "report.txt"
    path.write_text(f"{before} calls before")
    return Report(uri=str(path))
'''


@pytest.fixture
def half(runner: Runner) -> Runner:
    (runner.workspace.my_nodes / "half.py").write_text(NODES)
    runner.catalog = build_catalog((), runner.workspace)
    return runner


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """While it is there, Half fails."""
    gate = tmp_path / "gate"
    gate.touch()
    return gate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("x")
    return folder


def _failed(runner: Runner, document: Pipeline, **choice: bool) -> str:
    run, tasks = runner.run(document, **choice)
    assert run.state == "failed"
    assert tasks["half"].reason == "the gate is closed"
    return run.run_id


def test_forced_work_does_not_go_on_from_what_an_earlier_run_left(half: Runner, gate: Path) -> None:
    document = pipeline(box("half", "Half", gate=str(gate)))
    first = _failed(half, document)
    forced = _failed(half, document, fresh=True)
    gate.unlink()
    # Both can be resumed, and `clean` leaves what each needs.
    assert {p.kept_for for p in survey(half.workspace, half.store) if p.node_type == "scratch"} == {first, forced}
    assert free(half.workspace, half.store, survey(half.workspace, half.store)).freed == []
    run, tasks = half.run(document, fresh=True)
    assert (run.state, half.text(tasks["half"])) == ("done", "0 calls before")
    # The forced run itself goes on from its own.
    run, tasks = half.resume(forced)
    assert (run.state, half.text(tasks["half"])) == ("done", "1 calls before")
    assert [p.name for p in half.workspace.scratch.iterdir()] == [_fingerprint(half, document)]


def _fingerprint(runner: Runner, document: Pipeline) -> str:
    ready = launch.prepare(document, runner.catalog, runner.workspace, runner.store)
    return ready.plan.task("half").identity.fingerprint


def test_half_done_work_of_forced_tasks_has_a_name_that_a_moved_workspace_keeps(half: Runner, tmp_path: Path) -> None:
    document = pipeline(box("half", "Half"))
    plans = [
        launch.prepare(
            document, half.catalog, half.workspace, half.store, choice=Choice(fresh=bool(suffix)), fresh_suffix=suffix
        ).plan
        for suffix in ("", "one", "two")
    ]
    names = [scratch_of(plan, half.workspace, plan.task("half")).name for plan in plans]
    fingerprint = _fingerprint(half, document)
    assert names == [fingerprint, f"{fingerprint}-one", f"{fingerprint}-two"]
    there = tmp_path / "shared"
    elsewhere = plans[1].model_copy(update={"storage": there})
    task = elsewhere.task("half").model_copy(update={"shared": str(there / "data" / plans[1].tasks[0].shared)})
    assert scratch_of(elsewhere, half.workspace, task) == there / "scratch" / names[1]


def test_failures_and_cancels_of_earlier_attempts_are_none_of_the_retries(runner: Runner, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    document = pipeline(box("a", "Fail", how="told", marker=str(marker), times=3, retries=1))
    run, tasks = runner.run(document)
    assert (run.state, tasks["a"].attempt) == ("failed", 2)
    run, tasks = runner.resume(run.run_id)
    assert (run.state, tasks["a"].attempt) == ("done", 4)
    assert len(marker.read_text()) == 4


def test_a_run_does_not_go_on_with_other_code(half: Runner, gate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = pipeline(box("half", "Half", gate=str(gate)))
    run_id = _failed(half, document)
    gate.unlink()
    code = half.workspace.my_nodes / "half.py"
    code.write_text(NODES.replace("calls before", "calls earlier"))
    run, _ = half.resume(run_id)
    assert run.state == "failed"
    assert run.error.startswith("half: the code of Half has changed since the run was planned. `voxelflow run` starts")
    report_end(half.store, run)
    said = capsys.readouterr()
    assert "`voxelflow run` starts" in said.err
    assert "runs resume" not in said.out + said.err, "it would say the same again"
    assert half.store.results.all() == []
    half.catalog = build_catalog((), half.workspace)
    assert half.text(half.run(document)[1]["half"]) == "0 calls earlier"
    code.write_text(NODES)
    run, tasks = half.resume(run_id)
    assert (run.state, half.text(tasks["half"])) == ("done", "1 calls before")


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_a_run_does_not_go_on_with_another_file(half: Runner, gate: Path, tmp_path: Path, change: str) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("a,1\n")
    run_id = _failed(half, pipeline(box("half", "Half", gate=str(gate), labels=str(labels))))
    gate.unlink()
    kept = labels.rename(tmp_path / "kept.csv")
    if change == "changed":
        labels.write_text("a,22\n")
    run, tasks = half.resume(run_id)
    assert run.state == "failed"
    said = "has changed" if change == "changed" else "is gone"
    assert tasks["half"].reason == f"{labels} {said} since the run was planned"
    assert tasks["half"].failure is not None
    assert tasks["half"].failure["parameter"] == "labels"
    kept.rename(labels)
    assert half.resume(run_id)[0].state == "done"


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_a_run_does_not_go_on_with_other_files_of_a_folder(half: Runner, gate: Path, folder: Path, change: str) -> None:
    document = pipeline(
        box("count", "Count", folder=str(folder)), box("half", "Half", gate=str(gate)), wires="count.out>half.files"
    )
    run_id = _failed(half, document)
    gate.unlink()
    if change == "changed":
        (folder / "a.txt").write_text("xx")
    else:
        (folder / "a.txt").unlink()
    run, tasks = half.resume(run_id)
    assert run.state == "failed"
    assert tasks["count"].state == "done"
    assert tasks["half"].reason == f"{folder} has changed since the run was planned: 1 file {change}"
    run, tasks = half.run(document)
    assert (run.state, tasks["count"].state) == ("done", "done")


def test_files_that_come_while_a_run_is_interrupted_are_for_the_next_one(
    half: Runner, gate: Path, folder: Path
) -> None:
    document = pipeline(
        box("count", "Count", folder=str(folder)), box("half", "Half", gate=str(gate)), wires="count.out>half.files"
    )
    run_id = _failed(half, document)
    gate.unlink()
    (folder / "c.txt").write_text("x")
    run, tasks = half.resume(run_id)
    assert (run.state, half.text(tasks["half"])) == ("done", "1 calls before")
    _, tasks = half.run(document)
    assert tasks["count"].reason == "folder gained 1 file"


def test_what_a_folder_holds_now_is_nothing_to_a_run_that_has_read_it(half: Runner, gate: Path, folder: Path) -> None:
    document = pipeline(box("count", "Count", folder=str(folder)), box("half", "Half", gate=str(gate)))
    run_id = _failed(half, document)
    gate.unlink()
    (folder / "a.txt").write_text("xx")
    assert half.resume(run_id)[0].state == "done"
