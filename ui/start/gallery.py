"""What the start page shows of the templates: the words of `pipelines/gallery.toml`, pictures, and small graphs."""

from __future__ import annotations

import base64
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.catalog import Catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, read_pipeline

_CARD = (250.0, 130.0)
"""Width and height of a node on the canvas, nearly."""
_LINE = 40
"""Letters of a command that are seen beside one another on a card."""
_ANYTHING = "#8a94a3"
"""Of what has no colour of its own; to be seen on light and on dark."""
_BESIDE = 16.0
"""How far from the boxes a wire runs that is not between neighbours; columns are 40 apart."""


@dataclass(frozen=True)
class Template:
    """A pipeline to begin with. `takes`, `gives` and `duration` are words for people."""

    name: str
    pipeline: Pipeline
    takes: str
    gives: str
    duration: str


@dataclass(frozen=True)
class Volumes:
    """Volumes to try: the commands that make or use them, a line each, and the template that trains on them."""

    name: str
    title: str
    text: str
    command: str = ""
    template: str = ""


@cache
def templates() -> tuple[Template, ...]:
    """All templates; those of which the gallery says nothing come last."""
    words_of = {name: words for name, words in _gallery().items() if name != "volumes"}
    files = shipped_pipelines()
    names = (*(n for n in words_of if n in files), *(n for n in files if n not in words_of))
    return tuple(_template(name, read_pipeline(files[name]), words_of.get(name, {})) for name in names)


def _template(name: str, pipeline: Pipeline, words: Mapping[str, str]) -> Template:
    return Template(name, pipeline, words.get("takes", ""), words.get("gives", ""), words.get("duration", ""))


@cache
def volumes() -> tuple[Volumes, ...]:
    """Volumes to try, in the gallery's order."""
    return tuple(Volumes(name, **words) for name, words in _gallery()["volumes"].items())


def typed(command: str) -> str:
    """Commands as a person types them in a terminal of their own: with this environment's programs."""
    here = Path(sys.executable or "python")
    own = here.with_name("voxelflow")
    programs = {"python": here, "voxelflow": own if own.is_file() else Path("voxelflow")}
    lines = (line.partition(" ") for line in command.strip().splitlines())
    return "\n".join(f"{shlex.quote(str(programs.get(name, name)))} {rest}" for name, _, rest in lines)


def in_short_lines(commands: str) -> str:
    """The same commands for a shell; one that is long goes on, after the program, in a line of its own."""
    lines = []
    for line in commands.splitlines():
        program = shlex.quote(shlex.split(line)[0])
        rest = line.removeprefix(program).lstrip()
        lines.append(line if len(line) <= _LINE or not rest else f"{program} \\\n  {rest}")
    return "\n".join(lines)


@cache
def picture(name: str) -> str:
    """The picture of a template or of volumes as a `data:` address; "" when there is none."""
    try:
        data = (_folder() / "pictures" / f"{name}.webp").read_bytes()
    except OSError:
        return ""
    return f"data:image/webp;base64,{base64.b64encode(data).decode()}"


def graph(pipeline: Pipeline, catalog: Catalog, width: int, height: int) -> str:
    """The pipeline as an SVG of at most that many pixels: a box for each node, in the colour of what it makes."""
    places = {node.id: (node.position.x, node.position.y) for node in pipeline.nodes}
    if not places:
        return ""
    left, top = (min(place[axis] for place in places.values()) for axis in (0, 1))
    wide, high = (max(place[axis] for place in places.values()) + _CARD[axis] for axis in (0, 1))
    scale = min(width / (wide - left + 2 * _BESIDE), height / (high - top + 2 * _BESIDE))
    across, down, beside = _CARD[0] * scale, _CARD[1] * scale, _BESIDE * scale

    def corner(node: str) -> tuple[float, float]:
        x, y = places[node]
        return (x - left) * scale, (y - top) * scale

    lines = []
    for edge in pipeline.edges:
        if {edge.source_node, edge.target_node} <= places.keys():
            (x, y), (to_x, to_y) = corner(edge.source_node), corner(edge.target_node)
            lines.append(_wire(x + across, y + down / 2, to_x, to_y + down / 2, (across, down), beside))
    boxes = []
    for node in pipeline.nodes:
        x, y = corner(node.id)
        colour = _colour(node.type, catalog)
        boxes.append(
            f'<rect x="{x + 0.75:.1f}" y="{y + 0.75:.1f}" width="{across - 1.5:.1f}" height="{down - 1.5:.1f}" rx="3"'
            f' fill="{colour}" fill-opacity=".2" stroke="{colour}" stroke-width="1.5"/>'
        )
    drawn = (wide - left) * scale + 2 * beside, (high - top) * scale + 2 * beside
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawn[0]:.0f}" height="{drawn[1]:.0f}"'
        f' viewBox="{-beside:.1f} {-beside:.1f} {drawn[0]:.1f} {drawn[1]:.1f}">'
        f'<path d="{"".join(lines)}" fill="none" stroke="{_ANYTHING}" stroke-width="1.2"/>{"".join(boxes)}</svg>'
    )


def _wire(x: float, y: float, to_x: float, to_y: float, card: tuple[float, float], beside: float) -> str:
    """An SVG path from one point to another. One that goes back or over a column runs between the rows, so that it
    crosses no box."""
    if 0 < to_x - x <= card[0]:
        bend = (to_x - x) / 2
        return f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    away = card[1] / 2 + beside
    between = to_y - away if to_y > y else to_y + away
    return f"M{x:.1f} {y:.1f}h{beside:.1f}V{between:.1f}H{to_x - beside:.1f}V{to_y:.1f}h{beside:.1f}"


def _colour(node_type: str, catalog: Catalog) -> str:
    found = catalog.find(node_type)
    made = catalog.datasets.find(found.outputs[0].kinds[0]) if found is not None and found.outputs else None
    return _ANYTHING if made is None else made.colour.light


def _folder() -> Path:
    return next(iter(shipped_pipelines().values())).parent


@cache
def _gallery() -> dict[str, Any]:
    return tomllib.loads((_folder() / "gallery.toml").read_text(encoding="utf-8"))
