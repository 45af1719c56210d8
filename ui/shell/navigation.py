"""The pages, their addresses, and going from one to another.

/                    Build
/runs                the history
/run?run=ID          one run (not in the menu); `node` and `view` may be given too
/compare?runs=A,B    runs side by side

Addresses are all a page needs: a reload shows the same, and they can be sent to someone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import streamlit as st

from ui.shell.style import apply_style

_ICON = str(Path(__file__).with_name("icon.svg"))


def _build() -> None:
    from ui.build import page

    page.show()


def _runs() -> None:
    from ui.runs import history_page

    history_page.show()


def _run() -> None:
    from ui.runs import run_page

    run_page.show()


def _compare() -> None:
    from ui.runs import compare_page

    compare_page.show()


def build_page() -> st.Page:
    return st.Page(_build, title="Build", icon=":material/account_tree:", url_path="build", default=True)


def runs_page() -> st.Page:
    return st.Page(_runs, title="Runs", icon=":material/history:", url_path="runs")


def run_page() -> st.Page:
    return st.Page(_run, title="Run", url_path="run", visibility="hidden")


def compare_page() -> st.Page:
    return st.Page(_compare, title="Compare", icon=":material/compare_arrows:", url_path="compare")


def go_to_build() -> NoReturn:
    st.switch_page(build_page())


def go_to_runs() -> NoReturn:
    st.switch_page(runs_page())


def go_to_run(run_id: str) -> NoReturn:
    st.switch_page(run_page(), query_params={"run": run_id})


def go_to_comparison(run_ids: Sequence[str]) -> NoReturn:
    st.switch_page(compare_page(), query_params={"runs": ",".join(run_ids)})


def show() -> None:
    """Draw the navigation and the page that the address names."""
    # Before the navigation, which else takes a page's icon for the tab and fetches it from the internet.
    st.set_page_config(page_icon=_ICON, layout="wide")
    page = st.navigation([build_page(), runs_page(), compare_page(), run_page()], position="top")
    set_title(page.title)
    apply_style(full_bleed=page.url_path == "")
    page.run()


def set_title(title: str) -> None:
    """The browser tab's title."""
    st.set_page_config(page_title=f"{title} · Voxelflow")
