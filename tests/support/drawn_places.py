"""Where in a page an element lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest


def path_to(page: AppTest, found: Callable[[Any], bool]) -> tuple[int, ...]:
    """The numbers of the blocks around the one element of which `found` is true, outermost first, and its own."""

    def below(block: Any, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        here = [path] if found(block) else []
        children = getattr(block, "children", {})
        return here + [each for number, child in children.items() for each in below(child, (*path, number))]

    (path,) = below(page._tree, ())
    return path
