"""What stands in the bars above lists: a search box, how much there is."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.shell.blocks import tag


def search_box(label: str, *, key: str, placeholder: str, width: int, **more: Any) -> str:
    """What is typed into it, letter by letter. `more` goes to `st.text_input`: where the text is kept."""
    typed = st.text_input(
        label,
        key=key,
        type="search",
        live=True,
        placeholder=placeholder,
        label_visibility="collapsed",
        width=width,
        **more,
    )
    return typed or ""


def count_line(told: str) -> None:
    """`12 of 40 runs`, beside what chooses them."""
    st.html(tag("p", told, class_="vf-count"), width="content")
