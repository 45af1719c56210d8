"""Figures in words, and text that cannot harm a terminal."""

from __future__ import annotations

import math
from ctypes import c_float

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import label_text, money, number, numbers, plural, safe, safe_log_line, size


@given(st.text(st.characters()))
def test_safe_text_is_printable_and_keeps_what_was(text: str) -> None:
    out = safe(text)
    assert out.isprintable()
    assert safe(out) == out
    if text.isprintable():
        assert out == text


def test_escape_sequences_and_marks_that_turn_the_reading_direction_are_spelled_out() -> None:
    assert safe("a\x1b[31mb\x07\x9b") == "a\\x1b[31mb\\x07\\x9b"
    assert safe("\u202egpj.exe") == "\\u202egpj.exe"
    assert safe("two\nlines\t.") == "two lines ."
    assert safe("name\udcff") == "name\\udcff"


def test_of_a_bar_that_redraws_itself_a_log_shows_what_it_drew_last() -> None:
    assert safe_log_line("10%\r50%\r100%\n") == "100%"
    assert safe_log_line("a\tb\x1b[0m") == "a       b\\x1b[0m"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (78_000_000, "78 MB"), (720_000_000, "720 MB"),
     (999_600, "1.0 MB"), (234_000_000_000, "234 GB"), (5e15, "5,000 TB")],
)  # fmt: skip
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("label", "text"),
    [(3.0, "3"), (0.1, "0.1"), (1234567.0, "1234567"), (1234568.0, "1234568"), (1e7, "1e+07"), (math.nan, "nan")],
)
def test_labels(label: float, text: str) -> None:
    assert label_text(label) == text


@given(st.floats(width=32, allow_nan=False))
def test_no_two_labels_share_a_text(label: float) -> None:
    assert c_float(float(label_text(label))).value == label


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([122.6, 123.4, 1234.5], ["122.6", "123.4", "1,234"]),
        ([0.93124, 0.93121, 0.5], ["0.93124", "0.93121", "0.5"]),
        ([1234.5, 1233.9, 0.25], ["1,234.5", "1,233.9", "0.25"]),
        ([0.5, 0.50000001, math.nan], ["0.5", "0.5", "nan"]),
        ([1_000_001, 1_000_002, 1e6 + 0.5], ["1,000,001", "1,000,002", "1,000,000"]),
        ([], []),
    ],
)
def test_figures_that_differ_read_differently(values: list[float], texts: list[str]) -> None:
    assert numbers(values) == texts


def test_counts_and_figures() -> None:
    assert [plural(1, "volumes"), plural(2000, "volumes"), plural(3, "MB"), plural(1, "s"), plural(5, "")] == [
        "1 volume", "2,000 volumes", "3 MB", "1 s", "5"]  # fmt: skip
    assert [number(33_368_897), number(0.93124), number(1234.5)] == ["33,368,897", "0.9312", "1,234"]
    assert number(float("nan")) == "nan"
    assert number(float("inf")) == "inf"


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0.00 EUR"),
        (1e-6, "<0.0001 EUR"),
        (0.0076, "0.0076 EUR"),
        (0.031, "0.031 EUR"),
        (0.0996, "0.10 EUR"),
        (0.4, "0.40 EUR"),
        (0.99, "0.99 EUR"),
        (0.9996, "1.00 EUR"),
        (12.4, "12.40 EUR"),
        (3600, "3,600.00 EUR"),
    ],
)
def test_amounts_of_money(amount: float, words: str) -> None:
    assert money(amount, "EUR") == words
