"""The trials of a sweep before they run: the values that there may be, their check, and how one is planned."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.document.resolve import resolve
from engine.profiles import Profile
from engine.run.launch import Prepared, prepare
from engine.store.runs import RunStore
from engine.sweep.options import SweepOptions
from engine.sweep.space import Range
from engine.workspace import Workspace

_MOST_CHECKED = 1_000
"""Combinations whose values are checked before the first run; of more, each is checked when its turn comes."""


def first_values(options: SweepOptions) -> dict[str, JsonValue]:
    """The values of one trial: the first of each list, the lower end of each range."""
    out: dict[str, JsonValue] = {name: values[0] for name, values in options.space.lists.items()}
    return out | {name: _number(within, within.low) for name, within in options.space.ranges.items()}


def check_values(pipeline: Pipeline, catalog: Catalog, options: SweepOptions) -> None:
    """Raise `CheckFailed` with what is wrong with the values themselves, each problem once."""
    found: dict[str, Diagnostic] = {}
    first = first_values(options)
    between = [{**first, name: _number(within, within.between)} for name, within in options.space.ranges.items()]
    for number, values in enumerate(itertools.chain(between, samples(options))):
        if number == _MOST_CHECKED:
            break
        resolved = resolve(pipeline, catalog, {**options.space.fixed, **values}, base=options.base)
        found |= {problem.line(): problem for problem in resolved.problems}
    if any(problem.severity == "error" for problem in found.values()):
        raise CheckFailed(list(found.values()))


def samples(options: SweepOptions) -> Iterator[dict[str, JsonValue]]:
    """Sets of values that together contain each listed value and both ends of each range."""
    first = first_values(options)
    yield first
    for name, values in options.space.lists.items():
        yield from ({**first, name: value} for value in values[1:])
    for name, within in options.space.ranges.items():
        yield {**first, name: _number(within, within.high)}


def _number(within: Range, number: float) -> JsonValue:
    return int(number) if within.whole else number


@dataclass(frozen=True)
class SweepInputs:
    """What all trials of a sweep are planned from: they differ in their values alone."""

    pipeline: Pipeline
    catalog: Catalog
    workspace: Workspace
    store: RunStore
    options: SweepOptions
    profile: Profile

    def work(self) -> dict[str, str]:
        """By node, in the order of the plan, the fingerprints of all that goes into the first trial's results:
        parameters, code and what the files are. Raises `CheckFailed` with that trial's problems.

        Of the others' own files and folders nothing is known: to look at each would list the rest again and again.
        """
        plan = self.prepare(first_values(self.options)).plan
        return {task.node: task.identity.fingerprint for task in plan.tasks}

    def prepare(self, values: Mapping[str, JsonValue]) -> Prepared:
        """Look and plan as the run of a trial with these values does. Raises `CheckFailed`."""
        options = self.options
        return prepare(
            self.pipeline, self.catalog, self.workspace, self.store, values={**options.space.fixed, **values},
            profile=self.profile, choice=Choice(end=options.end), base=options.base,
        )  # fmt: skip
