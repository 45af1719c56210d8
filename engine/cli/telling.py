"""What is said of a run's tasks, in the live view, in lines and in `runs show` alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.cli.wording import duration, made, number, plural, safe
from engine.events import Progress
from engine.runs import Run, Task


def outcome(task: Task) -> str:
    """What became of a task that has ended, or why it has not begun."""
    if task.state == "done":
        return made(task.outputs)
    if task.state == "cached":
        told = task.reason or "up to date"
        counts = made(task.outputs)
        return f"{told}: {counts}" if counts else safe(told)
    if task.state == "failed" and task.failure:
        return safe(str(task.failure.get("message", "")))
    return "" if task.state in ("queued", "running") else safe(task.reason)


def advance(progress: Progress) -> str:
    """`1,200/2,000 volumes, 350 volumes/s, 2.3 s left`."""
    done, unit = number(progress.done), progress.unit
    parts = [f"{done}/{plural(progress.total, unit)}" if progress.total is not None else plural(progress.done, unit)]
    if progress.rate:
        parts.append(f"{number(_rounded(progress.rate))} {unit}/s" if unit else f"{number(_rounded(progress.rate))}/s")
    if progress.seconds_left is not None and progress.total is not None and progress.done < progress.total:
        parts.append(f"{duration(progress.seconds_left)} left")
    text = ", ".join(parts)
    return safe(f"{progress.label}: {text}" if progress.label else text)


def _rounded(rate: float) -> float:
    return round(rate) if rate >= 100 else float(f"{rate:.2g}")


def failure_line(node: str, failure: Mapping[str, Any]) -> str:
    """`train.epochs: out of memory. Give the node less to hold.`"""
    where = f"{node}.{failure['parameter']}" if failure.get("parameter") else node
    message, hint = str(failure.get("message", "")), str(failure.get("hint", ""))
    if hint:
        message += ("" if message.endswith((".", "!", "?")) else ".") + f" {hint}"
    return safe(f"{where}: {message}")


def summary(run: Run, tasks: list[Task]) -> str:
    """`done in 1 min 12 s: 5 ran, 3 up to date`."""
    states = [t.state for t in tasks]
    counts = [
        (states.count("done"), "ran"),
        (states.count("cached"), "up to date"),
        (states.count("failed"), "failed"),
        (states.count("cancelled"), "cancelled"),
        (states.count("skipped"), "skipped"),
        (sum(s in ("queued", "waiting", "running") for s in states), "not finished"),
    ]
    told = ", ".join(f"{n} {what}" for n, what in counts if n)
    spent = f" in {duration(run.seconds)}" if run.seconds is not None else ""
    verb = {"lost": "lost after"}.get(run.state)
    head = f"{verb} {duration(run.seconds)}" if verb and run.seconds is not None else f"{run.state}{spent}"
    return f"{head}: {told}" if told else head
