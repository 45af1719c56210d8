"""Volumes read from object storage, side by side with the same files read from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from npy_folders import hostile_folder
from store_fixtures import upload_folder

from engine.datasets import VolumeSpec
from engine.errors import DataError
from engine.manifest import FileEntry, entries, list_folder
from engine.storage.listing import list_remote
from engine.storage.objects import RemotePath
from nodes.conversion.npy_files import VolumeReader, sample_headers
from nodes.conversion.quarantine import Refused
from nodes.conversion.volume_sources import Reader, label_file_at, label_table, label_table_sizes, open_reader

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

    from nodes.conversion.volume_listing import volumes_of

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
