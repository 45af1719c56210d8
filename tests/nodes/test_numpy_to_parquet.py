from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from npy_folders import (
    Listener,
    bytes_of,
    contents,
    context,
    convert,
    hostile_folder,
    labels_in,
    look,
    make_volumes,
    numbered,
    parts_of,
    read_quarantine,
    reasons,
    rows,
    sources_of,
    take,
    write_labels,
)

from engine.declare.datasets import VolumeSpec
from engine.declare.progress import current_reporter
from engine.document.path_checks import passed_over
from engine.errors import Cancelled, DataError, TooManyBadFiles
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.volume_file.layout import spec_of
from nodes.volume_folder import volume_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the volumes, still empty."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def test_a_hostile_folder(root: Path, tmp_path: Path) -> None:
    good, bad, proof = hostile_folder(root)
    out = convert(root, tmp_path / "work", max_bad_files=len(bad))
    assert reasons(out) == bad
    assert contents(out) == bytes_of(good)
    assert out.found == out.count + out.quarantined == len(good) + len(bad)
    assert not proof.exists()
    refused = {s["path"]: s["reason"] for s in sources_of(out) if s["reason"] is not None}
    assert refused == bad
    assert all(s["problem"] for s in sources_of(out) if s["reason"])


def test_links_pipes_and_capital_endings_are_counted(root: Path, tmp_path: Path) -> None:
    make_volumes(root, ["a.npy"])
    np.save(tmp_path / "shared.npy", np.load(root / "a.npy"))
    os.replace(tmp_path / "shared.npy", root / "X.NPY")
    make_volumes(tmp_path / "elsewhere", ["b.npy"])
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "annexed.npy").symlink_to("../.git/annex/objects/nothing")
    (root / "loop.npy").symlink_to("loop.npy")
    (root / "device.npy").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe.npy")
    out = convert(root, tmp_path / "work", max_bad_files=4)
    assert sorted(rows(out)) == ["X.NPY", "a.npy", "linked/b.npy"]
    assert reasons(out) == dict.fromkeys(["annexed.npy", "device.npy", "loop.npy", "pipe.npy"], "unreadable")
    assert out.found == out.count + out.quarantined == 7
    problems = {s["path"]: s["problem"] for s in sources_of(out)}
    assert problems["annexed.npy"] == "is a link: git-annex has not fetched its content"
    assert problems["loop.npy"] == "is a link: it leads to itself"


