"""A place in the page for one of several things: another one is drawn in another place, so that the first goes at once.

Streamlit keeps the elements of before until the whole script is done, and a new container takes over the elements of
the one that was in its place. Without this, parts of two things stand side by side while the second is drawn.
"""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

_DRAWN = "place_in_turn"


def place_in_turn(key: str, shown: Hashable) -> DeltaGenerator:
    """A container inside the current one: the place of before, or the other of two when `shown` is not what it was.

    `key` names the pair of places in the page; both are made here, and the one not returned is emptied.
    """
    before, turn = st.session_state.get(f"{_DRAWN}-{key}", (shown, 0))
    turn = turn if before == shown else 1 - turn
    places = [st.container() if number == turn else st.empty() for number in range(2)]
    st.session_state[f"{_DRAWN}-{key}"] = (shown, turn)
    found: DeltaGenerator = places[turn]
    return found


def is_shown(key: str, thing: Hashable) -> bool:
    """Whether `thing` is what was drawn last: a fragment's timer may still draw what is shown no more."""
    shown, _ = st.session_state.get(f"{_DRAWN}-{key}", (thing, 0))
    return bool(shown == thing)
