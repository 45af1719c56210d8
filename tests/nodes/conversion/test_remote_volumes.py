"""Volumes read from object storage, side by side with the same files read from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from npy_folders import context, convert, hostile_folder, look, reasons, rows, take
from store_fixtures import upload_folder

from engine.declare.check_context import CheckContext
from engine.declare.datasets import VolumeSpec
from engine.errors import DataError
from engine.storage.manifest import FileEntry, entries, list_folder, list_remote
from engine.storage.objects import RemotePath
from nodes.conversion import remote_volumes
from nodes.conversion.npy_files import VolumeReader
from nodes.conversion.quarantine import Refused
from nodes.conversion.volume_sources import (
    Reader,
    label_file_at,
    label_table,
    label_table_sizes,
    open_reader,
    reading_of,
    sample_headers,
)
from nodes.loaders import open_source
from nodes.loaders.npy_loader import NpySource
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.transform_volumes import transform_volumes
from nodes.volume_folder import volume_folder

pytestmark = pytest.mark.slow
PATTERNS = ("**/*.npy",)
SPEC = VolumeSpec(shape=(4, 3, 2, 2), dtype="float32")


def outcomes(reader: Reader, files: list[FileEntry]) -> dict[str, tuple[str, bytes]]:
    """Reason or bytes of each file."""
    out = {}
    reader.expect(files)
    for file in files:
        row = np.zeros(SPEC.volume_bytes, np.uint8)
        try:
            reader.read(file.path, file.size, file.mtime_ns, row)
            out[file.path] = ("", row.tobytes())
        except Refused as refused:
            out[file.path] = (refused.reason, b"")
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Hostile files as far as a store can hold them."""
    root = tmp_path / "files"
    hostile_folder(root)
    (root / "pipe.npy").unlink()
    for path in root.glob("latin*"):
        path.unlink()
    return root


def test_an_object_is_taken_or_refused_as_the_file_is(container: str, folder: Path) -> None:
    url = upload_folder(folder, f"{container}/volumes")
    here, there = list(entries(list_folder(folder, PATTERNS))), list(entries(list_remote(RemotePath.at(url), PATTERNS)))
    assert [(f.path, f.size) for f in here] == [(f.path, f.size) for f in there]
    local = outcomes(VolumeReader(str(folder), SPEC, finite=True), here)
    assert outcomes(open_reader(url, SPEC, finite=True), there) == local
    names = [f.path for f in here]
    mine, other = sample_headers(str(folder), names), sample_headers(url, names)
    assert (mine.specs, mine.looked) == (other.specs, other.looked)
    assert [(n, r.reason, r.message) for n, r in mine.refused] == [(n, r.reason, r.message) for n, r in other.refused]


def test_an_object_that_is_not_the_one_listed_is_refused_and_a_dead_store_is_an_error(azure: str, folder: Path) -> None:
    url = upload_folder(folder, f"{azure}/volumes")
    files = list(entries(list_remote(RemotePath.at(url), ("v00*.npy",))))
    (RemotePath.at(url) / files[0].path).write_bytes((folder / files[1].path).read_bytes())
    (RemotePath.at(url) / files[1].path).unlink()
    found = outcomes(open_reader(url, SPEC, finite=True), files)
    assert [reason for reason, _ in found.values()] == ["changed-during-run"] * 2 + [""] * (len(files) - 2)
    with pytest.raises(DataError, match="no container"):
        outcomes(open_reader(f"{azure}nowhere", SPEC, finite=True), files)


def test_the_label_table_beside_the_objects(azure: str, tmp_path: Path) -> None:
    import pyarrow as pa

    from nodes.conversion.volume_sources import volumes_of

    place = RemotePath.at(azure)
    with label_file_at(azure) as none:
        assert none is None
    (place / "labels.csv").write_bytes(b"file,label\na.npy,1\n")
    (place / "a.npy").write_bytes(b"1")
    listing: pa.Table = volumes_of(list_remote(place, ("**/*.npy", "labels.csv", "labels.parquet")))
    assert label_table_sizes(azure) == [19]
    with label_file_at(azure) as found:
        assert found is not None
        assert found.read_bytes() == b"file,label\na.npy,1\n"
    assert not found.exists()
    table = label_table(listing, azure, tmp_path)
    assert table is not None
    assert table.read_bytes() == b"file,label\na.npy,1\n"
    (place / "labels.csv").write_bytes(b"file,label\na.npy,2\n")
    with pytest.raises(DataError, match="has changed since"):
        label_table(listing, azure, tmp_path)
    (place / "labels.csv").unlink()
    with pytest.raises(DataError, match="is gone since"):
        label_table(listing, azure, tmp_path)


def write_nifti(path: Path, volume: np.ndarray) -> None:
    import nibabel

    nibabel.save(nibabel.Nifti1Image(volume, np.diag([2, 3, 4, 1])), path)


def write_tiff(path: Path, volume: np.ndarray) -> None:
    import tifffile

    tifffile.imwrite(path, volume.T, photometric="minisblack")


def write_hdf5(path: Path, volume: np.ndarray) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["volume"] = volume


def write_matlab(path: Path, volume: np.ndarray) -> None:
    import scipy.io

    scipy.io.savemat(path, {"volume": volume})


