"""What a sweep would do: the nodes that each trial would run and, where trainings can be predicted, time and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from engine.advisor.sources import Training, advise_training, read_known, trainings
from engine.catalog import Catalog
from engine.document.checks import preview_outputs
from engine.document.pipeline import Pipeline
from engine.profiles import Profile
from engine.run.launch import Prepared
from engine.store.runs import RunStore
from engine.sweep.options import SweepOptions, share_of
from engine.sweep.start import prepare_trial
from engine.workspace import Workspace

_MOST = 500
"""Trials that are planned one by one; of a larger sweep the first."""


@dataclass(frozen=True)
class TrialForecast:
    """`runs` are the nodes that run, without those that a trial before makes already. `seconds` and `cost` of its
    trainings; None: not known."""

    values: Mapping[str, JsonValue]
    runs: tuple[str, ...]
    seconds: float | None
    cost: float | None


@dataclass(frozen=True)
class Forecast:
    """The trials, and their trainings' time and cost together; `unknown` says why these are None."""

    trials: Sequence[TrialForecast]
    seconds: float | None
    cost: float | None
    currency: str
    unknown: str


def forecast(
    pipeline: Pipeline, catalog: Catalog, workspace: Workspace, store: RunStore, options: SweepOptions, profile: Profile
) -> Forecast:
    """Plan every combination as its run would be planned. Raises `CheckFailed` with the first one's problems."""
    known = read_known(workspace)
    where = share_of(profile, options.jobs)
    made: set[str] = set()
    trials: list[TrialForecast] = []
    currency = unknown = ""
    for number, values in enumerate(options.space.combinations()):
        if number == _MOST or options.trials is not None:
            break
        ready = prepare_trial(pipeline, catalog, workspace, store, options, profile, values)
        runs = [task.node for task in ready.plan.to_run if task.identity.fingerprint not in made]
        made |= {task.identity.fingerprint for task in ready.plan.to_run}
        seconds: float | None = 0.0
        cost: float | None = 0.0
        for training in _trainings(ready, runs):
            advice = advise_training(training, known, workspace, where)
            own = advice.own if advice is not None else None
            seconds = None if own is None or seconds is None else seconds + own.seconds
            cost = None if own is None or own.cost is None or cost is None else cost + own.cost
            if own is not None:
                currency = currency or own.machine.currency
            elif not unknown:
                unknown = training.unknown or "this machine was never benchmarked; `voxelflow bench` does it"
        trials.append(TrialForecast(values, tuple(runs), seconds or None, cost or None))
    complete = bool(trials) and all(t.seconds is not None for t in trials if t.runs) and not unknown
    known_costs = [t.cost for t in trials if t.cost is not None]
    return Forecast(
        trials,
        sum(t.seconds or 0.0 for t in trials) if complete else None,
        sum(known_costs) if complete and known_costs else None,
        currency,
        unknown,
    )


def _trainings(ready: Prepared, runs: Sequence[str]) -> list[Training]:
    previews, _ = preview_outputs(ready.resolved, ready.observation)
    return [each for each in trainings(ready.resolved, previews, ready.observation) if each.node in runs]
