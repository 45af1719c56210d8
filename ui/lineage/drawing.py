"""A lineage as streamlit-agraph draws it: a box for each item, coloured by what it is and marked by what it is today.

The component puts a node's `title` into the page as HTML, and opens it as an address on a double click. So no title
ever goes to it; labels are drawn on a canvas, as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.declare.appearance import Colour
from engine.declare.dataset_type import Dataset
from engine.lineage import FILE, FOLDER, REGISTERED, Item, Lineage, State, Verdicts
from ui.shell.blocks import shortened
from ui.shell.theme import SERIES, STATE_COLOURS, SURFACE, Mode

MARKS: Mapping[State, str] = {
    "source": "", "current": "✓ current", "stale": "⚠ stale", "older": "older", "removed": "✕ removed", "unknown": "",
}  # fmt: skip
"""Behind the kind, in words: nothing is said by colour alone."""
_LONGEST_LABEL = 30
_ROW, _LEVEL = 78, 250
_LOWEST, _TALLEST = 240, 620
_ROUND = ("TrainedModel", REGISTERED)


@dataclass(frozen=True)
class Kind:
    """What an item is, for people, and its colour."""

    title: str
    colour: Colour

    def colour_in(self, mode: Mode) -> str:
        """The colour on a light or a dark ground, `#rrggbb`."""
        return self.colour.light if mode == "light" else self.colour.dark or self.colour.light


def kinds_of(datasets: Iterable[type[Dataset]]) -> dict[str, Kind]:
    """All kinds of items, by name."""
    source = Colour(SURFACE["light"]["muted"], SURFACE["dark"]["muted"])
    registered = Colour(SERIES["light"][3], SERIES["dark"][3])
    own = {found.__name__: Kind(found.title, found.colour) for found in datasets}
    return {
        FOLDER: Kind("Folder", source),
        FILE: Kind("File", source),
        **own,
        REGISTERED: Kind("Registered model", registered),
    }


def kind_of(item: Item, kinds: Mapping[str, Kind]) -> Kind:
    """That of the item; one that is not installed any more has a name all the same."""
    return kinds.get(item.kind, Kind(item.kind, kinds[FOLDER].colour))


def vis_nodes(
    lineage: Lineage, verdicts: Verdicts, kinds: Mapping[str, Kind], chosen: str | None, mode: Mode
) -> list[dict[str, Any]]:
    """The items as vis-network draws them."""
    surface = SURFACE[mode]
    out = []
    for key in lineage.order:
        item = lineage.items[key]
        state, _ = lineage.state(key, verdicts)
        kind = kind_of(item, kinds)
        colour = kind.colour_in(mode)
        border = STATE_COLOURS[mode]["waiting"] if state == "stale" else colour
        quiet = state in ("older", "removed")
        face = {"background": face_colour(kind, mode, quiet=quiet), "border": border}
        out.append(
            {
                "id": key,
                "label": f"{shortened(item.title, _LONGEST_LABEL)}\n{label_line(kind, state)}",
                "level": lineage.levels[key],
                "shape": "ellipse" if item.kind in _ROUND else "box",
                "borderWidth": 4 if key == chosen else 2 if state == "stale" else 1,
                "borderWidthSelected": 4 if key == chosen else 2 if state == "stale" else 1,
                "color": {**face, "highlight": face, "hover": face},
                "font": {"color": surface["muted" if quiet else "text"]},
                "shapeProperties": {
                    "borderRadius": 5,
                    "borderDashes": [5, 4] if state in ("stale", "removed") else False,
                },
                # Read by the component on a double click: empty, so that it opens nothing.
                "div": {"innerHTML": ""},
            }
        )
    return out


def face_colour(kind: Kind, mode: Mode, *, quiet: bool = False) -> str:
    """What a box is filled with, `#rrggbb`."""
    return _tint(kind.colour_in(mode), SURFACE[mode]["background"], 0.05 if quiet else 0.16)


def label_line(kind: Kind, state: State) -> str:
    """`Trained model · ⚠ stale`"""
    return f"{kind.title} · {MARKS[state]}" if MARKS[state] else kind.title


def vis_edges(lineage: Lineage, mode: Mode) -> list[dict[str, Any]]:
    """The links as vis-network draws them."""
    colour = dict.fromkeys(("color", "highlight", "hover"), SURFACE[mode]["muted"])
    return [
        {"id": f"{link.source}>{link.target}", "from": link.source, "to": link.target, "color": colour}
        for link in lineage.links
    ]


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
                "levelSeparation": _LEVEL,
                "nodeSpacing": _ROW,
                "treeSpacing": _ROW,
            }
        },
        "interaction": {"dragNodes": False, "hover": True, "selectConnectedEdges": False, "zoomSpeed": 0.6},
        "nodes": {
            "font": {"face": "system-ui, sans-serif", "size": 15, "color": SURFACE[mode]["text"], "multi": False},
            "margin": 9,
            "widthConstraint": {"minimum": 150},
            "chosen": {"label": False},
        },
        "edges": {
            "arrows": {"to": {"enabled": True, "scaleFactor": 0.6}},
            "width": 1.2,
            "hoverWidth": 0,
            "smooth": {"type": "cubicBezier", "forceDirection": "horizontal"},
        },
    }


def graph_height(lineage: Lineage) -> int:
    """Pixels for the graph: enough for the level with the most items, within bounds."""
    levels = list(lineage.levels.values())
    most = max((levels.count(level) for level in set(levels)), default=1)
    return min(_TALLEST, max(_LOWEST, 90 + _ROW * most))


def _tint(colour: str, background: str, share: float) -> str:
    """A little of `colour` on the background: vis-network's canvas takes no transparent borders."""
    mixed = [
        round(int(background[i : i + 2], 16) * (1 - share) + int(colour[i : i + 2], 16) * share) for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def draw(
    lineage: Lineage,
    verdicts: Verdicts,
    kinds: Mapping[str, Kind],
    chosen: str | None,
    mode: Mode,
    *,
    key: str,
    clicked: Callable[[str], None],
) -> None:
    """Draw the graph. `clicked` is called with the id of an item that was clicked.

    `streamlit_agraph.agraph` takes no key, so each new state would begin a new frame: a flash, and
    the zoom gone. The component behind it takes one, and puts what changed into the graph on the page.
    """
    import streamlit_agraph  # type: ignore[import-untyped]

    def changed() -> None:
        item = st.session_state.get(key)
        if item is not None:  # else a click beside the nodes
            clicked(item)

    data = {"nodes": vis_nodes(lineage, verdicts, kinds, chosen, mode), "edges": vis_edges(lineage, mode)}
    streamlit_agraph._agraph(
        data=json.dumps(data),
        config=json.dumps(vis_options(mode, graph_height(lineage))),
        key=key,
        default=None,
        on_change=changed,
    )
