"""The graph of a run on the page, drawn by streamlit-agraph."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import streamlit_agraph  # type: ignore[import-untyped]

from engine.pipeline import Pipeline
from ui.runs.graph import Box, edges, vis_edges, vis_nodes, vis_options
from ui.shell.theme import Mode


def draw_graph(
    pipeline: Pipeline,
    found: Sequence[Box],
    selected: str | None,
    mode: Mode,
    clicked: Callable[[str], None],
    *,
    key: str,
    height: int,
) -> None:
    """Draw it. `clicked` is called with `key` after a click; the session state has the node under it.

    `streamlit_agraph.agraph` takes no key, so each new state would begin a new frame: a flash, and
    the zoom gone. The component behind it takes one, and puts what changed into the graph that stands.
    """
    pairs = edges(pipeline)
    data = {"nodes": vis_nodes(found, pairs, selected, mode), "edges": vis_edges(pairs, mode)}
    streamlit_agraph._agraph(
        data=json.dumps(data),
        config=json.dumps(vis_options(mode, height)),
        key=key,
        default=None,
        on_change=lambda: clicked(key),
    )
