"""Streamlit's main script: `voxelflow studio` runs it. The one place that knows all pages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import streamlit as st

from ui.shell import navigation
from ui.shell.blocks import skeleton


def _page(module: str) -> Callable[[], None]:
    """Draws the page whose `show` is in the module. That is imported when the page is first opened, which may take a
    second: what is on its way has its place until then."""

    def draw() -> None:
        place = st.empty()  # always there: what follows it must not move when it goes
        if module not in sys.modules:
            place.html(skeleton())
            importlib.import_module(module)
            place.empty()
        sys.modules[module].show()

    return draw


def _build() -> None:
    from ui.build import page
    from ui.start.page import comes_first

    if comes_first():
        navigation.go_to_start()
    page.show()


navigation.show(
    {
        navigation.START: _page("ui.start.page"),
        navigation.BUILD: _build,
        navigation.RUNS: _page("ui.runs.history"),
        navigation.COMPARE: _page("ui.runs.comparison"),
        navigation.LINEAGE: _page("ui.lineage.page"),
        navigation.COMPUTE: _page("ui.compute.page"),
        navigation.RUN: _page("ui.runs.run_page"),
    }
)
