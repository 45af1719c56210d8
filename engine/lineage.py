"""Where data comes from: sources, results and registered models of a workspace as one graph, across pipelines and runs.

    folder ──> volumes ──> table, version 3 ──> model ──> registered model, version 2
                                │                 └──> predictions
                                └──> table, version 4

Every result names the results it was made from by their fingerprints, and the files it read by a digest of their
names, sizes and times. So the graph is what the result cache knows, and needs no documents; those say what is stale
(`judge`): that is what their plans would make again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal

from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Report
from engine.document.checks import Observation
from engine.document.node_names import names_in_runs
from engine.document.plan import Plan
from engine.store.results import Result, Use
from engine.store.runs import RunStore

Names = Mapping[tuple[str, str], str]
"""Of nodes on the canvas, by run and id."""
FOLDER, FILE, REGISTERED = "Folder", "File", "RegisteredModel"
"""Kinds of items beside the kinds of datasets."""
State = Literal["source", "current", "stale", "older", "removed", "unknown"]
"""What an item is today.

"source" was not made by a node. "current" is what a pipeline of the workspace uses as it is, "stale" what its next
run would make again. "older" was followed by another result of the same node. The files of a "removed" one were freed.
"unknown" belongs to no pipeline that could be planned.
"""
RESULTS = 1_000
"""Results that are read at most, besides those that they were made from."""
_HASH = re.compile(r"/[0-9a-f]{16}(-[^/]*)?(/|$)")
_MOST_BEFORE = 4_000
"""Results upstream of them that are read at most: a chain that is longer is cut there."""


@dataclass(frozen=True)
class Origin:
    """The task that made an item."""

    fingerprint: str
    port: str
    node: str
    node_type: str
    pipeline: str
    run_id: str
    created: float
    """Seconds since the epoch."""
    name: str = ""
    """What people call the node: as the canvas did when it was used last."""


@dataclass(frozen=True)
class Item:
    """Something that exists once: a source as it was read, a dataset, or a version of a registered model.

    `kind` is that of the dataset, `FOLDER`, `FILE` or `REGISTERED`; `place` a path or URL. `origins` are the tasks
    that made it, oldest first; more than one where different work came to the same data. `dataset` is None of a source,
    and `made_from` what the first of the tasks was given, by port. `pipelines` used it, A to Z.
    """

    id: str
    kind: str
    title: str
    place: str
    origins: tuple[Origin, ...] = ()
    dataset: Dataset | None = None
    made_from: Mapping[str, Dataset] = field(default_factory=dict)
    pipelines: tuple[str, ...] = ()
    removed: bool = False

    @property
    def created(self) -> float:
        """When it was made, in seconds since the epoch; 0.0 of a source."""
        return self.origins[-1].created if self.origins else 0.0


@dataclass(frozen=True)
class Link:
    """`target` was made from `source` by tasks of the node type `by`."""

    source: str
    target: str
    by: str


@dataclass(frozen=True)
class Verdicts:
    """What plans say of results, by fingerprint: which are used as they are, and which would be made again, and why."""

    current: Set[str] = frozenset()
    stale: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: Verdicts) -> Verdicts:
        """Both; what one plan uses as it is, is not stale because another plan does not."""
        current = self.current | other.current
        stale = {f: why for f, why in {**self.stale, **other.stale}.items() if f not in current}
        return Verdicts(current, stale)


def judge(plan: Plan, observation: Observation) -> Verdicts:
    """What a plan says of the results in the cache, those of the observation that it was made from."""
    current = {task.identity.fingerprint for task in plan.tasks if task.action == "cached"}
    stale = {
        last.fingerprint: task.reason
        for task in plan.to_run
        if (last := observation.last.get(task.node)) is not None and last.fingerprint not in current
    }
    return Verdicts(frozenset(current), stale)


@dataclass(frozen=True)
class Lineage:
    """Items and the links between them: a graph without cycles.

    `read` of `known` results are in it, besides those that they were made from.
    """

    items: Mapping[str, Item]
    links: tuple[Link, ...] = ()
    read: int = 0
    known: int = 0
    whole: Lineage | None = field(default=None, compare=False, repr=False)
    """The lineage that this is a part of: what is older than another result stays so where that one is left out."""

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """By item: what it was made from directly."""
        return _neighbours(self.items, ((link.target, link.source) for link in self.links))

    @cached_property
    def targets(self) -> Mapping[str, tuple[str, ...]]:
        """By item: what was made from it directly."""
        return _neighbours(self.items, ((link.source, link.target) for link in self.links))

    def leading_to(self, *items: str) -> Lineage:
        """Only these items and what they were made from, to the sources."""
        return self._only(_reached(self._known(items), self.sources.__getitem__))

    def made_from(self, *items: str) -> Lineage:
        """Only these items and what was made from them."""
        return self._only(_reached(self._known(items), self.targets.__getitem__))

    def _known(self, items: Iterable[str]) -> list[str]:
        return [item for item in items if item in self.items]

    def of_kinds(self, kinds: Collection[str]) -> Lineage:
        """Only items of these kinds. No kinds: everything.

        A link stands for the way through what is left out: a model still comes from its folder when the tables between
        them are hidden.
        """
        if not kinds:
            return self
        return self._contracted({item.id for item in self.items.values() if item.kind in kinds})

    def newest(self, count: int) -> Lineage:
        """Only the `count` items made last; a source counts as old as the first that was made from it."""
        if len(self.items) <= count:
            return self
        made: dict[str, float] = {}
        for item in reversed(self.order):
            first = min((made[other] for other in self.targets[item]), default=0.0)
            made[item] = self.items[item].created or first
        return self._only(set(sorted(self.items, key=lambda item: (made[item], item), reverse=True)[:count]))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The items' ids, each after all that it was made from."""
        return tuple(sorted(self.items, key=lambda item: self.levels[item]))

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """By item: the links of the longest way to it from a beginning."""
        missing = {item: len(self.sources[item]) for item in self.items}
        ready = deque(item for item, count in missing.items() if not count)
        out = dict.fromkeys(self.items, 0)
        while ready:
            item = ready.popleft()
            for other in self.targets[item]:
                out[other] = max(out[other], out[item] + 1)
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
        return out

    def state(self, item: str, verdicts: Verdicts) -> tuple[State, str]:
        """What the item is today, and why it is stale; "" of all others."""
        found = self.items[item]
        if not found.origins:
            return "source", ""
        fingerprints = [origin.fingerprint for origin in found.origins]
        if any(each in verdicts.current for each in fingerprints):
            return "removed" if found.removed else "current", ""
        reason = next((verdicts.stale[each] for each in reversed(fingerprints) if each in verdicts.stale), None)
        if found.removed:
            return "removed", ""
        if reason is not None:
            return "stale", reason
        newer = any(self._newest[_maker(origin)] > origin.created for origin in found.origins)
        return ("older" if newer else "unknown"), ""

    @cached_property
    def _newest(self) -> Mapping[tuple[str, str, str], float]:
        out: dict[tuple[str, str, str], float] = {}
        for item in (self.whole or self).items.values():
            for origin in item.origins:
                out[_maker(origin)] = max(out.get(_maker(origin), 0.0), origin.created)
        return out

    def _only(self, kept: Set[str]) -> Lineage:
        items = {item: found for item, found in self.items.items() if item in kept}
        return self._part(items, (link for link in self.links if link.source in items and link.target in items))

    def _contracted(self, kept: Set[str]) -> Lineage:
        items = {item: found for item, found in self.items.items() if item in kept}
        links: dict[tuple[str, str], Link] = {}
        for link in self.links:
            if link.target in kept:
                for source in self._kept_before(link.source, kept):
                    links.setdefault((source, link.target), Link(source, link.target, link.by))
        return self._part(items, links.values())

    def _part(self, items: Mapping[str, Item], links: Iterable[Link]) -> Lineage:
        return replace(self, items=items, links=tuple(links), whole=self.whole or self)

    def _kept_before(self, item: str, kept: Set[str]) -> Iterator[str]:
        """The nearest items that are kept, on all ways that lead to `item`."""
        seen, waiting = {item}, [item]
        while waiting:
            at = waiting.pop()
            if at in kept:
                yield at
                continue
            for other in self.sources[at]:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)