@pytest.fixture
def everything(root: Path, tmp_path: Path) -> int:
    """Fills `root` with all that people have in one folder; how many of it look like volumes, counted by itself."""
    beside = tmp_path / "elsewhere"
    hostile_folder(root)
    make_volumes(root, ["deep/er/a.npy", "X.NPY", "Mixed.nPy", ".hidden.npy", ".hidden/b.npy"])
    make_volumes(beside, ["b.npy", "c.npY"])
    for name in ("a.npz", "Y.NPZ", "deep/b.npz", "Mixed.nPz"):
        np.savez(root / "volume.npz", np.load(root / "v0000.npy"))
        (root / "volume.npz").rename(root / name)
    for name in ("p.nii", "deep/q.nii.gz", "R.NII", "empty.npz", "notes.txt", "README"):
        (root / name).write_bytes(b"")
    write_labels(root / "labels.csv", [("v0001", 1)])
    links: dict[str, str | Path] = {
        "linked": beside,
        "deep/linked-again": beside,
        "in-a-circle": root / "deep",
        "same.npy": "v0001.npy",
        "device.npy": "/dev/zero",
        "to-a-folder.nii": "deep",
        "annexed.npy": "../.git/annex/objects/nothing",
        "annexed.nii.gz": "../.git/annex/objects/nothing",
        "lost.npz": "/nowhere",
        "lost.nPy": "/nowhere",
        "deep/lost-folder": "/nowhere",
        "loop.npy": "loop.npy",
        "loop": "loop",
        "around": "..",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    endings = (".npy", ".npz", ".nii", ".nii.gz")
    files = [
        os.path.join(folder, name)
        for top in (root, beside)
        for folder, _, names in os.walk(top)
        for name in names
        if "/." not in os.path.join(folder, name)[len(str(top)) :]
    ]
    looked_for = [path for path in files if path.lower().endswith(endings) or not os.path.exists(path)]
    return len(looked_for) + len(["around"])


@pytest.mark.parametrize("chosen", ["auto", "npz"])
def test_all_that_looks_like_a_volume_is_converted_quarantined_or_named(
    root: Path, tmp_path: Path, everything: int, chosen: str
) -> None:
    source = {"format": chosen}
    out = convert(root, tmp_path / "work", source=source, max_bad_files=everything)
    assert len(rows(out)) == out.count > 0
    assert len(reasons(out)) == out.quarantined > 0
    wanted = next(p.path_in for p in volume_folder.parameters if p.name == "folder")
    assert wanted is not None
    said = [problem.message for problem in passed_over(str(root), wanted, look(root, tmp_path, **source))]
    named = sum(
        int(number)
        for message in said
        for number in re.findall(r"(?<!\S)\d+(?= \.npy| \.npz| \.nii| files?| links?)", message.replace(str(root), ""))
    )
    assert out.count + out.quarantined + named == out.found + named == everything, said


def test_volumes_are_bit_for_bit_what_numpy_loads(root: Path, tmp_path: Path) -> None:
    names = [f"{i % 3}/deep/v{i}.npy" for i in range(50)]
    make_volumes(root, names, (5, 4, 3, 2))
    out = convert(root, tmp_path / "work", row_group_rows=8)
    found = rows(out)
    assert sorted(found) == sorted(names)
    for name, (_, data) in found.items():
        assert data == np.load(root / name, allow_pickle=False).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((16, 16, 8, 2), "int16"),
        ((3,), "float16"),
        ((2, 3, 4), "float64"),
        ((30, 30, 10, 10), "uint8"),
        ((1, 1), "uint64"),
    ],
)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_shapes_dtypes_and_compressions(
    root: Path, tmp_path: Path, shape: tuple[int, ...], dtype: str, compression: str
) -> None:
    volumes = make_volumes(root, numbered(9), shape, dtype)
    out = convert(root, tmp_path / "work", compression=compression)
    assert out.spec == VolumeSpec(shape=shape, dtype=dtype)
    assert contents(out) == bytes_of(volumes)
    path = Path(out.uri) / parts_of(out).parts[0].path
    assert spec_of(pq.read_schema(path).metadata, path.name) == out.spec
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    assert column.compression == {"none": "UNCOMPRESSED", "zstd": "ZSTD", "lz4": "LZ4"}[compression]


@pytest.mark.slow
def test_the_layout_of_the_parts(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(100), (50, 50, 10, 1))
    write_labels(root / "labels.csv", [(f"v{i:04d}", i / 2) for i in range(90)])
    out = convert(root, tmp_path / "work", target_file_mb=4, row_group_rows=16)
    parts = parts_of(out).parts
    # 4 MB hold 40 volumes of 100 kB.
    assert [p.rows for p in parts] == [40, 40, 20]
    for part in parts:
        path = Path(out.uri) / part.path
        file = pq.ParquetFile(path)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        assert groups == ([16, 16, 8] if part.rows == 40 else [16, 4])
        volume = file.metadata.row_group(0).column(2)
        assert not volume.is_stats_set
        assert "RLE_DICTIONARY" not in volume.encodings
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (part.bytes, part.mtime_ns)
        table = file.read(["id", "label"]).to_pydict()
        known = [v for v in table["label"] if v is not None]
        assert (part.id_min, part.id_max) == (min(table["id"]), max(table["id"]))
        assert (part.label_min, part.label_max, part.labelled) == (min(known), max(known), len(known))
    assert out.bytes == sum(p.bytes for p in parts)
    assert out.labelled == 90
    visible = sorted(p.name for p in Path(out.uri).iterdir())
    assert visible == sorted(p.path for p in parts)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_labels_from_a_table_in_the_folder(root: Path, tmp_path: Path, suffix: str) -> None:
    messages: list[str] = []
    make_volumes(root, numbered(4))
    table = [("v0000.npy", "salt"), ("v0001", "fault"), ("v0001", "fault"), ("v0002", "salt"), ("v0002", "fault")]
    write_labels(root / f"labels.{suffix}", [*table, ("elsewhere", "salt")])
    out = convert(root, tmp_path / "work", max_bad_files=1, messages=messages)
    assert labels_in(out) == {
        "v0000.npy": 1,
        "v0001.npy": 0,
        "v0003.npy": None,
    }
    assert reasons(out) == {"v0002.npy": "label-conflict"}
    assert out.spec is not None
    assert out.spec.classes == ("fault", "salt")
    assert out.labelled == 2
    assert any("1 row of labels" in line for line in messages)


