"""Which sweep the same command goes on with: one of the same data and code, or else none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from building import box, pipeline
from swept import LOCAL, Swept

from engine.catalog import build_catalog
from engine.document.pipeline import Pipeline
from engine.store.sweeps import Sweep
from engine.sweep.changes import begun_anew, mixed
from engine.sweep.score import Objective
from engine.sweep.start import resume_sweep, start_sweep
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace, trust


@pytest.fixture
def swept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Swept:
    """Sweeps that are recorded and have no process; `data` lies beside the workspace."""
    monkeypatch.chdir(workspace.root.parent)
    monkeypatch.setattr("engine.sweep.start._spawn", lambda *_: None)
    monkeypatch.setattr("engine.sweep.start.wait_started", lambda *_: None)
    monkeypatch.setattr("engine.sweep.start.expect", lambda _: None)
    for folder in ("data", "more"):
        Path(folder).mkdir()
        Path(folder, "a.txt").write_text("a")
    return Swept(workspace)


def _document(folder: str = "data") -> Pipeline:
    return pipeline(box("n", "Count", folder=str(Path(folder).absolute())), box("m", "Make"))


def _cancelled(swept: Swept, *settings: str, **more: object) -> Sweep:
    sweep = swept.start(_document(), *settings, **more)  # type: ignore[arg-type]
    swept.store.sweeps.end(sweep.sweep_id, "cancelled")
    return sweep


def _grow(folder: str = "data") -> None:
    Path(folder, "b.txt").write_text("b")


def _other_code(swept: Swept) -> None:
    code = swept.workspace.my_nodes / "probes.py"
    code.write_text(code.read_text().replace('ctx.info(f"wrote {text}")', 'ctx.info(f"has written {text}")'))
    trust(swept.workspace)
    swept.catalog = build_catalog((), swept.workspace)


CHANGES = [(lambda _: _grow(), "n"), (_other_code, "n"), (lambda _: None, "")]


@pytest.mark.parametrize(("change", "node"), CHANGES, ids=["data", "code", "no"])
def test_the_same_command_goes_on_only_with_the_same_data_and_code(
    swept: Swept, change: Callable[[Swept], None], node: str
) -> None:
    sweep = _cancelled(swept, "m.steps=1,2")
    assert begun_anew(sweep) == ""
    change(swept)
    again = swept.start(_document(), "m.steps=1,2")
    assert (again.sweep_id != sweep.sweep_id) == bool(node)
    why = (
        f"A new sweep: what {node} does or reads has changed since sweep {sweep.sweep_id}, of the same settings, began."
    )
    assert begun_anew(again) == (why if node else "")
    third = swept.start(_document(), "m.steps=1,2")
    assert third.sweep_id == again.sweep_id, "one that is at work is it, too"


def test_a_relative_folder_is_another_one_elsewhere(swept: Swept) -> None:
    relative = pipeline(box("n", "Count", folder="data"), box("m", "Make"))
    options = swept.options(relative, "m.steps=1,2")
    here, there = Path("here").absolute(), Path("there").absolute()
    for base in (here, there):
        (base / "data").mkdir(parents=True)
        (base / "data" / "a.txt").write_text("a")

    def started(base: Path) -> str:
        own = replace(options, base=base)
        return start_sweep(SweepInputs(relative, swept.catalog, swept.workspace, swept.store, own, LOCAL)).sweep_id

    first, second = started(here), started(there)
    assert first != second
    assert [started(here), started(there)] == [first, second]


def test_one_that_is_at_work_is_not_begun_beside_itself(swept: Swept) -> None:
    sweep = swept.start(_document(), "m.steps=1,2")
    _grow()
    assert swept.start(_document(), "m.steps=1,2").sweep_id == sweep.sweep_id


def test_files_of_later_trials_are_nothing_to_the_others(swept: Swept) -> None:
    """They may be missing when the sweep begins, and be there when it is to go on."""
    sweep = _cancelled(swept, "n.folder=data,late", "m.steps=1,2")
    Path("late").mkdir()
    (Path("late") / "a.txt").write_text("a")
    assert swept.start(_document(), "n.folder=data,late", "m.steps=1,2").sweep_id == sweep.sweep_id


def test_a_search_of_other_data_is_another_one(swept: Swept) -> None:
    searched = {"trials": 3, "objective": Objective("accuracy", True)}
    sweep = _cancelled(swept, "m.steps=1..9", **searched)
    assert swept.start(_document(), "m.steps=1..9", **searched).sweep_id == sweep.sweep_id  # type: ignore[arg-type]
    _grow()
    assert swept.start(_document(), "m.steps=1..9", **searched).sweep_id != sweep.sweep_id  # type: ignore[arg-type]


def test_what_was_asked_for_otherwise_is_not_called_begun_anew(swept: Swept) -> None:
    _cancelled(swept, "m.steps=1,2")
    _grow()
    other = LOCAL.model_copy(update={"name": "other"})
    for sweep in (
        swept.start(_document(), "m.steps=1,2", profile=other),
        swept.start(_document(), "m.steps=1,2", objective=Objective("accuracy", True)),
        swept.start(_document(), "m.steps=1,3"),
    ):
        assert begun_anew(sweep) == ""


def test_a_sweep_of_an_earlier_version_goes_on(swept: Swept) -> None:
    sweep = _cancelled(swept, "m.steps=1,2")
    swept.store.sweeps.change(sweep.sweep_id, {"work": None})
    _grow()
    assert swept.start(_document(), "m.steps=1,2").sweep_id == sweep.sweep_id
    swept.store.sweeps.end(sweep.sweep_id, "cancelled")
    assert mixed(_resumed(swept, sweep)) == ""


def _resumed(swept: Swept, sweep: Sweep) -> Sweep:
    return resume_sweep(swept.workspace, swept.store, sweep.sweep_id, swept.catalog)


@pytest.mark.parametrize(("change", "node"), CHANGES, ids=["data", "code", "no"])
def test_one_that_is_resumed_with_other_data_or_code_says_so_from_then_on(
    swept: Swept, change: Callable[[Swept], None], node: str
) -> None:
    sweep = _cancelled(swept, "m.steps=1,2")
    change(swept)
    said = mixed(_resumed(swept, sweep))
    assert said.startswith(f"What {node} does or reads has changed since sweep {sweep.sweep_id} began") == bool(node)
    assert mixed(swept.store.sweeps.find(sweep.sweep_id)) == said


def test_what_is_missing_is_not_called_changed(swept: Swept) -> None:
    sweep = _cancelled(swept, "m.steps=1,2")
    Path("data").rename("away")
    assert mixed(_resumed(swept, sweep)) == ""