def _maker(origin: Origin) -> tuple[str, str, str]:
    return (origin.pipeline, origin.node, origin.port)


def _neighbours(items: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, dict[str, None]] = {item: {} for item in items}
    for item, other in pairs:
        out[item][other] = None
    return {item: tuple(others) for item, others in out.items()}


def _reached(start: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    waiting = list(start)
    seen = set(waiting)
    while waiting:
        for other in neighbours(waiting.pop()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


# --- reading it from the run store -----------------------------------------------------------------


def read_lineage(store: RunStore, pipeline: str = "", limit: int = RESULTS) -> Lineage:
    """The lineage of the `limit` results that were used last (of one pipeline, or of all), back to the sources."""
    results = {result.fingerprint: result for result in store.results.latest(limit, pipeline)}
    read = len(results)
    missing = {f for result in results.values() for f, _ in _inputs(result).values()} - results.keys()
    gone: set[str] = set()
    while missing and len(results) - read < _MOST_BEFORE:
        found = {result.fingerprint: result for result in store.results.of(missing)}
        gone |= missing - found.keys()
        results |= found
        missing = {f for result in found.values() for f, _ in _inputs(result).values()} - results.keys() - gone
    uses = store.results.last_uses([*results, *gone, *missing])
    newest = {use.fingerprint: use.run_id for use in reversed(uses)}
    names = names_in_runs(store, {*(result.run_id for result in results.values()), *newest.values()})
    items, links = build(results.values(), uses, store.paths.located, names)
    return Lineage(items, links, read, store.results.count(pipeline))


def build(
    results: Iterable[Result],
    uses: Iterable[Use] = (),
    located: Callable[[str], str] = str,
    names: Names | None = None,
) -> tuple[dict[str, Item], tuple[Link, ...]]:
    """Items by id, and links, of these results. Pure.

    A dataset is one item whatever came to it: an optimization that found nothing to do gives the version it was given.
    `uses` name the pipelines that used a result, and say what one was that is gone. `located` gives the path today of
    one in a fingerprint, `names` what the canvas calls a node, by run and id.
    """
    return _Builder(results, uses, located, names or {}).built()


class _Builder:
    def __init__(
        self, results: Iterable[Result], uses: Iterable[Use], located: Callable[[str], str], names: Names
    ) -> None:
        self._results = {result.fingerprint: result for result in results}
        self._located, self._names = located, names
        self._uses: dict[str, list[Use]] = {}
        for use in uses:
            self._uses.setdefault(use.fingerprint, []).append(use)
        self._items: dict[str, Item] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._before: dict[str, set[str]] = {}
        self._outputs: dict[tuple[str, str], str] = {}
        """By fingerprint and port: the item."""
        self._read_first: dict[str, float] = {}
        """By source: when the first result was made from it."""

    def built(self) -> tuple[dict[str, Item], tuple[Link, ...]]:
        for result in self._in_order():
            self._add(result)
        self._join_sources()
        return self._items, tuple(self._links.values())

    def _in_order(self) -> Iterator[Result]:
        """Each result after those that it was made from; without recursion, since chains can be long."""
        done: set[str] = set()
        for start in sorted(self._results.values(), key=lambda result: (result.created, result.fingerprint)):
            waiting, path = [start], set[str]()
            while waiting:
                result = waiting[-1]
                if result.fingerprint in done:
                    waiting.pop()
                    continue
                wanted = {f for f, _ in _inputs(result).values()} - done - path
                if before := [self._results[f] for f in sorted(wanted) if f in self._results]:
                    path.add(result.fingerprint)
                    waiting += before
                    continue
                waiting.pop()
                done.add(result.fingerprint)
                yield result

    def _add(self, result: Result) -> None:
        inputs = {port: self._input(fingerprint, out) for port, (fingerprint, out) in _inputs(result).items()}
        sources = [self._source(place, digest, result) for place, digest in _sources(result)]
        made_from = {p: d for p, item in inputs.items() if (d := self._items[item].dataset) is not None}
        for port, dataset in result.outputs.items():
            before = [*inputs.values(), *sources]
            item = self._dataset(result, port, dataset, made_from, before)
            for other in before:
                if other != item:
                    self._link(other, item, result.node_type)
                    self._used(other, self._items[item].pipelines)

    def _dataset(
        self, result: Result, port: str, dataset: Dataset, made_from: Mapping[str, Dataset], before: list[str]
    ) -> str:
        name = self._title(result)
        # Of the pipeline that made it: another one may use the result under another name.
        origin = _origin(result, port, self._names.get((result.run_id, result.node)) or name)
        pipelines = {result.pipeline, *(use.pipeline for use in self._uses.get(result.fingerprint, ()))}
        part = port if len(result.outputs) > 1 else ""
        kind, title, key = _described(dataset, name, part)
        known = self._items.get(key)
        others = [other for other in before if other != key]
        if known is not None and key in _reached(others, self._ancestors):
            # It came back to the same data by a detour: as one item the graph would have a cycle.
            key, known = f"{key}-{result.fingerprint}", None
        self._outputs[result.fingerprint, port] = key
        if known is None:
            item = Item(key, kind, title, dataset.uri, (origin,), dataset, made_from, tuple(sorted(pipelines)))
            self._items[key] = item
        else:
            origins = sorted({*known.origins, origin}, key=lambda each: (each.created, each.fingerprint, each.port))
            self._items[key] = replace(known, origins=tuple(origins), removed=False)
            self._used(key, pipelines)
        return key

    def _input(self, fingerprint: str, port: str) -> str:
        """The item at an input; of a result that is gone what its last use says."""
        if (known := self._outputs.get((fingerprint, port))) is not None:
            return known
        use = next(iter(self._uses.get(fingerprint, ())), None)
        dataset = use.outputs.get(port) if use is not None else None
        key = _digest("gone", fingerprint, port)
        name = self._name(use) if use is not None else ""
        if dataset is not None:
            # The same data may be there still, by another result.
            part = port if use is not None and len(use.outputs) > 1 else ""
            kind, title, same = _described(dataset, name, part)
            key = same if same in self._items else key
        else:
            kind, title = "Removed", name or "removed"
        self._outputs[fingerprint, port] = key
        if key not in self._items:
            nobody = Origin(fingerprint, port, "", "", "", "", 0.0)
            origin = _origin(use, port, name) if use is not None else nobody
            pipelines = tuple(sorted({each.pipeline for each in self._uses.get(fingerprint, ())}))
            place = dataset.uri if dataset is not None else ""
            self._items[key] = Item(key, kind, title, place, (origin,), dataset, {}, pipelines, removed=True)
        return key

    def _title(self, result: Result) -> str:
        """What the node that made a result was called last."""
        used = next((self._name(use) for use in self._uses.get(result.fingerprint, ())), "")
        return used or self._names.get((result.run_id, result.node)) or result.node_type

    def _name(self, use: Use) -> str:
        """As the canvas calls the node; where the document is not known its title, which is the id without one."""
        known = self._names.get((use.run_id, use.node))
        return known or (use.title if use.title not in ("", use.node) else use.node_type)

    def _source(self, place: str, digest: str, result: Result) -> str:
        place = self._located(place)
        key = _digest("source", place, digest)
        if key not in self._items:
            kind = FILE if "-" in digest else FOLDER
            self._items[key] = Item(key, kind, _name(place), place)
        self._read_first[key] = min(self._read_first.get(key, result.created), result.created)
        return key

    def _join_sources(self) -> None:
        """A folder that is read may be one that a node wrote: then it comes from that, by any pipeline."""
        written: dict[str, list[Item]] = {}
        for item in self._items.values():
            if item.origins:
                written.setdefault(item.place, []).append(item)
        for source, read in self._read_first.items():
            wrote = [i for i in written.get(self._items[source].place, ()) if i.created < read]
            for item in wrote[-1:]:
                # A result that was made anew is younger than what was made from it.
                if source not in _reached([item.id], self._ancestors):
                    self._link(item.id, source, item.origins[-1].node_type)

    def _link(self, source: str, target: str, by: str) -> None:
        self._links.setdefault((source, target), Link(source, target, by))
        self._before.setdefault(target, set()).add(source)

    def _used(self, item: str, pipelines: Iterable[str]) -> None:
        found = self._items[item]
        if more := {*pipelines} - {*found.pipelines}:
            self._items[item] = replace(found, pipelines=tuple(sorted({*found.pipelines, *more})))

    def _ancestors(self, item: str) -> Iterable[str]:
        return self._before.get(item, ())


def _origin(by: Result | Use, port: str, name: str) -> Origin:
    return Origin(by.fingerprint, port, by.node, by.node_type, by.pipeline, by.run_id, by.created, name)


def _inputs(result: Result) -> dict[str, tuple[str, str]]:
    """By input port: fingerprint and output port of what it was given."""
    found = result.identity.get("inputs", {})
    pairs = {port: str(text).partition(".") for port, text in found.items()}
    return {port: (fingerprint, out) for port, (fingerprint, _, out) in pairs.items()}


def _sources(result: Result) -> list[tuple[str, str]]:
    """Path and digest of the files that it read by itself."""
    params: Mapping[str, Any] = result.identity.get("params", {})
    files: Mapping[str, str] = result.identity.get("files", {})
    return [(str(params[name]), str(digest)) for name, digest in sorted(files.items()) if params.get(name)]


def _described(dataset: Dataset, node: str, part: str) -> tuple[str, str, str]:
    """Kind, title and id of what a node has made; `part` is the port, where the node has made several things."""
    if isinstance(dataset, Report) and {"name", "version", "alias"} <= dataset.figures.keys():
        name, version = str(dataset.figures["name"]), str(dataset.figures["version"])
        location = str(dataset.figures.get("location", ""))
        return REGISTERED, f"{name}, version {version}", _digest(REGISTERED, location, name, version)
    # The folders of results in the workspace are called by their hashes.
    title = node if _HASH.search(dataset.uri) else _name(dataset.uri)
    if (number := getattr(dataset, "version", None)) is not None:
        title = f"{title}, version {number}"
    if part:
        # First, since a long title loses its end.
        title = f"{part} of {title}"
    return dataset.kind, title, _digest(dataset.kind, dataset.model_dump_json())


def _name(place: str) -> str:
    """The last part of a path or URL."""
    return PurePosixPath(place.rstrip("/")).name or place


def _digest(*parts: str) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
