"""Text of any origin as plain text."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.shell.text import plain, shortened


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("**b**", r"\*\*b\*\*"),
        (":red[x]", r"\:red\[x\]"),
        ("[x](javascript:1)", r"\[x\]\(javascript\:1\)"),
        ("<script>", r"\<script\>"),
        ("$x$ `c` :smile:", r"\$x\$ \`c\` \:smile\:"),
        ("a\nb", "a b"),
        ("1. one", r"1\. one"),
        ("שלום", "שלום"),
        ("a\u202eb", r"a\\u202eb"),
    ],
)
def test_markdown_loses_its_meaning(text: str, markdown: str) -> None:
    assert plain(text) == markdown


@given(st.text())
def test_every_character_that_means_something_is_escaped(text: str) -> None:
    out = plain(text)
    for at, character in enumerate(out):
        if character in string.punctuation and character != "\\":
            # An odd number of backslashes before it.
            before = out[:at]
            assert (len(before) - len(before.rstrip("\\"))) % 2 == 1
    assert "\n" not in out


def test_long_texts_are_cut() -> None:
    assert shortened("x" * 300, 10) == "x" * 9 + "…"
    assert shortened("short", 10) == "short"
    assert shortened("x" * 300) == "x" * 300
    assert plain("**" * 300, 5) == r"\*\*\*\*…"
