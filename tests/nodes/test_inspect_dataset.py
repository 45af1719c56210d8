from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, dataset_of, ids, label_of, shards, volume_of, write_shard
from numpy.typing import NDArray

from engine.declare.datasets import Selection, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, UsageError
from nodes.inspect_dataset import inspect_dataset
from nodes.inspection import dataset_statistics
from nodes.inspection.dataset_report import middle_plane, png
from nodes.inspection.dataset_statistics import measure
from nodes.parquet_to_delta import parquet_to_delta
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.parts import Part, read_parts


def _volumes(volume_ids: list[str], spec: VolumeSpec = SPEC) -> NDArray[Any]:
    return np.stack([np.frombuffer(volume_of(i, spec), spec.dtype).reshape(spec.shape) for i in volume_ids])


def _sized(part: Part, folder: Path) -> Part:
    """The part of a file that was written again."""
    return replace(part, bytes=(folder / part.path).stat().st_size)


def test_labels_are_counted_and_values_measured(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 30, 40, 5)
    found = measure(dataset, 1000, context(tmp_path))
    assert found.labels == dict(
        sorted(Counter(map(label_of, ids(0, 75))).items(), key=lambda i: (i[0] is None, i[0] or 0))
    )
    assert found.volumes == found.values.volumes == 75
    flat = _volumes(ids(0, 75)).reshape(-1, 1).astype(float)
    np.testing.assert_array_equal(found.values.least, flat.min(axis=0))
    np.testing.assert_array_equal(found.values.most, flat.max(axis=0))
    np.testing.assert_allclose(found.values.mean, flat.mean(axis=0))
    np.testing.assert_allclose(found.values.std, flat.std(axis=0))


def test_a_label_that_is_nan_is_none(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 8)
    (part,) = read_parts(dataset).parts
    path = tmp_path / "p" / part.path
    rows = pq.read_table(path)
    labels = pa.array([0, np.nan, 1, np.nan, None, 1, 1, 0], pa.float32())
    with pq.ParquetWriter(path, schema(SPEC), **writer_options()) as writer:
        writer.write_table(rows.set_column(1, "label", labels).cast(schema(SPEC)))
    dataset = dataset_of(tmp_path / "p", [_sized(part, tmp_path / "p")])
    report = inspect_dataset(dataset, ctx=context(tmp_path))
    assert {name: n for name, n in report.figures.items() if "label" in name} == {
        "labelled": 5,
        "label a": 2,
        "label b": 3,
    }
    # As Spark counts them: NaN is a group of its own there.
    found = measure(dataset, 1, context(tmp_path), lambda task: {0.0: 2, 1.0: 3, None: 1, float("nan"): 2})
    assert found.labels == {0.0: 2, 1.0: 3, None: 3}


@pytest.mark.slow
@pytest.mark.parametrize("sample", [1, 7, 30, 75, 76])
def test_the_sample_is_bounded_spread_and_the_same_each_time(tmp_path: Path, sample: int) -> None:
    dataset = shards(tmp_path / "p", 30, 40, 5)
    found = measure(dataset, sample, context(tmp_path))
    assert found.values.volumes == min(sample, 75)
    again = measure(dataset, sample, context(tmp_path))
    np.testing.assert_array_equal(found.values.mean, again.values.mean)


def test_a_sample_reaches_all_files(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *[12] * 6)
    found = measure(dataset, 24, context(tmp_path))
    assert found.values.volumes == 24
    # Six blocks of four, one in each file: the picture's ids tell the first six volumes.
    assert {name.split(" ")[0] for name, _ in found.pictures} == set(ids(0, 4) + ids(12, 2))


def test_a_table_gives_the_same_figures(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 30, 40, 5)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    one, two = (inspect_dataset(d, ctx=context(tmp_path, "i")).figures for d in (dataset, table))
    assert two == one | {"version": table.version}
    assert (one["volumes"], one["files"], one["shape"], one["dtype"]) == (75, 3, "4x3x2", "float32")
    assert one["label a"] == sum(label_of(i) == 0 for i in ids(0, 75))
    assert one["labelled"] == table.labelled