def test_files_without_a_label_can_be_refused(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(3))
    write_labels(tmp_path / "elsewhere.csv", [("v0001", 5)])
    out = convert(
        root,
        tmp_path / "work",
        label_file=str(tmp_path / "elsewhere.csv"),
        unlabelled="quarantine",
        max_bad_files=2,
    )
    assert labels_in(out) == {"v0001.npy": 5}
    assert set(reasons(out).values()) == {"label-missing"}


def test_labels_from_folders_and_from_a_pattern(root: Path, tmp_path: Path) -> None:
    make_volumes(root, ["salt/a_3.npy", "fault/b_4.npy"])
    by_folder = convert(root, tmp_path / "a")
    assert labels_in(by_folder) == {"salt/a_3.npy": 1, "fault/b_4.npy": 0}
    by_name = convert(root, tmp_path / "b", labels="pattern", label_pattern=r"_(?P<label>\d)")
    assert labels_in(by_name) == {"salt/a_3.npy": 3, "fault/b_4.npy": 4}
    none = convert(root, tmp_path / "c", labels="none")
    assert {v for v, _ in rows(none).values()} == {None}
    assert none.labelled == 0


def test_volumes_with_nan_can_be_kept(root: Path, tmp_path: Path) -> None:
    volumes = make_volumes(root, numbered(3))
    volumes["v0001.npy"][0, 0, 0, 0] = np.nan
    np.save(root / "v0001.npy", volumes["v0001.npy"])
    out = convert(root, tmp_path / "work", not_finite="keep")
    assert contents(out) == bytes_of(volumes)
    assert reasons(convert(root, tmp_path / "work", max_bad_files=1)) == {"v0001.npy": "not-finite"}


def test_more_bad_files_than_allowed_stop_it_and_say_what(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(5))
    for name in ("v0001.npy", "v0002.npy"):
        (root / name).write_bytes(b"")
    (root / "v0003.npy").write_bytes(b"junk")
    with pytest.raises(TooManyBadFiles) as caught:
        convert(root, tmp_path / "work", max_bad_files=2)
    error = caught.value
    assert "3 files cannot be converted, 2 allowed: 2 empty, 1 not-npy" in error.message
    assert "v0001.npy is empty" in error.message
    assert error.parameter == "max_bad_files"
    listed = next((tmp_path / "work").rglob("quarantine.csv"))
    assert str(listed) in error.hint
    assert set(read_quarantine(listed)) == {"v0001.npy", "v0002.npy", "v0003.npy"}
    assert not list((tmp_path / "work").rglob("parts.json"))
    assert convert(root, tmp_path / "work", max_bad_files=3).count == 2


