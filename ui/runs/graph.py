"""A run's pipeline as a graph coloured by state: what streamlit-agraph is given. Pure.

The component puts a node's `title` into the page as HTML, and opens it as an address on a double
click. So no title ever goes to it; labels are drawn on a canvas, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cli.wording import duration, number, safe
from engine.pipeline import Pipeline
from engine.runs import Task
from ui.shell.theme import STATE_COLOURS, SURFACE, Mode

_LONGEST_LABEL = 26
_NODE_SPACING = 80
_LOWEST, _TALLEST = 150, 460
LEFT_OUT = "left out"
_QUIET = ("queued", "skipped", LEFT_OUT)


@dataclass(frozen=True)
class Box:
    """One node of the graph."""

    node: str
    label: str
    state: str
    line: str
    """Under the label: the state, with time or progress."""


def boxes(pipeline: Pipeline, tasks: Iterable[Task]) -> list[Box]:
    """The document's nodes, with what became of each. Nodes that the run was not asked for are "left out"."""
    by_node = {task.node: task for task in tasks}
    out = []
    for node in pipeline.nodes:
        task = by_node.get(node.id)
        state = task.state if task else LEFT_OUT
        out.append(Box(node.id, _short(node.label), state, _line(task) if task else LEFT_OUT))
    return out


def edges(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Pairs of nodes with a wire between them, each once."""
    known = {node.id for node in pipeline.nodes}
    found = [(e.source_node, e.target_node) for e in pipeline.edges]
    return list(dict.fromkeys((a, b) for a, b in found if a in known and b in known))


def vis_nodes(
    found: Sequence[Box], pairs: Iterable[tuple[str, str]], selected: str | None, mode: Mode
) -> list[dict[str, Any]]:
    """The boxes as vis-network draws them."""
    colours, surface = STATE_COLOURS[mode], SURFACE[mode]
    levels = _levels([box.node for box in found], list(pairs))
    out = []
    for box in found:
        colour = colours[box.state]
        face = {"background": _tint(colour, surface["background"]), "border": colour}
        out.append(
            {
                "id": box.node,
                "label": f"{box.label}\n{box.line}",
                "level": levels[box.node],
                "shape": "box",
                "borderWidth": 3 if box.node == selected else 1,
                "borderWidthSelected": 3 if box.node == selected else 1,
                "color": {**face, "highlight": face, "hover": face},
                "font": {"color": surface["muted" if box.state in _QUIET else "text"]},
                "shapeProperties": {"borderRadius": 5, "borderDashes": [4, 4] if box.state == LEFT_OUT else False},
                # Read by the component on a double click: empty, so that it opens nothing.
                "div": {"innerHTML": ""},
            }
        )
    return out


def vis_edges(pairs: Iterable[tuple[str, str]], mode: Mode) -> list[dict[str, Any]]:
    """The wires as vis-network draws them."""
    colour = dict.fromkeys(("color", "highlight", "hover"), SURFACE[mode]["muted"])
    return [{"id": f"{a}>{b}", "from": a, "to": b, "color": colour} for a, b in pairs]


def vis_options(mode: Mode, height: int) -> dict[str, Any]:
    """How the graph is laid out and behaves: from left to right, nodes stay where they are."""
    return {
        "height": f"{height}px",
        "width": "100%",
        "autoResize": True,
        "physics": {"enabled": False},
        "layout": {
            "hierarchical": {
                "enabled": True,
                "direction": "LR",
                "sortMethod": "directed",
                "levelSeparation": 230,
                "nodeSpacing": _NODE_SPACING,
                "treeSpacing": _NODE_SPACING,
            }
        },
        "interaction": {"dragNodes": False, "hover": True, "selectConnectedEdges": False, "zoomSpeed": 0.6},
        "nodes": {
            "font": {"face": "system-ui, sans-serif", "size": 15, "color": SURFACE[mode]["text"], "multi": False},
            "margin": 10,
            "widthConstraint": {"minimum": 130},
            "chosen": {"label": False},
        },
        "edges": {
            "arrows": {"to": {"enabled": True, "scaleFactor": 0.6}},
            "width": 1.2,
            "hoverWidth": 0,
            "smooth": {"type": "cubicBezier"},
        },
    }


def _short(text: str) -> str:
    text = safe(text)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1].rstrip() + "…"


def _line(task: Task) -> str:
    if task.state == "running":
        if task.progress is not None and task.progress.total:
            return f"running {number(round(100 * min(1.0, task.progress.done / task.progress.total)))} %"
        return "running"
    if task.state in ("done", "failed", "cancelled") and task.seconds is not None:
        return f"{task.state}, {duration(task.seconds)}"
    return task.state


def _tint(colour: str, background: str, share: float = 0.14) -> str:
    """A little of `colour` on the background: vis-network's canvas takes no transparent borders."""
    mixed = [
        round(int(background[i : i + 2], 16) * (1 - share) + int(colour[i : i + 2], 16) * share) for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def selected_node(found: Sequence[Box], wanted: str | None) -> str | None:
    """The node to show: the one asked for, else one that failed, else one that runs, else the last that was planned."""
    ids = [box.node for box in found]
    if wanted in ids:
        return wanted
    for state in ("failed", "running"):
        if at := next((box.node for box in found if box.state == state), None):
            return at
    planned = [box.node for box in found if box.state != LEFT_OUT] or ids
    return planned[-1] if planned else None


def graph_height(nodes: Sequence[str], pairs: Iterable[tuple[str, str]]) -> int:
    """Pixels for the graph: enough for the level with the most nodes."""
    levels = _levels(nodes, list(pairs))
    most = max((list(levels.values()).count(level) for level in set(levels.values())), default=1)
    return min(_TALLEST, max(_LOWEST, 70 + _NODE_SPACING * most))


def _levels(nodes: Sequence[str], pairs: list[tuple[str, str]]) -> dict[str, int]:
    """How many wires lie between a node and the beginning."""
    levels = dict.fromkeys(nodes, 0)
    # As often as there are nodes at most: a document with a cycle has no levels, but it has an end.
    for _ in nodes:
        changed = False
        for source, target in pairs:
            if levels[target] <= levels[source] < len(nodes):
                levels[target], changed = levels[source] + 1, True
        if not changed:
            break
    return levels
