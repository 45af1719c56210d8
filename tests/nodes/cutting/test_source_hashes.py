"""The SHA-256 of the files that patches are cut from."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pyarrow.parquet as pq
import pytest
from cuts import cut
from npy_folders import context, parts_of, take

from engine.declare.datasets import VolumeFiles, VolumeParquet
from engine.errors import DataError
from engine.storage import manifest
from nodes.conversion.volume_sources import reading_of
from nodes.cutting import source_hashes
from nodes.cutting.cubes import find_cubes
from nodes.cutting.cut_parameters import CutParameters
from nodes.cutting.source_hashes import StoredHashes
from nodes.cutting.tiles import TiledVolume
from nodes.numpy_to_parquet import numpy_to_parquet

SIZE: dict[str, Any] = {"size": (4, 4, 4), "hash_sources": True}


def hashes(made: VolumeParquet) -> dict[str, str | None]:
    """By source, or where there is none by id; all rows of a source have one."""
    out: dict[str, set[str | None]] = {}
    for part in parts_of(made).parts:
        table = pq.read_table(Path(made.uri) / part.path).drop(["volume"])
        for row in table.to_pylist():
            out.setdefault(row.get("source") or row["id"], set()).add(row["source_sha256"])
    assert all(len(found) == 1 for found in out.values())
    return {source: found.pop() for source, found in out.items()}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"v{number}.npy", np.random.default_rng(number).normal(size=(9, 8, 8)).astype(np.float32))
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The volumes that are read to be hashed."""
    out: list[str] = []
    real = TiledVolume.sha256

    def counted(volume: TiledVolume) -> str | None:
        out.append(volume._files[0].path)
        return real(volume)

    monkeypatch.setattr(TiledVolume, "sha256", counted)
    return out


def test_patches_have_the_hash_of_their_file(root: Path, tmp_path: Path) -> None:
    made = cut(root, tmp_path, **SIZE)
    assert hashes(made) == {path.name: sha256(path) for path in sorted(root.glob("*.npy"))}


def test_nothing_is_read_a_second_time_unless_asked(root: Path, tmp_path: Path, reads: list[str]) -> None:
    made = cut(root, tmp_path, size=(4, 4, 4))
    assert reads == []
    assert "source_sha256" not in pq.read_schema(Path(made.uri) / parts_of(made).parts[0].path).names


def test_a_hash_is_taken_once_for_each_state_of_a_file(root: Path, tmp_path: Path, reads: list[str]) -> None:
    first = cut(root, tmp_path, **SIZE)
    assert sorted(reads) == ["v0.npy", "v1.npy", "v2.npy"]
    del reads[:]
    np.save(root / "v1.npy", np.ones((9, 8, 8), np.float32))
    os.utime(root / "v1.npy", ns=(1, 1))
    np.save(root / "v3.npy", np.zeros((9, 8, 8), np.float32))
    grown = cut(root, tmp_path, previous=first, **SIZE)
    assert sorted(reads) == ["v1.npy", "v3.npy"]
    assert hashes(grown) == {path.name: sha256(path) for path in root.glob("*.npy")}


def test_of_channels_it_is_that_of_what_sha256sum_prints(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for channel in ("amplitude", "phase"):
        (root / channel).mkdir(parents=True)
        np.save(root / channel / "north.npy", np.full((6, 6, 6), len(channel), np.float32))
    made = cut(root, tmp_path, channels_from="{channel}/{cube}.npy", **SIZE)
    lines = "".join(f"{sha256(root / name)}  {name}\n" for name in ("amplitude/north.npy", "phase/north.npy"))
    assert hashes(made) == {"north": hashlib.sha256(lines.encode()).hexdigest()}


@pytest.mark.parametrize("kind", ["nifti", "zarr"])
def test_it_is_the_hash_that_a_conversion_of_whole_files_gives(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "in"
    root.mkdir()
    values = np.arange(512, dtype=np.float32).reshape(8, 8, 8)
    if kind == "nifti":
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), root / "v.nii.gz")
    else:
        import zarr

        zarr.create_array(str(root / "v.zarr"), data=values, chunks=(4, 4, 4))
    whole = numpy_to_parquet(take(root, tmp_path / "whole"), ctx=context(tmp_path / "whole", "parquet"))
    found = hashes(cut(root, tmp_path / "cut", **SIZE))
    assert found == hashes(whole)
    assert None not in found.values()


def test_a_line_that_was_cut_short_counts_for_nothing(root: Path, tmp_path: Path) -> None:
    files = take(root, tmp_path)
    cubes = _cubes(files)
    stored = StoredHashes(tmp_path / "hashes")
    for cube in cubes:
        stored.add(cube, f"{cube.name} hash")
    path = tmp_path / "hashes"
    path.write_bytes(path.read_bytes()[:-2])
    again = StoredHashes(path)
    assert [again.get(cube) for cube in cubes] == ["v0.npy hash", "v1.npy hash", None]
    again.add(cubes[2], "")
    assert [StoredHashes(path).get(cube) for cube in cubes] == ["v0.npy hash", "v1.npy hash", ""]


def test_a_file_that_changes_meanwhile_leaves_no_hash(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = take(root, tmp_path)
    real = TiledVolume.sha256

    def changed(volume: TiledVolume) -> str | None:
        found = real(volume)
        if volume._files[0].path == "v1.npy":
            os.utime(root / "v1.npy", ns=(1, 1))
        return found

    monkeypatch.setattr(TiledVolume, "sha256", changed)
    stored, cubes = StoredHashes(tmp_path / "hashes"), _cubes(files)
    with pytest.raises(DataError, match=r"v1.npy has changed since the folder was listed"):
        source_hashes.source_hashes(files.uri, cubes, reading_of(files), stored, context(tmp_path, "hash"))
    assert stored.get(cubes[1]) is None


def test_a_file_that_cannot_be_read_ends_the_run_with_its_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(volume: TiledVolume) -> str | None:
        raise OSError(5, "Input/output error", volume._files[0].path)

    monkeypatch.setattr(TiledVolume, "sha256", broken)
    with pytest.raises(DataError, match=r"v0.npy cannot be hashed: .*Input/output error"):
        cut(root, tmp_path, **SIZE)


def _cubes(files: VolumeFiles) -> list[Any]:
    return find_cubes(manifest.read(files.manifest), CutParameters())
