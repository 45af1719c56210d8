"""Sweeps of a document: as they are typed in the Run dialog, and what one would do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import Pipeline
from engine.errors import VoxelflowError
from engine.limit import Limit
from engine.profiles import find_profile
from engine.sweep.forecast import MOST_PLANNED, forecast
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import read_space
from engine.sweep.start import check_sweep
from engine.sweep.trials import SweepInputs
from ui.protocol.commands import ForecastSweep, SweepCommand
from ui.protocol.notices import ExpectedPart, SweepForecast, SweepNode
from ui.studio_context import Studio


def options_of(
    command: SweepCommand, pipeline: Pipeline, catalog: Catalog, studio: Studio, source: str, limit: Limit
) -> SweepOptions:
    """What was typed, as the engine takes it. Raises `UsageError` for what it cannot read."""
    search = command.search
    settings = [f"{name}={text}" for name, text in command.values.items()]
    return SweepOptions(
        read_space(settings, pipeline, catalog, searched=search is not None, base=studio.base),
        objective=None if search is None else Objective(search.figure, search.maximise),
        trials=None if search is None else search.trials,
        jobs=command.jobs,
        base=studio.base,
        end=command.end,
        source=source,
        limit=limit,
    )


def forecast_of(command: ForecastSweep, pipeline: Pipeline, catalog: Catalog, studio: Studio) -> SweepForecast:
    """What a sweep would do; why there can be none is said in `problem`. May take seconds: it looks at the data as each
    of some trials would. Raises no `VoxelflowError`."""
    try:
        options = options_of(command, pipeline, catalog, studio, "", Limit())
        profile = find_profile(command.profile, studio.workspace)
        check_sweep(pipeline, catalog, options, profile)
        found = forecast(SweepInputs(pipeline, catalog, studio.workspace, studio.store, options, profile), MOST_PLANNED)
    except CheckFailed as exc:
        return refused(command, "; ".join(d.line() for d in exc.diagnostics if d.severity == "error"))
    except VoxelflowError as exc:
        return refused(command, exc.line())
    return SweepForecast(
        request=command.request,
        trials=options.count,
        nodes=[SweepNode(node=node, times=times) for node, times in found.times.items()],
        expected=[ExpectedPart(name=name, text=text) for name, text in found.expected.rows()],
        notes=list(found.notes),
        problem="",
    )


def refused(command: ForecastSweep, problem: str) -> SweepForecast:
    """The answer that there can be no such sweep."""
    return SweepForecast(request=command.request, trials=0, nodes=[], expected=[], notes=[], problem=problem)


class Newest:
    """Jobs of which only the newest counts: one is at work at a time, and those that came meanwhile, but for the last,
    are never begun."""

    def __init__(self) -> None:
        self._working = threading.Lock()
        self._lock = threading.Lock()
        self._number = 0

    def wrap(self, job: Callable[[], object]) -> Callable[[], None]:
        """The job, to be called in a thread of its own."""
        with self._lock:
            self._number += 1
            number = self._number

        def work() -> None:
            with self._working:
                if number == self._number:
                    job()

        return work