def test_a_selection_is_what_is_measured(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 100), ctx=context(tmp_path))
    selection = Selection(salt="s", low=0, high=0.3)
    members = [i for i in ids(0, 100) if selection.holds(i)]
    found = measure(table.select(selection), 1000, context(tmp_path))
    assert found.labels == Counter(map(label_of, members))
    assert found.values.volumes == len(members)
    assert found.values.mean.mean() == pytest.approx(_volumes(members).mean(dtype=float))
    small = measure(table.select(selection), 8, context(tmp_path))
    assert small.values.volumes == 8


def _with_volumes(folder: Path, volumes: NDArray[Any], spec: VolumeSpec) -> VolumeParquet:
    """One file with these volumes, in their order."""
    rows = {"id": ids(0, len(volumes)), "label": pa.nulls(len(volumes), pa.float32()), "volume": [*map(bytes, volumes)]}
    part = write_shard(folder, rows["id"], spec=spec)
    with pq.ParquetWriter(folder / part.path, schema(spec), **writer_options()) as writer:
        writer.write_table(pa.table(rows, schema=schema(spec)))
    return dataset_of(folder, [_sized(part, folder)]).model_copy(update={"spec": spec})


@pytest.mark.parametrize("sample", [50, 100])
def test_the_sample_of_a_part_that_lies_close_together_is_spread(tmp_path: Path, sample: int) -> None:
    """All of the first half belongs to it and a fifth of the second, though nominally a fifth of all does."""
    spec = VolumeSpec(shape=(1,), dtype="float32")
    table = parquet_to_delta(
        _with_volumes(tmp_path / "p", np.repeat([[0], [1000]], 500, axis=0).astype(np.float32), spec),
        ctx=context(tmp_path),
    )
    late = [i for i in ids(500, 500) if Selection(salt="s", low=0, high=0.2).holds(i)]
    members = {*ids(0, 500), *late}

    def holds(_: Any, columns: Any) -> NDArray[np.bool_]:
        return np.array([i in members for i in columns["id"].to_pylist()], bool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_statistics, "held", holds)
        found = measure(table.select(Selection(salt="s", low=0, high=0.2)), sample, context(tmp_path))
    assert (found.volumes, found.values.volumes) == (len(members), sample)
    assert found.values.mean[0] == pytest.approx(1000 * len(late) / len(members), abs=60)


def test_a_few_volumes_in_one_place_are_all_found(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 300), ctx=context(tmp_path))
    last = Selection(salt="s", low=0, high=1, by=("id",), since=ids(290, 1)[0])
    for sample, wanted in ((4, 4), (10, 10), (100, 10)):
        assert measure(table.select(last), sample, context(tmp_path)).values.volumes == wanted
    none = Selection(salt="s", low=0, high=1, by=("id",), since=ids(300, 1)[0])
    assert measure(table.select(none), 10, context(tmp_path)).values.volumes == 0


@pytest.mark.parametrize(("dtype", "mean", "apart"), [("float64", 1e8, 1.0), ("uint32", 4e9, 10.0)])
def test_the_deviation_of_values_far_from_0(tmp_path: Path, dtype: str, mean: float, apart: float) -> None:
    spec = VolumeSpec(shape=(3, 2, 2, 1), dtype=dtype)
    values = (mean + apart * np.random.default_rng(0).normal(size=(30, *spec.shape))).astype(dtype)
    found = measure(_with_volumes(tmp_path / "p", values, spec), 30, context(tmp_path))
    assert found.values.std[0] == pytest.approx(values.astype(float).std(), rel=1e-7)
    assert found.figures()["mean"] == pytest.approx(values.astype(float).mean())


