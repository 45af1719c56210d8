"""What a run's tasks have reported of themselves, also those whose results an earlier run made."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from engine.declare.events import Metrics
from engine.store.runs import RunStore


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
    for made_by, nodes_there in elsewhere.items():
        for _, event in metric_events(store, made_by, nodes=nodes_there):
            for node in nodes_there[event.node or ""]:
                yield event.model_copy(update={"node": node})


def metric_events(
    store: RunStore, run_id: str, after: int = 0, *, nodes: Collection[str] = ()
) -> Iterator[tuple[int, Metrics]]:
    """The run's own events of figures that follow the event `after`, each with its number, oldest first.

    Those of `nodes`, or of all where none is given.
    """
    while page := store.events(run_id, after, ("metrics",), nodes=nodes):
        yield from ((number, event) for number, event in page if isinstance(event, Metrics))
        after = page[-1][0]


def made_elsewhere(store: RunStore, run_id: str) -> dict[str, dict[str, list[str]]]:
    """By the run that made results which this one took from the cache, by the node there: the nodes here. Of a result
    that is forgotten nothing."""
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


def begun_before(store: RunStore, run_id: str, node: str, fingerprint: str, most: int) -> list[str]:
    """At most `most` other runs in which the node was at work with this fingerprint, the newest first: those that began
    before the last event of this one, which may have been resumed after they had gone on from what it left."""
    # By its node: fingerprints of tasks have no index.
    rows = store.read(
        "SELECT tasks.run_id FROM tasks JOIN runs USING (run_id)"
        " WHERE tasks.node = ? AND tasks.fingerprint = ? AND tasks.attempt > 0 AND tasks.run_id != ?"
        " AND (SELECT min(seq) FROM events WHERE run_id = tasks.run_id)"
        " < (SELECT max(seq) FROM events WHERE run_id = ?) ORDER BY runs.created DESC LIMIT ?",
        node, fingerprint, run_id, run_id, most,
    )  # fmt: skip
    return [row["run_id"] for row in rows]
