"""The canvas's bundle as a component: the editor on the Build page, and graphs and datasets to look at on others.

With a `Ticket` as its `data` it is the editor, with a `Picture` a graph, with a `Look` a button that opens a dataset,
with a `LookAt` the panels of datasets; all from the one script, so that a page that follows finds it loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

from ui.protocol.link import LookAt, PortView
from ui.protocol.picture import Look, Picture

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_BUTTON_HEIGHT, _BUTTON_WIDTH = 32, 156
_DATASETS = "datasets"
"""How the keys of panels begin: by it the style sheet gives their outline its height before the script is there."""
_COMING = """
<style>
  .vf-root:has(> .vf-coming) {
    position: var(--vf-coming-position, absolute); inset: 0; height: var(--vf-coming-height, auto);
  }
  .vf-coming { position: absolute; inset: 0; display: grid; gap: 1px; grid-template: var(--vf-coming-grid, none); }
  .vf-coming span {
    border-radius: var(--vf-coming-radius, 8px); animation: vf-coming 1.4s ease-in-out infinite;
    background: color-mix(in srgb, var(--st-text-color) 6%, var(--st-background-color));
  }
  .vf-coming span:first-child { grid-column: 1 / -1; }
  .vf-coming span + span { display: var(--vf-coming-more, none); }
  .vf-coming span:nth-child(3) { background: none; }
  @keyframes vf-coming { 50% { opacity: 0.45; } }
  @media (prefers-reduced-motion: reduce) { .vf-coming span { animation: none; } }
</style>
<div class="vf-coming" role="status" aria-label="Loading"><span></span><span></span><span></span><span></span></div>
"""
"""What is seen until the script is there, which then takes its place: the outline of a block, of the editor where
`full_bleed.css` says so, or of a panel, which has a height of its own, where `style.css` does."""


@cache
def canvas_component() -> ComponentRenderer:
    """The component's mounting function. Made on first use: without a running Streamlit its files cannot be found."""
    return st.components.v2.component(
        "voxelflow.canvas",
        html=f'<div class="vf-root">{_COMING}</div>',
        js="index-*.js",
        css="index-*.css",
        isolate_styles=True,
    )


def component_key(key: str) -> str:
    """`key` without two underscores side by side, which Streamlit refuses; a random one may have them."""
    return re.sub("_(?=_)", "_.", key)


def draw_picture(
    picture: Picture, *, key: str, height: int, clicked: Callable[[str], None] = lambda node: None
) -> None:
    """Draw a graph `height` pixels high. `clicked` is called with the id of a node that was chosen in it."""

    known = component_key(key)

    def chosen() -> None:
        node = st.session_state[known].node
        if node is not None:
            clicked(node)

    canvas_component()(key=known, data=picture.model_dump(mode="json"), height=height, on_node_change=chosen)


def draw_look(view: str, title: str, *, key: str) -> None:
    """Draw a button that opens the dataset with the key `view` (`ShownDatasets.key`)."""
    data = Look(view=view, title=title).model_dump(mode="json")
    canvas_component()(key=component_key(key), data=data, height=_BUTTON_HEIGHT, width=_BUTTON_WIDTH)


def show_datasets(views: Iterable[tuple[str, str]], *, key: str) -> None:
    """Draw the panels of datasets: galleries, tables, charts, documents. `views` are pairs of a name and the key that
    `ShownDatasets` gave."""
    look = LookAt(look=[PortView(port=name, key=shown) for name, shown in views])
    canvas_component()(key=component_key(f"{_DATASETS}-{key}"), data=look.model_dump())
