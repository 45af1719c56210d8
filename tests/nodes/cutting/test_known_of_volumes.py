"""Columns that a table gives to the volumes are those of all their patches."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cuts import cut, parts, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples

from engine.errors import DataError

SIZE: dict[str, Any] = {"size": (4, 4, 4)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    for name in ("anna/first", "anna/second", "ben/first"):
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.zeros((8, 4, 4), "int16"))
    return folder


def table(tmp_path: Path, text: str) -> str:
    path = tmp_path / "scans.csv"
    path.write_text(text)
    return str(path)


def columns(dataset: Any, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in ("source", *names)) for row in rows_of(dataset).values()}


def test_every_patch_has_what_the_table_says_of_its_volume(root: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    scans = table(
        tmp_path,
        "age;file;patient;x;taken\n41;anna/first.npy;007;9;2024-05-01\n42;anna/second;007;8;2025-06-02\n;ben/first;011;;\n",
    )
    out = cut(root, tmp_path / "work", columns_file=scans, messages=messages, **SIZE)
    day = datetime.date
    assert columns(out, "patient", "age", "x_", "taken") == {
        ("anna/first.npy", "007", 41, 9, day(2024, 5, 1)),
        ("anna/second.npy", "007", 42, 8, day(2025, 6, 2)),
        ("ben/first.npy", "011", None, None, None),
    }
    assert {row["x"] for row in rows_of(out).values()} == {0, 4}
    assert out.count == 6
    assert "columns of scans.csv: age (whole numbers), patient (text), x_ (whole numbers), taken (dates)" in messages
    assert "scans.csv: the column 'x' is kept as x_" in messages


def test_volumes_that_the_table_does_not_name_and_rows_of_none_are_said(root: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    scans = table(tmp_path, "file,patient\nanna/first,anna\nanna/first,anna\ncarl,carl\n")
    out = cut(root, tmp_path / "work", columns_file=scans, messages=messages, **SIZE)
    assert columns(out, "patient") == {
        ("anna/first.npy", "anna"), ("anna/second.npy", None), ("ben/first.npy", None)
    }  # fmt: skip
    said = (
        "scans.csv says nothing of 2 of 3 volumes: anna/second.npy, ben/first.npy; 1 row of scans.csv names no volume"
    )
    assert said in messages


def test_volumes_of_several_files_are_named_by_what_they_share(tmp_path: Path) -> None:
    for channel in ("amp", "phase"):
        (tmp_path / "in").mkdir(exist_ok=True)
        np.save(tmp_path / f"in/f3_{channel}.npy", np.zeros((4, 4, 4), "float32"))
    pq.write_table(pa.table({"name": ["f3"], "well": ["F03-4"], "depth": [1.5]}), tmp_path / "wells.parquet")
    named = {"channels_from": "{cube}_{channel}.npy", "columns_file": str(tmp_path / "wells.parquet")}
    out = cut(tmp_path / "in", tmp_path / "work", **SIZE, **named)
    assert columns(out, "well", "depth") == {("f3", "F03-4", 1.5)}


def test_a_table_that_changes_makes_those_patches_again_of_which_it_says_something_else(
    root: Path, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"target_file_mb": 1, **SIZE}
    first = cut(root, tmp_path / "work", columns_file=table(tmp_path, "file,age\nanna/first,41\nben/first,8\n"), **more)
    before = parts(first)
    same = cut(
        root, tmp_path / "work", previous=first,
        columns_file=table(tmp_path, "file,age\nben/first,8\nanna/first,41\n"), **more,
    )  # fmt: skip
    assert parts(same) == before
    changed = cut(
        root, tmp_path / "work", previous=first,
        columns_file=table(tmp_path, "file,age\nanna/first,42\nben/first,8\n"), **more,
    )  # fmt: skip
    assert parts(changed) != before
    assert columns(changed, "age") == {("anna/first.npy", 42), ("anna/second.npy", None), ("ben/first.npy", 8)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scan,patient\na,1\n", "has no column file, path, id or name"),
        ("file,patient\na,1,2\n", "cannot be read"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_table_that_cannot_be_read_ends_the_run(text: str | None, problem: str, root: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "none.csv") if text is None else table(tmp_path, text)
    with pytest.raises(DataError, match=problem) as raised:
        cut(root, tmp_path / "work", columns_file=path, **SIZE)
    assert raised.value.hint


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    ages=st.lists(st.integers(-5, 5) | st.none(), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_whatever_the_order_of_its_rows(
    ages: list[int | None], order: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("cut")
    (base / "in").mkdir()
    for number in range(len(ages)):
        np.save(base / f"in/{number}.npy", np.zeros((4, 8, 4), "uint8"))
    lines = [f"{number},{'' if age is None else age}" for number, age in enumerate(ages)]
    order.shuffle(lines)
    scans = table(base, "\n".join(["file,age", *lines]))
    out = cut(base / "in", base / "work", columns_file=scans, **SIZE)
    assert columns(out, "age") == {(f"{number}.npy", age) for number, age in enumerate(ages)}
    assert out.count == 2 * len(ages)
