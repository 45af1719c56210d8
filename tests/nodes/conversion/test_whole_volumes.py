"""What is known of volumes after their voxels have moved: a survey's own numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import segyio
from npy_folders import context, parts_of, take

from engine.declare.datasets import Dataset, VolumeParquet
from nodes.conversion.formats import SURVEY
from nodes.conversion.formats.geometry import affine_in, text_of
from nodes.conversion.whole_volumes import moved
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.transform_volumes import transform_volumes
from nodes.transforms.steps import Axes, CropPad, Resample, apply_steps
from nodes.volume_file.parts import Parts, write_parts

NUMBERS = ("inline", "crossline", "time", "inline_step", "crossline_step", "time_step")
SHAPE = (10, 12, 20)
ROW: dict[str, Any] = {
    "inline": 100, "crossline": 201, "time": 1000.0, "inline_step": 2, "crossline_step": 3, "time_step": 4.0,
}  # fmt: skip


def after(row: dict[str, Any], *steps: Any) -> tuple[Any, ...]:
    _, matrix = apply_steps(steps, np.zeros(SHAPE, np.float32), row)
    found = moved(row, matrix)
    return tuple(found[name] for name in NUMBERS)


def write(path: Path) -> None:
    """A survey whose samples say where they are: 1000 * inline + crossline + milliseconds / 1000."""
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(SHAPE[2]) * 4.0, SHAPE[0] * SHAPE[1]
    with segyio.create(str(path), spec) as file:
        file.bin.update(hdt=4000)
        for trace in range(spec.tracecount):
            x, y = divmod(trace, SHAPE[1])
            inline, crossline = 100 + 2 * x, 201 + 3 * y
            file.header[trace] = {189: inline, 193: crossline, 181: 1000 + 25 * x, 185: 5000 + 25 * y}
            file.trace[trace] = (1000 * inline + crossline + np.arange(SHAPE[2]) * 0.004).astype(np.float32)


def converted(base: Path, **parameters: Any) -> tuple[dict[str, Any], pa.Schema]:
    """The one row of the table of `base / "in"` after TransformVolumes, and the table's columns."""
    return row_of(transformed(take(base / "in", base / "look", format="segy"), base, "first", **parameters))


def transformed(volumes: Dataset, base: Path, name: str, **parameters: Any) -> VolumeParquet:
    changed = transform_volumes(volumes, ctx=context(base / name, "change"), **parameters)
    return numpy_to_parquet(changed, ctx=context(base / name, "convert"))


def row_of(made: VolumeParquet) -> tuple[dict[str, Any], pa.Schema]:
    table = pq.read_table(Path(made.uri) / parts_of(made).parts[0].path)
    return table.to_pylist()[0], table.schema


def test_a_cropped_survey_says_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.sgy")
    row, schema = converted(tmp_path, size=(4, 4, 8))
    assert tuple(row[name] for name in NUMBERS) == (106, 213, 24.0, 2, 3, 4.0)
    kinds = dict(SURVEY)
    assert [str(schema.field(name).type) for name in NUMBERS] == [
        kinds[name].replace("float64", "double") for name in NUMBERS
    ]
    first, last = np.frombuffer(row["volume"], "<f4").reshape(4, 4, 8)[[0, -1], [0, -1], [0, -1]]
    # Nine digits of a float32 of 100,000: steps of 0.008.
    assert first == pytest.approx(1000 * 106 + 213 + 0.024, abs=0.008)
    assert last == pytest.approx(1000 * (106 + 3 * 2) + 213 + 3 * 3 + (24 + 7 * 4) / 1000, abs=0.008)


def test_rows_of_a_table_say_their_own_lines_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.sgy")
    once, schema = converted(tmp_path, size=(4, 4, 8))
    whole = numpy_to_parquet(take(tmp_path / "in", tmp_path / "look", format="segy"), ctx=context(tmp_path, "whole"))
    row, found = row_of(transformed(whole, tmp_path, "second", size=(4, 4, 8)))
    names = (*NUMBERS, "affine")
    assert {name: row[name] for name in names} == {name: once[name] for name in names}
    assert [found.field(name).type for name in names] == [schema.field(name).type for name in names]
    # Another program's time is no count of samples.
    (part,) = parts_of(whole).parts
    path = Path(whole.uri) / part.path
    table = pq.read_table(path)
    dated = table.set_column(table.column_names.index("time"), "time", pa.array(["2024-01-31"]))
    pq.write_table(dated, path, compression="none")
    write_parts(Parts(parts=(replace(part, bytes=path.stat().st_size),)), Path(whole.manifest))
    row, _ = row_of(transformed(whole, tmp_path, "third", size=(4, 4, 8)))
    assert (row["time"], row["inline"]) == ("2024-01-31", 100)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ((), (100, 201, 1000.0, 2, 3, 4.0)),
        ((CropPad((14, 0, 0)),), (96, 201, 1000.0, 2, 3, 4.0)),
        # Every second one from between the first two on: 101, 205 and a half, and 1002 ms.
        ((Resample(shape=(5, 6, 10)),), (101, None, 1002.0, 4, 6, 8.0)),
        ((Resample(shape=(20, 12, 40)),), (None, 201, 999.0, 1, 3, 2.0)),
        ((CropPad((4, 4, 8)), Resample(shape=(4, 4, 4))), (106, 213, 1026.0, 2, 3, 8.0)),
        ((Axes("YXZ"),), (None, None, 1000.0, None, None, 4.0)),
        ((Axes("ZYX"),), (None, 201, None, None, 3, None)),
    ],
)
def test_numbers_follow_what_moved_the_voxels(steps: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    found = after(ROW, *steps)
    assert found == wanted
    assert [type(value) for value in found[:2] if value is not None] == [int] * sum(v is not None for v in wanted[:2])


def test_numbers_are_those_of_the_affine() -> None:
    """Where the world counts as the lines do, both say the same of the first voxel."""
    affine = np.array([[2.0, 0, 0, 100], [0, 3, 0, 201], [0, 0, 4, 1000], [0, 0, 0, 1]])
    row = ROW | {"affine": text_of(affine), "affine_space": "CDP X, CDP Y, ms"}
    _, matrix = apply_steps((CropPad((6, 5, 9)), Resample(shape=(6, 5, 3))), np.zeros(SHAPE, np.float32), row)
    found = moved(row, matrix)
    place = affine_in(found["affine"])
    assert place is not None
    assert [found[name] for name in NUMBERS[:3]] == place[:3, 3].tolist()
    assert [found[name] for name in NUMBERS[3:]] == np.diag(place)[:3].tolist()


def test_what_is_not_known_any_more_is_none() -> None:
    assert moved(ROW, None) == dict.fromkeys(NUMBERS)
    reversed_lines = np.diag([-1.0, 1, 1, 1])
    reversed_lines[0, 3] = SHAPE[0] - 1
    assert moved(ROW, reversed_lines) == ROW | {"inline": None, "inline_step": None}
    turned = np.eye(4)
    turned[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    assert moved(ROW, turned) == ROW | dict.fromkeys(("inline", "inline_step", "crossline", "crossline_step"))
    assert moved({"time": 5.0}, None) == {"time": 5.0}, "a column of another format"
