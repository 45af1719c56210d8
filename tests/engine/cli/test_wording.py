"""Figures in words, and text that cannot harm a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.wording import duration, figures, made, number, plural, safe, safe_log_line, size
from engine.datasets import Report, Selection, VolumeDelta, VolumeParquet


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
    ("seconds", "text"),
    [(0.44, "0.4 s"), (9.97, "10 s"), (59.6, "1 min 00 s"), (65, "1 min 05 s"), (7380, "2 h 03 min"),
     (200_000, "2 days 7 h"), (-1, "0.0 s")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_and_figures() -> None:
    assert [plural(1, "volumes"), plural(2000, "volumes"), plural(3, "MB"), plural(1, "s"), plural(5, "")] == [
        "1 volume", "2,000 volumes", "3 MB", "1 s", "5"]  # fmt: skip
    assert [number(33_368_897), number(0.93124), number(1234.5)] == ["33,368,897", "0.9312", "1,234"]
    assert number(float("nan")) == "nan"
    assert number(float("inf")) == "inf"


def test_a_dataset_is_told_by_its_counts() -> None:
    parquet = VolumeParquet(
        uri="/d", count=1990, bytes=720_000_000, manifest="/m", found=2000, quarantined=10, labelled=1500
    )
    assert figures(parquet.details()) == "1,990 volumes, 720 MB, 10 quarantined, 1,500 labelled"
    delta = VolumeDelta(uri="/d", count=1, bytes=10, version=3, data_version=2, files=1, labelled=1)
    assert made({"out": delta}) == "1 volume, 10 bytes, version 3, 1 file"
    part = delta.select(Selection(salt="a", low=0.5, high=1)).select(Selection(salt="b", low=0, high=0.25))
    assert made({"out": part}) == "12.5% of 1 volume, 10 bytes, version 3, 1 file"
    report = Report(uri="/r", figures={"note": "a\x1bb", "score": 0.5})
    assert made({"train": delta, "report": report}).endswith("; report: note a\\x1bb, score 0.5")
    assert made({}) == ""
