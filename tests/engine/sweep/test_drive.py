"""Sweeps for real: what trials share, how they end, and what a kill at any moment leaves to the next process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest
from building import box, pipeline
from gated_start import gated_program
from swept import Swept, document
from waiting import wait_until

from engine.catalog import build_catalog
from engine.declare.events import Metrics
from engine.diagnostics.rule import CheckFailed
from engine.errors import ExecutionError, UsageError
from engine.run import launch, run_lock
from engine.store import liveness
from engine.sweep import drive
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective, best_first
from engine.sweep.search import _OptunaSearch, open_search
from engine.sweep.space import Space, read_range
from engine.sweep.start import _children, cancel_sweep, wait_started
from engine.workspace import Workspace, trust


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
    assert (ended.state, ended.error, [t.number for t in trials]) == ("done", "", list(range(6)))
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
@in_processes
def test_trials_that_are_cancelled_leave_the_sweep_to_be_resumed(swept: Swept) -> None:
    gate = Path("gate").absolute()
    sweep = swept.start(document(gate=str(gate)), "model.auc=0.6,0.9", jobs=2)
    wait_until(lambda: [t.state for t in swept.store.sweeps.trials(sweep.sweep_id)] == ["running"] * 2, "both trials")
    for run in swept.runs(sweep):
        launch.cancel(swept.store, run)
    ended, trials = swept.finished(sweep)
    assert (ended.state, [t.state for t in trials]) == ("cancelled", ["cancelled"] * 2)
    gate.touch()
    ended, trials = swept.resume(sweep)
    assert (ended.state, [t.score for t in trials]) == ("done", [0.6, 0.9])


@pytest.mark.parametrize("figure", [float("inf"), float("-inf"), float("nan")])
def test_a_figure_that_is_no_number_is_no_score_and_the_trial_says_so(
    swept: Swept, figure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sweep.start._spawn", lambda *_: None)
    monkeypatch.setattr(drive, "figures_of_run", lambda *_: {"accuracy": figure})
    sweep = swept.start(document(), "model.auc=0.6,0.9", objective=HIGHEST)
    driver = drive._Driver(swept.workspace, swept.store, swept.catalog, sweep.sweep_id)
    run = swept.store.create_run("swept", "{}", {}, "local")
    swept.store.finish_run(run, "done")
    driver._ended(swept.store.sweeps.trials(sweep.sweep_id)[0], swept.store.run(run))
    first = swept.store.sweeps.trials(sweep.sweep_id)[0]
    assert (first.state, first.score, first.error) == ("done", None, f"its accuracy is {figure}")


def test_a_trial_is_given_up_only_for_figures_of_the_node_that_gives_the_score(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[tuple[int, int, float]] = []

    class Listens(_OptunaSearch):
        def gives_up(self, number: int, step: int, value: float) -> bool:
            learnt.append((number, step, value))
            return super().gives_up(number, step, value)

    monkeypatch.setattr("engine.sweep.start._spawn", lambda *_: None)
    sweep = swept.start(document(), "model.auc=0.6,0.9", objective=HIGHEST, trials=2)
    driver = drive._Driver(swept.workspace, swept.store, swept.catalog, sweep.sweep_id)
    folder = swept.workspace.sweep_folder(sweep.sweep_id)
    folder.mkdir(parents=True)
    search = driver._search = Listens(folder, driver._options)
    active = []
    for _ in range(2):
        trial = driver._next()
        assert trial is not None
        del driver._waiting[trial.number]
        run = swept.store.create_run("swept", "{}", {"sweep": sweep.sweep_id, "trial": trial.number}, "local")
        swept.store.set_tasks(run, [("first", "T", "first"), ("last", "T", "last")])
        for step in (1, 2):
            swept.store.add_events(run, [Metrics(node="first", step=step, values={"accuracy": 0.1})])
        active.append(drive._Active(trial, run, {}))
    for each in active:
        swept.store.add_events(each.run_id, [Metrics(node="last", step=1, values={"accuracy": 0.8})])
    driver._maybe_prune(active[0], search)
    assert not learnt, "no finished trial shows yet which node gives the score"
    swept.store.finish_run(active[1].run_id, "done")
    driver._ended(active[1].trial, swept.store.run(active[1].run_id))
    assert learnt == [(1, 1, 0.8)]
    driver._maybe_prune(active[0], search)
    assert learnt == [(1, 1, 0.8), (0, 1, 0.8)]
    # Another process that goes on with the sweep knows it from the trial that is done.
    again = drive._Driver(swept.workspace, swept.store, swept.catalog, sweep.sweep_id)
    again._take_over()
    assert again._source == "last.accuracy"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sweep's process begins once this file is there, and nothing is trusted for the time that has passed."""
    path = tmp_path / "begin"
    monkeypatch.setattr("engine.sweep.start.PROGRAM", gated_program(path))
    monkeypatch.setattr(liveness, "_START_GRACE_S", 0.0)
    return path


