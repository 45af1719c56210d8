"""What `voxelflow sweep` says of a sweep: what it would do, what came of it, and what it has spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import JsonValue

    from engine.document.pipeline import Pipeline
    from engine.profiles import Profile
    from engine.store.runs import RunStore
    from engine.store.sweeps import Sweep, Trial
    from engine.sweep.forecast import Forecast, TrialForecast
    from engine.sweep.options import SweepOptions
    from engine.sweep.score import Objective
    from engine.sweep.trials import SweepInputs
    from engine.workspace import Workspace

# --- what would be done ------------------------------------------------------------------------------


def dry_run_of(inputs: SweepInputs, *, as_json: bool) -> int:
    """Print the trials of a sweep that is not started, what each would run, and the time and cost of all."""
    from engine.cli.screen import say, say_json
    from engine.limit import require_price
    from engine.sweep.forecast import forecast
    from engine.sweep.trials import check_values
    from engine.text import plural

    document, options = inputs.pipeline, inputs.options
    profile = inputs.profile
    require_price(options.limit, profile.hourly_price, profile.name, "sweep", why=profile.unpriced)
    check_values(document, inputs.catalog, options)
    found = forecast(inputs)
    if as_json:
        say_json(
            {
                "pipeline": document.name,
                "trials": [_forecast_as_json(trial) for trial in found.trials],
                "count": options.count,
                "expected": found.expected.as_json(),
                "stop_after_s": options.limit.seconds,
                "stop_at_cost": options.limit.cost,
            }
        )
        return 0
    if options.trials is not None:
        _say_space(document, options)
    else:
        _forecast_table(found, options)
        say(f"{plural(options.count, 'trials')}; {resources(inputs.profile, options.jobs)}")
    for name, text in found.expected.rows():
        say(f"{name}: {text}")
    for line in found.notes:
        say(line)
    if options.limit:
        say(f"limit: {options.limit.text(found.expected.currency)} for all trials together")
    return 0


def _forecast_as_json(trial: TrialForecast) -> dict[str, Any]:
    low, high = trial.estimate.seconds or (None, None)
    return {
        "values": dict(trial.values),
        "runs": list(trial.runs),
        "low_s": low,
        "high_s": high,
        "unknown": list(trial.estimate.unknown),
    }


def _say_space(document: Pipeline, options: SweepOptions) -> None:
    from engine.cli.screen import say
    from engine.sweep.space import value_text
    from engine.text import plural

    say(f"{document.name}: {plural(options.trials or 0, 'trials')}, chosen one after the other from")
    for name, values in options.space.lists.items():
        say(f"  {name}: {', '.join(value_text(value) for value in values)}")
    for name, within in options.space.ranges.items():
        say(f"  {name}: {within}")


def _forecast_table(found: Forecast, options: SweepOptions) -> None:
    """A row for each trial; without columns in which nothing would stand."""
    from engine.advisor.run_estimate import totals
    from engine.cli.screen import table
    from engine.sweep.space import value_text

    names, rows = options.space.names, []
    for number, trial in enumerate(found.trials):
        time, cost = totals(trial.estimate) if trial.runs else ("", "")
        shown = ", ".join(trial.runs) or "up to date"
        rows.append((str(number), *(value_text(trial.values[name]) for name in names), shown, time, cost))
    columns = ("trial", *names, "runs", "time", "cost")
    is_timed = any(trial.estimate.seconds is not None for trial in found.trials)
    width = len(columns) if is_timed and found.expected.price is not None else len(columns) - 2 + is_timed
    table(columns[:width], [row[:width] for row in rows], right=("trial",))


def outlook(sweep: Sweep) -> Iterator[str]:
    """What is expected of a sweep that starts, and where it is stopped."""
    from engine.sweep.expected import SweepEstimate

    expected = SweepEstimate.of(sweep.options)
    if expected is not None and (line := expected.line()):
        yield line
    if sweep.limit:
        currency = "" if expected is None else expected.currency
        yield f"limit: {sweep.limit.text(currency)} for all trials together"


def resources(profile: Profile, jobs: int) -> str:
    """`2 at a time, each with 2 cores and 4.0 GB of memory`."""
    from engine.sweep.options import share_of
    from engine.text import plural, size

    own = share_of(profile, jobs)
    at_a_time = "one at a time" if jobs == 1 else f"{jobs} at a time"
    return f"{at_a_time}, each with {plural(own.cores, 'cores')} and {size(own.memory_bytes)} of memory"


# --- what came of it -----------------------------------------------------------------------------------


def options_of(sweep: Sweep) -> SweepOptions:
    """What was asked for in it."""
    from engine.sweep.options import SweepOptions

    return SweepOptions.from_json(sweep.options)


def ranked_trials(store: RunStore, sweep: Sweep) -> tuple[list[Trial], Objective | None]:
    """Its trials, best first, and the figure by which they are ranked."""
    from engine.sweep.score import best_first

    objective = options_of(sweep).objective
    return best_first(store.sweeps.trials(sweep.sweep_id), objective), objective


def score_text(trial: Trial) -> str:
    """The trial's score; "" without one."""
    from engine.sweep.score import score_texts

    return score_texts([trial])[0]


