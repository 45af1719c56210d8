"""A lineage as streamlit-agraph draws it: a box for each item, coloured by what it is and marked by what it is today.

Places and sizes of the boxes are ours (`layout.py`), so a graph has the room that its words need: where the window has
less, it shrinks to `_LEAST` of its size at most, and then scrolls. The page in the frame is ours, too: with our font.

The component puts a node's `title` into the page as HTML, and opens it as an address on a double click. So no title
ever goes to it; labels are drawn on a canvas, as text.
"""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
import streamlit.components.v1 as components

from engine.declare.appearance import Colour
from engine.declare.dataset_type import Dataset
from engine.lineage import FILE, FOLDER, REGISTERED, Item, Lineage, State, Verdicts
from ui.lineage.layout import Layout, Passage, laid_out, path_of
from ui.shell.fonts import FAMILY
from ui.shell.theme import SERIES, STATE_COLOURS, SURFACE, Mode

if TYPE_CHECKING:
    from streamlit.components.types.base_custom_component import BaseCustomComponent

MARKS: Mapping[State, str] = {
    "source": "", "current": "✓ current", "stale": "⚠ stale", "older": "older", "removed": "✕ removed", "unknown": "",
}  # fmt: skip
"""After the kind, in words: no state is shown by colour alone."""
FONT, _LINE = 14, 14
"""Pixels of the labels' font, and of a line of them: vis-network leaves nothing between lines."""
_LEAST = 0.8
"""A graph is drawn at least at this part of its size: the font with 11 pixels."""
_LETTERS, _LINES = 18, 3
"""Of an item's title: letters in a line, and lines."""
_FEWEST = 8
"""Letters that any line has room for."""
_WIDTHS = {
    **dict.fromkeys("ijlI", 3.6),
    **dict.fromkeys(" \u00a0.,:;'|!", 4.1),
    **dict.fromkeys("frt()/", 5.2),
    **dict.fromkeys("-_", 6.4),
    **dict.fromkeys("mwM…", 12.2),
    **dict.fromkeys("W%@", 14.0),
}
"""Pixels of letters of the labels' font that are narrower or wider than most."""
_VERSION = re.compile(r" version (\d+)$")
_SYMBOL = 2
"""Letters that a mark's symbol is wider than one: some systems draw it as a picture."""
_TEXT, _MARGIN = 134, 9
BOX = _TEXT + 2 * _MARGIN
_ACROSS, _DOWN = 20, 16
_AROUND = 1.1
"""vis-network fits a graph into the frame with a twentieth of it free on each side."""
_BESIDE = 4
"""Pixels that stay free on each side, beside those of the box in which the frame scrolls."""
_LOWEST, _LARGEST = 120, 8_000
"""Pixels of the frame; browsers have no canvas that is larger than 16,384 points on a side, of which a pixel may have
two."""
_NOW = "lineage_drawn"
"""Key of the session state: that of the graph on the page."""
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


def layout(lineage: Lineage, verdicts: Verdicts, kinds: Mapping[str, Kind]) -> Layout:
    """Where the items' boxes lie."""
    heights = {key: float(_height(label(lineage, key, verdicts, kinds))) for key in lineage.items}
    return laid_out(lineage, heights, width=BOX, across=_ACROSS, down=_DOWN)


def label(lineage: Lineage, key: str, verdicts: Verdicts, kinds: Mapping[str, Kind]) -> str:
    """What stands in an item's box: its title, and what it is."""
    item = lineage.items[key]
    return "\n".join([*title_lines(item.title), label_lines(kind_of(item, kinds), lineage.state(key, verdicts)[0])])


def title_lines(title: str) -> list[str]:
    """The title on at most three lines. Of a longer one the name is cut, never the version."""
    title = _VERSION.sub(" version\u00a0\\1", title)  # a number alone on a line says nothing
    lines = _wrapped(title) or ["-"]
    if len(lines) <= _LINES:
        return lines
    name, _, last = title.rpartition(" ")
    return [*_wrapped(name, _LINES - 1), last] if "\u00a0" in last else _wrapped(title, _LINES)


def _wrapped(words: str, most: int | None = None) -> list[str]:
    """Lines with room for them. One that is too wide vis-network would break again, in a box that is no higher."""
    lines: list[str] = []
    for letters in range(_LETTERS, _FEWEST - 1, -1):
        lines = textwrap.wrap(words, letters, max_lines=most, break_on_hyphens=False, placeholder="…")
        if all(sum(map(_width, line)) <= _TEXT for line in lines):
            break
    return lines


def _width(letter: str) -> float:
    """About how many pixels a letter of the labels' font is wide."""
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.east_asian_width(letter) in "WF":
        return FONT
    return 9.7 if letter.isupper() else 8.2


def _height(words: str) -> int:
    return _LINE * (words.count("\n") + 1) + 2 * _MARGIN


