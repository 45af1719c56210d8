"""What a run's tasks have reported of themselves, also those whose results an earlier run made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.declare.events import Event, Metrics
from engine.store.runs import RunStore

Elsewhere = Mapping[str, Mapping[str, Sequence[str]]]
"""By the run that made results which another one took from the cache, by the node there: the nodes here."""


def metrics_of(store: RunStore, run_id: str) -> Iterator[Metrics]:
    """The figures that the run's tasks reported, in the order of their events.

    A task that was taken from the cache reports nothing: what it has is what was reported by the task that made its
    result, of the run that made it, here under the node's name in this run; nothing once that result is forgotten.
    """
    elsewhere = made_elsewhere(store, run_id)
    cached = {node for of_run in elsewhere.values() for nodes in of_run.values() for node in nodes}
    for _, event in metric_events(store, run_id):
        if event.node not in cached:
            yield event
    yield from (event for _, event in events_elsewhere(store, elsewhere, ("metrics",)) if isinstance(event, Metrics))


def metric_events(
    store: RunStore, run_id: str, after: int = 0, *, nodes: Collection[str] = ()
) -> Iterator[tuple[int, Metrics]]:
    """The run's own events of figures that follow the event `after`, each with its number, oldest first.

    Those of `nodes`, or of all where none is given.
    """
    while page := store.events(run_id, after, ("metrics",), nodes=nodes):
        yield from ((number, event) for number, event in page if isinstance(event, Metrics))
        after = page[-1][0]


def events_elsewhere(store: RunStore, elsewhere: Elsewhere, kinds: Collection[str]) -> Iterator[tuple[str, Event]]:
    """What was reported by the tasks that made the results, each with its run, under the nodes' names here."""
    for made_by, nodes_there in elsewhere.items():
        after = 0
        while page := store.events(made_by, after, kinds, nodes=nodes_there):
            for _, event in page:
                for node in nodes_there[event.node or ""]:
                    yield made_by, event.model_copy(update={"node": node})
            after = page[-1][0]


def made_elsewhere(store: RunStore, run_id: str) -> dict[str, dict[str, list[str]]]:
    """Where the results were made that the run took from the cache, those that are known there still."""
    cached = [task for task in store.tasks(run_id) if task.state == "cached"]
    results = {result.fingerprint: result for result in store.results.of({task.fingerprint for task in cached})}
    out: dict[str, dict[str, list[str]]] = {}
    for task in cached:
        made = results.get(task.fingerprint)
        # A resumed run finds its own results in the cache. With `--fresh` a later run has replaced the result, and its
        # figures are not those of this one.
        if made is not None and made.run_id != run_id and made.outputs == task.outputs:
            out.setdefault(made.run_id, {}).setdefault(made.node, []).append(task.node)
    return out
