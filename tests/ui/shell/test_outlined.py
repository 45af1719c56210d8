"""The outline of a part of a page that takes a while: only where nothing of it is in the page yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from ui.shell import blocks, outlined


@pytest.fixture
def outlines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was drawn while a part was on its way: its outline, and what became of it."""
    seen: list[str] = []

    def draw() -> blocks.Html:
        seen.append("outline")
        return blocks.skeleton()

    monkeypatch.setattr(outlined, "skeleton", draw)
    empty = DeltaGenerator.empty

    def emptied(place: DeltaGenerator) -> DeltaGenerator:
        # A new place has no position of its own yet.
        seen.extend(["gone"] if place._cursor is not None and place._cursor.is_locked else [])
        return empty(place)

    monkeypatch.setattr(DeltaGenerator, "empty", emptied)
    return seen


def _page() -> None:
    import streamlit as st

    from ui.shell.outlined import outlined

    shown = st.selectbox("shown", ["a", "b"], key="shown")
    st.session_state["page_visit"] = st.session_state.get("opened", 1)
    with outlined("part", shown):
        st.text(f"this is {shown}")
    st.text("what follows")


def _drawn(page: AppTest) -> list[str]:
    assert not page.exception
    return [each.value for each in page.text]


def test_it_is_outlined_when_another_thing_is_drawn_or_the_page_opened_anew(outlines: list[str]) -> None:
    page = AppTest.from_function(_page).run()
    assert (_drawn(page), outlines) == (["this is a", "what follows"], ["outline", "gone"])
    assert not page.get("html"), "the outline has gone"
    page.run()
    assert len(outlines) == 2, "it is in the page already"
    page.selectbox(key="shown").set_value("b").run()
    assert _drawn(page) == ["this is b", "what follows"]
    assert outlines[2:] == ["outline", "gone"]
    page.session_state["opened"] = 2
    page.run()
    assert outlines[4:] == ["outline", "gone"]


def test_each_opening_of_a_page_is_another_visit(app: Callable[..., AppTest]) -> None:
    page = app("runs")
    visits = [page.session_state["page_visit"]]
    for path in ("runs", "compare", "runs"):
        page._page_hash = calc_hash(path)
        visits.append(page.run().session_state["page_visit"])
        assert not page.exception
    assert visits == [1, 1, 2, 3]


def _failing() -> None:
    import streamlit as st

    from ui.shell.outlined import outlined

    with outlined("part"):
        if "repaired" not in st.session_state:
            raise ValueError("not readable")
        st.text("all of it")


def test_an_outline_does_not_stay_beside_an_error(outlines: list[str]) -> None:
    page = AppTest.from_function(_failing).run()
    assert [each.message for each in page.exception] == ["not readable"]
    assert outlines == ["outline", "gone"]
    page.session_state["repaired"] = True
    page.run()
    assert (_drawn(page), outlines[2:]) == (["all of it"], ["outline", "gone"])
