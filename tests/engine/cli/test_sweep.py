"""`voxelflow sweep`: what is refused, what would be done, a sweep followed to its end, and what is reported of it."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save
from earlier_runs import ran
from gated_start import gated_program
from waiting import WAIT_S, wait_until

from engine.cli.following import Interrupts
from engine.document.pipeline import Pipeline, dump
from engine.limit import Limit
from engine.store.estimates import Estimated
from engine.store.runs import RunStore
from engine.sweep import start
from engine.sweep.expected import SweepEstimate
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import Space


def _document() -> Pipeline:
    return pipeline(box("a", "Make", text="${text}"), box("b", "Join"), wires="a.out>b.first", text="x")


def test_a_dry_run_shows_the_trials_and_starts_nothing(command: Command, save: Save, store: RunStore) -> None:
    said = command("sweep", save(_document()), "--set", "text=one,two", "--set", "a.steps=1,2", "--dry-run").done()
    lines = said.out.splitlines()
    assert lines[0].split() == ["trial", "text", "a.steps", "runs"]
    assert [line.split() for line in lines[1:3]] == [["0", "one", "1", "a,", "b"], ["1", "one", "2", "a,", "b"]]
    assert re.fullmatch(r"4 trials; one at a time, each with \d+ cores? and .* of memory", lines[5])
    output = command("sweep", "test.json", "--set", "text=one,one,two", "--dry-run", "--json").json
    assert [t["values"] for t in output["trials"]] == [{"text": "one"}, {"text": "two"}]
    searched = command(
        "sweep", "test.json", "--set", "a.steps=1..9", "--set", "text=p,q", "--trials", "7", "--dry-run"
    )  # fmt: skip
    assert searched.done().out.splitlines()[:4] == [
        "test: 7 trials, chosen one after the other from", "  text: p, q", "  a.steps: 1..9",
        "time and cost: unknown, without an earlier run of a, b,"
        " and the profile local names neither a machine nor a price",
    ]  # fmt: skip
    assert (store.runs(), store.sweeps.newest()) == ([], [])
    assert command("sweep", "list").out == "there are no sweeps yet; `voxelflow sweep --help` shows how to start one\n"


def test_a_dry_run_says_what_all_trials_take_and_cost(
    command: Command, save: Save, store: RunStore, home: Path
) -> None:
    (home / "workspace" / "profiles.toml").write_text("[vm]\nprice_per_hour = 3600\n")
    for node, node_type in (("a", "Make"), ("b", "Join")):
        ran(store, node, node_type, 10, None, profile="vm")
    asked = ["sweep", save(_document()), "--set", "text=one,two", "--profile", "vm", "--dry-run"]
    lines = command(*asked, "--stop-after", "3h", "--stop-at-cost", "20").done().out.splitlines()
    assert re.split(r"  +", lines[0]) == ["trial", "text", "runs", "time", "cost"]
    assert re.split(r"  +", lines[1].strip()) == ["0", "one", "a, b", "15 s to 26 s", "15.38 to 26.00"]
    assert lines[4:7] == [
        "time: 31 s to 52 s",
        "cost: 30.77 to 52.00",
        "price: 3,600 an hour: price_per_hour of the profile vm, undated",
    ]
    assert lines[-1] == "limit: 3 h 00 min or 20.00 for all trials together"
    output = command(*asked, "--json", "--stop-after", "3h").json
    assert (output["expected"]["cost_high"], output["stop_after_s"], output["stop_at_cost"]) == (
        pytest.approx(52, rel=1e-3), 10_800, None,
    )  # fmt: skip
    assert [trial["high_s"] for trial in output["trials"]] == [pytest.approx(26, rel=1e-3)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "nothing varies in this sweep. Give a parameter several values"),
        (["--set", "nope=1,2"], "VF207: the pipeline has no parameter nope"),
        (["--set", "a.nope=1,2"], "VF207: the node a (Make) has no parameter nope"),
        (["--set", "a.steps=1,-2"], "VF203 a.steps: must be at least 0 steps, not -2"),
        (["--set", "a.steps=1..4"], "is a range, and nothing says how many values of it to try. Add --trials 20"),
        (["--set", "a.steps=1..4", "--trials", "3"], "a search needs a figure to go by"),
        (["--set", "a.steps=1,2", "--maximise", "a", "--minimise", "b"], "--maximise and --minimise are both given"),
        (
            ["--set", "a.steps=1,2", "--stop-at-cost", "20"],
            "the sweep cannot be stopped at a cost on the profile local",
        ),
        (
            ["--set", "a.steps=1,2", "--stop-at-cost", "20", "--dry-run"],
            "the sweep cannot be stopped at a cost on the profile local",
        ),
        (["--set", "a.steps=1,2", "--stop-after", "3"], "is no time to stop after"),
    ],
)
def test_what_is_refused(arguments: list[str], text: str, command: Command, save: Save, store: RunStore) -> None:
    command("sweep", save(_document()), *arguments).fails(text)
    assert store.sweeps.newest() == []


def test_a_sweep_that_is_not_there(command: Command, save: Save) -> None:
    save(_document())
    for verb in ("show", "resume", "cancel"):
        command("sweep", verb, "x").fails("there is no sweep x")
        command("sweep", verb, "").fails("the name of the sweep is empty")
        # So Python gives the byte FF of a command line, which is not UTF-8.
        command("sweep", verb, "\udcff").fails("there is no sweep \\udcff")


@pytest.mark.slow
def test_the_same_command_after_the_data_has_changed_says_that_it_begins_anew(
    command: Command, save: Save, store: RunStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sweep.start._spawn", lambda *_: None)
    monkeypatch.setattr("engine.sweep.start.wait_started", lambda *_, **__: None)
    monkeypatch.setattr("engine.sweep.start.expect", lambda _: None)
    (home / "data").mkdir()
    (home / "data" / "a.txt").write_text("a")
    name = save(pipeline(box("n", "Count", folder="data"), box("a", "Make")))
    asked = ["sweep", name, "--set", "a.steps=1,2", "--detach"]
    assert "A new sweep" not in command(*asked).done().out
    (sweep,) = store.sweeps.newest()
    store.sweeps.end(sweep.sweep_id, "cancelled")
    resumed = command("sweep", "resume", sweep.sweep_id, "--detach").done()
    assert "warning" not in resumed.err
    (home / "data" / "b.txt").write_text("b")
    said = command(*asked).done()
    assert said.out.startswith(f"A new sweep: what n does or reads has changed since sweep {sweep.sweep_id}, of the")
    assert f"sweep {sweep.sweep_id} of" not in said.out
    assert "A new sweep" not in command(*asked).done().out, "it goes on with that one"
    resumed = command("sweep", "resume", sweep.sweep_id, "--detach").done()
    assert f"warning: What n does or reads has changed since sweep {sweep.sweep_id} began" in resumed.err


@pytest.mark.slow
def test_a_sweep_with_a_cancelled_trial_did_not_end_well(
    command: Command, save: Save, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carry_out(_: object, sweep_id: str) -> None:
        store.sweeps.begin(sweep_id)
        store.sweeps.set_trial(sweep_id, 0, "done", score=0.5)
        store.sweeps.set_trial(sweep_id, 1, "cancelled")
        store.sweeps.end(sweep_id, "done")

    monkeypatch.setattr("engine.sweep.start._spawn", carry_out)
    said = command("sweep", save(_document()), "--set", "a.steps=1,2")
    assert said.status == 1
    (sweep,) = store.sweeps.newest()
    assert f"`voxelflow sweep resume {sweep.sweep_id}` goes on from what is done" in said.out


def test_scores_that_differ_do_not_read_alike(command: Command, home: Path, store: RunStore) -> None:
    options = SweepOptions(Space({}, {"a.steps": (1, 2)}, {}), Objective("val_mae", maximise=False))
    trials = [{"a.steps": 1}, {"a.steps": 2}]
    sweep = store.sweeps.create("p", "{}", options.as_json(Pipeline(name="p"), "local"), "local", trials)
    for number, score in enumerate((12346.1, 12345.6)):
        store.sweeps.set_trial(sweep, number, "done", score=score)
    store.sweeps.end(sweep, "done")
    lines = command("sweep", "show").done().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [["1", "2", "12,345.6", "done"], ["0", "1", "12,346.1", "done"]]
    assert "lowest val_mae: 12,345.6, trial 1; to run it:" in lines
    assert command("sweep", "list").done().out.splitlines()[1].endswith(" 12,346")


def test_the_time_and_the_cost_of_a_sweep_are_said_once(command: Command, home: Path, store: RunStore) -> None:
    expected = SweepEstimate(Estimated(60, 120), Estimated(60, 120), 3600.0, "USD")
    options = SweepOptions(Space({}, {"a.steps": (1, 2)}, {}), None, limit=Limit(3600))
    kept = options.as_json(Pipeline(name="p"), "local") | expected.as_options()
    sweep = store.sweeps.create("p", "{}", kept, "local", [{"a.steps": 1}])
    store.sweeps.set_trial(sweep, 0, "done")
    store.sweeps.beat(sweep, 90.0)

    def said() -> list[str]:
        lines = command("sweep", "show").done().out.splitlines()
        # In words, since the name of the sweep has the time of day.
        return [line for line in lines if re.search(r"\b90\b|1 min 30 s|limit", line)]

    assert said() == ["at work for 1 min 30 s; limit 1 h 00 min for all trials"]
    store.sweeps.end(sweep, "done")
    run = store.create_run(
        "p", "{}", {"sweep": sweep, "trial": 0, "price_per_hour": 3600.0, "currency": "USD"}, "local"
    )
    with store.write() as db:
        db.execute("UPDATE runs SET started = 0, ended = 90, state = 'done' WHERE run_id = ?", (run,))
    assert said() == [
        "expected time: 1 min 00 s to 2 min 00 s; cost: 60.00 to 120.00 USD; it took 1 min 30 s, 90.00 USD",
        "limit 1 h 00 min for all trials",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_is_followed_to_its_end_and_shown(command: Command, save: Save, home: Path) -> None:
    name = save(pipeline(box("model", "Scored"), name="learnt"))
    scored = Path(__file__).parents[2] / "support" / "scored_nodes.py"
    (home / "workspace" / "my_nodes" / "scored_nodes.py").write_text(scored.read_text())
    lines = command("sweep", name, "--set", "model.auc=0.5,0.75", "--jobs", "2").done().out.splitlines()
    first = r"sweep [\d-]+[0-9a-f]+ of learnt: 2 trials, 2 at a time, each with \d+ cores? and .*"
    assert re.fullmatch(first, lines[0])
    assert sum(" running (run " in line for line in lines) == 2
    assert any(re.fullmatch(r"trial 1  model.auc=0.75  done in [\d.]+ s: val_auc 0.75", line) for line in lines)
    head = next(n for n, line in enumerate(lines) if line.startswith("trial  model.auc"))
    assert [line.split()[:4] for line in lines[head : head + 3]] == [
        ["trial", "model.auc", "val_auc", "state"], ["1", "0.75", "0.75", "done"], ["0", "0.5", "0.5", "done"],
    ]  # fmt: skip
    assert "  voxelflow run learnt.json --set model.auc=0.75" in lines
    assert command("sweep", "show").done().out.splitlines() == lines[head:]
    output = command("sweep", "show", "last", "--json").json
    assert (output["state"], output["best"], [t["score"] for t in output["trials"]]) == ("done", 1, [0.75, 0.5])
    assert output["command"] == "voxelflow run learnt.json --set model.auc=0.75"
    assert command("sweep", "list").done().out.splitlines()[1].split()[-3:] == ["2/2", "model.auc", "0.75"]
    command("sweep", "resume").fails("is done")
    again = command("sweep", name, "--set", "model.auc=0.5,0.75", "--json").done()
    assert again.events[0]["event"] == "sweep-started"
    assert again.events[0]["expected"]["unknown"] == []
    assert again.events[-1]["best"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_one_that_does_not_begin_is_ended_at_once(
    command: Command,
    save: Save,
    store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    detach: tuple[str, ...],
) -> None:
    monkeypatch.setattr("engine.sweep.start.PROGRAM", gated_program(tmp_path / "never"))

    def press() -> None:
        wait_until(lambda: [s for s in store.sweeps.newest() if s.sweep_id in start._children], "its process")
        # Without the handler of `Interrupts` the signal would end the tests.
        wait_until(lambda: isinstance(getattr(signal.getsignal(number), "__self__", None), Interrupts), "its handler")
        os.kill(os.getpid(), number)
        store.close()

    pressing = threading.Thread(target=press)
    pressing.start()
    said = command("sweep", save(_document()), "--set", "a.steps=1,2", *detach)
    pressing.join()
    (sweep,) = store.sweeps.newest()
    assert (said.status, sweep.state, store.runs()) == (130, "cancelled", [])
    assert start._children[sweep.sweep_id].poll() is not None


@pytest.mark.slow
def test_one_that_is_resumed_and_interrupted_before_it_begins_stays_as_it_was(
    command: Command, save: Save, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sweep.start.PROGRAM", gated_program(tmp_path / "never"))
    monkeypatch.setattr("engine.sweep.start.wait_started", lambda *_, **__: None)
    assert command("sweep", save(_document()), "--set", "a.steps=1,2", "--detach").status == 0
    (sweep,) = store.sweeps.newest()
    before = start.cancel_sweep(store, sweep.sweep_id, at_once=True)
    assert before.state == "cancelled"

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.sweep.start.wait_started", interrupted)
    assert command("sweep", "resume", sweep.sweep_id).status == 130
    start._children[sweep.sweep_id].wait(WAIT_S)
    assert store.sweeps.find(sweep.sweep_id).ended == before.ended
    # Nor does one that hangs and was left alone need more than to be cancelled.
    monkeypatch.setattr("engine.sweep.start.wait_started", lambda *_, **__: None)
    start.resume_sweep(store.workspace, store, sweep.sweep_id)
    now = start.cancel_sweep(store, sweep.sweep_id)
    assert (now.state, now.attempt, now.cancel) == (before.state, before.attempt, before.cancel)
    start._children[sweep.sweep_id].wait(WAIT_S)


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "left"), [(None, True), (2, False)], ids=["grid", "search"])
def test_one_that_is_done_goes_on_only_with_what_is_left(
    command: Command, store: RunStore, monkeypatch: pytest.MonkeyPatch, trials: int | None, left: bool
) -> None:
    monkeypatch.setattr("engine.sweep.start._spawn", lambda _, sweep_id: store.sweeps.begin(sweep_id))
    options = SweepOptions(Space({}, {"a.steps": (1, 2)}, {}), Objective("val_mae", maximise=False), trials=trials)
    kept = options.as_json(_document(), "local")
    sweep_id = store.sweeps.create("p", dump(_document()), kept, "local", [{"a.steps": 1}, {"a.steps": 2}])
    store.sweeps.begin(sweep_id)
    for number, state in enumerate(("done", "failed")):
        store.sweeps.set_trial(sweep_id, number, state)
    store.sweeps.end(sweep_id, "done")
    if left:
        command("sweep", "resume", sweep_id, "--detach").done()
    else:
        command("sweep", "resume", sweep_id).fails(f"{sweep_id} is done; a search tries no values again that failed")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_ctrl_c_cancels_the_sweep_and_its_runs(command: Command, save: Save, store: RunStore) -> None:
    name = save(pipeline(box("a", "Make", steps=1000, step_s=0.3), name="slow"))

    def press() -> None:
        wait_until(lambda: [run for run in store.runs() if run.state == "running"], "a trial")
        os.kill(os.getpid(), signal.SIGINT)
        store.close()

    pressing = threading.Thread(target=press)
    pressing.start()
    said = command("sweep", name, "--set", "a.text=x,y")
    pressing.join()
    (sweep,) = store.sweeps.newest()
    assert said.status == 130
    assert "cancelling the sweep and its runs" in said.err
    assert f"`voxelflow sweep resume {sweep.sweep_id}` goes on from what is done" in said.out
    assert [run.state for run in store.runs()] == ["cancelled"]
    assert (store.sweeps.find(sweep.sweep_id).state, [t.state for t in store.sweeps.trials(sweep.sweep_id)]) == (
        "cancelled", ["cancelled", "waiting"],
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_that_its_limit_stops_says_how_it_goes_on(command: Command, save: Save, store: RunStore) -> None:
    name = save(pipeline(box("a", "Make", steps=1000, step_s=0.3), name="slow"))
    said = command("sweep", name, "--set", "a.text=x,y", "--stop-after", "1s")
    (sweep,) = store.sweeps.newest()
    assert said.status == 130
    assert "limit: 1.0 s for all trials together" in said.out
    assert re.search(r"^at work for [\d.]+ s; limit 1\.0 s for all trials$", said.out, re.MULTILINE)
    assert "error: stopped at its limit of 1.0 s; what is done is kept, and" in said.out
    assert re.search(rf"`voxelflow sweep resume {sweep.sweep_id} --stop-after [\d.]+s` goes on from", said.out)
    command("sweep", "resume", sweep.sweep_id).fails("has used its limit of 1.0 s")
    command("sweep", "resume", sweep.sweep_id, "--no-limit", "--stop-after", "5s").fails("--no-limit")
    output = command("sweep", "show", sweep.sweep_id, "--json").json
    assert output["state"] == "cancelled"
    assert (output["stop_after_s"], output["stop_at_cost"], output["cost"]) == (1.0, None, None)
    assert output["worked_s"] >= 1
    assert output["expected"]["unknown"] == ["a"]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_is_left_to_itself_and_cancelled(command: Command, save: Save, store: RunStore) -> None:
    name = save(pipeline(box("a", "Make", steps=1000, step_s=0.3), name="slow"))
    said = command("sweep", name, "--set", "a.text=x,y", "--detach").done()
    sweep_id = said.out.split()[1]
    assert f"`voxelflow sweep show {sweep_id}` shows how far it is" in said.out
    command("sweep", "resume", sweep_id).fails("is at work")
    wait_until(lambda: [run for run in store.runs() if run.state == "running"], "a trial")
    assert command("sweep", "cancel", sweep_id, "--json").json == {"sweep_id": sweep_id, "cancelling": True}
    wait_until(lambda: not store.sweeps.find(sweep_id).active, "its end")
    assert command("sweep", "show", sweep_id, "--json").json["state"] == "cancelled"
    command("sweep", "cancel", sweep_id).fails("its state is cancelled")
