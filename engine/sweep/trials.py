"""The trials of a sweep before they run: the values that there may be, their check, and how one is planned."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.document.resolve import Resolved, resolve
from engine.errors import VoxelflowError
from engine.profiles import Profile
from engine.run.launch import Prepared, prepare
from engine.store.runs import RunStore
from engine.sweep.options import SweepOptions
from engine.workspace import Workspace

_MOST_CHECKED = 1_000
"""Combinations whose values are checked before the first run; of more, each is checked when its turn comes."""
_MOST_PLACES = 60
"""Trials with other files or folders to read that are looked at before a sweep starts."""


def first_values(options: SweepOptions) -> dict[str, JsonValue]:
    """The values of one trial: the first of each list, the lower end of each range."""
    out: dict[str, JsonValue] = {name: values[0] for name, values in options.space.lists.items()}
    for name, within in options.space.ranges.items():
        out[name] = int(within.low) if within.whole else within.low
    return out


def check_values(pipeline: Pipeline, catalog: Catalog, options: SweepOptions) -> None:
    """Raise `CheckFailed` with what is wrong with the values themselves, each problem once."""
    found: dict[str, Diagnostic] = {}
    for number, values in enumerate(samples(options)):
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
        yield {**first, name: int(within.high) if within.whole else within.high}


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
        """By node, in the order of the plan, a digest of all that goes into its results: parameters, code and what the
        files are that the trials read. Equal ones, equal trials. Raises `CheckFailed` with the first trial's problems.
        """
        first, *others = itertools.islice(self._reading_elsewhere(), _MOST_PLACES)
        plans = [self.prepare(first).plan]
        for values in others:
            with suppress(VoxelflowError):  # said when its turn comes
                plans.append(self.prepare(values).plan)
        prints: dict[str, list[str]] = {}
        for task in (task for plan in plans for task in plan.tasks):
            prints.setdefault(task.node, []).append(task.identity.fingerprint)
        return {
            node: hashlib.blake2b(" ".join(dict.fromkeys(found)).encode(), digest_size=16).hexdigest()
            for node, found in prints.items()
        }

    def _reading_elsewhere(self) -> Iterator[dict[str, JsonValue]]:
        """The first of the `samples`, and each other one that names a file or a folder which none before it names."""
        options, known = self.options, set[tuple[str, str, str]]()
        for number, values in enumerate(itertools.islice(samples(options), _MOST_CHECKED)):
            given = {**options.space.fixed, **values}
            places = _places_read(resolve(self.pipeline, self.catalog, given, base=options.base))
            if number == 0 or not places <= known:
                yield values
            known |= places

    def prepare(self, values: Mapping[str, JsonValue]) -> Prepared:
        """Look and plan as the run of a trial with these values does. Raises `CheckFailed`."""
        options = self.options
        return prepare(
            self.pipeline, self.catalog, self.workspace, self.store, values={**options.space.fixed, **values},
            profile=self.profile, choice=Choice(end=options.end), base=options.base,
        )  # fmt: skip


def _places_read(resolved: Resolved) -> set[tuple[str, str, str]]:
    """The files and folders that nodes read, each with its node and parameter."""
    return {
        (item.node.id, parameter.name, str(item.params.get(parameter.name)))
        for item in resolved.typed()
        for parameter in item.type.parameters
        if parameter.path_in is not None
    }
