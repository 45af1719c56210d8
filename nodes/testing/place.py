"""The laws of a place as tests. A new kind of storage keeps them, or a table in it may lose or double rows.

class TestMyPlace(PlaceConformance):
    @pytest.fixture
    def place(self) -> Place:
        return MyPlace("an empty folder")
"""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from engine.errors import StaleInput
from engine.storage.place import NewFile, Place


class PlaceConformance:
    """Subclass it and override the fixture `place`, which gives an empty one that nobody else uses."""

    @pytest.fixture
    def place(self) -> Place:
        """An empty place."""
        raise NotImplementedError

    @pytest.fixture
    def new(self, tmp_path: Path) -> list[NewFile]:
        """Local files of several sizes, one of them in a folder."""
        folder = tmp_path / "new"
        folder.mkdir()
        out = []
        for number, name in enumerate(["a.parquet", "b c.parquet", "d.parquet", "ü.parquet"]):
            (folder / f"{number}").write_bytes(bytes([65 + number]) * (1000 * number))
            out.append(NewFile(folder / f"{number}", name, 1000 * number))
        return out

    def test_nothing_is_in_an_empty_place(self, place: Place) -> None:
        assert list(place.names()) == []
        assert list(place.names("no/such")) == []
        assert list(place.files()) == list(place.files("no/such")) == []
        assert place.stat("a") is None
        assert place.sizes()("a") is None
        for read in (place.read, place.lines):
            with pytest.raises(FileNotFoundError):
                read("a")
        place.delete("a")

    def test_what_is_written_is_read(self, place: Place) -> None:
        place.write("_x/deep/a", lambda sink: sink.write(b"one\ntwo"))
        assert bytes(place.read("_x/deep/a")) == b"one\ntwo"
        assert list(place.lines("_x/deep/a")) == [b"one\n", b"two"]
        found = place.stat("_x/deep/a")
        assert found is not None
        assert found.size == 7
        assert found.mtime_ns > 10**18
        assert place.path("_x/deep/a") == f"{place}/_x/deep/a"
        place.write("_x/deep/a", lambda sink: sink.write(b"three"))
        assert bytes(place.read("_x/deep/a")) == b"three"
        place.delete("_x/deep/a")
        assert place.stat("_x/deep/a") is None

    def test_an_empty_file_is_a_file(self, place: Place) -> None:
        place.write("a", lambda sink: None)
        assert bytes(place.read("a")) == b""
        assert list(place.lines("a")) == []
        assert place.sizes()("a") == 0

    def test_a_write_that_fails_leaves_what_was_there(self, place: Place) -> None:
        def fail(sink: pa.NativeFile) -> None:
            sink.write(b"half")
            raise KeyError("on the way")

        place.write("a", lambda sink: sink.write(b"whole"))
        for name in ("a", "b"):
            with pytest.raises(KeyError):
                place.write(name, fail)
        assert bytes(place.read("a")) == b"whole"
        assert list(place.names()) == ["a"]

    def test_names_are_those_directly_in_a_folder(self, place: Place) -> None:
        for name in ("a", "sub/b", "sub/c", "sub/deeper/d", "subway"):
            place.write(name, lambda sink: sink.write(b"x"))
        assert sorted(place.names()) == ["a", "sub", "subway"]
        assert sorted(place.names("sub")) == ["b", "c", "deeper"]
        assert sorted(place.files()) == [("a", 1), ("sub/b", 1), ("sub/c", 1), ("sub/deeper/d", 1), ("subway", 1)]
        assert sorted(place.files("sub")) == [("sub/b", 1), ("sub/c", 1), ("sub/deeper/d", 1)]

    def test_a_file_is_put_once(self, place: Place) -> None:
        assert place.put_if_absent("log/1", b"mine")
        assert not place.put_if_absent("log/1", b"other")
        assert bytes(place.read("log/1")) == b"mine"
        assert list(place.names("log")) == ["1"]

    def test_of_many_who_put_a_file_one_succeeds(self, place: Place) -> None:
        together = threading.Barrier(8)

        def put(number: int) -> bool:
            together.wait(120)
            return place.put_if_absent("1", b"%d" % number)

        with ThreadPoolExecutor(8) as pool:
            won = [number for number, done in enumerate(pool.map(put, range(8))) if done]
        assert len(won) == 1
        assert bytes(place.read("1")) == b"%d" % won[0]

    @pytest.mark.parametrize("mode", ["link", "copy"])
    def test_files_are_put_whole(self, place: Place, new: list[NewFile], mode: Literal["link", "copy"]) -> None:
        # More than are put at a time, and than are asked for one by one.
        for files in (new, [file._replace(name=f"{n}/{file.name}") for n in range(10) for file in new]):
            assert sorted(place.put_all(files, mode)) == list(range(len(files)))
            place.flush(file.name for file in files)
            sizes = place.sizes()
            for file in files:
                assert bytes(place.read(file.name)) == file.source.read_bytes()
                assert sizes(file.name) == file.size

    def test_a_file_that_is_there_stays_and_one_that_is_cut_short_is_replaced(
        self, place: Place, new: list[NewFile]
    ) -> None:
        file = new[1]
        content = file.source.read_bytes()
        place.write(file.name, lambda sink: sink.write(content))
        before = place.stat(file.name)
        assert list(place.put_all([file], "link")) == [0]
        assert place.stat(file.name) == before
        place.write(file.name, lambda sink: sink.write(b"cut short"))
        assert list(place.put_all([file], "link")) == [0]
        assert bytes(place.read(file.name)) == file.source.read_bytes()

    def test_a_source_that_is_gone_is_reported(self, place: Place, new: list[NewFile]) -> None:
        os.unlink(new[2].source)
        with pytest.raises(StaleInput, match=f"{new[2].source} is gone"):
            list(place.put_all(new, "link"))
        assert place.stat(new[2].name) is None

    def test_damaged_files_are_found(self, place: Place, new: list[NewFile]) -> None:
        list(place.put_all(new, "copy"))
        wanted = [(file.name, file.size) for file in new]
        assert list(place.damaged(wanted)) == []
        wanted[1] = (wanted[1][0], 1234)
        place.delete(wanted[3][0])
        assert list(place.damaged(wanted)) == [(1, "has 1,000 bytes, not 1,234"), (3, "is gone")]

    def test_files_are_read_at_random(self, place: Place) -> None:
        data = bytes(range(256)) * 1000
        place.write("a", lambda sink: sink.write(data))
        with place.open("a", len(data)) as file:
            file.seek(100_000)
            assert file.read(10) == data[100_000:100_010]
            assert file.size() == len(data)

    def test_files_are_fetched(self, place: Place, new: list[NewFile], tmp_path: Path) -> None:
        list(place.put_all([file._replace(name=f"sub/{file.name}") for file in new], "copy"))
        place.fetch([(f"sub/{file.name}", file.size) for file in new], tmp_path / "here")
        for file in new:
            assert (tmp_path / "here" / "sub" / file.name).read_bytes() == file.source.read_bytes()
        for name, size in ((f"sub/{new[1].name}", 999), ("none", 1)):
            with pytest.raises(FileNotFoundError):
                place.fetch([(name, size)], tmp_path / "again")

    def test_it_travels_to_another_process(self, place: Place) -> None:
        place.put_if_absent("a", b"x")
        assert bytes(pickle.loads(pickle.dumps(place)).read("a")) == b"x"