def test_values_that_are_not_finite_are_counted_and_left_out(tmp_path: Path) -> None:
    volumes = _volumes(ids(0, 3)).copy()
    volumes[0, 0, 0, 0] = np.nan
    volumes[1, :, :, 1] = np.inf
    table = pa.table(
        {"id": ids(0, 3), "label": pa.array([None, 5, 0], pa.float32()), "volume": [v.tobytes() for v in volumes]},
        schema=schema(SPEC),
    )
    part = write_shard(tmp_path / "p", ids(0, 3))
    with pq.ParquetWriter(tmp_path / "p" / part.path, schema(SPEC), **writer_options()) as writer:
        writer.write_table(table)
    found = measure(dataset_of(tmp_path / "p", [_sized(part, tmp_path / "p")]), 10, context(tmp_path))
    assert found.values.not_finite == 1 + 12
    assert found.values.most.max() <= 100
    assert [found.label_name(label) for label in found.labels] == ["a", "5", "no label"]
    assert [found.label_name(label) for label in (1234567.0, 1234568.0)] == ["1234567", "1234568"]


def test_the_page_is_safe_and_the_figures_are_json(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"classes": ("<script>alert(1)</script>", "b & c")})
    dataset = shards(tmp_path / "p", 9, spec=spec)
    ctx = context(tmp_path)
    events: list[Any] = []
    object.__setattr__(ctx, "emit", events.append)
    report = inspect_dataset(dataset, ctx=ctx)
    page = Path(report.uri).read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "b &amp; c" in page
    assert page.count("data:image/png;base64,") == 6
    assert page.startswith("<!doctype html>")
    figures = json.loads((ctx.out / "figures.json").read_text())
    assert figures["volumes"] == 9
    assert figures["labels"]["b & c"] == sum(label_of(i) == 1 for i in ids(0, 9))
    assert len(figures["channels"]) == 1
    assert [Path(e.path).name for e in events if e.event == "artifact"] == ["dataset.html", "figures.json"]


def test_a_channel_without_a_finite_value_is_reported_as_such(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["a"],
            "label": pa.array([None], pa.float32()),
            "volume": [np.full(SPEC.shape, np.nan, np.float32).tobytes()],
        },
        schema=schema(SPEC),
    )
    part = write_shard(tmp_path / "p", ids(0, 1))
    with pq.ParquetWriter(tmp_path / "p" / part.path, schema(SPEC), **writer_options()) as writer:
        writer.write_table(table)
    ctx = context(tmp_path)
    report = inspect_dataset(dataset_of(tmp_path / "p", [_sized(part, tmp_path / "p")]), ctx=ctx)
    assert "minimum" not in report.figures
    assert json.loads((ctx.out / "figures.json").read_text())["channels"][0]["minimum"] is None


@pytest.mark.parametrize(
    ("shape", "dtype", "channels"),
    [
        ((5,), "uint8", 1),
        ((5, 4), "int64", 1),
        ((6, 5, 8), "int16", 1),
        ((6, 5, 4, 3), "float16", 3),
        ((3, 4, 5, 2, 2), "float64", 4),
    ],
)
def test_any_shape_and_dtype(tmp_path: Path, shape: tuple[int, ...], dtype: str, channels: int) -> None:
    """Axes are X, Y, Z, then channels: three have one channel, of five the last two are channels."""
    spec = VolumeSpec(shape=shape, dtype=dtype)
    found = measure(shards(tmp_path / "p", 4, spec=spec), 10, context(tmp_path))
    assert found.values.mean.shape == (channels,)
    np.testing.assert_allclose(found.values.mean, _volumes(ids(0, 4), spec).reshape(-1, channels).astype(float).mean(0))
    for _, volume in found.pictures:
        plane = middle_plane(volume)
        assert (plane is None) == (len(shape) < 2)
        if plane is not None:
            middle = volume if len(shape) == 2 else volume[:, :, shape[2] // 2].reshape(*shape[:2], -1)[..., 0]
            np.testing.assert_array_equal(plane, middle)


def test_values_whose_sum_is_infinite_have_no_mean(tmp_path: Path) -> None:
    """As the least number of float64 for what is no data."""
    spec = VolumeSpec(shape=(3, 2, 2), dtype="float64")
    values = np.ones((2, *spec.shape))
    values[:, 0] = np.finfo(np.float64).min
    ctx = context(tmp_path)
    report = inspect_dataset(_with_volumes(tmp_path / "p", values, spec), ctx=ctx)
    assert (report.figures["minimum"], report.figures["maximum"]) == (values.min(), 1)
    assert "mean" not in report.figures
    (channel,) = json.loads((ctx.out / "figures.json").read_text())["channels"]
    assert channel == {"minimum": values.min(), "mean": None, "maximum": 1, "std": None}
    assert "nan" not in Path(report.uri).read_text().split("<h2>Size of files")[0].lower()


def test_pictures_are_real_png() -> None:
    plane = np.array([[0.0, 1.0, 2.0], [np.nan, 4.0, np.inf]])
    data = png(plane)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    start = data.index(b"IDAT") + 4
    raw = zlib.decompress(data[start : data.index(b"IEND") - 8])
    rows = np.frombuffer(raw, np.uint8).reshape(2, 4)
    assert rows[:, 0].tolist() == [0, 0]
    assert rows[0, 1:].tolist() == [0, 63, 127]
    assert png(np.zeros((2, 2)))[:4] == b"\x89PNG"
    far = np.array([[48_000.0, 48_002.0], [np.nan, 48_004.0]])
    data = png(far)
    raw = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8])
    assert [*raw] == [0, 0, 127, 0, 0, 255], "what is no number leaves the others their greys"
    assert png(np.full((2, 2), np.nan))[:4] == b"\x89PNG"


