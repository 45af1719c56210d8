"""Pieces of HTML, and plain text where Streamlit reads Markdown: what a person wrote is never markup."""

from __future__ import annotations

import base64
import re
import string
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ui
from engine.diagnostics.rule import CheckFailed, Diagnostic
from engine.errors import UsageError
from engine.panels import svg, text_at
from ui.shell import fonts as fonts_module
from ui.shell.blocks import (
    Html,
    chip,
    error_block,
    facts,
    heading,
    notice,
    plain,
    shortened,
    svg_image,
    table,
    tag,
    text,
    unbroken,
)
from ui.shell.fonts import FAMILY

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


def test_columns_of_one_width_are_those_at_the_end() -> None:
    shown = table(["node", "parameter", "a", "b", "c"], [["n", "p", 1, 2, 3]], "Parameters", even=3)
    assert re.findall(r"<th( style=\"[^\"]*\")?>", shown) == ["", "", *[' style="width: 22%"'] * 3]


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("a trained 3-D ResNet-18.", ["3-D", "ResNet-18"]),
        ("MNI152 in SEG-Y, one by one", []),
        ("two-core <b> machine-2x", ["machine-2x"]),
    ],
)
def test_names_with_a_figure_do_not_break_at_their_hyphen(words: str, whole: list[str]) -> None:
    found = unbroken(words)
    assert _read(found).text == words
    assert re.findall(r'<span class="vf-unbroken">(.*?)</span>', found) == whole


def test_every_chip_of_the_pages_is_the_same() -> None:
    assert chip("left out") == '<span class="vf-chip vf-state-left-out">left out</span>'
    assert chip("waiting", "stale") == '<span class="vf-chip vf-state-waiting">stale</span>'
    pages = Path(ui.__file__ or "").parent
    made = [
        path.relative_to(pages).as_posix() for path in pages.rglob("*.py") if "vf-chip vf-" in path.read_text("utf-8")
    ]
    assert made == ["shell/blocks.py"]


def test_right_to_left_text_keeps_to_itself() -> None:
    assert text("שלום") == "<bdi>שלום</bdi>"
    assert "\\u202e" in text("a\u202eb")


def test_markup_of_ours_goes_in_as_it_is() -> None:
    assert tag("p", Html("<b>x</b>"), None, "&") == "<p><b>x</b>&amp;</p>"
    assert tag("p", "x", title=None, aria_label="y", class_="z") == '<p aria-label="y" class="z">x</p>'


def test_a_fact_without_a_value_has_a_dash() -> None:
    assert _read(facts([("Started", "")])).text == "Started-"


def test_words_in_a_picture_have_the_apps_font_which_an_image_cannot_fetch() -> None:
    def picture(*parts: str) -> str:
        (shown,) = re.findall(
            r'src="data:image/svg\+xml;base64,(.*?)"', svg_image(svg(9, 9, parts, ""), "#123", "", "")
        )
        return base64.b64decode(shown).decode()

    written = picture(text_at(0, 9, "<b>"))
    root = ElementTree.fromstring(written)
    assert root.attrib["color"] == "#123"
    style, words = root
    assert words.text == "<b>"
    assert style.text is not None
    fonts = re.findall(r"data:font/woff2;base64,([^\"]*)", style.text)
    file = Path(fonts_module.__file__).with_name("inter") / "inter.woff2"
    assert [base64.b64decode(font) for font in fonts] == [file.read_bytes()]
    assert f'svg {{ font-family: "{FAMILY}"' in style.text
    assert "<style>" not in picture("<rect/>"), "64 kB that no word needs"


def test_failed_checks_are_reported_one_by_one() -> None:
    problems = [
        Diagnostic(
            code="VF203", severity="error", message="must be at least 1", hint="Choose 1.", node="t", parameter="n"
        ),
        Diagnostic(code="VF150", severity="warning", message="not trusted"),
    ]
    shown = _read(error_block(CheckFailed(problems))).text
    for part in (
        "1 problem to fix",
        "error VF203 t.n: must be at least 1. Choose 1.",
        "warning VF150 not trusted",
    ):
        assert part in shown


def test_an_error_is_a_headline_unless_a_node_comes_first() -> None:
    assert ">There is no table<" in error_block(UsageError("there is no table", hint="Make one."))
    assert "train: there is no table" in error_block(UsageError("there is no table", hint="Make one.", node="train"))


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


@pytest.mark.slow
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