def test_a_file_that_can_be_read_at_the_next_try_is(root: Path, tmp_path: Path) -> None:
    """A refusal that may pass is not remembered, although name, size and time stay the same."""
    volumes = make_volumes(root, numbered(4))
    files = take(root, tmp_path / "first")
    # The listing has the size of what a link leads to, so the loop is put in place only after it.
    (root / "v0002.npy").rename(root / "kept")
    (root / "v0002.npy").symlink_to("v0002.npy")
    ctx = context(tmp_path / "work", "parquet")
    broken = numpy_to_parquet(files, max_bad_files=1, ctx=ctx)
    assert reasons(broken) == {"v0002.npy": "unreadable"}
    (root / "v0002.npy").unlink()
    (root / "kept").rename(root / "v0002.npy")
    for previous in ({}, {"out": broken}):
        again = numpy_to_parquet(files, ctx=context(tmp_path / "work", "parquet", previous=previous))
        assert contents(again) == bytes_of(volumes)


def test_a_file_that_changes_during_the_run(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(4))
    files = take(root, tmp_path / "work")
    np.save(root / "v0001.npy", np.ones((4, 3, 2, 2), np.float32))
    (root / "v0002.npy").unlink()
    out = numpy_to_parquet(files, max_bad_files=2, ctx=context(tmp_path / "work", "parquet"))
    assert reasons(out) == {"v0001.npy": "changed-during-run", "v0002.npy": "changed-during-run"}
    assert out.count == 2


def test_a_reference_without_a_spec_is_sampled(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(3), (2, 2))
    make_volumes(root, ["w.npy"], (3, 3))
    files = take(root, tmp_path / "work").model_copy(update={"spec": None})
    out = numpy_to_parquet(files, max_bad_files=1, ctx=context(tmp_path / "work", "parquet"))
    assert out.spec == VolumeSpec(shape=(2, 2), dtype="float32")
    assert reasons(out) == {"w.npy": "shape"}


def test_nothing_that_can_be_converted(root: Path, tmp_path: Path) -> None:
    (root / "a.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.npy is empty"):
        convert(root, tmp_path / "work", max_bad_files=10)
    np.save(root / "b.npy", np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="none of the 2 files") as caught:
        convert(root, tmp_path / "work", max_bad_files=10)
    assert "quarantine.csv" in caught.value.hint


def test_a_volume_that_no_table_cell_can_hold(root: Path, tmp_path: Path) -> None:
    np.save(root / "a.npy", np.zeros(1, np.uint8))
    header = np.lib.format
    with (root / "a.npy").open("wb") as sink:
        header.write_array_header_1_0(sink, {"descr": "|u1", "fortran_order": False, "shape": (2**31, 1)})
        sink.truncate(sink.tell() + 2**31)
    with pytest.raises(DataError, match="holds 2147483643"):
        convert(root, tmp_path / "work")


def test_memory_bounds_the_threads_and_row_groups_of_large_volumes_are_smaller() -> None:
    from nodes.conversion.part_writer import Layout
    from nodes.volume_file.new_files import MAX_FILE_ROWS, MAX_GROUP_BYTES

    def layout(shape: tuple[int, ...], target: int = 78_000_000, compression: str = "none") -> Layout:
        spec = VolumeSpec(shape=shape, dtype="float32")
        return Layout(spec=spec, target_bytes=target, row_group_rows=64, compression=compression, finite=True)

    assert layout((30, 30, 10, 10)).file_rows == 217
    assert layout((30, 30, 10, 10)).group_rows == 64
    assert layout((1,)).file_rows == MAX_FILE_ROWS
    large = layout((256, 256, 256, 1), target=4_000_000_000)
    assert large.group_rows * large.spec.volume_bytes <= MAX_GROUP_BYTES
    assert large.writer_bytes == large.spec.volume_bytes
    assert layout((30, 30, 10, 10)).writer_bytes < 1 << 20
    assert layout((30, 30, 10, 10), compression="zstd").writer_bytes == 3 * 64 * 360_000
    assert large.group_rows == 4
    assert layout((512, 512, 512, 1)).group_rows == 1


