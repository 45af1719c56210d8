"""What became of runs, tasks and datasets, in the words of the command line and the editor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import with_hint
from engine.text import between, duration, hourly, money, money_between, number, plural, safe, size

if TYPE_CHECKING:
    from engine.declare.datasets import Dataset, Preview
    from engine.declare.events import Progress
    from engine.store.costs import CostSum
    from engine.store.estimates import Estimated
    from engine.store.runs import Run, Task

PER_STEP, SECONDS = "step_", "epoch_seconds_"
"""How the names of figures begin that count steps, and of the parts of an epoch's time."""
SECONDS_TITLE = "Seconds of an epoch"
SPLITS = {"val_": "Validation", "validation_": "Validation", "test_": "Test", "train_": "Training"}
_SHORT = {"auc": "AUC", "f1": "F1", "mae": "MAE", "mse": "MSE", "rmse": "RMSE", "roc_auc": "ROC AUC"}


COST_COLUMNS = ("month", "pipeline", "runs", "time", "cost", "of it idle", "expected")
"""Of `cost_rows`; all but the first two are numbers."""
MOST_FIGURES = 7
"""What a line says of a result; `voxelflow runs show --all` has the rest, as does the result itself."""
_LONGEST_WORD = 40
"""A hash or an address says little on such a line."""


def details_text(details: Mapping[str, Any], most: int | None = None, named: Callable[[str], str] | None = None) -> str:
    """A dataset's `details()` in a few words: `2,000 volumes, 720 MB`. With `most` at most so many, no hashes and
    addresses, and how many more. `named` gives the words for a figure's name: `Validation AUC` for `val_auc`."""
    rest = dict(details)
    out: list[str] = []
    volumes = rest.pop("volumes", None)
    if volumes is not None:
        share, selected = rest.pop("share", None), rest.pop("selected", None)
        part = "" if share is None else f"{100 * share:.3g}% of "
        out.append((part if selected is None else f"{selected:,} of ") + plural(volumes, "volumes"))
    if (taken := rest.pop("bytes", None)) is not None:
        out.append(size(taken))
    # Said only when it is news: everything was found, converted and labelled in a run without trouble.
    rest.pop("found", None)
    if quarantined := rest.pop("quarantined", 0):
        out.append(f"{quarantined:,} quarantined")
    labelled = rest.pop("labelled", None)
    if labelled is not None and volumes is not None and labelled < volumes:
        out.append(f"{labelled:,} labelled")
    for name in ("shape", "dtype"):
        rest.pop(name, None)
    for name, value in rest.items():
        if value == "":
            continue
        if name in ("files", "parameters", "rows"):
            out.append(plural(value, name))
        else:
            words = named(name) if named is not None and isinstance(value, float) else name
            out.append(f"{words} {number(value) if isinstance(value, (int, float)) else value}")
    shown = out if most is None else [text for text in out if max(map(len, text.split())) <= _LONGEST_WORD][:most]
    more = f" and {len(out) - len(shown)} more" if len(shown) < len(out) else ""
    return safe(", ".join(shown) + more)


