"""Every kind of file of a dataset, damaged: one finding with the file, what is wrong and what is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from delta_tables import context, ids, shards, volume_of, write_shard
from deltalake import DeltaTable

from engine.declare.datasets import TrainedModel, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import UsageError
from engine.observe.results import write_sizes
from engine.storage.local_place import LocalPlace
from nodes.inspection.damage import Checked, check_dataset, check_model, set_aside
from nodes.inspection.verify import check_data
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table


def flip(path: Path, at: int, bit: int = 1) -> None:
    """One bit, in place: hard links show it too."""
    with path.open("r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ bit]))


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


@pytest.fixture
def parquet(tmp_path: Path) -> VolumeParquet:
    return shards(tmp_path / "p", 30, 40)


@pytest.fixture
def table(tmp_path: Path, parquet: VolumeParquet) -> VolumeDelta:
    return parquet_to_delta(parquet, ctx=context(tmp_path))


def check(data: VolumeDelta | VolumeParquet | str) -> Checked:
    if isinstance(data, str):
        return check_data(data, threads=2, progress=lambda done, total: None)
    checked = Checked()
    checked.damages += check_dataset(data, checked)
    return checked


def test_a_whole_table_has_no_damage(table: VolumeDelta, parquet: VolumeParquet) -> None:
    for data in (table, table.uri, parquet):
        found = check(data)
        assert (found.damages, found.files, found.volumes, found.unchecked) == ([], 2, 70, 0)


def test_a_file_in_the_place_of_another_of_the_same_size_is_found(table: VolumeDelta, tmp_path: Path) -> None:
    """By the ids that the log says: its own checksums are right."""
    (name,) = (f.path for f in open_table(table.uri).files if f.rows == 30)
    first, other = Path(table.uri) / name, tmp_path / write_shard(tmp_path, ids(90, 30)).path
    assert first.stat().st_size == other.stat().st_size
    other.replace(first)
    (damage,) = check(table.uri).damages
    assert damage.file == str(first)
    assert damage.problem.startswith("it holds other rows than the table's log says: ids from ")


def test_a_flipped_bit_in_a_volume_names_file_and_volume(table: VolumeDelta) -> None:
    for path in Path(table.uri).glob("*.parquet"):
        at = path.read_bytes().find(volume_of(ids(41, 1)[0]))
        if at >= 0:
            flip(path, at + 3)
            (damage,) = check(table.uri).damages
            assert damage.file == str(path)
            # pyarrow, which wrote this file, puts a row group's volumes into one page.
            assert damage.ids == tuple(ids(30, 5))
            assert damage.lost == f"all 40 volumes in it: {', '.join(ids(30, 5))} ..."
            return
    raise AssertionError("no file holds this volume")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda p: flip(p, p.stat().st_size - 6), "footer cannot be read"),
        (lambda p: cut(p, 500), "it has 500 bytes, not"),
        (lambda p: p.unlink(), "it is gone"),
        (lambda p: (p.unlink(), os.mkfifo(p)), "it is no regular file"),
    ],
)
def test_a_lost_file(table: VolumeDelta, damage: Callable[[Path], None], problem: str) -> None:
    path = next(Path(table.uri).glob("*.parquet"))
    damage(path)
    (found,) = check(table.uri).damages
    assert found.file == str(path)
    assert problem in found.problem
    assert found.lost in ("all 30 volumes in it", "all 40 volumes in it")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("00000000000000000001.json", lambda p: cut(p, 40)),
        ("00000000000000000001.json", lambda p: flip(p, 0)),
        ("00000000000000000001.json", lambda p: cut(p, 0)),
        ("_last_checkpoint", lambda p: p.write_text("{")),
        ("00000000000000000001.checkpoint.parquet", lambda p: p.write_bytes(b"PAR1PAR1")),
    ],
)
def test_a_damaged_log_is_named(table: VolumeDelta, name: str, damage: Callable[[Path], object]) -> None:
    path = Path(table.uri) / "_delta_log" / name
    damage(path)
    damages = check(table.uri).damages
    assert str(path) in [d.file for d in damages]
    assert all(d.kind == "log" and d.lost for d in damages)


def test_a_damaged_list_of_parts(parquet: VolumeParquet) -> None:
    assert parquet.manifest is not None
    Path(parquet.manifest).write_text("{")
    (damage,) = check(parquet).damages
    assert (damage.file, damage.kind) == (parquet.manifest, "manifest")


def test_a_damaged_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "training_state.npz", weights=np.arange(1000.0))
    shutil.copy(tmp_path / "training_state.npz", tmp_path / "model.keras")
    (tmp_path / "model.json").write_text("{}")
    sizes = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    (tmp_path / ".files.json").write_text(json.dumps({"format": 1, "sizes": sizes}))
    assert list(check_model(tmp_path, Checked())) == []
    flip(tmp_path / "training_state.npz", 500)
    (damage,) = check(str(tmp_path)).damages
    assert damage.file == str(tmp_path / "training_state.npz")
    assert "does not match its checksum" in damage.problem
    assert damage.lost == "from where a longer training goes on; the model is whole"
    cut(tmp_path / "model.keras", 100)
    (tmp_path / "model.json").write_text("nonsense")
    (tmp_path / ".files.json").write_text("nonsense")
    names = {Path(d.file).name for d in check(str(tmp_path)).damages}
    assert names == {"training_state.npz", "model.keras", "model.json", ".files.json"}


def test_what_of_a_model_is_compared_with_nothing_is_named_and_not_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.keras", weights=np.arange(1000.0))
    (tmp_path / "model.keras.npz").rename(tmp_path / "model.keras")
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "curves.png").write_bytes(b"PNG")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    said = "the content of 3 files of the model, for which there are no checksums (curves.png, empty.zip, model.json)"
    found = check(str(tmp_path))
    assert (found.damages, found.files) == ([], 3), "the picture is not even read"
    assert found.remarks == [
        "no list says which files belong to the model: one that is gone is not missed",
        f"{said}: JSON can be read, and that is all that is known",
    ]
    sizes = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    (tmp_path / ".files.json").write_text(json.dumps({"format": 1, "sizes": sizes}))
    (remark,) = check(str(tmp_path)).remarks
    assert remark == f"{said}: their sizes are right and JSON can be read, and that is all that is known"


def test_small_files_of_a_model_are_compared_with_the_checksums_that_were_noted(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.keras", weights=np.arange(1000.0))
    (tmp_path / "model.keras.npz").rename(tmp_path / "model.keras")
    (tmp_path / "model.json").write_text('{"classes": ["cat"]}')
    (tmp_path / "MLmodel").write_text("flavors: keras")
    write_sizes(tmp_path, {})
    found = check(str(tmp_path))
    assert (found.damages, found.remarks, found.files) == ([], [], 3)
    (tmp_path / "model.json").write_text('{"classes": ["bat"]}')
    flip(tmp_path / "MLmodel", 3)
    damages = check(str(tmp_path)).damages
    assert [Path(damage.file).name for damage in damages] == ["MLmodel", "model.json"]
    assert {damage.problem for damage in damages} == {
        "it does not match its checksum: its content was damaged or changed"
    }


def test_a_model_that_is_gone_is_damage(tmp_path: Path) -> None:
    model = TrainedModel(uri=str(tmp_path / "gone"), spec=VolumeSpec(shape=(2, 2), dtype="float32"))
    (damage,) = check_dataset(model, Checked())
    assert (damage.file, damage.kind, damage.problem) == (model.uri, "model", "it is gone")


def test_a_model_in_object_storage_is_not_called_damaged() -> None:
    model = TrainedModel(uri="az://container/model", spec=VolumeSpec(shape=(2, 2), dtype="float32"))
    checked = Checked()
    assert list(check_dataset(model, checked)) == []
    assert checked.remarks == ["az://container/model lies in object storage: a model there is not read"]


def test_a_flipped_bit_in_a_compressed_file_of_a_model_is_damage_and_no_crash(tmp_path: Path) -> None:
    """zlib notices first that the bits make no sense."""
    path = tmp_path / "best_state.npz"
    np.savez_compressed(path, weights=np.zeros(1000))
    (tmp_path / "model.json").write_text("{}")
    intact, problems = path.read_bytes(), []
    for at in range(len(intact)):
        path.write_bytes(intact)
        flip(path, at)
        for damage in check(str(tmp_path)).damages:
            assert (damage.file, damage.kind) == (str(path), "model")
            problems.append(damage.problem)
    assert any("while decompressing data" in problem for problem in problems)


def test_what_is_neither_table_nor_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Delta table, no Parquet file and no trained model"):
        check(str(tmp_path))


def test_a_part_that_is_the_same_file_is_set_aside_too(
    tmp_path: Path, parquet: VolumeParquet, table: VolumeDelta
) -> None:
    path = next(Path(table.uri).glob("*.parquet"))
    assert path.stat().st_nlink == 2
    flip(path, 300)
    damages = check(table.uri).damages
    moved = set_aside(damages, [Path(parquet.uri)])
    assert sorted(moved) == sorted([path.with_name(f"{path.name}.damaged"), Path(parquet.uri) / f"{path.name}.damaged"])
    assert not path.exists()
    assert all(p.exists() for p in moved)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
@pytest.mark.parametrize("kind", ["volumes", "checkpoint"])
def test_what_cannot_be_read_for_another_reason_is_neither_damaged_nor_set_aside(
    table: VolumeDelta, monkeypatch: pytest.MonkeyPatch, number: int, kind: str
) -> None:
    DeltaTable(table.uri).create_checkpoint()
    path = next(Path(table.uri).glob("*.parquet" if kind == "volumes" else "_delta_log/*.checkpoint.parquet"))
    real = LocalPlace.open

    def refused(place: LocalPlace, name: str, size: int) -> pa.NativeFile:
        if Path(name).name == path.name:
            raise OSError(number, os.strerror(number), str(path))
        return real(place, name, size)

    monkeypatch.setattr(LocalPlace, "open", refused)
    before = sorted(Path(table.uri).iterdir())
    with pytest.raises(OSError, match=os.strerror(number)):
        check_data(table.uri, threads=2, progress=lambda done, total: None, aside=[])
    assert sorted(Path(table.uri).iterdir()) == before
    monkeypatch.undo()
    assert check(table.uri).damages == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
@pytest.mark.parametrize("name", ["00000000000000000000.json", "_last_checkpoint"])
def test_a_log_is_not_called_damaged_where_it_may_not_be_read(
    table: VolumeDelta, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    DeltaTable(table.uri).create_checkpoint()
    real = LocalPlace.lines

    def refused(place: LocalPlace, path: str) -> Iterator[bytes]:
        if Path(path).name == name:
            raise OSError(number, os.strerror(number), path)
        return real(place, path)

    monkeypatch.setattr(LocalPlace, "lines", refused)
    for data in (table.uri, table):
        with pytest.raises(OSError, match=os.strerror(number)):
            check_data(data, threads=2, progress=lambda done, total: None)


def test_a_file_that_the_disk_cannot_read_is_damage(table: VolumeDelta, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(place: LocalPlace, name: str, size: int) -> pa.NativeFile:
        raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    monkeypatch.setattr(LocalPlace, "open", broken)
    assert {d.problem for d in check(table.uri).damages if d.kind == "volumes"} == {
        "it cannot be read (Input/output error)"
    }


def test_a_model_or_a_list_is_not_called_damaged_where_no_handle_is_left(
    tmp_path: Path, parquet: VolumeParquet, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.json").write_text("{}")

    def refused(path: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(OSError, match="Too many open files"):
        list(check_model(tmp_path, Checked()))
    with pytest.raises(OSError, match="Too many open files"):
        check(parquet)