def test_progress_counts_volumes_and_a_cancel_keeps_finished_parts(root: Path, tmp_path: Path) -> None:
    make_volumes(root, numbered(60), (50, 50, 10, 1))
    token = current_reporter.set(Listener(cancel_after=0))
    with pytest.raises(Cancelled):
        convert(root, tmp_path / "work", target_file_mb=1)
    listener = Listener()
    current_reporter.set(listener)
    out = convert(root, tmp_path / "work", target_file_mb=1)
    current_reporter.reset(token)
    last = listener.events[-1]
    assert (last.done, last.total, last.unit) == (60, 60, "volumes")
    assert out.count == 60
    assert not list((tmp_path / "work" / "parquet").glob(".making-*"))


_KINDS = st.sampled_from(
    ["good", "fortran", "empty", "truncated", "longer", "shape", "nan", "junk", "pickle", "double"]
)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(_KINDS, min_size=1, max_size=25),
    labels=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["", "a", "b"])), max_size=20),
    unlabelled=st.sampled_from(["keep", "quarantine"]),
    not_finite=st.sampled_from(["keep", "quarantine"]),
    group=st.integers(1, 5),
)
def test_converted_and_quarantined_are_what_was_found(
    tmp_path_factory: pytest.TempPathFactory,
    kinds: list[str],
    labels: list[tuple[int, str]],
    unlabelled: str,
    not_finite: str,
    group: int,
) -> None:
    base = tmp_path_factory.mktemp("property")
    root = base / "in"
    root.mkdir()
    for i, kind in enumerate(kinds):
        _write_kind(root / f"{i}.npy", kind, np.full((2, 2), i, np.float32))
    write_labels(root / "labels.csv", [(str(i), text) for i, text in labels])
    params = {"unlabelled": unlabelled, "not_finite": not_finite, "row_group_rows": group, "max_bad_files": len(kinds)}
    if _all_are_bad(kinds, labels, **params):
        with pytest.raises(DataError, match="none of"):
            convert(root, base / "work", **params)
        return
    out = convert(root, base / "work", **params)
    found, refused = rows(out), reasons(out)
    assert len(found) == out.count
    assert len(refused) == out.quarantined
    assert out.count + out.quarantined == out.found == len(kinds)
    assert found.keys() | refused.keys() == {f"{i}.npy" for i in range(len(kinds))}
    assert out.labelled == sum(label is not None for label, _ in found.values())
    again = convert(root, base / "work", previous=out, **params)
    assert (rows(again), reasons(again)) == (found, refused)
    assert parts_of(again).parts == parts_of(out).parts


def _all_are_bad(kinds: list[str], labels: list[tuple[int, str]], unlabelled: str, not_finite: str, **_: Any) -> bool:
    """Worked out in plain Python: whether no file can become a row."""
    labelled = [{text for i, text in labels if i == n and text} for n in range(len(kinds))]
    readable = {
        "good": "float32 2",
        "fortran": "float32 2",
        "nan": "float32 2",
        "shape": "float32 3",
        "double": "double",
    }
    specs = [readable[k] for k in kinds if k in readable]
    spec = max(specs, key=lambda s: (specs.count(s), -specs.index(s)), default="")
    return not any(
        readable.get(kind) == spec
        and len(labelled[n]) < 2
        and not (kind == "nan" and not_finite == "quarantine")
        and not (unlabelled == "quarantine" and not labelled[n])
        for n, kind in enumerate(kinds)
    )


def _write_kind(path: Path, kind: str, values: Any) -> None:
    if kind == "fortran":
        values = np.asfortranarray(values)
    elif kind == "shape":
        values = np.zeros((3, 2), np.float32)
    elif kind == "nan":
        values[0, 0] = np.nan
    elif kind == "double":
        values = values.astype(np.float64)
    elif kind == "pickle":
        values = np.array([{}], object)
    np.save(path, values, allow_pickle=kind == "pickle")
    whole = path.read_bytes()
    if kind in ("empty", "truncated", "longer", "junk"):
        path.write_bytes({"empty": b"", "truncated": whole[:-1], "longer": whole + b"\0", "junk": b"junk"}[kind])
