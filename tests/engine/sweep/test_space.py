"""What the values of a sweep mean: lists, ranges, all combinations."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from building import box, pipeline
from hypothesis import given
from hypothesis import strategies as st

from engine.catalog import Catalog, build_catalog
from engine.errors import UsageError
from engine.sweep.space import (
    MOST_TRIALS,
    Range,
    Space,
    read_range,
    read_space,
    settings_text,
    split_values,
    value_text,
)

NOTHING = build_catalog((), None)
VALUES = st.one_of(
    st.integers(-1000, 1000), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    st.text("ab ,.[]{}\"'\\1e-:", max_size=8), st.lists(st.integers(0, 9), max_size=3),
)  # fmt: skip
LISTS = st.dictionaries(
    st.sampled_from(["a", "b", "c.d"]), st.lists(VALUES, min_size=2, max_size=4, unique_by=json.dumps), max_size=3
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1", ["1"]),
        ("1,2 , 3", ["1", "2", "3"]),
        ("[16,16,8,2],[8,8,8,2]", ["[16,16,8,2]", "[8,8,8,2]"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ('{"a":[1,2]},x', ['{"a":[1,2]}', "x"]),
        ("a,,b", ["a", "", "b"]),
        (r'"a\",b",c', [r'"a\",b"', "c"]),
        ('5"x,6"', ['5"x', '6"']),
    ],
)
def test_commas_separate_values_but_not_within_one(text: str, parts: list[str]) -> None:
    assert split_values(text) == parts


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_what_is_written_is_read_again(values: list[Any]) -> None:
    text = ",".join(value_text(value) for value in values)
    parts = split_values(text)
    assert len(parts) == len(values)
    for part, value in zip(parts, values, strict=True):
        # Without a document's value to go by, as `read_setting` reads it for a parameter that holds a figure.
        read = json.loads(part) if not isinstance(value, str) or part.startswith('"') else part
        assert read == value
        assert value != "" or part == '""'


@given(LISTS)
def test_every_combination_comes_once(lists: dict[str, list[Any]]) -> None:
    space = Space({}, {name: tuple(values) for name, values in lists.items()}, {})
    found = [json.dumps(each) for each in space.combinations()]
    assert len(found) == len(set(found)) == space.count == math.prod(map(len, lists.values()))
    for each in space.combinations():
        assert list(each) == list(lists)
        assert all(json.dumps(value) in map(json.dumps, lists[name]) for name, value in each.items())
    assert Space.from_json(json.loads(json.dumps(space.as_json()))) == space


@given(
    low=st.floats(1e-6, 1e3), factor=st.floats(1.01, 1e4), log=st.booleans(),
)  # fmt: skip
def test_a_range_is_read_as_it_is_written(low: float, factor: float, log: bool) -> None:
    within = Range(low, low * factor, log=log)
    assert read_range("a", str(within)) == within


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1e-5..1e-2:log", Range(1e-5, 1e-2, log=True)),
        ("16..64", Range(16, 64, whole=True)),
        ("16..64:16", Range(16, 64, whole=True, step=16)),
        ("0.1..0.9:0.2", Range(0.1, 0.9, step=0.2)),
        ("0..1:0.12345678", Range(0, 1, step=0.12345678)),
        ("0..9000000:3000000", Range(0, 9e6, whole=True, step=3e6)),
        ("-1..1.5", Range(-1, 1.5)),
        ("../folder", None),
        ("a..b", None),
        ("1..2:x", None),
    ],
)
def test_ranges(text: str, found: Range | None) -> None:
    assert read_range("a", text) == found
    assert found is None or read_range("a", str(found)) == found


@pytest.mark.parametrize("text", ["2..1", "1..1", "0..1:log", "-1..1:log", "1..2:0", "1..2:-1", "1e308..1e309"])
def test_ranges_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageError, match=r"--set a=.*"):
        read_range("a", text)


@pytest.mark.parametrize("name", ["m.steps", "steps"])
def test_a_range_of_a_parameter_that_takes_whole_numbers_is_whole(probes: Catalog, name: str) -> None:
    document = pipeline(box("m", "Make", **({} if "." in name else {"steps": "${steps}"})), steps=3)

    def read(text: str) -> Range:
        return read_space([f"{name}={text}", "m.step_s=0.5..1.5"], document, probes, searched=True).ranges[name]

    assert read("1e1..1e2") == Range(10, 100, whole=True)
    assert read("1..9.0:2") == Range(1, 9, whole=True, step=2)
    for text, hint in (("1..10:2.5", "1..10"), ("0.5..4.5:log", "1..4"), ("0.1..0.9", "10..100")):
        with pytest.raises(UsageError, match="takes whole numbers") as caught:
            read(text)
        assert caught.value.hint.endswith(f"--set {name}={hint}")


@pytest.mark.parametrize("text", ["10.0..100.0", "1e-5..1e-2:log", "0.1..0.9:0.2", "3..9", "3..4"])
def test_a_value_between_the_ends_is_none_of_the_others(text: str) -> None:
    within = read_range("a", text)
    assert within is not None
    assert within.low < within.between <= within.high
    assert (within.between == within.high) == (text == "3..4")
    assert within.whole == float(within.between).is_integer()


def test_one_value_is_shared_and_several_vary(probes: Catalog) -> None:
    document = pipeline(box("m", "Make"), steps=3, text="t")
    space = read_space(["steps=1,2,2", "m.text=2024,x", "text=5"], document, probes, searched=False)
    assert (space.fixed, space.lists) == ({"text": "5"}, {"steps": (1, 2), "m.text": ("2024", "x")})
    assert [settings_text(each) for each in space.combinations()] == [
        'steps=1 m.text="2024"', "steps=1 m.text=x", 'steps=2 m.text="2024"', "steps=2 m.text=x",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_cannot_be_a_space_says_what_to_do() -> None:
    document = pipeline(a=1, b=1)
    with pytest.raises(UsageError, match="given twice") as twice:
        read_space(["a=1", "a=2"], document, NOTHING, searched=False)
    assert "--set a=1,2" in twice.value.hint
    with pytest.raises(UsageError, match="is a range") as no_search:
        read_space(["a=1..2"], document, NOTHING, searched=False)
    assert "--trials" in no_search.value.hint
    assert read_space(["a=1..2"], document, NOTHING, searched=True).ranges == {"a": Range(1, 2, whole=True)}
    many = ",".join(map(str, range(MOST_TRIALS)))
    with pytest.raises(UsageError, match="20,000 combinations"):
        read_space([f"a={many}", "b=1,2"], document, NOTHING, searched=False)
