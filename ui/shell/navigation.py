"""The addresses of the pages, and going from one to another.

/                    Build; Start on the first visit of a workspace without pipelines
/?pipeline=ID        Build, with that pipeline, or with a copy of the template that is called so
/start               what was worked on last, templates, volumes to try
/runs                the history
/run?run=ID          one run (not in the menu); `view` may be given too
/compare?runs=A,B    runs side by side
/lineage             where data comes from; `item` may be given
/compute             where pipelines can run; `profile` may be given

Addresses are all a page needs: a reload shows the same, and they can be sent to someone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import urlencode

import streamlit as st

from engine.errors import VoxelflowError
from ui.shell import help, left_pages
from ui.shell.blocks import show_error
from ui.shell.reconnect import ask_for_a_run
from ui.shell.theme import apply_style

PIPELINE = "pipeline"
"""What in the address of Build names the pipeline."""
_ENTRY, _SHOWN, _OPENED, _VISIT = "entry", "page_shown", "page_opened", "page_visit"
_LOGO = str(Path(__file__).with_name("logo.svg"))


class Address(NamedTuple):
    """A page as the browser knows it. `in_menu` is False for a page whose address says what to show."""

    path: str
    title: str
    icon: str | None = None
    in_menu: bool = True


START = Address("start", "Start", ":material/home:")
BUILD = Address("build", "Build", ":material/account_tree:")
RUNS = Address("runs", "Runs", ":material/history:")
COMPARE = Address("compare", "Compare", ":material/compare_arrows:")
LINEAGE = Address("lineage", "Lineage", ":material/family_history:")
COMPUTE = Address("compute", "Compute", ":material/memory:")
RUN = Address("run", "Run", in_menu=False)


def _page(address: Address, draw: Callable[[], None] = lambda: None) -> st.Page:
    # Streamlit identifies pages by their path, so going to one needs no function that draws it.
    return st.Page(
        draw,
        title=address.title,
        icon=address.icon,
        url_path=address.path,
        default=address is BUILD,
        visibility="visible" if address.in_menu else "hidden",
    )


def go_to_start() -> NoReturn:
    """Go to the page with templates; ends the script's run."""
    st.switch_page(_page(START))


def go_to_build() -> NoReturn:
    """Go to the page with the canvas; ends the script's run."""
    st.switch_page(_page(BUILD))


def go_to_runs() -> NoReturn:
    """Go to the history; ends the script's run."""
    st.switch_page(_page(RUNS))


def go_to_run(run_id: str) -> NoReturn:
    """Go to the page of one run; ends the script's run."""
    st.switch_page(_page(RUN), query_params={"run": run_id})


def address_of_run(run_id: str) -> str:
    """The address of the page of one run, for a link in HTML: beside that of the page that has it, wherever the studio
    is mounted."""
    return f"{RUN.path}?{urlencode({'run': run_id})}"


def link_to_run(run_id: str, label: str) -> None:
    """Draw a link to the page of one run; `label` is Markdown."""
    st.page_link(_page(RUN), label=label, icon=":material/history:", query_params={"run": run_id})


def go_to_lineage(item: str) -> NoReturn:
    """Go to the page of where data comes from, with one item chosen; ends the script's run."""
    st.switch_page(_page(LINEAGE), query_params={"item": item})


def go_to_comparison(run_ids: Sequence[str]) -> NoReturn:
    """Go to the page that puts runs side by side; ends the script's run."""
    st.switch_page(_page(COMPARE), query_params={"runs": ",".join(run_ids)})


def show(pages: Mapping[Address, Callable[[], None]]) -> None:
    """Draw the navigation, and the page that the browser's address names with its function."""
    left_pages.ignore()
    # Before the navigation, which else takes a page's icon for the tab and fetches it from the internet.
    st.set_page_config(page_icon=_LOGO, layout="wide")
    st.logo(_LOGO, size="small")
    page = st.navigation([_page(address, draw) for address, draw in pages.items()], position="top")
    st.session_state.setdefault(_ENTRY, page.url_path)
    if st.session_state.get(_SHOWN) != page.url_path:
        st.session_state[_SHOWN], st.session_state[_OPENED] = page.url_path, True
        st.session_state[_VISIT] = visit() + 1
    set_title(page.title)
    apply_style(full_bleed=page.url_path == "")
    try:
        help.show()
        ask_for_a_run()
        page.run()
    except VoxelflowError as error:  # such as a damaged run store: what to do instead of "Oh no"
        show_error(error)


def entry() -> Address | None:
    """The page at which this visit began; None for the hidden ones."""
    found: str = st.session_state[_ENTRY]
    return next((a for a in (START, BUILD, RUNS, COMPARE, LINEAGE, COMPUTE) if found == _page(a).url_path), None)


def visit() -> int:
    """How many pages were opened so far, this one included: another number each time that a page is opened."""
    count: int = st.session_state.get(_VISIT, 0)
    return count


def just_opened() -> bool:
    """Whether another page was shown before, or none; False when asked again."""
    opened: bool = st.session_state.pop(_OPENED, False)
    return opened


def set_title(title: str) -> None:
    """The browser tab's title."""
    st.set_page_config(page_title=f"{title} · Voxelflow")
