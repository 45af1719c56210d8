"""A part of a page that takes a while: its outline stands below what is drawn of it until all of it is."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import streamlit as st

from ui.shell import navigation
from ui.shell.blocks import skeleton

_DRAWN = "outlined"
"""Key of the session state: by part, what of it was drawn last, and in which visit to its page."""


@contextmanager
def outlined(part: str, shown: Hashable = None) -> Iterator[None]:
    """A place for `shown`, in which the block draws it; `part` names the place in the page.

    The outline is there only where nothing of `shown` is in the page yet: what is drawn again stays as it is
    meanwhile, which is Streamlit's way. The style sheet shows it after a moment, so that nothing flickers where all is
    there at once.
    """
    drawn: dict[str, Hashable] = st.session_state.setdefault(_DRAWN, {})
    now = (shown, navigation.visit())
    content, rest = st.container(), st.empty()  # below: what is drawn does not move when the outline goes
    coming = drawn.get(part) != now
    if coming:
        rest.html(skeleton())
    try:
        with content:
            yield
    finally:
        if coming:
            rest.empty()
    drawn[part] = now