@pytest.mark.slow
def test_a_sweep_whose_process_takes_long_to_begin_is_not_lost(swept: Swept, gate: Path) -> None:
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    assert sweep.state == "starting"
    gate.touch()
    # The command's patience is over, and the process lives.
    wait_started(swept.workspace, swept.store, sweep, timeout_s=0)
    assert swept.store.sweeps.find(sweep.sweep_id).attempt == 1
    cancel_sweep(swept.store, sweep.sweep_id)
    assert swept.finished(sweep)[0].state == "cancelled"


def test_one_that_hangs_before_it_begins_can_be_cancelled(
    swept: Swept, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    started = psutil.Process(_children[sweep.sweep_id].pid)
    wait_until(lambda: sweep.sweep_id in started.cmdline(), "the process")
    monkeypatch.setattr(run_lock, "USUAL_START_S", 0.0)
    assert cancel_sweep(swept.store, sweep.sweep_id).state == "cancelled"
    wait_until(lambda: _children[sweep.sweep_id].poll() is not None, "the end of its process")
    # The command that waits for it sees the killed process, and that the sweep is cancelled.
    wait_started(swept.workspace, swept.store, sweep)
    assert swept.store.sweeps.find(sweep.sweep_id).state == "cancelled"
    swept.store.sweeps.begin(sweep.sweep_id)
    assert not swept.store.sweeps.find(sweep.sweep_id).cancel, "it meant the attempt before"


def test_one_whose_process_is_killed_before_it_begins_has_failed(swept: Swept, gate: Path) -> None:
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    _children[sweep.sweep_id].kill()
    with pytest.raises(ExecutionError, match="did not start"):
        wait_started(swept.workspace, swept.store, sweep)
    assert swept.store.sweeps.find(sweep.sweep_id).state == "failed"
    swept.store.sweeps.request_cancel(sweep.sweep_id)
    assert not swept.store.sweeps.find(sweep.sweep_id).cancel, "it would be meant for the next attempt"


def test_one_that_was_to_be_cancelled_when_its_process_died_is_cancelled(swept: Swept, gate: Path) -> None:
    """Whichever process first finds that it has ended."""
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    swept.store.sweeps.request_cancel(sweep.sweep_id)
    _children[sweep.sweep_id].kill()
    wait_started(swept.workspace, swept.store, sweep)
    found = swept.store.sweeps.find(sweep.sweep_id)
    assert (found.state, found.attempt, found.error) == ("cancelled", 1, "the sweep's process had not begun")


def test_of_two_that_are_resumed_at_once_the_loser_records_nothing(swept: Swept, gate: Path) -> None:
    sweep = swept.start(document(), "model.auc=0.6,0.9")
    winner = _children[sweep.sweep_id]
    loser = _children[sweep.sweep_id] = subprocess.Popen(["true"])
    loser.wait()
    with pytest.raises(ExecutionError, match="did not start"):
        wait_started(swept.workspace, swept.store, sweep, timeout_s=0.2)
    assert swept.store.sweeps.find(sweep.sweep_id).state == "starting"
    winner.kill()
    winner.wait()
    swept.store.sweeps.begin(sweep.sweep_id)
    swept.store.sweeps.end_unbegun(sweep.sweep_id)
    assert swept.store.sweeps.find(sweep.sweep_id).attempt == 1
    assert swept.store.sweeps.find(sweep.sweep_id).ended is None


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["of positions", "of an earlier version"])
def test_a_search_over_paths_goes_on_where_its_workspace_was_moved(
    tmp_path: Path, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def options(root: str) -> SweepOptions:
        return SweepOptions(Space({}, {"n.folder": (f"{root}/a", f"{root}/b")}, {}), HIGHEST, trials=9)

    with monkeypatch.context() as earlier:
        if journal != "of positions":
            earlier.setattr(_OptunaSearch, "_categories_of", lambda self, name: self._space.lists[name])
        number, values = open_search(tmp_path, options("/old")).next()
    assert values["n.folder"] in ("/old/a", "/old/b")
    moved = open_search(tmp_path, options("/new"))
    moved.ended(number, "done", 0.5)
    assert {moved.next()[1]["n.folder"] for _ in range(8)} == {"/new/a", "/new/b"}


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("1000.25..1001.25:0.25", 12),
        ("0.1..0.9:0.1", 1),
        ("0.9999..0.99999", 9),
        ("100000.5..100010.5", 9),
        ("1..3.5", 5),
    ],
)
def test_a_search_runs_with_the_values_that_it_chose(tmp_path: Path, text: str, digits: int) -> None:
    within = read_range("n.rate", text)
    assert within is not None
    search = open_search(tmp_path, SweepOptions(Space({}, {}, {"n.rate": within}), HIGHEST, trials=9))
    found = [search.next()[1]["n.rate"] for _ in range(9)]
    assert isinstance(search, _OptunaSearch)
    chosen = [trial.params["n.rate"] for trial in search._study.trials]
    assert found == [float(f"{value:.{digits}g}") for value in chosen]
    assert within.step is not None or len(set(found)) == len(set(chosen)), "no two choices become one value"


