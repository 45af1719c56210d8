"""What is on both sides of a split is reported before the first step, with its number."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from npy_folders import context, convert
from volume_sets import compact, labels_for, make_delta, make_files, some_volumes

from engine.declare.datasets import Dataset, Preview, Selection, VolumeParquet
from engine.declare.events import Event, Message
from engine.errors import DataError
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import split_dataset
from nodes.training import leakage
from nodes.training.rows import open_parts
from nodes.transform_volumes import transform_volumes


def dataset(folder: Path, values: dict[str, float], patients: dict[str, str]) -> Dataset:
    """Volumes that are filled with a value each, and their patients."""
    root = folder / "in"
    root.mkdir(parents=True)
    for name, value in values.items():
        np.save(root / f"{name}.npy", np.full((3, 3, 2), value, np.float32))
    lines = [f"{name},{number % 2},{patients.get(name, '')}" for number, name in enumerate(values)]
    (root / "labels.csv").write_text("file,label,patient\n" + "\n".join(lines))
    return convert(root, folder / "work")


def warnings_of(train: Dataset, other: Dataset | None, folder: Path, **given: Any) -> list[str]:
    events: list[Event] = []
    given = {"loader": "arrow"} | given
    with open_parts(train, other, share=0.3, ctx=context(folder, "t", emit=events.append), **given):
        pass
    return [event.text for event in events if isinstance(event, Message) and "flatter" in event.text]


@pytest.fixture
def train(tmp_path: Path) -> Dataset:
    values = {f"v{n}": float(n) for n in range(20)}
    return dataset(tmp_path / "a", values, {name: f"P{n % 7}" for n, name in enumerate(values)})


@pytest.mark.slow
def test_volumes_with_a_twin_on_the_other_side_are_counted(
    tmp_path: Path, train: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataset(tmp_path / "b", {"x": 3.0, "y": 5.0, "z": 99.0}, {})
    (found,) = warnings_of(train, other, tmp_path)
    assert found == (
        "2 volumes on both sides, validated on and under another id trained on, for example x.npy and v3.npy:"
        " the figures will flatter the model"
    )
    assert warnings_of(train, None, tmp_path) == []
    # Equal checksums alone are not enough.
    monkeypatch.setattr(leakage, "_checksums", lambda source, rows, end: np.zeros(len(rows), np.int64))
    assert "under another id" not in "".join(warnings_of(train, None, tmp_path))


@pytest.mark.slow
def test_where_twins_are_not_looked_for_a_line_says_so(
    tmp_path: Path, train: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataset(tmp_path / "b", {"x": 3.0, "y": 99.0}, {})

    def warnings() -> list[str]:
        said: list[Event] = []
        with open_parts(train, other, loader="arrow", share=0.3, ctx=context(tmp_path, "t", emit=said.append)):
            pass
        texts = [event.text for event in said if isinstance(event, Message)]
        return [text for text in texts if "not looked for" in text or "flatter" in text]

    assert len(warnings()) == 1
    monkeypatch.setattr(leakage, "MOST_COMPARED", 22)
    assert "1 volume on both sides" in warnings()[0], "as many as are compared"
    monkeypatch.setattr(leakage, "MOST_COMPARED", 21)
    assert warnings() == [
        "volumes on both sides under different ids are not looked for: there are 22 volumes, and the checksums of up to"
        " 21 are compared"
    ]
    monkeypatch.undo()
    monkeypatch.setattr(leakage, "_SECONDS", -1.0)
    assert warnings() == [
        "volumes on both sides under different ids are not looked for: reading their checksums took more than -1 s"
    ]


@pytest.mark.slow
def test_volumes_on_both_sides_are_counted_however_they_are_read(tmp_path: Path) -> None:
    """Two nodes on one folder, parts of a table that were transformed apart, versions of one table."""
    volumes = some_volumes(20)
    table = make_delta(tmp_path, volumes, labels_for(volumes), own=True)
    part = table.select(Selection(salt="x", low=0, high=0.5))
    count = sum(part.selections[0].holds(name) for name in volumes)
    (tmp_path / "link").symlink_to(tmp_path / "files")
    files = make_files(tmp_path, volumes, labels_for(volumes))
    again = files.model_copy(update={"manifest": str(tmp_path / "again.arrow"), "uri": str(tmp_path / "link")})
    shutil.copy(files.manifest, again.manifest)

    def transformed(data: Dataset, name: str) -> Dataset:
        made: Dataset = transform_volumes(data, normalise="z-score", ctx=context(tmp_path, name))
        return made

    apart = transformed(part, "part"), transformed(table, "whole")
    newer = compact(table, volumes)
    for train, other, loader, both in (
        (files, again, "npy", 20),
        (*apart, "npy", count),
        (part, table, "arrow", count),
        (part, newer, "arrow", count),
    ):
        said = warnings_of(train, other, tmp_path, loader=loader)
        assert said == [f"{both} volumes are trained on and validated on: the figures will flatter the model"]
    # Equal ids in another place are other volumes.
    others = make_files(tmp_path / "b", {name: volume + 1 for name, volume in volumes.items()}, labels_for(volumes))
    assert warnings_of(files, others, tmp_path, loader="npy") == []


positions = st.lists(st.tuples(*[st.integers(-3, 12)] * 3), max_size=25)


@given(positions, positions, st.tuples(*[st.integers(1, 6)] * 3))
def test_boxes_that_overlap_are_counted(ours: list[Any], theirs: list[Any], size: tuple[int, ...]) -> None:
    found = leakage.count_overlaps(*(np.array(at, np.int64).reshape(-1, 3) for at in (ours, theirs)), size)
    pairs = [
        sum(all(abs(a - b) < s for a, b, s in zip(one, other, size, strict=True)) for one in ours) for other in theirs
    ]
    assert found == (sum(map(bool, pairs)), sum(pairs))


def patches(folder: Path, places: dict[str, tuple[str, int]]) -> Dataset:
    """Patches of 3x3x2 voxels of different values, from a volume and at an x of it each."""
    root = folder / "in"
    root.mkdir(parents=True)
    lines = ["file,label,source,x,y,z"]
    for number, (name, (source, x)) in enumerate(places.items()):
        np.save(root / f"{name}.npy", np.full((3, 3, 2), number + len(folder.name) * 100, np.float32))
        lines.append(f"{name},{number % 2},{source},{x},0,0")
    (root / "labels.csv").write_text("\n".join(lines))
    return convert(root, folder / "work")


@pytest.mark.slow
def test_patches_that_overlap_with_trained_ones_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = patches(tmp_path / "a", {f"v{n}": ("one", 3 * n) for n in range(9)})
    beside = patches(tmp_path / "bc", {"p": ("one", 27), "q": ("two", 0)})
    assert warnings_of(train, beside, tmp_path) == []
    among = patches(tmp_path / "def", {"p": ("one", 4), "q": ("two", 4), "r": ("one", 26), "s": ("one", -3)})
    (found,) = warnings_of(train, among, tmp_path)
    # p begins within v1 and reaches into v2, r begins within v8.
    assert found.startswith("2 patches validated on overlap with patches that were trained on (3 pairs): the figures")
    assert warnings_of(train, None, tmp_path) == []  # parts of one table, whose patches lie side by side
    mixed = patches(tmp_path / "ghi", {"a": ("one", 0), "b": ("two", 0), "c": ("one", 30), "d": ("two", 60)})
    others = patches(tmp_path / "jklm", {"p": ("two", 61), "q": ("one", 1), "r": ("two", 1), "s": ("one", 60)})
    (found,) = warnings_of(mixed, others, tmp_path)
    assert found.startswith("3 patches validated on overlap with patches that were trained on (3 pairs): the figures")
    # A patch that is on both sides, read by two sources, does not overlap with itself.
    again = train.model_copy(update={"found": 99})
    assert warnings_of(train, again, tmp_path) == [
        "9 volumes are trained on and validated on: the figures will flatter the model"
    ]
    close = patches(tmp_path / "ghij", {f"v{n}": ("one", n) for n in range(20)})
    (found,) = warnings_of(close, None, tmp_path)
    assert "overlap with patches that were trained on" in found

    def unknown() -> list[str]:
        events: list[Event] = []
        with open_parts(close, None, loader="arrow", share=0.3, ctx=context(tmp_path, "t", emit=events.append)):
            pass
        return [event.text for event in events if isinstance(event, Message) and "is not known" in event.text]

    with monkeypatch.context() as patch:
        patch.setattr(leakage, "extent_before", lambda _: None)
        assert ["resampled or turned" in text for text in unknown()] == [True]
    monkeypatch.setattr(leakage, "count_overlaps", lambda *_: None)
    assert ["too many to compare" in text for text in unknown()] == [True]


def test_groups_on_both_sides_are_counted(tmp_path: Path, train: Dataset) -> None:
    other = dataset(tmp_path / "b", {"x": 30.0, "y": 50.0, "z": 60.0, "u": 70.0}, {"x": "P1", "y": "P1", "z": "Q"})
    (found,) = warnings_of(train, other, tmp_path, group="patient")
    assert found.startswith(
        "1 group of patient on both sides, trained on and validated on (2 volumes of the latter, for example of P1)"
    )
    assert warnings_of(train, other, tmp_path) == []


def test_what_is_held_back_obeys_the_group_of_the_split(tmp_path: Path) -> None:
    """With a test set split by group and `validation_share`, no group is on both sides, or it is said."""
    values = {f"v{n}": float(n) for n in range(60)}
    files = dataset(tmp_path / "a", values, {name: f"P{n % 12}" for n, name in enumerate(values)})
    assert isinstance(files, VolumeParquet)
    table = parquet_to_delta(files, ctx=context(tmp_path / "table", "t"))
    ctx = context(tmp_path, "t")
    train, _, test = split_dataset(table, by="group", column="patient", validation=0, test=0.3, ctx=ctx)
    assert train.grouped_by == Preview.of(train).grouped_by == ("patient",)
    with open_parts(train, None, test, loader="arrow", share=0.5, ctx=ctx) as parts:
        assert parts.validation is not None
        assert parts.test is not None
        three = (parts.training, parts.validation, parts.test)
        sides = [set(part.source.rows.columns(["patient"])["patient"].take(part.rows).to_pylist()) for part in three]
    assert all(sides)
    assert sum(map(len, sides)) == len(set().union(*sides)) == 12
    assert warnings_of(train, None, tmp_path) == []
    # Another column that somebody asks for parts the patients: that is said with its number.
    (found,) = warnings_of(train, None, tmp_path, group="id")
    assert re.match(r"\d+ groups of patient on both sides, trained on and validated on \(\d+ volumes", found)
    # The same with a table wired to validation; the column is not named again.
    plain, held_out, _ = split_dataset(train, validation=0.4, ctx=ctx)
    (found,) = warnings_of(plain, held_out, tmp_path)
    assert re.match(r"\d+ groups of patient on both sides", found)
    by_volume = split_dataset(table, validation=0.4, ctx=ctx)
    assert warnings_of(by_volume.train, by_volume.validation, tmp_path) == []


def test_whole_groups_are_held_back(tmp_path: Path, train: Dataset) -> None:
    ctx = context(tmp_path, "t")
    with open_parts(train, None, loader="arrow", share=0.5, group="patient", ctx=ctx) as parts:
        assert parts.validation is not None
        sides = [
            {part.source.rows.columns(["patient"])["patient"][row].as_py() for row in part.rows.tolist()}
            for part in (parts.training, parts.validation)
        ]
        assert not sides[0] & sides[1]
        assert sides[0] | sides[1] == {f"P{n}" for n in range(7)}
        assert len(parts.training.rows) + len(parts.validation.rows) == 20
    with (
        pytest.raises(DataError, match="no column survey"),
        open_parts(train, None, loader="arrow", share=0.5, group="survey", ctx=ctx),
    ):
        pass
