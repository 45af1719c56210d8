"""The document that a run ran: what filled each input, and how the document has changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from engine.document.pipeline import Node, Pipeline, display_names, load
from engine.errors import PipelineError
from engine.store.runs import Run
from engine.text import plural, safe

_NAMED = 3
"""How many nodes the sentence names; more are counted."""


@dataclass(frozen=True)
class RunDocument:
    """The document of one run. `pipeline` is None when it is of a version that this one does not read."""

    run_id: str
    pipeline: Pipeline | None
    given: frozenset[str] = frozenset()
    """Parameters of the pipeline, and `node.parameter` of its nodes, that had values for this run alone."""

    @classmethod
    def of(cls, run: Run) -> RunDocument:
        """That of `run`."""
        pipeline = None
        with suppress(PipelineError):
            pipeline = load(run.document)
        given = run.options.get("given")
        return cls(run.run_id, pipeline, frozenset(given if isinstance(given, list) else ()))

    def sources(self, node: str) -> list[tuple[str, str, str]]:
        """The input ports of `node`, each with the node and the port that fills it."""
        edges = self.pipeline.edges if self.pipeline is not None else ()
        return [(e.target_port, e.source_node, e.source_port) for e in edges if e.target_node == node]

    def own_values(self, now: Pipeline) -> str:
        """The values given for this run alone that the document has otherwise: `volumes = 160, train.width = 16`."""
        if self.pipeline is None:
            return ""
        then, here = _values(self.pipeline), _values(now)
        names = (name for name in sorted(self.given & then.keys()) if name not in here or here[name] != then[name])
        return ", ".join(f"{name} = {safe(str(then[name]))}" for name in names)

    def changes(self, now: Pipeline) -> str:
        """What of the document is another by now, in a few words; "" when a run would do the same with it.

        What it looks like does not count, nor the values that were given for the run alone.
        """
        if self.pipeline is None:
            return ""
        then = {node.id: node for node in self.pipeline.nodes}
        here = {node.id: node for node in now.nodes}
        values = {name for name in self.pipeline.parameters.keys() & now.parameters.keys() if name not in self.given}
        changed = [here[name] for name in here.keys() & then.keys() if self._differs(here[name], then[name])]
        parts = [
            _listed(changed, here, "changed"),
            _listed([here[name] for name in here.keys() - then.keys()], here, "added"),
            _listed([then[name] for name in then.keys() - here.keys()], then, "removed"),
            "wires changed" if _wires(self.pipeline, here.keys() & then) != _wires(now, here.keys() & then) else "",
            "parameters changed"
            if any(self.pipeline.parameters[name].value != now.parameters[name].value for name in values)
            else "",
        ]
        return ", ".join(filter(None, parts))

    def _differs(self, now: Node, then: Node) -> bool:
        return _essence(now, self.given) != _essence(then, self.given)


def _values(pipeline: Pipeline) -> dict[str, JsonValue]:
    """By name, as `RunDocument.given` has it."""
    of_nodes = {f"{node.id}.{name}": value for node in pipeline.nodes for name, value in node.params.items()}
    return {name: parameter.value for name, parameter in pipeline.parameters.items()} | of_nodes


def _essence(node: Node, given: Collection[str]) -> dict[str, object]:
    """What a run of the node depends on, without the parameters that were given for one run alone."""
    out = node.model_dump(exclude={"title", "position", "ui"})
    return out | {"params": {n: v for n, v in node.params.items() if f"{node.id}.{n}" not in given}}


def _wires(pipeline: Pipeline, among: Collection[str]) -> set[tuple[str, str]]:
    """Those between nodes that both documents have: of the others it is said that they were added or removed."""
    return {(e.source, e.target) for e in pipeline.edges if e.source_node in among and e.target_node in among}


def _listed(nodes: list[Node], order: Mapping[str, Node], verb: str) -> str:
    if not nodes:
        return ""
    places = list(order)
    called = display_names(order.values())
    names = [called[node.id] for node in sorted(nodes, key=lambda node: places.index(node.id))]
    if len(names) > _NAMED:
        return f"{plural(len(names), 'nodes')} {verb}"
    return f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} {verb}"
