"""How what a developer declares looks: colours, the categories of nodes, icons."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.declare.icons import ICONS
from engine.errors import DeclarationError

_PATH = re.compile(r"[Mm][\d\s.,+\-eEaAcChHlLmMqQsStTvVzZ]{4,4000}")
"""What the attribute `d` of an SVG path may hold, and nothing that could end it."""


@dataclass(frozen=True)
class Colour:
    """A colour, `#rrggbb`: on a light background, and on a dark one where that differs."""

    light: str
    dark: str = ""

    def __post_init__(self) -> None:
        for value in (self.light, self.dark or self.light):
            if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", value):
                raise DeclarationError(f"{value!r} is not a colour", hint='Write six hexadecimal digits: "#a4512c".')


@dataclass(frozen=True)
class Category:
    """A group of node types in the palette, with the colour of their icons.

    `order` says how far from the beginning of a pipeline its nodes stand; equal ones are sorted by name.
    """

    name: str
    order: int = 1000
    colour: Colour = Colour("#566170", "#a3aebc")


CATEGORIES: Final = (
    Category("Sources", 100, Colour("#0f6f68", "#5cc8bb")),
    Category("Conversion", 200, Colour("#a04a08", "#f0a35e")),
    Category("Tables", 300, Colour("#2459b8", "#8ab4ff")),
    Category("Dataset", 400, Colour("#2a6f35", "#7cc98a")),
    Category("Training", 500, Colour("#7a3fae", "#c79bf0")),
    Category("Evaluation", 600, Colour("#ac2f5e", "#f28bb2")),
    Category("Deployment", 700, Colour("#785a0b", "#d9b95c")),
    Category("Utilities", 800),
)
"""Voxelflow's own, in the order of a pipeline."""

_BY_NAME = {each.name: each for each in CATEGORIES}
DEFAULT_ICON: Final = "puzzle"
"""Of node types that declare none."""


def category_of(declared: str | Category) -> Category:
    """The category that a node declares: itself, ours of that name, else a new one after ours, in grey."""
    return declared if isinstance(declared, Category) else _BY_NAME.get(declared) or Category(declared)


def icon_path(icon: str) -> str:
    """An icon as the data of an SVG path, drawn with a line of 2 on a square of 24: of a name in `ICONS`, or itself.

    Raises `DeclarationError` for what is neither.
    """
    if icon in ICONS:
        return "".join(f"{piece} " for piece in ICONS[icon]).rstrip()
    if _PATH.fullmatch(icon):
        return icon
    raise DeclarationError(
        f"{icon!r} is not an icon",
        hint=f"Give a path of your own (the `d` of an SVG path on 24 x 24), or one of: {', '.join(ICONS)}.",
    )