def test_a_page_without_room_for_all_labels_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.inspection.dataset_report.LABELS_SHOWN", 1)
    report = inspect_dataset(shards(tmp_path / "p", 30), ctx=context(tmp_path))
    labels = len(json.loads(Path(report.uri).with_name("figures.json").read_text())["labels"])
    assert labels > 1
    assert f"<h2>Labels, the first 1 of {labels} labels; all are in figures.json</h2>" in Path(report.uri).read_text()


def test_an_empty_or_broken_dataset_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no volumes"):
        measure(dataset_of(tmp_path / "p", []), 10, context(tmp_path))
    dataset = shards(tmp_path / "p", 3)
    (part,) = read_parts(dataset).parts
    (tmp_path / "p" / part.path).write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"every file of .* has 4 bytes, not"):
        measure(dataset, 10, context(tmp_path))
    wrong = SPEC.model_copy(update={"shape": (4, 3, 3)})
    other = shards(tmp_path / "q", 3).model_copy(update={"spec": wrong})
    with pytest.raises(DataError, match="96 bytes, not 144"):
        measure(other, 10, context(tmp_path))


def test_a_table_in_object_storage_is_refused_with_what_reads_it_there(tmp_path: Path) -> None:
    table = VolumeDelta(uri="az://volumes/my table", count=3, bytes=9, version=1, data_version=0, spec=SPEC)
    with pytest.raises(UsageError, match="InspectDataset reads local folders, and az://volumes/my table") as caught:
        inspect_dataset(table, ctx=context(tmp_path))
    assert "`voxelflow verify 'az://volumes/my table'`" in str(caught.value.hint)


def test_damaged_files_are_reported_and_left_out(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 30, 40, 5)
    damaged = read_parts(dataset).parts[1]
    path = tmp_path / "p" / damaged.path
    data = bytearray(path.read_bytes())
    at = data.find(volume_of(ids(33, 1)[0]))
    data[at + 7] ^= 4
    path.write_bytes(data)
    ctx = context(tmp_path)
    events: list[Any] = []
    object.__setattr__(ctx, "emit", events.append)
    report = inspect_dataset(dataset, ctx=ctx)
    assert (report.figures["volumes"], report.figures["damaged_files"]) == (35, 1)
    assert report.figures["without_checksum"] == 0
    page = Path(report.uri).read_text()
    assert damaged.path in page
    assert ids(33, 1)[0] in page
    (warning,) = [e.text for e in events if getattr(e, "level", "") == "warning"]
    assert damaged.path in warning
    assert f"`voxelflow verify {dataset.uri}`" in warning