def vis_nodes(
    lineage: Lineage, found: Layout, verdicts: Verdicts, kinds: Mapping[str, Kind], chosen: str | None, mode: Mode
) -> list[dict[str, Any]]:
    """The items as vis-network draws them, and the ends of the passages as points that are not seen."""
    surface = SURFACE[mode]
    out: list[dict[str, Any]] = [
        {"id": _end(passage, at), **place._asdict(), "shape": "dot", "size": 0, "borderWidth": 0, "chosen": False}
        for passage, ends in found.passages.items()
        for at, place in enumerate(ends)
    ]
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
                "label": label(lineage, key, verdicts, kinds),
                **found.places[key]._asdict(),
                "shape": "box",
                "borderWidth": 4 if key == chosen else 2 if state == "stale" else 1,
                "borderWidthSelected": 4 if key == chosen else 2 if state == "stale" else 1,
                "color": {**face, "highlight": face, "hover": face},
                "font": {"color": surface["muted" if quiet else "text"]},
                "shapeProperties": {
                    "borderRadius": 20 if item.kind in _ROUND else 5,
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


def label_lines(kind: Kind, state: State) -> str:
    """`Report · older`, or on two lines where one has no room for both."""
    title = textwrap.shorten(kind.title, _LETTERS, placeholder="…")
    mark = MARKS[state]
    if not mark:
        return title
    letters = len(title) + len(" · ") + len(mark) + (0 if mark.isalpha() else _SYMBOL)
    return f"{title}{' · ' if letters <= _LETTERS else chr(10)}{mark}"


def vis_edges(lineage: Lineage, mode: Mode) -> list[dict[str, Any]]:
    """The links as vis-network draws them: from level to level, with an arrow at the end."""
    colour = dict.fromkeys(("color", "highlight", "hover"), SURFACE[mode]["muted"])
    out = dict[str, dict[str, Any]]()
    for link in lineage.links:
        path = path_of(lineage, link.source, link.target)
        points = [end for each in path for end in ([each] if isinstance(each, str) else [_end(each, 0), _end(each, 1)])]
        for one, other in pairwise(points):
            edge = {"id": f"{one}>{other}", "from": one, "to": other, "color": colour}
            out[f"{one}>{other}"] = edge if other == link.target else {**edge, "arrows": {"to": {"enabled": False}}}
    return list(out.values())


def _end(passage: Passage, at: int) -> str:
    """What vis-network knows the beginning (0) or the end (1) of a passage by."""
    item, level = passage
    return f"{item} past {level}.{at}"


def vis_options(mode: Mode) -> dict[str, Any]:
    """How the graph looks and behaves: all stays where it is; the page scrolls."""
    return {
        "height": "100%",
        "width": "100%",
        "autoResize": True,
        "physics": {"enabled": False},
        "interaction": {
            "dragNodes": False,
            "dragView": False,
            "zoomView": False,
            "hover": True,
            "selectConnectedEdges": False,
        },
        "nodes": {
            "font": {
                "face": f'"{FAMILY}", system-ui, sans-serif',
                "size": FONT,
                "color": SURFACE[mode]["text"],
                "multi": False,
            },
            "margin": _MARGIN,
            "widthConstraint": {"minimum": _TEXT, "maximum": _TEXT},
            "chosen": {"label": False},
        },
        "edges": {
            "arrows": {"to": {"enabled": True, "scaleFactor": 0.6}},
            "width": 1.2,
            "hoverWidth": 0,
            "smooth": {"type": "cubicBezier", "forceDirection": "horizontal"},
        },
    }


def frame_size(found: Layout) -> tuple[int, int]:
    """Width and height in pixels of a frame in which the graph has its own size."""
    width, height = (round(_AROUND * size) for size in (found.width, found.height))
    return min(_LARGEST, width), min(_LARGEST, max(_LOWEST, height))


def frame_style(found: Layout) -> str:
    """The rule that gives the frame its size in whatever window, and cuts off what vis-network leaves free around a
    graph, but for a little: of a wide graph that is much."""
    width, height = frame_size(found)
    least, beside = f"{_LEAST * width:.0f}px", 2 * _BESIDE
    above = (height - found.height) / 2 / width
    drawn = f"clamp({least}, (100% - {beside}px) * {_AROUND}, {width}px)"  # of what is around it; the rest goes by this
    return (
        f".st-key-lineage_graph > * {{ width: max(100%, {drawn} / {_AROUND} + {beside}px); }}"
        f" .st-key-lineage_graph iframe {{ width: {drawn}; height: auto; aspect-ratio: {width} / {height};"
        f" margin: min(0px, {_BESIDE}px - {drawn} * {above:.4f}) calc((100% - {drawn}) / 2); }}"
    )


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
    """Draw the graph. `clicked` is called with the id of an item that was clicked. A graph with another `key` is a new
    one. A timer's request that is sent meanwhile still contains the last click in the old graph; Streamlit has
    forgotten that click by then, and would take it for a new one.

    `streamlit_agraph.agraph` takes no key, so each new state would begin a new frame: a flash. Its component takes
    one, and puts what changed into the graph on the page. vis-network fits a graph into its frame only when it is new:
    one of another size is.
    """
    found = layout(lineage, verdicts, kinds)
    width, height = frame_size(found)
    key = f"{key}-{width}x{height}"

    def changed() -> None:
        item = st.session_state.get(key) or ""
        if item in found.places and st.session_state.get(_NOW) == key:  # else a click beside the items, or an old one
            clicked(item)

    st.session_state[_NOW] = key
    st.html(f"<style>{frame_style(found)}</style>")
    data = {"nodes": vis_nodes(lineage, found, verdicts, kinds, chosen, mode), "edges": vis_edges(lineage, mode)}
    shown = found.places.get(chosen or "")
    _component()(
        data=json.dumps(data),
        config=json.dumps(vis_options(mode)),
        chosen=None
        if shown is None
        else {"id": chosen, **shown._asdict(), "width": _AROUND * found.width, "height": _AROUND * found.height},
        key=key,
        default=None,
        on_change=changed,
    )


@cache
def _component() -> BaseCustomComponent:
    import streamlit_agraph  # type: ignore[import-untyped]  # noqa: F401  # its files are served from now on

    return components.declare_component("graph", path=Path(__file__).with_name("frame"))
