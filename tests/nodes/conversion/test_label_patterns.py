"""Labels from the names of files, by a pattern; patterns that would take years or fill the memory are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from nodes.conversion.convert_parameters import compile_pattern
from nodes.conversion.label_values import encode
from nodes.conversion.labels import LabelRule, Labels, find_labels


def found(labels: Labels) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in labels.values]


@pytest.mark.parametrize(
    ("pattern", "expected", "classes"),
    [
        (r"_(?P<label>[a-z]+)\.npy$", [1, 0, None], ("fault", "salt")),
        (r"^v(?P<label>\d+)", [7, 30, None], ()),
        (r"^(?P<label>\w+)/", [0, 1, None], ("x", "y")),
        (r"^(?P<label>q)?", [None, None, None], ()),
    ],
)
def test_a_pattern_in_the_name(pattern: str, expected: list[float | None], classes: Any) -> None:
    ids = pa.array(["x/v07_salt.npy", "y/v30_fault.npy", "w-1.npy"])
    labels = find_labels(ids, LabelRule("pattern", pattern=pattern))
    assert (found(labels), labels.classes) == (expected, classes)


@pytest.mark.parametrize("pattern", ["(", r"\d+", "", "(" * 1_999, "(?P<label>a)" * 200])
def test_a_pattern_that_cannot_give_labels(pattern: str) -> None:
    with pytest.raises(DataError) as caught:
        find_labels(pa.array(["a.npy"]), LabelRule("pattern", pattern=pattern))
    assert caught.value.parameter == "label_pattern"


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["^(?P<label>(a|a)+)$", "^(?P<label>(a|aa)+)$"])
@pytest.mark.timeout(60)
def test_a_pattern_that_would_take_years_is_stopped(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.conversion.labels._SECONDS_A_NAME", 0.1)
    with pytest.raises(DataError, match="takes too long, for example on 'aaa") as caught:
        find_labels(pa.array(["b.npy", "a" * 99 + ".npy"]), LabelRule("pattern", pattern=pattern))
    assert "repetition" in caught.value.hint


def _nested(repeat: str, depth: int) -> str:
    return f"^(?P<label>{'(' * depth}a{f'){repeat}' * depth})"


@pytest.mark.parametrize("pattern", [_nested("+", 20), _nested("+?", 150), _nested("{2,3}", 12), _nested("{9}", 99)])
@pytest.mark.timeout(20)
def test_a_pattern_that_would_fill_the_memory_is_refused(pattern: str) -> None:
    """The package `regex` writes repeats out when it compiles: these would need from 2 GB to more than there is."""
    with pytest.raises(DataError, match="repeats what repeats itself") as caught:
        compile_pattern(pattern)
    assert caught.value.parameter == "label_pattern"


@pytest.mark.parametrize(
    "pattern", [_nested("+", 12), _nested("*", 90), "(?P<label>[a-z]{1,99}){50}", r"((?P<label>\d+)(-(\d{4})+)?)+"]
)
def test_a_pattern_with_many_repeats_is_searched_for(pattern: str) -> None:
    assert len(find_labels(pa.array(["aaaa.npy"]), LabelRule("pattern", pattern=pattern)).values) == 1


@pytest.mark.timeout(60)
def test_the_time_of_a_pattern_is_limited_for_all_names_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.conversion.labels._SECONDS_IN_ALL", (0.0, 0.0))
    with pytest.raises(DataError, match="takes too long"):
        find_labels(pa.array(["a.npy"] * 1_000), LabelRule("pattern", pattern="(?P<label>a)"))


@pytest.mark.slow
@given(st.lists(st.text("ab1_/é", min_size=1, max_size=8), min_size=1, max_size=5))
@pytest.mark.parametrize(
    "pattern",
    [
        r"_(?P<label>\w+)",
        r"(?<=a)(?P<label>\d)",
        r"^(?P<label>[^_]+?)(?=_|$)",
        r"(?i)(?P<label>É)|b",
        r"(?:a(?P<label>b)?)+",
    ],
)
def test_patterns_find_what_python_finds(pattern: str, names: list[str]) -> None:
    whole = "/" in pattern
    matches = [re.search(pattern, n if whole else n.rpartition("/")[2]) for n in names]
    wanted = [match["label"] if match else None for match in matches]
    expected, classes = encode(pa.array(wanted, pa.string()), numbers=True)
    labels = find_labels(pa.array(names), LabelRule("pattern", pattern=pattern))
    assert (found(labels), labels.classes) == ([None if np.isnan(v) else v for v in expected], classes)