def report(workspace: Workspace, store: RunStore, sweep: Sweep) -> None:
    """The trials as a table, best first, what they took, and the commands that come next."""
    from engine.cli.screen import COLOURS, say, table
    from engine.sweep.expected import came_to
    from engine.sweep.score import best_of, score_texts
    from engine.sweep.space import value_text
    from engine.sweep.spent import resume_command, spent

    ranked, objective = ranked_trials(store, sweep)
    runs = store.sweeps.runs_of_trials(sweep.sweep_id)
    names = options_of(sweep).space.names
    figure = objective.figure if objective is not None else "score"
    scores = score_texts(ranked)
    rows = [
        (
            str(t.number), *(value_text(t.values[name]) if name in t.values else "" for name in names), score,
            t.state, runs.get(t.number, ""),
        )
        for t, score in zip(ranked, scores, strict=True)
    ]  # fmt: skip
    table(("trial", *names, figure, "state", "run"), rows, right=("trial", figure))
    for trial in ranked:
        if trial.error and trial.state != "pruned":
            say(f"trial {trial.number}: {trial.error}", style=COLOURS["error"])
    say(f"sweep {sweep.sweep_id}: {', '.join(_counts(ranked, sweep))}", style=COLOURS.get(sweep.state, ""))
    used = spent(store, sweep)
    for line in came_to(sweep, used):
        say(line)
    if sweep.error:
        say(f"error: {sweep.error}", style=COLOURS["error"])
    best = best_of(ranked, objective)
    if best is not None and objective is not None:
        say(f"{objective.words}: {scores[0]}, trial {best.number}; to run it:")
        say(f"  {_command_for(sweep, best.values)}")
    if len(runs) > 1:
        say(f"`voxelflow runs compare {' '.join(_short(runs[t.number]) for t in ranked[:4] if t.number in runs)}`")
    if not sweep.active and (sweep.state != "done" or options_of(sweep).is_left(ranked)):
        say(f"{resume_command(sweep, used)} goes on from what is done")


def _short(run_id: str) -> str:
    return run_id.rpartition("-")[2]


def _counts(trials: Sequence[Trial], sweep: Sweep) -> Iterator[str]:
    yield sweep.state
    for state in ("done", "running", "failed", "pruned", "cancelled", "waiting"):
        if count := sum(t.state == state for t in trials):
            yield f"{count} {state}"


def _command_for(sweep: Sweep, values: Mapping[str, JsonValue]) -> str:
    """The command that runs the pipeline with these values."""
    import shlex

    from engine.sweep.space import value_text

    options = options_of(sweep)
    given = {**options.space.fixed, **values}
    parts = ["voxelflow", "run", options.source or sweep.pipeline]
    for name, value in given.items():
        parts += ["--set", f"{name}={value_text(value)}"]
    if options.end is not None:
        parts += ["--to", options.end]
    return shlex.join(parts)


def sweep_as_json(store: RunStore, sweep: Sweep) -> dict[str, Any]:
    """The sweep with its trials, best first, as plain values."""
    from engine.sweep.score import best_of
    from engine.sweep.spent import spent

    used = spent(store, sweep)
    ranked, objective = ranked_trials(store, sweep)
    runs = store.sweeps.runs_of_trials(sweep.sweep_id)
    best = best_of(ranked, objective)
    return {
        "sweep_id": sweep.sweep_id,
        "pipeline": sweep.pipeline,
        "state": sweep.state,
        "error": sweep.error,
        "objective": None if objective is None else {"figure": objective.figure, "maximise": objective.maximise},
        "trials": [trial_as_json(t, runs.get(t.number, "")) for t in ranked],
        "best": None if best is None else best.number,
        "command": None if best is None else _command_for(sweep, best.values),
        "worked_s": used.worked_s,
        "cost": used.cost,
        "currency": used.currency,
        "other_costs": [{"cost": amount, "currency": currency} for amount, currency in used.others],
        **plans_as_json(sweep),
    }


def plans_as_json(sweep: Sweep) -> dict[str, Any]:
    """What was expected of it and where it is stopped, as plain values."""
    from engine.sweep.expected import SweepEstimate

    expected = SweepEstimate.of(sweep.options)
    return {
        "expected": None if expected is None else expected.as_json(),
        "stop_after_s": sweep.limit.seconds,
        "stop_at_cost": sweep.limit.cost,
    }


def trial_as_json(trial: Trial, run_id: str) -> dict[str, Any]:
    """A trial and its run as plain values."""
    return {
        "trial": trial.number,
        "values": dict(trial.values),
        "state": trial.state,
        "score": trial.score,
        "run_id": run_id,
        "error": trial.error,
    }
