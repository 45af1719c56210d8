"""Objects in Azurite and in a stand-in for S3."""

from __future__ import annotations

import io
import os
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import ObjectStore

from engine.errors import DataError
from engine.storage import manifest
from engine.storage.cache import RangeCache
from engine.storage.manifest import list_remote
from engine.storage.objects import RemotePath, redact
from engine.storage.ranged_file import PIECE, RangedFile

pytestmark = pytest.mark.slow


def test_what_is_written_is_read_whole_and_in_ranges(container: str, tmp_path: Path) -> None:
    place = RemotePath.at(container) / "a folder/é.bin"
    data = os.urandom(3 * PIECE + 17)
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(FileNotFoundError):
        place.stat()
    place.upload(tmp_path / "file")
    whole, found = place.read()
    assert bytes(whole) == data
    assert found == place.stat()
    assert found.size == len(data)
    assert bytes(place.read_range(5, 11, found.tag)[0]) == data[5:11]
    with RangedFile(place) as file:
        assert bytes(file.read(10)) == data[:10]
        assert bytes(file.read()) == data[10:]  # longer than a piece: several requests
        file.seek(-100, io.SEEK_END)
        assert bytes(file.read(1000)) == data[-100:]
        assert bytes(file.read(1)) == b""
    place.unlink()
    place.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        place.read()


def test_an_object_is_written_only_if_it_is_still_the_version_that_was_seen(container: str) -> None:
    place = RemotePath.at(container) / "lease.json"
    first = place.write_if(b"1", None)
    assert first is not None
    assert place.write_if(b"2", None) is None
    second = place.write_if(b"3", first)
    assert second is not None
    assert place.write_if(b"4", first) is None
    assert place.read_version() == (b"3", second)
    place.unlink()
    assert place.write_if(b"5", second) is None
    with pytest.raises(FileNotFoundError):
        place.read_version()


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_a_deletion_is_tried_again_when_the_connection_is_dropped(
    container: str, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    place = RemotePath.at(container) / "left-over"
    place.write_bytes(b"1")
    delete, tries = obstore.delete, []

    def dropped_once(store: ObjectStore, key: str) -> None:
        tries.append(key)
        if len(tries) > 1 or done:
            delete(store, key)
        if len(tries) == 1:
            raise GenericError("HTTP error: error sending request")

    monkeypatch.setattr(obstore, "delete", dropped_once)
    place.unlink()
    assert len(tries) == 2
    with pytest.raises(FileNotFoundError):
        place.stat()


def test_a_deletion_that_stays_impossible_is_an_error(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def dropped(store: ObjectStore, key: str) -> None:
        tries.append(key)
        raise GenericError("HTTP error: error sending request")

    monkeypatch.setattr(obstore, "delete", dropped)
    monkeypatch.setattr("engine.storage.objects._DELETED_AGAIN_S", (0, 0))
    with pytest.raises(DataError, match="left-over cannot be reached: HTTP error"):
        (RemotePath.at(container) / "left-over").unlink(missing_ok=True)
    assert len(tries) == 3


def test_a_listing_is_that_of_a_folder(container: str) -> None:
    place = RemotePath.at(container) / "x"
    for name in ("b.npy", "a/c.npy", "a/d.txt", ".hidden/e.npy", "ä.npy", "labels.csv"):
        (place / name).write_bytes(name.encode())
    (RemotePath.at(container) / "xy/f.npy").write_bytes(b"beside")
    before = list_remote(place, ("**/*.npy", "labels.csv"))
    assert before["path"].to_pylist() == ["a/c.npy", "b.npy", "labels.csv", "ä.npy"]
    assert before["size"].to_pylist() == [7, 5, 10, 6]
    assert manifest.digest(before) == manifest.digest(list_remote(place, ("**/*.npy", "labels.csv")))
    (place / "b.npy").write_bytes(b"B.npy")  # as long, and within the second that stores tell
    after = list_remote(place, ("**/*.npy", "labels.csv"))
    assert manifest.compare(before, after) == {"gained": 0, "lost": 0, "changed": 1}


def test_an_object_that_was_replaced_is_not_read_as_one_with_the_old(container: str) -> None:
    place = RemotePath.at(container) / "part"
    place.write_bytes(b"a" * 200_000)
    with RangedFile(place, 200_000) as file:
        place.write_bytes(b"b" * 200_000)
        with pytest.raises(DataError, match="changed while"):
            file.read(10)
    with pytest.raises(FileNotFoundError, match="200000 bytes instead of 5"):
        RangedFile(place, 5)


def test_a_cached_range_asks_the_store_for_its_tag_alone(container: str, tmp_path: Path) -> None:
    place, cache = RemotePath.at(container) / "part", RangeCache(tmp_path, 10_000_000)
    place.write_bytes(b"a" * 200_000)
    with RangedFile(place, 200_000, cache=cache) as file:
        assert bytes(file.read(1000)) == b"a" * 1000
        tag = file.tag
    place.unlink()
    with RangedFile(place, 200_000, tag, cache) as file:
        assert bytes(file.read(1000)) == b"a" * 1000
        with pytest.raises((FileNotFoundError, DataError)):  # stores differ in what they look at first
            file.read(1000)


def test_a_container_that_is_not_there_is_reported(container: str) -> None:
    with pytest.raises(DataError, match="no container"):
        list(RemotePath.at(f"{container}nowhere").walk())


def test_errors_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=abcdefgh")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    message = redact("GET https://a.blob.core.windows.net/c/k?sv=2024&sig=abc%3D failed with wJalrXUtnFEMI")
    assert message == "GET https://a.blob.core.windows.net/c/k?... failed with ..."
