"""One run as a person reads it afterwards, and as JSON."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from engine.cli.following import failures, tracking_lines
from engine.cli.screen import COLOURS, say, table
from engine.declare.dataset_type import details_of
from engine.document.plan import read_plan
from engine.errors import UsageError
from engine.store.estimates import Estimated
from engine.store.runs import Run, RunStore, Task
from engine.text import duration, moment, number, safe_log_line
from engine.wording import (
    MOST_FIGURES,
    advance,
    against_estimate,
    cost_text,
    made,
    outcome,
    resume_command,
    stuck_line,
    summary,
    time_taken,
)
from engine.workspace import Workspace


def show(workspace: Workspace, store: RunStore, run: Run, *, everything: bool = False) -> None:
    """Print the run: its tasks, what failed and what to do, where its results and its MLflow page are.

    With `everything` each figure of each result, too.
    """
    tasks = store.shown_tasks(run)
    say(f"run {run.run_id} of {run.pipeline}", style="bold")
    say(f"{moment(run.started or run.created)}, profile {run.profile}, attempt {run.attempt}")
    say(summary(run, store.tasks(run.run_id)), style=COLOURS.get(run.state, ""))
    if cost := cost_text(run):
        say(f"cost {cost}")
    if compared := against_estimate(run):
        say(compared)
    if run.limit:
        say(f"limit {run.limit.text(run.currency)}; at work for {duration(run.worked_s)}")
    if tasks:
        say("")
        backends = _backends(workspace, run)
        columns = ["node", "type", "backend", "state", "time", "what", "why"]
        rows = [
            [
                t.node, t.node_type, backends.get(t.node, ""), t.state, time_taken(t), _result(t),
                # A failure's message comes below the table, whole and with its hint.
                "" if t.state == "failed" else t.reason,
            ]
            for t in tasks
        ]  # fmt: skip
        if set(backends.values()) <= {"embedded"}:
            # Everyone knows where it ran when it ran here.
            for row in [columns, *rows]:
                del row[2]
        table(columns, rows, right=("time",))
    results = [(t.node, port, dataset.uri) for t in tasks for port, dataset in t.outputs.items()]
    if results:
        say("")
        table(("node", "output", "location"), results)
    if everything and (figures := _figures(tasks)):
        say("")
        table(("node", "output", "figure", "value"), figures)
    if lines := [f"error: {line}" for line in failures(run, tasks)]:
        say("")
        for line in lines:
            say(line, style=COLOURS["error"])
    say("")
    say(f"logs: {workspace.run_folder(run.run_id) / 'logs'}")
    if store.tracking.find(run.run_id)[1]:
        for line in tracking_lines(workspace, run.run_id):
            say(line)
    if run.state in ("failed", "lost", "cancelled"):
        say(f"{resume_command(run)} goes on from what is done")


def _backends(workspace: Workspace, run: Run) -> dict[str, str]:
    """By node, as it was planned."""
    plan = read_plan(workspace, run.run_id)
    return {t.node: t.backend for t in plan.tasks} if plan else {}


def _result(task: Task) -> str:
    if task.state == "running":
        return advance(task.progress) if task.progress else ""
    if task.state == "cached":
        return made(task.outputs, MOST_FIGURES)
    return outcome(task) if task.state == "done" else ""


def _figures(tasks: list[Task]) -> list[tuple[str, str, str, str]]:
    return [
        (task.node, port, name, number(value) if isinstance(value, (int, float)) else str(value))
        for task in tasks
        for port, dataset in task.outputs.items()
        for name, value in details_of(dataset).items()
    ]


def run_as_json(run: Run) -> dict[str, Any]:
    """The run's row. `seconds` is how long it took or has taken; times are seconds since the epoch.

    What is not known is null: `cost` and `idle_cost` without a price, `idle_share` and `idle_cost` when not measured.
    """
    fields = ("run_id", "pipeline", "state", "error", "profile", "attempt", "created", "started", "ended", "seconds")
    options = {name: run.options.get(name) for name in ("backend", "machine", "price_per_hour", "currency")}
    costs = {name: getattr(run, name) for name in ("cost", "idle_share", "idle_cost")}
    limit = {"stop_after_s": run.limit.seconds, "stop_at_cost": run.limit.cost}
    expected = run.estimated or Estimated()
    estimate = {"low_s": expected.low, "high_s": expected.high, "unknown": [*expected.unknown]}
    return {name: getattr(run, name) for name in fields} | options | costs | limit | {"estimate": estimate}


def describe(workspace: Workspace, store: RunStore, run: Run) -> dict[str, Any]:
    """The run with its tasks and its place in MLflow, as JSON."""
    from engine.tracking import run_link

    backends = _backends(workspace, run)
    tasks = [
        {
            "node": t.node,
            "type": t.node_type,
            "title": t.title,
            "backend": backends.get(t.node),
            "state": t.state,
            "reason": t.reason,
            "attempt": t.attempt,
            "started": t.started,
            "ended": t.ended,
            "seconds": t.seconds,
            "progress": t.progress.model_dump(mode="json", exclude_none=True) if t.progress else None,
            "outputs": {port: d.model_dump(mode="json") for port, d in t.outputs.items()},
            "failure": dict(t.failure) if t.failure else None,
            "log": str(workspace.log_file(run.run_id, t.node)),
        }
        for t in store.shown_tasks(run)
    ]
    return {**run_as_json(run), "tasks": tasks, "mlflow": run_link(workspace, run.run_id)}


_POLL_S = 0.2
_PART = 1 << 20
_SUPERVISOR = "(run)"


class _Tail:
    """A growing file, read line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self) -> list[str]:
        """The whole lines since the last call, a megabyte at most; [] when there are none."""
        try:
            with self._path.open("rb") as source:
                source.seek(self._offset)
                data = source.read(_PART)
        except FileNotFoundError:  # the task has not begun
            return []
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def last(self) -> list[str]:
        """What is left without an end of line."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []

    @property
    def used(self) -> bool:
        """Whether there was anything."""
        return self._offset > 0

    @property
    def more(self) -> bool:
        try:
            return self._path.stat().st_size > self._offset
        except FileNotFoundError:
            return False


def print_logs(workspace: Workspace, store: RunStore, run_id: str, node: str | None, *, follow: bool) -> None:
    """Print the logs of all tasks, or of `node`'s; with `follow` until the run has ended.

    Raises `UsageError` when the run has no such node.
    """
    nodes = [t.node for t in store.tasks(run_id)]
    if node is not None and node not in nodes:
        raise UsageError(f"run {run_id} has no node {node}", hint=f"It has: {', '.join(nodes) or 'none'}.")
    tails: dict[str, _Tail] = {}
    warned = False
    while True:
        # The state first: once it says that the run has ended, all that was written is there.
        run = store.run(run_id)
        # A run that is just starting has no tasks yet.
        for name in [node] if node is not None else [t.node for t in store.tasks(run_id)]:
            tails.setdefault(name, _Tail(workspace.log_file(run_id, name)))
        if node is None:
            # Whatever Voxelflow itself had to say.
            tails.setdefault(_SUPERVISOR, _Tail(workspace.run_folder(run_id) / "supervisor.log"))
        prefix = max(len(n) for n in tails) if node is None else 0
        for name, tail in tails.items():
            _print(name, tail, prefix, to_end=not follow)
        if not follow or not run.active:
            break
        if run.state == "stuck" and not warned:
            warned = True
            print(stuck_line(run), file=sys.stderr, flush=True)
        time.sleep(_POLL_S)
    for name, tail in tails.items():
        _print(name, tail, prefix, to_end=True)
        _write(name, tail.last(), prefix)
    if not any(tail.used for tail in tails.values()):
        print("nothing was written", file=sys.stderr)


def _print(name: str, tail: _Tail, prefix: int, *, to_end: bool) -> None:
    """Print what is new: all of it, or one part so that no log keeps the others waiting."""
    _write(name, tail.lines(), prefix)
    while to_end and tail.more:
        _write(name, tail.lines(), prefix)


def _write(name: str, lines: list[str], prefix: int) -> None:
    for line in lines:
        text = safe_log_line(line)
        print(f"{name:<{prefix}} | {text}" if prefix else text)
    if lines:
        # In time for the person who follows, and to notice a reader that has gone.
        print(end="", flush=True)
