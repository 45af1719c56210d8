"""The entry of a chain of transforms that stands for a whole node.

A node may make volumes by code that no chain can repeat. Its entry says which node it was, so that a model that was
trained downstream is not asked about volumes that did not go through it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.declare.datasets import Transform
from engine.declare.parameters import Parameter

NODE_STEP = "node"
"""Name of such an entry; `nodes.transforms.steps` has the step of that name, which refuses to be applied."""
_MOST_WORDS = 60


def step_of(node: str, parameters: Iterable[Parameter], params: Mapping[str, Any], code: str) -> Transform:
    """The entry of a node with these values of its parameters; with other values, or other `code`, it is another.

    Parameters that change no volume (`Policy`, `Extendable`) and secrets are left out.
    """
    shown = [p for p in parameters if not (p.policy or p.extendable or p.secret)]
    given = {p.name: params.get(p.name, None if p.required else p.default) for p in shown}
    defaults = {p.name for p in shown if not p.required and _json(given[p.name]) == _json(p.default)}
    values = {p.name: p.as_written if p.name in defaults else given[p.name] for p in shown}
    chosen = [f"{name}={value}" for name, value in given.items() if name not in defaults]
    return node_step(node, values, code, " ".join([node, *chosen]))


def node_step(node: str, values: Mapping[str, Any], code: str, words: str) -> Transform:
    """The entry of the node of that name; `code` identifies what it does, `words` are for people."""
    words = words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 3]}..."
    return Transform(name=NODE_STEP, parameters={"node": node, "values": _json(values), "code": code}, words=words)


def node_of(transform: Transform) -> str:
    """Name of the node that the entry stands for; "" for a step that can be done to other volumes."""
    return str(transform.parameters.get("node", "")) if transform.name == NODE_STEP else ""


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)
