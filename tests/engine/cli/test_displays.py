"""The three ways to show a run, fed with moments that were made up."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from command_line import Command

from engine.cli.displays import JsonLines, PlainLines
from engine.cli.following import Moment, failures
from engine.cli.live import LiveDisplay, visible
from engine.declare.datasets import Report, VolumeFiles
from engine.declare.events import Event, Failure, Message, Metrics, Progress, TaskState, TaskStateChanged
from engine.store.runs import Run, Task
from engine.wording import advance, outcome, summary

RUN = Run(
    run_id="r", pipeline="p", document="", options={}, profile="local", state="running", error="", created=100.0,
    started=100.0, ended=None, heartbeat=100.0, pid=1, host="h", attempt=1, cancel=False,
)  # fmt: skip
FILES = VolumeFiles(uri="/files", count=2000, bytes=720_000_000, manifest="/m")
PROGRESS = Progress(node="a", time=105.0, done=1200, total=2000, unit="volumes", rate=350.4)


def _task(node: str, state: TaskState, **fields: Any) -> Task:
    task = Task(
        run_id="r", node=node, position=0, node_type="Make", title=node, state=state, reason="", fingerprint="",
        attempt=1, started=None, ended=None, pid=None, progress=None, outputs={}, failure=None,
    )  # fmt: skip
    return replace(task, **fields)


DONE = _task("a", "done", started=100.0, ended=105.5, outputs={"out": FILES})
CACHED = _task("b", "cached", reason="up to date", outputs={"out": Report(uri="/r")})
FAILED = _task("c", "failed", started=100.0, ended=101.0, failure={"message": "no\x1b[2Jroom", "hint": "Make some."})


def _state(node: str, state: TaskState, reason: str = "", attempt: int = 1) -> Event:
    return TaskStateChanged(node=node, state=state, reason=reason, attempt=attempt)


def test_advance() -> None:
    assert advance(PROGRESS) == "1,200/2,000 volumes, 350 volumes/s, 2.3 s left"
    assert advance(Progress(done=3, unit="files", rate=0.123)) == "3 files, 0.12 files/s"
    assert advance(Progress(done=5, total=5, unit="steps", rate=2.0, label="epoch 1/2")) == (
        "epoch 1/2: 5/5 steps, 2 steps/s"
    )
    assert advance(Progress(done=0, total=0)) == "0/0"
    assert advance(Progress(done=0, phase="Starting TensorFlow")) == "Starting TensorFlow"
    inside = Progress(done=96, total=96, unit="volumes", rate=32.0, phase="Epoch 2 of 3", label="loss 0.31")
    assert advance(inside) == "Epoch 2 of 3, loss 0.31: 96/96 volumes, 32 volumes/s"
    assert advance(inside.model_copy(update={"share": 0.6, "left_s": 80.0})) == (
        "Epoch 2 of 3, loss 0.31: 96/96 volumes, 32 volumes/s, 1 min 20 s left"
    )
    assert advance(inside.model_copy(update={"share": 1.0, "left_s": 0.04})) == (
        "Epoch 2 of 3, loss 0.31: 96/96 volumes, 32 volumes/s"
    )
    assert advance(Progress(done=1, total=2, unit="x\x1b")) == "1/2 x\\x1b"


def test_outcomes() -> None:
    assert outcome(DONE) == "2,000 volumes, 720 MB"
    assert outcome(CACHED) == "up to date"
    assert outcome(replace(CACHED, outputs={"out": FILES})) == "up to date: 2,000 volumes, 720 MB"
    assert outcome(FAILED) == "no\\x1b[2Jroom"
    assert outcome(_task("d", "skipped", reason="c did not finish")) == "c did not finish"
    evaluated = Report(
        uri="/r", figures={"precision 0": 0.8, "volumes": 295, "auc": 0.9} | {f"f{i}": i for i in range(9)}
    )
    first = "295 volumes, auc 0.9, precision 0 0.8, f0 0, f1 1, f2 2, f3 3 and 5 more"
    assert outcome(replace(DONE, outputs={"out": evaluated})) == first
    registered = Report(
        uri="/r", figures={"name": "brains", "model": "5ec6ebe2" * 8, "chain": "resample 5 mm, crop 40x48x40, z-score"}
    )
    assert (
        outcome(replace(DONE, outputs={"out": registered}))
        == "name brains, chain resample 5 mm, crop 40x48x40, z-score and 1 more"
    )
    assert outcome(replace(CACHED, outputs={"out": evaluated})) == f"up to date: {first}"


@pytest.mark.parametrize(
    ("state", "tasks", "text"),
    [
        ("done", [DONE, CACHED], "done in 1 min 12 s: 1 ran, 1 up to date"),
        ("failed", [DONE, FAILED, _task("d", "skipped")], "failed in 1 min 12 s: 1 ran, 1 failed, 1 skipped"),
        ("lost", [DONE, _task("d", "running")], "lost after 1 min 12 s: 1 ran, 1 not finished"),
    ],
)
def test_summaries(state: Any, tasks: list[Task], text: str) -> None:
    assert summary(replace(RUN, state=state, ended=172.0), tasks) == text


def test_why_a_run_did_not_end_well() -> None:
    assert list(failures(replace(RUN, state="failed", error="c: no room"), [DONE, FAILED])) == [
        "c: no\\x1b[2Jroom. Make some."
    ]
    assert list(failures(replace(RUN, state="failed", error="the supervisor fell"), [DONE])) == ["the supervisor fell"]
    assert list(failures(replace(RUN, state="lost"), [DONE])) == ["the run's process died without reporting a result"]
    assert list(failures(replace(RUN, state="done"), [DONE])) == []


def test_plain_lines_report_each_change_of_state(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainLines()
    again = _task("d", "queued")
    tasks = [DONE, CACHED, FAILED, again]
    events = [
        *(_state(t.node, "queued", "never ran before") for t in tasks),
        _state("b", "cached", "up to date"),
        _state("a", "running", "parameter n changed 1 -> 2"),
        Message(node="a", text="hello"),
        Message(node="a", level="warning", text="look\nout"),
        _state("a", "done", "parameter n changed 1 -> 2"),
        Failure(node="c", code="data", message="no\x1b[2Jroom", hint="Make some.", parameter="size"),
        _state("c", "failed", "no room"),
        _state("d", "queued", "attempt 1 failed: no room", attempt=2),
    ]
    view.show(Moment(RUN, tasks, events))
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "b: up to date",
        "a: running (parameter n changed 1 -> 2)",
        "a: warning: look out",
        "a: done in 5.5 s: 2,000 volumes, 720 MB",
        "c.size: no\\x1b[2Jroom. Make some.",
        "c: failed (no room)",
        "d: queued (attempt 1 failed: no room)",
    ]


def test_plain_progress_comes_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    view = PlainLines()

    def lines(progress: Progress) -> list[str]:
        for _ in range(121):
            view.show(Moment(RUN, [_task("a", "running", started=100.0, progress=progress)], []))
            clock[0] += 0.1
        return [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]

    assert lines(PROGRESS) == ["a: 1,200/2,000 volumes, 350 volumes/s, 2.3 s left"], "once, while nothing moves"
    assert lines(PROGRESS.model_copy(update={"done": 1300})) == ["a: 1,300/2,000 volumes, 350 volumes/s, 2.0 s left"]
    view.show(Moment(RUN, [DONE], []))
    assert capsys.readouterr().out == ""


def test_json_lines_are_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonLines()
    events: list[Event] = [_state("a", "running"), Metrics(node="a", values={"loss": float("nan")}, step=3)]
    task = _task("a", "running", progress=PROGRESS)
    view.show(Moment(RUN, [task], events))
    view.show(Moment(RUN, [task], []))
    view.show(Moment(RUN, [replace(task, progress=PROGRESS.model_copy(update={"time": 106.0, "done": 1300}))], []))
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [t["event"] for t in printed] == ["task-state", "metrics", "progress", "progress"]
    assert printed[1]["values"] == {"loss": "NaN"}
    assert [t["done"] for t in printed[2:]] == [1200, 1300]


def test_the_live_view_draws_every_state_on_a_narrow_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "12")
    running = _task("r", "running", started=time.time(), progress=PROGRESS, title="[red]training\x1b[2J")
    unknown = _task("u", "running", started=time.time(), progress=Progress(done=7, unit="files"))
    empty = _task("e", "running", started=time.time(), progress=Progress(done=0, total=0, unit="files"))
    waiting = _task("w", "waiting", reason="another run is making the same result")
    tasks = [DONE, CACHED, FAILED, running, unknown, empty, waiting, _task("q", "queued"), _task("x", "cancelled")]
    warning = Message(node="a", level="warning", text="look \x1b[2J out")
    with LiveDisplay() as view:
        view.show(Moment(RUN, tasks, [warning, Message(node="a", text="not shown")]))
        view.note("cancelling")
    drawn = capsys.readouterr().out
    assert "\x1b[2J" not in drawn
    assert "warning a: look \\x1b[2J out" in drawn
    for text in ("2,000 volumes, 720 MB", "up to date", "no\\x1b[2Jroom", "[red]training", "another run", "7 files"):
        assert text in drawn
    assert "cancelling" in drawn
    assert "not shown" not in drawn
    assert all(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)) <= 60 for line in drawn.splitlines())


def test_on_a_low_screen_what_runs_and_fails_comes_first() -> None:
    many = [_task(f"q{i}", "queued") for i in range(30)]
    ended = [_task(f"d{i}", "done", ended=float(i)) for i in range(30)]
    lively = [_task("r", "running"), _task("f", "failed")]
    shown = visible([*ended, lively[0], *many, lively[1]], 10)
    assert len(shown) == 10
    assert {"r", "f", "d29", "d28", "q0"} <= {t.node for t in shown}
    assert "d0" not in {t.node for t in shown}
    order = [t.node for t in shown]
    assert order == sorted(order, key=[t.node for t in [*ended, lively[0], *many, lively[1]]].index)
    assert visible(lively, 1) == lively[:1]
    assert visible(lively, 5) == lively
    assert len(visible(many, -3)) == 1


def test_nothing_is_asked_of_a_terminal_that_is_none(command: Command) -> None:
    assert "\x1b" not in command("nodes").out + command("--help").out