def made(outputs: Mapping[str, Dataset], most: int | None = None, named: Callable[[str], str] | None = None) -> str:
    """What a task made, by port where it has several; `most` and `named` as in `details_text`."""
    from engine.declare.dataset_type import details_of

    texts = {port: details_text(details_of(dataset), most, named) for port, dataset in outputs.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{port}: {text}" for port, text in texts.items() if text)


def counted(kind: str, count: int) -> str:
    """`2,000 volumes`: in what datasets of the kind count; rows where the kind is not known."""
    from engine.declare.dataset_type import dataset_type

    known = dataset_type(kind)
    return plural(count, known.counted if known is not None else "rows")


def foreseen(preview: Preview) -> str:
    """How many volumes or rows: `2,000 volumes`, of a part `about 400 of 2,000 volumes`; "" where it is unknown."""
    if preview.count is None:
        return ""
    whole = counted(preview.kind, preview.count)
    if preview.selected is None:
        return whole
    return f"{'' if preview.selected_exactly else 'about '}{preview.selected:,} of {whole}"


def figure_name(name: str) -> str:
    """`Validation AUC` of `val_auc`, `Loss of a step` of `step_loss`, `Seconds of an epoch: data` of
    `epoch_seconds_data`."""
    if name.startswith(SECONDS) and len(name) > len(SECONDS):
        return f"{SECONDS_TITLE}: {safe(name.removeprefix(SECONDS).replace('_', ' '))}"
    if name.startswith(PER_STEP) and len(name) > len(PER_STEP):
        return f"{figure_name(name.removeprefix(PER_STEP))} of a step"
    for prefix, words in SPLITS.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            rest = name.removeprefix(prefix)
            return f"{words} {_SHORT.get(rest, safe(rest.replace('_', ' ')))}"
    words = _SHORT.get(name, safe(name.replace("_", " ")))
    return words[:1].upper() + words[1:]


def outcome(task: Task) -> str:
    """What became of a task that has ended, or why it has not begun; of figures the first `MOST_FIGURES`."""
    if task.state == "done":
        return made(task.outputs, MOST_FIGURES)
    if task.state == "cached":
        reason = task.reason or "up to date"
        counts = made(task.outputs, MOST_FIGURES)
        return f"{reason}: {counts}" if counts else safe(reason)
    if task.state == "failed" and task.failure:
        return safe(str(task.failure.get("message", "")))
    return "" if task.state in ("queued", "running") else safe(task.reason)


def time_taken(task: Task) -> str:
    """How long a task took or has taken; "" of one that was not run."""
    seconds = task.seconds if task.state not in ("cached", "queued", "skipped") else None
    return "" if seconds is None else duration(seconds)


_WAITED_S = 0.5


def advance(progress: Progress) -> str:
    """`1,200/2,000 volumes, 350 volumes/s, 2.3 s left`; after the phase, and the label, where there are any.

    "" while there is neither a phase nor anything counted.
    """
    done, unit = number(progress.done), progress.unit
    parts = []
    if progress.counts:
        of = f"{done}/{plural(progress.total, unit)}" if progress.total is not None else plural(progress.done, unit)
        parts.append(of)
    if progress.rate:
        parts.append(f"{number(_rounded(progress.rate))} {unit}/s" if unit else f"{number(_rounded(progress.rate))}/s")
    over = progress.share is None and progress.total is not None and progress.done >= progress.total
    # The last moments of a phase: there is nothing to wait for.
    if progress.seconds_left is not None and progress.seconds_left >= _WAITED_S and not over:
        parts.append(f"{duration(progress.seconds_left)} left")
    named = ", ".join(filter(None, (progress.phase, progress.label)))
    return safe(": ".join(filter(None, (named, ", ".join(parts)))))


def _rounded(rate: float) -> float:
    return round(rate) if rate >= 100 else float(f"{rate:.2g}")


def failure_line(node: str, failure: Mapping[str, Any]) -> str:
    """`train.epochs: out of memory. Give the node less to hold.`"""
    where = f"{node}.{failure['parameter']}" if failure.get("parameter") else node
    return safe(f"{where}: {with_hint(str(failure.get('message', '')), str(failure.get('hint', '')))}")


def stuck_line(run: Run) -> str:
    """What a stuck run is, and what to do about it."""
    from engine.store.liveness import STUCK_AFTER_S

    return (
        f"the run's process {run.pid} lives and has done nothing for over {STUCK_AFTER_S:.0f} s;"
        f" `voxelflow runs cancel {run.run_id}` ends it, then `voxelflow runs resume {run.run_id}`"
        " goes on from what is done"
    )


def limit_line(run: Run) -> str:
    """Which limit stopped a run, and how it goes on: with a higher one."""
    return limit_text(run.limit.reached(run.worked_s).text(run.currency), resume_command(run, limited=True))


def limit_text(reached: str, command: str) -> str:
    """What is said of a run or a sweep that a limit has stopped, with the command that goes on."""
    return (
        f"stopped at its limit of {reached}; what is done is kept, and {command} goes on with a higher limit,"
        " --no-limit without one"
    )


def resume_command(run: Run, *, limited: bool | None = None) -> str:
    """The command that goes on with a run that has ended; one that its limit has stopped (`limited`) needs another."""
    limited = run.stopped_at_limit if limited is None else limited
    more = f" {run.limit.more(run.worked_s, run.cost).options()}" if limited else ""
    return f"`voxelflow runs resume {run.run_id}{more}`"


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
    listed = ", ".join(f"{n} {what}" for n, what in counts if n)
    spent = f" in {duration(run.seconds)}" if run.seconds is not None else ""
    verb = {"lost": "lost after", "stuck": "stuck after"}.get(run.state)
    head = f"{verb} {duration(run.seconds)}" if verb and run.seconds is not None else f"{run.state}{spent}"
    return f"{head}: {listed}" if listed else head


def cost_text(run: Run) -> str:
    """`1.24 USD at 0.384 USD an hour, of which 0.80 USD idle (65%)`; "" when no price is known."""
    if run.cost is None:
        return ""
    text = f"{money(run.cost, run.currency)} at {hourly(run.options['price_per_hour'], run.currency)}"
    if run.idle_cost is not None and run.idle_share is not None:
        text += f", of which {money(run.idle_cost, run.currency)} idle ({run.idle_share:.0%})"
    return text


# --- what was expected of a run --------------------------------------------------------------------

_NAMED = 4
"""Nodes that a sentence names; more are counted."""


def cost_rows(sums: Iterable[CostSum]) -> list[tuple[str, ...]]:
    """Costs by month and pipeline, each in the words of `COST_COLUMNS`."""
    return [
        (
            each.month, each.pipeline, f"{each.runs:,}", duration(each.seconds), money(each.cost, each.currency),
            "" if each.idle_cost is None else money(each.idle_cost, each.currency),
            "unknown" if each.expected is None else money_between(*each.expected, each.currency),
        )
        for each in sums
    ]  # fmt: skip


def expected_text(run: Run) -> str:
    """What is expected of a run: `expected time: 12 min 00 s to 25 min 00 s; cost: 0.08 to 0.16 USD`; "" of one with
    nothing to do."""
    kept = run.estimated
    if kept is None or (kept.high is None and not kept.unknown):
        return ""
    return time_and_cost(kept, kept, run.price, run.currency)


def time_and_cost(time: Estimated, work: Estimated, price: float | None, currency: str, unpriced: str = "") -> str:
    """`expected_rows` on one line: `expected time and cost: unknown, without an earlier run of train`."""
    rows = expected_rows(time, work, price, currency, unpriced)
    return "expected " + "; ".join(f"{name}: {text}" for name, text in rows)


def expected_rows(
    time: Estimated, work: Estimated, price: float | None, currency: str, unpriced: str = ""
) -> list[tuple[str, str]]:
    """What is expected, each part by its name, which say once what is not known and why. The cost is that of the
    `work`, at a price an hour; `unpriced` says why there is none. The canvas has the same (`rules/estimate.ts`)."""
    if time.low is None or time.high is None:
        why = f"unknown, without an earlier run of {_named(time.unknown)}"
        if price is None:
            why += f", and {unpriced}" if unpriced else " or a price an hour"
        return [("time and cost", why + "".join(f", and {each.words}" for each in work.requests))]
    known = replace(time, unknown=()), replace(work, unknown=())
    rows = [("time", time_expected(known[0])), ("cost", cost_expected(known[1], price, currency, unpriced))]
    if time.unknown:
        rows.append(("not counted", f"{_named(time.unknown)}, which {_has(time.unknown)} no earlier run"))
    return rows


def time_expected(kept: Estimated) -> str:
    """`12 min 00 s to 25 min 00 s, and the unknown time of evaluate`."""
    if kept.low is None or kept.high is None:
        return f"unknown, without an earlier run of {_named(kept.unknown)}"
    return between(kept.low, kept.high) + (f", and the unknown time of {_named(kept.unknown)}" if kept.unknown else "")


def cost_expected(kept: Estimated, price: float | None, currency: str, unpriced: str = "") -> str:
    """The same of the cost at a price an hour, with the requests to storage in the sum where they are in the same
    currency; `unpriced` says why there is no price."""
    found = kept.cost(price, currency)
    asked = kept.in_sum(currency) if found is not None else ()
    if found is not None:
        text = money_between(*found, currency)
        text += f", of which {' and '.join(each.words for each in asked)}" if asked else ""
        text += f", and the unknown cost of {_named(kept.unknown)}" if kept.unknown else ""
    elif price is None:
        text = f"unknown, as {unpriced}" if unpriced else "unknown, without a price an hour"
    else:
        text = "unknown, as the time is"
    return text + "".join(f", and {each.words}" for each in kept.requests if each not in asked)


def against_estimate(run: Run) -> str:
    """What was expected of a run that is done beside what it was: `expected: 12 min 00 s to 25 min 00 s, 0.08 to 0.16
    USD; it took 14 min 03 s, 0.09 USD`; "" of others, and where nothing was expected."""
    kept = run.estimated
    if run.state != "done" or kept is None or kept.low is None or kept.high is None:
        return ""
    expected, was = between(kept.low, kept.high), duration(run.worked_s)
    if run.price is not None:
        least, most = (run.price * end / 3600 for end in (kept.low, kept.high))
        expected += f", {money_between(least, most, run.currency)}"
        # What its requests have cost is not known afterwards either.
        expected += " without requests" if kept.requests else ""
        was += f", {money(run.price * run.worked_s / 3600, run.currency)}"
    left_out = (
        f" without {_named(kept.unknown)}, which {'was' if len(kept.unknown) == 1 else 'were'} unknown"
        if kept.unknown
        else ""
    )
    return f"expected: {expected}{left_out}; it took {was}"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return safe(f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown)