def write_segy(path: Path, volume: np.ndarray) -> None:
    import segyio

    segyio.tools.from_array3D(str(path), volume, format=5)


WRITERS = {
    "nii.gz": write_nifti,
    "tif": write_tiff,
    "h5": write_hdf5,
    "mat": write_matlab,
    "sgy": write_segy,
    "npz": lambda path, volume: np.savez(path, volume),
}


def previewed(url: str, base: Path) -> CheckContext:
    """What VolumeFolder finds before a run."""
    base.mkdir(exist_ok=True)
    found = CheckContext(
        params={"folder": url, "format": "auto", "dataset": ""}, paths={"folder": look(url, base, format="auto")}
    )
    assert volume_folder.scan_hook is not None
    assert volume_folder.preview_hook is not None
    found.facts = volume_folder.scan_hook(found)
    found.inputs = {"made": volume_folder.preview_hook(found)}
    return found


@pytest.mark.parametrize(("ending", "pieces"), [*((ending, False) for ending in WRITERS), ("npz", True)])
def test_other_formats_are_read_as_from_a_folder(
    azure: str, tmp_path: Path, ending: str, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file as a copy; a large one is copied in pieces."""
    folder, random = tmp_path / "files", np.random.default_rng(0)
    (folder / "sub").mkdir(parents=True)
    for number in range(5):
        WRITERS[ending](folder / "sub" / f"v{number}.{ending}", random.random((6, 5, 4)).astype("float32"))
    whole = (folder / "sub" / f"v0.{ending}").read_bytes()
    (folder / f"cut.{ending}").write_bytes(whole[: len(whole) // 2])
    (folder / "labels.csv").write_text(f"file,label\nsub/v1.{ending},3\n")
    url = upload_folder(folder, f"{azure}/volumes")
    if pieces:
        monkeypatch.setattr(remote_volumes, "_AT_ONCE", 100)
        monkeypatch.setattr(remote_volumes, "_PIECE", 1000)
    seen = previewed(url, tmp_path / "look")
    local = previewed(str(folder), tmp_path / "look")
    assert [(p.code, p.message) for p in seen.problems] == [(p.code, p.message) for p in local.problems]
    assert seen.inputs["made"].count == 6
    here = convert(folder, tmp_path / "here", max_bad_files=1)
    there = convert(url, tmp_path / "there", max_bad_files=1)
    assert seen.inputs["made"].spec == here.spec == there.spec
    assert len(rows(here)) == 5
    assert rows(here) == rows(there)
    assert reasons(here) == reasons(there)
    (RemotePath.at(url) / f"sub/v0.{ending}").write_bytes(whole[:-1])
    reader = open_reader(url, here.spec, finite=True, reading=reading_of(take(folder, tmp_path / "again")))
    with pytest.raises(Refused, match="has changed since"):
        reader.read(f"sub/v0.{ending}", len(whole), 1, np.zeros(480, np.uint8))


def test_other_formats_are_transformed_and_trained_on_as_from_a_folder(azure: str, tmp_path: Path) -> None:
    folder, random = tmp_path / "files", np.random.default_rng(0)
    folder.mkdir()
    for number in range(5):
        write_nifti(folder / f"v{number}.nii.gz", random.random((6, 5, 4 + number % 2)).astype("float32"))
    url = upload_folder(folder, f"{azure}/volumes")
    found = []
    for place, base in ((folder, tmp_path / "here"), (url, tmp_path / "there")):
        files = transform_volumes(take(place, base), size=(4, 4, 4), ctx=context(base, "transform"))
        source = open_source("npy", files, cores=1)
        assert isinstance(source, NpySource)
        batch = np.empty((5, *source.spec.shape), np.float32)
        source.fill(np.arange(5), batch)
        source.close()
        found.append((rows(numpy_to_parquet(files, ctx=context(base, "parquet"))), batch.tobytes()))
    assert len(found[0][0]) == 5
    assert found[0] == found[1]


def test_a_sample_copies_no_more_than_it_may(azure: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(5):
        np.savez(folder / f"v{number}.npz", np.zeros((6, 5, 4), np.float32))
    url = upload_folder(folder, f"{azure}/volumes")
    reading, names = reading_of(take(folder, tmp_path / "list")), [f"v{number}.npz" for number in range(5)]
    size = (folder / "v0.npz").stat().st_size
    for most, looked in ((size - 1, 0), (size, 1), (3 * size, 3), (None, 5)):
        assert sample_headers(url, names, reading, most).looked == looked


def test_volumes_of_several_files_or_folders_are_an_error_before_the_run(azure: str, tmp_path: Path) -> None:
    for name in ("scan.dcm", "a.zarr/zarr.json", "a.zarr/c/0", "b.nhdr"):
        url = f"{azure}/{name.partition('.')[2].partition('/')[0]}"
        (RemotePath.at(url) / name).write_bytes(b"x")
        found = look(url, tmp_path)
        assert (found.count, found.file_kind) == (0, "")
        assert found.content == f"found: 1 .{name.partition('.')[2].partition('/')[0]}"
        for chosen in ("dicom", "zarr", "nrrd"):
            assert look(url, tmp_path, format=chosen).count == 0
