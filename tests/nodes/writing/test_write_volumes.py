"""`write_volumes`: what a function makes of a table's rows, or of ids, becomes a dataset, and no row is made twice."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import examples
from npy_folders import context, convert, make_volumes, numbered, parts_of, rows, take
from numpy.typing import NDArray
from readme_nodes import readme_blur

from engine.declare.datasets import Dataset, Selection, VolumeDelta, VolumeParquet
from engine.declare.events import Message
from engine.declare.node_step import node_step
from engine.errors import DataError, UsageError
from nodes.loaders import open_source
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.transform_volumes import transform_volumes
from nodes.writing import made_rows
from nodes.writing.volumes import MakeVolumes, Volumes
from nodes.writing.write import write_volumes

SHAPE = (25, 25, 10, 4)
"""100 kB: ten of them make a part of 1 MB."""


def doubled(batch: Volumes) -> NDArray[Any]:
    return batch.volumes * 2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def table_of(
    root: Path, base: Path, before: tuple[VolumeParquet, VolumeDelta] | None = None
) -> tuple[VolumeParquet, VolumeDelta]:
    """The folder as parts and as a Delta table, gone on from before."""
    parquet = convert(root, base, previous=before[0] if before else None, target_file_mb=1)
    ctx = context(base, "delta", parquet.manifest[-34:-18], previous={"out": before[1]} if before else {})
    return parquet, parquet_to_delta(parquet, ctx=ctx)


class Made:
    """Runs of one node: each goes on from the one before."""

    def __init__(self, base: Path, function: MakeVolumes = doubled) -> None:
        self.base, self.function, self.runs, self.said = base, function, 0, ""
        self.made: list[str] = []
        """Ids that the function was given in the last run, without the first row that it is tried with."""
        self.out: VolumeParquet | None = None

    def __call__(self, like: Dataset | None = None, **options: Any) -> VolumeParquet:
        self.runs += 1
        self.made = []

        def hear(event: Any) -> None:
            if isinstance(event, Message):
                self.said = event.text

        def function(batch: Volumes) -> NDArray[Any] | Volumes:
            self.made += batch.ids
            return self.function(batch)

        ctx = context(
            self.base,
            "it",
            f"{self.runs:016d}".ljust(32, "0"),
            previous={"out": self.out} if self.out else {},
            emit=hear,
        )
        self.out = write_volumes(ctx, like=like, batches=function, target_file_mb=1, **options)
        del self.made[0]
        return self.out


@pytest.mark.slow
def test_every_row_becomes_what_the_function_makes_of_it(root: Path, tmp_path: Path) -> None:
    volumes = make_volumes(root, numbered(25), SHAPE)
    lines = [f"v{n:04d},{n % 2},P{n % 3}" for n in range(20)]
    (root / "labels.csv").write_text("file,label,patient\n" + "\n".join(lines))
    parquet, delta = table_of(root, tmp_path / "data")
    halved = Made(tmp_path / "a", lambda batch: (batch.volumes[:, ::2] / 2).astype("float64"))
    for like in (parquet, delta):
        out = halved(like)
        assert out.spec is not None
        assert (out.count, out.labelled, out.spec.shape, out.spec.dtype) == (25, 20, (13, 25, 10, 4), "float64")
        assert out.spec.classes == parquet.spec.classes if parquet.spec else ()
        found = rows(out)
        assert found.keys() == volumes.keys()
        for name, (label, data) in found.items():
            assert data == (volumes[name][::2] / 2).astype("<f8").tobytes()
            assert label == (int(name[1:5]) % 2 if int(name[1:5]) < 20 else None)
        columns = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts_of(out).parts])
        assert columns["patient"].to_pylist().count("P1") == 7
        assert out.check() == ""
        with closing(open_source("arrow", out, cores=2)) as source:
            assert source.read_path == "mapped"
    assert halved.made == [], "the rows of the table are those of its parts"
    assert "0 volumes converted now" in halved.said


@pytest.mark.slow
def test_a_grown_table_costs_its_new_rows_and_a_compaction_none(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(30), SHAPE)
    data = table_of(root, tmp_path / "data")
    made = Made(tmp_path / "a")
    first = made(data[1])
    make_volumes(root, numbered(15, start=50), SHAPE, seed=1)
    data = table_of(root, tmp_path / "data", data)
    second = made(data[1])
    assert sorted(made.made) == numbered(15, start=50)
    before = {p.path for p in parts_of(first).parts}
    assert before < {p.path for p in parts_of(second).parts}
    compacted = optimize_delta(
        data[1], target_file_mb=100, min_fill=0.9, ctx=context(tmp_path / "data", "optimize", "9" * 32)
    )
    assert compacted.files < data[1].files
    third = made(compacted)
    assert made.made == []
    assert rows(third) == rows(second)


@pytest.mark.slow
def test_a_selection_and_its_rest_are_all_rows(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(60), (4, 3, 2))
    delta = table_of(root, tmp_path / "data")[1]
    selection = Selection(salt="x", low=0.2, high=0.7)
    parts = [
        rows(Made(tmp_path / str(n))(delta.select(s)))
        for n, s in enumerate((selection, selection.model_copy(update={"outside": True})))
    ]
    assert parts[0].keys() == {name for name in numbered(60) if selection.holds(name)}
    assert not parts[0].keys() & parts[1].keys()
    assert {**parts[0], **parts[1]} == rows(Made(tmp_path / "all")(delta))


def test_labels_and_columns_of_the_functions_own(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(12), (4, 3, 2))
    (root / "labels.csv").write_text("file,label,age\n" + "\n".join(f"v{n:04d},a,{n}" for n in range(12)))

    def scored(batch: Volumes) -> Volumes:
        means = [float(v.mean()) if v.mean() > 50 else None for v in batch.volumes]
        labels = np.where(np.array([n is None for n in means]), np.nan, 1)
        return replace(batch, volumes=batch.volumes > 50, labels=labels, columns={**batch.columns, "mean": means})

    with pytest.raises(DataError, match="type bool"):
        Made(tmp_path / "bool", scored)(convert(root, tmp_path / "data"))
    out = Made(tmp_path / "a", lambda batch: replace(scored(batch), volumes=(batch.volumes > 50).astype("u1")))(
        convert(root, tmp_path / "data"), classes=("low", "high"), column_types={"mean": "float64"}
    )
    table = pq.read_table(Path(out.uri) / parts_of(out).parts[0].path)
    assert table.schema.field("mean").type == pa.float64()
    assert table.schema.field("age").type == pa.int64()
    assert table["age"].to_pylist() == list(range(12))
    assert table["mean"].null_count == table["label"].null_count == 12 - out.labelled > 0
    assert out.spec is not None
    assert (out.spec.classes, out.spec.dtype) == (("low", "high"), "uint8")


def chain_of(out: VolumeParquet) -> list[str]:
    assert out.spec is not None
    return [each.words for each in out.spec.transforms]


@pytest.mark.slow
def test_the_node_stands_in_the_chain_of_what_it_makes(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(12), (4, 3, 2))
    clipped = transform_volumes(take(root, tmp_path / "in"), clip_high=50.0, ctx=context(tmp_path, "clip"))
    parquet = numpy_to_parquet(clipped, ctx=context(tmp_path, "convert"))
    delta = parquet_to_delta(parquet, ctx=context(tmp_path, "delta"))
    first = node_step("Blur", {"sigma": 1.5}, "abc", "Blur sigma=1.5")
    for like in (parquet, delta):
        made = write_volumes(context(tmp_path, "it", step=first), like=like, batches=doubled)
        assert chain_of(made) == ["clip above 50", "Blur sigma=1.5"]
    table = parquet_to_delta(made, ctx=context(tmp_path, "of-it"))
    assert open_table(table.uri, table.version).spec == made.spec, "the table says so by itself"
    again = write_volumes(context(tmp_path, "without-engine"), like=table, batches=doubled)
    assert chain_of(again) == ["clip above 50", "Blur sigma=1.5", "without-engine"]
    assert chain_of(Made(tmp_path / "ids", lambda batch: np.zeros((len(batch), 3, 3)))(ids=["a", "b"])) == []


@pytest.mark.slow
def test_some_rows_of_a_table_by_their_ids(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(20), (4, 3, 2))
    (root / "labels.csv").write_text("file,label,age\n" + "\n".join(f"v{n:04d},{n % 2},{n}" for n in range(20)))
    for like in table_of(root, tmp_path / "data"):
        taken = Made(tmp_path / type(like).__name__, lambda batch: batch.volumes)
        out = taken(like, ids=["v0017.npy", "v0003.npy", "v0004.npy"], keeps_values=True)
        everything = rows(like) if isinstance(like, VolumeParquet) else rows(table_of(root, tmp_path / "data")[0])
        assert rows(out) == {name: everything[name] for name in ("v0003.npy", "v0004.npy", "v0017.npy")}
        assert out.spec == like.spec
        table = pq.read_table(Path(out.uri) / parts_of(out).parts[0].path)
        assert table["age"].to_pylist() == [3, 4, 17]
        with pytest.raises(DataError, match="has no volume 'x', nor 1 other of the ids"):
            taken(like, ids=["v0001.npy", "x", "y"])
        with pytest.raises(DataError, match="no ids"):
            taken(like, ids=[])
        with pytest.raises(DataError, match=r"v0001.* comes twice"):
            taken(like, ids=["v0001.npy", "v0001.npy"])
    part = like.select(Selection(salt="x", low=0, high=0)) if isinstance(like, VolumeDelta) else None
    assert part is not None
    with pytest.raises(DataError):
        taken(part, ids=["v0001.npy"])


def test_a_function_that_keeps_all_values_is_not_in_the_chain(root: Path, tmp_path: Path) -> None:
    volumes = make_volumes(root, numbered(12), (4, 3, 2))
    volumes["v0005.npy"][0, 0, 0] = np.nan
    np.save(root / "v0005.npy", volumes["v0005.npy"])
    parquet = convert(root, tmp_path / "data", not_finite="keep")

    def relabelled(batch: Volumes) -> Volumes:
        return replace(batch, labels=np.ones(len(batch), np.float32))

    out = Made(tmp_path / "a", relabelled)(parquet, keeps_values=True)
    assert out.spec == parquet.spec
    assert {label for label, _ in rows(out).values()} == {1.0}

    def in_place(batch: Volumes) -> Volumes:
        if "v0007.npy" in batch.ids and len(batch) > 1:
            batch.volumes[batch.ids.index("v0007.npy"), 3, 2, 1] += 1
        return batch

    with pytest.raises(DataError, match=r"changed the volumes of v0000\.npy \.\.\. v0011\.npy, and keeps_values"):
        Made(tmp_path / "b", in_place)(parquet, keeps_values=True)
    for wider in (lambda batch: batch.volumes.astype("float64"), lambda batch: batch.volumes[:, :2]):
        with pytest.raises(DataError, match="keeps_values"):
            Made(tmp_path / "c", wider)(parquet, keeps_values=True)


def test_volumes_of_ids_alone_and_more_of_them(tmp_path: Path) -> None:
    def simulated(batch: Volumes) -> NDArray[Any]:
        assert batch.volumes.shape == (len(batch), 0)
        return np.stack([np.full((50, 50, 10), int(name[4:]), "int32") for name in batch.ids])

    made = Made(tmp_path, simulated)
    first = made(ids=[f"run-{n:03d}" for n in range(30)])
    assert rows(first)["run-007"] == (None, np.full(25_000, 7, "<i4").tobytes())
    second = made(ids=[f"run-{n:03d}" for n in range(40)])
    assert sorted(made.made) == [f"run-{n:03d}" for n in range(30, 40)]
    assert second.count == 40
    with pytest.raises(DataError, match="'run-001' comes twice"):
        made(ids=["run-001", "run-002", "run-001"])
    with pytest.raises(DataError, match="no ids"):
        made(ids=[])


def test_other_code_makes_all_again_and_its_parts_have_other_names(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_volumes(root, numbered(20), SHAPE)
    parquet = convert(root, tmp_path / "data", target_file_mb=1)
    made = Made(tmp_path / "a")
    first = {p.path for p in parts_of(made(parquet)).parts}
    monkeypatch.setattr(made_rows, "_code_of", lambda function: "another")
    made.function = lambda batch: batch.volumes * 3
    second = {p.path for p in parts_of(made(parquet)).parts}
    assert sorted(made.made) == numbered(20)
    assert not first & second
    monkeypatch.undo()
    assert len(made_rows._code_of(doubled)) == 32
    assert made_rows._code_of(doubled) != made_rows._code_of(open_source)  # type: ignore[arg-type]


def test_what_cannot_be_stored_is_reported_with_its_row(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(12), (4, 3, 2))
    parquet = convert(root, tmp_path / "data")

    def fails(function: MakeVolumes, message: str, kind: type[Exception] = DataError, **options: Any) -> Exception:
        with pytest.raises(kind, match=message) as caught:
            Made(tmp_path / "a", function)(parquet, **options)
        return caught.value

    fails(lambda batch: batch.volumes[:0], r"an array of the shape \(0, 4, 3, 2\), .* for the 1 volume v0000.npy")
    fails(lambda batch: batch.volumes.astype("complex64"), "complex64")
    fails(lambda batch: batch.volumes[:, :0], "shape")
    fails(lambda batch: batch.volumes[:, : len(batch)], "and 1x3x2 float32 of the first volume")
    fails(lambda batch: replace(batch, labels=np.full(len(batch), np.inf)), "infinite label for 'v0000.npy'")
    fails(lambda batch: replace(batch, ids=(*batch.ids[::-1], "x")), "as many|2 ids")
    fails(lambda batch: replace(batch, columns={"id": ["x"] * len(batch)}), "column id")
    fails(lambda batch: replace(batch, columns={"n": [len(batch)] if len(batch) == 1 else ["a"] * 12}), "n from 'v0000")
    fails(doubled, "no column mean", column_types={"mean": "float64"})
    note = fails(lambda batch: batch.volumes / batch.nothing, "nothing", AttributeError).__notes__  # type: ignore[attr-defined]
    assert note == ["while making volumes of v0000.npy"]
    with pytest.raises(UsageError, match="given generator for batches") as caught:
        write_volumes(context(tmp_path, "g"), batches=(v for v in [doubled]))  # type: ignore[arg-type]
    assert "ids=[...]" in caught.value.hint
    for wrong, named in ((None, "neither"), (take(root, tmp_path / "files"), "VolumeFiles")):
        with pytest.raises(UsageError, match=named):
            write_volumes(context(tmp_path, "g"), batches=doubled, like=wrong)


@pytest.fixture(scope="module")
def in_groups(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, VolumeDelta, dict[str, bytes]]:
    base = tmp_path_factory.mktemp("groups")
    (base / "in").mkdir()
    volumes = make_volumes(base / "in", numbered(50), (4, 3, 2), dtype="int16")
    parquet = convert(base / "in", base, row_group_rows=7)
    delta = parquet_to_delta(parquet, ctx=context(base, "delta", "1" * 32))
    return base, delta, {name: (volume * 2).astype("<i2").tobytes() for name, volume in volumes.items()}


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(st.floats(0, 0.9), st.floats(0.05, 1), st.integers(1, 20))
def test_any_rows_of_any_row_groups(
    in_groups: tuple[Path, VolumeDelta, dict[str, bytes]], low: float, share: float, group: int
) -> None:
    base, delta, expected = in_groups
    selection = Selection(salt="s", low=low, high=min(1.0, low + share))
    chosen = {name for name in expected if selection.holds(name)}
    if chosen:
        out = Made(base / f"{low}-{share}-{group}")(delta.select(selection), row_group_rows=group)
        assert {name: data for name, (_, data) in rows(out).items()} == {name: expected[name] for name in chosen}


def test_the_readmes_blur_is_scipys(root: Path, tmp_path: Path) -> None:
    """The example of nodes/README.md on a table that grows."""
    from scipy.ndimage import gaussian_filter

    names: dict[str, Any] = {}
    exec(compile(readme_blur(), "blur.py", "exec"), names)
    volumes = make_volumes(root, numbered(12), (8, 8, 6, 2))
    parquet = convert(root, tmp_path / "data")
    first = names["blur"](parquet, sigma=0.7, ctx=context(tmp_path, "blur", "1" * 32))
    volumes |= make_volumes(root, numbered(3, start=12), (8, 8, 6, 2), seed=1)
    grown = convert(root, tmp_path / "data", previous=parquet)
    ctx = context(tmp_path, "blur", "2" * 32, previous={"out": first})
    found = rows(names["blur"](grown, sigma=0.7, ctx=ctx))
    assert found.keys() == volumes.keys()
    for name, volume in volumes.items():
        expected = np.stack([gaussian_filter(volume[..., c], 0.7) for c in range(2)], axis=-1)
        np.testing.assert_allclose(np.frombuffer(found[name][1], "<f4").reshape(volume.shape), expected, rtol=1e-5)
