"""Sweeps for real: what trials share, how they end, and what a kill at any moment leaves to the next process."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from swept import Swept, document
from waiting import wait_until

from engine.diagnostics.rule import CheckFailed
from engine.errors import UsageError
from engine.sweep.score import Objective, best_first
from engine.sweep.search import open_search
from engine.sweep.start import cancel_sweep
from engine.workspace import Workspace


@pytest.fixture
def swept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Swept:
    monkeypatch.chdir(workspace.root.parent)
    return Swept(workspace)


HIGHEST = Objective("accuracy", True)
in_processes = pytest.mark.usefixtures("forked_runs")


@pytest.mark.slow
@in_processes
def test_every_combination_runs_and_the_data_is_made_once(swept: Swept) -> None:
    sweep = swept.start(document(), "model.auc=0.6,0.9,0.7", jobs=3)
    ended, trials = swept.finished(sweep)
    assert (ended.state, ended.error) == ("done", "")
    assert [(t.values["model.auc"], t.state, t.score) for t in trials] == [
        (0.6, "done", 0.6), (0.9, "done", 0.9), (0.7, "done", 0.7),
    ]  # fmt: skip
    assert ended.options["objective"] == {"figure": "val_auc", "maximise": True}, "the usual one"
    states = swept.states(sweep)
    assert sorted(s["data"] for s in states.values()) == ["cached", "cached", "done"]
    assert sorted(s["words"] for s in states.values()) == ["cached", "cached", "done"]
    run = swept.store.run(swept.store.sweeps.runs_of_trials(sweep.sweep_id)[1])
    assert '"auc": 0.9' in run.document
    assert (run.options["sweep"], run.options["trial"], run.options["given"]) == (sweep.sweep_id, 1, ["model.auc"])
    # The same once more is another sweep, and finds all there.
    again, trials = swept.run(document(), "model.auc=0.6,0.9,0.7", jobs=3)
    assert again.sweep_id != sweep.sweep_id
    assert [t.score for t in trials] == [0.6, 0.9, 0.7]
    assert {state for tasks in swept.states(again).values() for state in tasks.values()} == {"cached"}


@pytest.mark.slow
@in_processes
@pytest.mark.parametrize(
    "point", ["sweep:run-started", "sweep:trial-ended#2", "sweep:ended", "supervisor:before-result"]
)
def test_a_sweep_that_is_killed_goes_on_and_repeats_nothing(
    swept: Swept, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", point)
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "killed"))
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    ended, _ = swept.finished(sweep)
    assert (tmp_path / "killed").exists()
    if point in ("sweep:ended", "supervisor:before-result"):
        # A run that is killed is resumed by the sweep itself.
        assert ended.state == "done"
    else:
        assert ended.state == "lost"
        ended, _ = swept.finished(swept.start(document(), "model.auc=0.6,0.9"))
        assert ended.sweep_id == sweep.sweep_id, "the same command goes on"
    assert (ended.state, [t.score for t in swept.store.sweeps.trials(sweep.sweep_id)]) == ("done", [0.6, 0.9])
    assert len(swept.runs(sweep)) == 2
    made = [s["data"] for s in swept.states(sweep).values()]
    assert sorted(made) == ["cached", "done"]
    with pytest.raises(UsageError, match="is done"):
        swept.resume(sweep)


@pytest.mark.slow
@in_processes
def test_a_trial_that_fails_leaves_the_others_and_is_tried_again(swept: Swept) -> None:
    marker = Path("marker").absolute()
    broken = pipeline(box("a", "Fail", how="told", marker=str(marker), times=1), box("b", "Make"))
    sweep = swept.start(broken, "b.steps=1,2")
    ended, trials = swept.finished(sweep)
    assert (ended.state, [t.state for t in trials]) == ("done", ["failed", "done"])
    assert "the probe was told to fail" in trials[0].error
    ended, trials = swept.resume(sweep)
    assert [t.state for t in trials] == ["done", "done"]
    assert len(swept.runs(sweep)) == 2


@pytest.mark.slow
@in_processes
def test_a_sweep_is_cancelled_with_its_runs_and_goes_on(swept: Swept) -> None:
    gate = Path("gate").absolute()
    sweep = swept.start(document(gate=str(gate)), "model.auc=0.6,0.9")
    wait_until(
        lambda: [t for t in swept.store.sweeps.trials(sweep.sweep_id) if t.state == "running"], "a trial at work"
    )
    with pytest.raises(UsageError, match="is at work"):
        swept.resume(sweep)
    assert swept.start(document(gate=str(gate)), "model.auc=0.6,0.9").sweep_id == sweep.sweep_id
    cancel_sweep(swept.store, sweep.sweep_id)
    ended, trials = swept.finished(sweep)
    assert (ended.state, [t.state for t in trials]) == ("cancelled", ["cancelled", "waiting"])
    assert [swept.store.run(run).state for run in swept.runs(sweep)] == ["cancelled"]
    gate.touch()
    ended, trials = swept.resume(sweep)
    assert (ended.state, [t.score for t in trials]) == ("done", [0.6, 0.9])
    assert len(swept.runs(sweep)) == 2


@pytest.mark.slow
@in_processes
def test_a_search_finds_prunes_and_goes_on_after_a_kill(
    swept: Swept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", "sweep:trial-recorded#3")
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "killed"))
    learnt = pipeline(box("model", "Learn", epochs=45, epoch_s=0.03), name="learnt")
    sweep = swept.start(learnt, "model.rate=0.01..2:log", objective=HIGHEST, trials=6)
    assert swept.finished(sweep)[0].state == "lost"
    ended, trials = swept.resume(sweep)
    assert (ended.state, [t.number for t in trials]) == ("done", list(range(6)))
    assert len({t.values["model.rate"] for t in trials}) == 6
    runs = {number: swept.store.run(run) for number, run in swept.store.sweeps.runs_of_trials(sweep.sweep_id).items()}
    pruned = {t.number for t in trials if t.state == "pruned"}
    assert pruned, [(t.values, t.score) for t in trials]
    assert {t.state for t in trials if t.number not in pruned} == {"done"}
    assert {number for number, run in runs.items() if run.state == "cancelled"} == pruned
    for trial in trials:
        if trial.number in pruned:
            # The run says so too: it looks cancelled, and nobody has cancelled it.
            assert "given up at step" in trial.error == runs[trial.number].error
    best = best_first(trials, HIGHEST)[0]
    assert best.values["model.rate"] == max(t.values["model.rate"] for t in trials)


@pytest.mark.slow
def test_a_search_learns_from_reported_scores(tmp_path: Path, swept: Swept) -> None:
    learnt = pipeline(box("model", "Learn"), name="learnt")
    space = ("model.rate=0.25..2", "model.epochs=2..8:2", 'model.text=a,b,"1,2"')
    options = swept.options(learnt, *space, objective=HIGHEST, trials=9)
    search = open_search(tmp_path, options)
    for expected in range(5):
        number, values = search.next()
        assert number == expected
        assert 0.25 <= values["model.rate"] <= 2  # type: ignore[operator]
        assert values["model.epochs"] in (2, 4, 6, 8)
        assert values["model.text"] in ("a", "b", "1,2")
        assert not search.gives_up(number, 1, 1.0 + number)
        assert not search.gives_up(number, 2, 2.0 + number)
        search.ended(number, "done", 2.0 + number)
        search.ended(number, "failed", None)  # a resumed sweep reports what it knows once more
    number, _ = search.next()
    lost, _ = search.next()
    again = open_search(tmp_path, options)
    again.forget_unrecorded(range(lost))
    assert not again.gives_up(number, 1, 0.0), "no trial is judged by its first epoch"
    assert not again.gives_up(number, 2, float("nan"))
    assert again.gives_up(number, 2, 0.0)
    again.ended(number, "pruned", 0.0)
    assert again.next()[0] == lost + 1


def test_what_cannot_be_swept_is_refused_before_anything_starts(swept: Swept) -> None:
    with pytest.raises(UsageError, match="nothing varies"):
        swept.start(document(), "model.auc=0.5")
    with pytest.raises(CheckFailed) as wrong:
        swept.start(document(), "model.auc=0.5,high", "data.steps=1,-1", "data.stepz=1")
    assert [d.code for d in wrong.value.diagnostics] == ["VF207", "VF203", "VF203"]
    with pytest.raises(UsageError, match="needs a figure"):
        swept.start(document(), "model.auc=0.1..0.5", trials=3)
    assert swept.store.sweeps.newest() == []
