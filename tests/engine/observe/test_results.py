"""A result is whole when all its files stand with the sizes they had."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner

from engine.catalog import build_catalog
from engine.declare.datasets import Dataset, Report, VolumeFiles
from engine.errors import ExecutionError
from engine.observe.results import SIZES, is_removed, problem_with, refuse_damaged, write_sizes
from engine.storage import manifest
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust

FORGETFUL = '''
from voxelflow import Report, TaskContext, node


@node("Forgetful", version=1, category="Probes")
def forgetful(*, ctx: TaskContext) -> Report:
    """Name a file that it does not write."""
    return Report(uri=str(ctx.out / "page.html"))
'''


def _report(out: Path) -> dict[str, Dataset]:
    (out / "plots").mkdir(parents=True)
    (out / "page.html").write_text("a page")
    (out / "plots" / "ä.png").write_text("a plot")
    (out / ".hidden").write_text("no matter")
    return {"out": Report(uri=str(out / "page.html"))}


def test_every_visible_file_of_a_task_counts(tmp_path: Path) -> None:
    outputs = _report(tmp_path / "out")
    out = tmp_path / "out"
    refuse_damaged(None, out, outputs)
    (out / ".hidden").unlink()
    (out / "later.txt").write_text("no matter")
    assert problem_with(None, out, outputs) == ""
    (out / "plots" / "ä.png").write_text("a")
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} has 1 byte, not 6"
    (out / "plots" / "ä.png").unlink()
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} is gone"
    (out / "plots" / "ä.png").mkdir()
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} is a folder, not a file"
    assert not is_removed(out, outputs)
    (out / SIZES).write_text("{")
    assert f"{out / SIZES} cannot be read" in problem_with(None, out, outputs)
    (out / SIZES).unlink()
    assert problem_with(None, out, outputs) == "", "a result of an earlier Voxelflow has no list"


def test_volumes_are_for_the_check_of_their_own_node(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "volumes").mkdir(parents=True)
    (out / "volumes" / "1.npy").write_text("x")
    manifest.write(manifest.list_folder(out / "volumes", ("**/*.npy",)), out / "volumes.arrow")
    outputs: dict[str, Dataset] = {
        "out": VolumeFiles(uri=str(out / "volumes"), manifest=str(out / "volumes.arrow"), count=1, bytes=1)
    }
    write_sizes(out, outputs)
    (out / "volumes" / "1.npy").write_text("longer")
    assert problem_with(None, out, outputs) == ""
    (out / "volumes.arrow").write_text("")
    assert problem_with(None, out, outputs) == f"{out / 'volumes.arrow'} is empty"
    (out / "volumes" / "1.npy").unlink()
    (out / "volumes").rmdir()
    assert is_removed(out, outputs)


def test_what_is_not_there_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    outputs = _report(tmp_path / "out")
    (tmp_path / "out" / "page.html").unlink()
    with pytest.raises(ExecutionError, match=r"page\.html is gone"):
        refuse_damaged(None, tmp_path / "out", outputs)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_task_whose_output_is_not_there_fails(workspace: Workspace, store: RunStore) -> None:
    (workspace.my_nodes / "forgetful.py").write_text(FORGETFUL)
    trust(workspace)
    runner = Runner(build_catalog((), workspace), workspace, store)
    run, tasks = runner.run(pipeline(box("a", "Forgetful")))
    assert run.state == "failed"
    assert tasks["a"].failure is not None
    assert "page.html is gone" in tasks["a"].failure["message"]
    assert store.results.all() == []
