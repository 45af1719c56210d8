"""Pieces of HTML, and plain text where Streamlit reads Markdown: what a person wrote is never markup."""

from __future__ import annotations

import string
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.errors import UsageError
from ui.shell.blocks import Html, chip, error_block, facts, heading, notice, plain, shortened, table, tag, text

EVIL = '<img src=x onerror="alert(1)">'


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


@given(
    st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])), st.text(st.characters(categories=["L", "P", "S"]))
)
def test_texts_come_out_as_they_went_in(inner: str, attribute: str) -> None:
    found = _read(tag("p", inner, title=attribute))
    assert found.tags == ["p"]
    assert found.attributes == [attribute]
    # Spaces of other kinds may be spelled out.
    assert found.text == inner or "\\" in found.text


def test_every_block_escapes_what_it_is_given() -> None:
    blocks = [
        tag("p", EVIL, title=EVIL),
        text(EVIL),
        chip(EVIL),
        heading(EVIL),
        facts([(EVIL, EVIL)]),
        table([EVIL, EVIL], [[EVIL, None]], EVIL, numeric=[0], narrow=[1]),
        notice("error", EVIL, EVIL),
        error_block(UsageError(EVIL, hint=EVIL, node=EVIL)),
    ]
    for block in blocks:
        assert "img" not in _read(block).tags
        assert EVIL in _read(block).text


def test_right_to_left_text_keeps_to_itself() -> None:
    assert text("שלום") == "<bdi>שלום</bdi>"
    assert "\\u202e" in text("a\u202eb")


def test_markup_of_ours_goes_in_as_it_is() -> None:
    assert tag("p", Html("<b>x</b>"), None, "&") == "<p><b>x</b>&amp;</p>"
    assert tag("p", "x", title=None, aria_label="y", class_="z") == '<p aria-label="y" class="z">x</p>'


def test_a_fact_without_a_value_has_a_dash() -> None:
    assert _read(facts([("Started", "")])).text == "Started-"


def test_failed_checks_are_told_one_by_one() -> None:
    problems = [
        Diagnostic(
            code="VF203", severity="error", message="must be at least 1", hint="Choose 1.", node="t", parameter="n"
        ),
        Diagnostic(code="VF150", severity="warning", message="not trusted"),
    ]
    told = _read(error_block(CheckFailed(problems))).text
    for part in (
        "1 problem to fix",
        "error VF203 t.n: must be at least 1. Choose 1.",
        "warning VF150 not trusted",
    ):
        assert part in told


def test_errors_are_announced_and_other_notices_are_not() -> None:
    assert 'role="alert"' in notice("error", "x")
    assert 'role="status"' in notice("info", "x")


@pytest.mark.parametrize(
    ("written", "markdown"),
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
def test_markdown_loses_its_meaning(written: str, markdown: str) -> None:
    assert plain(written) == markdown


@given(st.text())
def test_every_character_that_means_something_is_escaped(written: str) -> None:
    out = plain(written)
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
