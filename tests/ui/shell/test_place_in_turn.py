"""Another thing is drawn in another place: Streamlit would leave what was before in the page until all is drawn."""

from __future__ import annotations

from drawn_places import path_to
from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from ui.shell.place_in_turn import place_in_turn

    for key in ("left", "right"):
        chosen = st.selectbox(key, ["a", "b"], key=key)
        with place_in_turn(key, chosen):
            st.text(f"{key} {chosen}")


def _places(page: AppTest) -> list[tuple[int, ...]]:
    assert not page.exception
    return [path_to(page, lambda element, text=each: element is text) for each in page.text]


def test_each_pair_of_places_turns_when_its_own_thing_changes() -> None:
    page = AppTest.from_function(_page).run()
    left, right = _places(page)
    page.run()
    assert _places(page) == [left, right]
    page.selectbox(key="left").set_value("b").run()
    moved, same = _places(page)
    assert moved[:-1] != left[:-1]  # the block around it
    assert same == right
    assert [each.value for each in page.text] == ["left b", "right a"]
    page.selectbox(key="left").set_value("a").run()
    assert _places(page) == [left, right]
