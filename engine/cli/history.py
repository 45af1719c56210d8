"""One run as a person reads it afterwards, and as JSON."""

from __future__ import annotations

from typing import Any

from engine.cli.attending import failures, tracking_lines
from engine.cli.screen import COLOURS, say, table
from engine.cli.telling import advance, outcome, summary
from engine.cli.wording import duration, moment, money, number
from engine.launch import read_plan
from engine.runs import Run, RunStore, Task
from engine.workspace import Workspace


def show(workspace: Workspace, store: RunStore, run: Run) -> None:
    """Print the run: its tasks, what failed and what to do, where its results and its MLflow page are."""
    tasks = store.tasks(run.run_id)
    say(f"run {run.run_id} of {run.pipeline}", style="bold")
    say(f"{moment(run.started or run.created)}, profile {run.profile}, attempt {run.attempt}")
    say(summary(run, tasks), style=COLOURS.get(run.state, ""))
    if run.cost is not None:
        say(f"cost {money(run.cost)} at {number(run.options['price_per_hour'])} an hour")
    if tasks:
        say("")
        backends = _backends(workspace, run)
        # Everyone knows where it ran when it ran here.
        mixed = set(backends.values()) - {"embedded"}
        columns = ("node", "type", *(("backend",) if mixed else ()), "state", "time", "what", "why")
        rows = [
            (
                t.node,
                t.node_type,
                *((backends.get(t.node, ""),) if mixed else ()),
                t.state,
                _spent(t),
                _told(t),
                _reason(t),
            )
            for t in tasks
        ]
        table(columns, rows, right=("time",))
    results = [(t.node, port, dataset.uri) for t in tasks for port, dataset in t.outputs.items()]
    if results:
        say("")
        table(("node", "output", "lies at"), results)
    told = list(failures(run, tasks))
    if told:
        say("")
    for line in told:
        say(f"error: {line}", style=COLOURS["error"])
    say("")
    say(f"logs: {workspace.run_folder(run.run_id) / 'logs'}")
    if store.tracking(run.run_id)[1]:
        for line in tracking_lines(workspace, run.run_id):
            say(line)
    if run.state in ("failed", "lost", "cancelled"):
        say(f"`voxelflow runs resume {run.run_id}` goes on from what is done")


def _backends(workspace: Workspace, run: Run) -> dict[str, str]:
    """By node, as it was planned."""
    plan = read_plan(workspace, run.run_id)
    return {t.node: t.backend for t in plan.tasks} if plan else {}


def _spent(task: Task) -> str:
    spent = task.seconds if task.state not in ("cached", "queued", "skipped") else None
    return "" if spent is None else duration(spent)


def _told(task: Task) -> str:
    if task.state == "running":
        return advance(task.progress) if task.progress else ""
    if task.state == "cached":
        from engine.cli.wording import made

        return made(task.outputs)
    return outcome(task) if task.state == "done" else ""


def _reason(task: Task) -> str:
    # A failure's message stands below the table, whole and with its hint.
    return "" if task.state == "failed" else task.reason


def run_as_json(run: Run) -> dict[str, Any]:
    """The run's row. `seconds` is how long it took or has taken; times are seconds since the epoch."""
    return {
        "run_id": run.run_id,
        "pipeline": run.pipeline,
        "state": run.state,
        "error": run.error,
        "profile": run.profile,
        "attempt": run.attempt,
        "created": run.created,
        "started": run.started,
        "ended": run.ended,
        "seconds": run.seconds,
        "backend": run.options.get("backend"),
        "price_per_hour": run.options.get("price_per_hour"),
        "cost": run.cost,
    }


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
        for t in store.tasks(run.run_id)
    ]
    return {**run_as_json(run), "tasks": tasks, "mlflow": run_link(workspace, run.run_id)}