@pytest.mark.slow
@pytest.mark.parametrize("text", ["-0.3..0.3:0.1", "1000000.0000001..1000000.0000005:0.0000001"])
def test_steps_are_numbers_as_they_would_be_written(tmp_path: Path, text: str) -> None:
    within = read_range("n.rate", text)
    assert within is not None
    search = open_search(tmp_path, SweepOptions(Space({}, {}, {"n.rate": within}), HIGHEST, trials=40))
    found = sorted({search.next()[1]["n.rate"] for _ in range(40)})
    decimals = len(text.rpartition(".")[2])
    assert found == [round(within.low + step * within.step, decimals) for step in range(len(found))]  # type: ignore[operator]
    assert len(found) > 4


def test_what_cannot_be_swept_is_refused_before_anything_starts(swept: Swept) -> None:
    with pytest.raises(UsageError, match="nothing varies"):
        swept.start(document(), "model.auc=0.5")
    with pytest.raises(CheckFailed) as wrong:
        swept.start(document(), "model.auc=0.5,high", "data.steps=1,-1", "data.stepz=1")
    assert [d.code for d in wrong.value.diagnostics] == ["VF207", "VF203", "VF203"]
    depths = swept.workspace.my_nodes / "depths.py"
    depths.write_text(
        "from typing import Literal\nfrom voxelflow import Report, TaskContext, node\n\n"
        '@node("Depths", version=1, category="Probes")\n'
        "def depths(*, depth: Literal[18, 34] = 18, ctx: TaskContext) -> Report:\n"
        '    """Write nothing."""\n    return Report(uri=str(ctx.out))\n'
    )
    trust(swept.workspace)
    swept.catalog = build_catalog((), swept.workspace)
    with pytest.raises(CheckFailed) as wrong:
        swept.start(pipeline(box("d", "Depths")), "d.depth=18..34", trials=3, objective=HIGHEST)
    assert ["must be one of 18, 34, not 19" in d.message for d in wrong.value.diagnostics] == [True]
    with pytest.raises(UsageError, match="needs a figure"):
        swept.start(document(), "model.auc=0.1..0.5", trials=3)
    assert swept.store.sweeps.newest() == []
