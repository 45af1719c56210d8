"""What people call nodes and wires: as the canvas does, by titles and types. Ids are the command line's names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from engine.document.pipeline import Node, Pipeline, display_names
from engine.store.runs import RunStore
from engine.text import safe

_NODES = """
    SELECT run_id, json_extract(node.value, '$.id', '$.type', '$.title') AS node
    FROM runs, json_each(CASE WHEN json_valid(document) THEN document ELSE '{}' END, '$.nodes') AS node
    WHERE run_id IN (SELECT value FROM json_each(?)) AND node.type = 'object'
"""
"""Read by the database: to load a thousand documents takes seconds."""


def names_in_both(before: Pipeline, now: Pipeline) -> dict[str, str]:
    """Display names of the nodes of two documents, by id, as if they were in one: with the id where two share a name.
    A node of both is called as in `now`."""
    there = {node.id for node in now.nodes}
    return display_names([*now.nodes, *(node for node in before.nodes if node.id not in there)])


def wire_name(source: str, target: str, names: Mapping[str, str]) -> str:
    """`Maker.out → Join.first` of `a.out` and `j.first`; `names` are the nodes' display names, by id."""
    return f"{_end(source, names)} → {_end(target, names)}"


def _end(end: str, names: Mapping[str, str]) -> str:
    node, _, port = end.partition(".")
    return safe(f"{names.get(node, node)}.{port}")


def names_in_runs(store: RunStore, run_ids: Iterable[str]) -> dict[tuple[str, str], str]:
    """Display names of nodes in the documents of runs, by run and node id; none of a document that is not readable."""
    drawn: dict[str, list[tuple[str, str, str]]] = {}
    for row in store.read(_NODES, json.dumps(sorted(set(run_ids)))):
        node, node_type, title = json.loads(row["node"])
        if node and node_type is not None:
            drawn.setdefault(row["run_id"], []).append((str(node), str(node_type), str(title or "")))
    return {(run_id, node): name for run_id, nodes in drawn.items() for node, name in _names(tuple(nodes)).items()}


@lru_cache(maxsize=256)
def _names(nodes: tuple[tuple[str, str, str], ...]) -> Mapping[str, str]:
    """By id, of ids, types and titles; most runs have the nodes of the run before."""
    return display_names(Node.model_construct(id=node, type=kind, title=title) for node, kind, title in nodes)
