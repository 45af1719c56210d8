"""Errors of the system become one sentence: the file, the reason, what to do."""

from __future__ import annotations

import errno
import os
import re
import resource
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import Cancelled, DataError, DiskFull, FileError, VoxelflowError
from engine.storage.files import write_whole
from engine.storage.io_errors import explain, explained, file_of, naming, number_of, remedy


def refused(number: int, file: str | None = "/d/x.parquet") -> OSError:
    return OSError(number, os.strerror(number), file)


@pytest.mark.parametrize(
    ("number", "kind", "sentence", "hint"),
    [
        (errno.ENOSPC, DiskFull, r"no space left on /: /d/x\.parquet could not be written, \S+ [MG]B free", "clean"),
        (errno.EDQUOT, DiskFull, r"the disk quota on / is used up: /d/x\.parquet could not be written", "larger quota"),
        (errno.EMFILE, FileError, r"too many open files to open /d/x\.parquet: .* \d+ open \(`ulimit", "ulimit -n"),
        (errno.ENFILE, FileError, r"too many open files to open /d/x\.parquet: the whole machine", "fs.file-max"),
        (errno.EROFS, FileError, r"/ is read-only: /d/x\.parquet could not be written", "Mount it"),
        (errno.EACCES, FileError, r"no permission to use /d/x\.parquet", "Give the user"),
        (errno.EPERM, FileError, r"no permission to use /d/x\.parquet", "Give the user"),
        (errno.EIO, FileError, r"failed to read or write /d/x\.parquet \(input/output error\)", "system's log"),
        (errno.EFBIG, FileError, r"/d/x\.parquet cannot grow larger than", "Raise the limit"),
        (errno.ENOENT, FileError, r"/d/x\.parquet: No such file or directory", "Check the path"),
        (errno.ENAMETOOLONG, FileError, r"/d/x\.parquet: File name too long", "Choose a shorter name"),
        (errno.EISDIR, FileError, r"/d/x\.parquet: Is a directory", "Give the path of a file"),
        (errno.ETIMEDOUT, FileError, r"/d/x\.parquet: Connection timed out", "Wait until the drive"),
        (errno.EDOM, FileError, r"/d/x\.parquet: Numerical argument", "Check that the file"),
    ],
)
def test_each_error_names_its_file_and_says_what_to_do(
    number: int, kind: type[VoxelflowError], sentence: str, hint: str
) -> None:
    found = explain(refused(number))
    assert type(found) is kind
    assert re.search(sentence, found.message)
    assert hint in found.hint
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "Free space there"),
        (errno.EMFILE, "Raise the limit"),
        (errno.EACCES, "Give the user"),
        (errno.EROFS, "Mount it for writing"),
        (errno.ENOENT, "Check the path"),
        (errno.EIO, "Look at the system's log"),
        (None, "Check that the file"),
    ],
)
def test_the_remedy_goes_by_the_error_number_and_resumes_no_run(
    number: int | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 524_288))
    error = OSError("no number") if number is None else refused(number)
    assert remedy(error).startswith(hint)
    assert "resume" not in remedy(error)


@pytest.mark.parametrize(
    ("now", "most", "hint"),
    [
        (256, resource.RLIM_INFINITY, "Raise the limit in the shell that starts Voxelflow, as in `ulimit -n 4096`,"),
        (1024, 524_288, "Raise the limit in the shell that starts Voxelflow, as in `ulimit -n 4096`,"),
        (20_000, 1_000_000, "Raise the limit in the shell that starts Voxelflow, as in `ulimit -n 80000`,"),
        (1024, 2048, "Raise the limit in the shell that starts Voxelflow, as in `ulimit -n 2048`,"),
        (20_000, 20_000, "Have an administrator raise the hard limit of open files, which is 20000, and enter"),
    ],
)
def test_the_advice_names_no_limit_above_the_hard_one(
    now: int, most: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (now, most))
    assert remedy(refused(errno.EMFILE)).startswith(hint)


def test_a_limit_on_file_size_is_named(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            (tmp_path / "big").write_bytes(bytes(3_000_000))
        found = explain(caught.value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found is not None
    assert found.message == f"{tmp_path / 'big'} cannot grow larger than 2.0 MB (`ulimit -f`)"


def test_the_needed_and_the_free_space_are_named(tmp_path: Path) -> None:
    found = explain(refused(errno.ENOSPC, None), [tmp_path], 234_000_000)
    assert found is not None
    assert re.fullmatch(
        rf"no space left on {tmp_path}: about 234 MB needed for the node's output, \S+ [MG]B free now", found.message
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_size_of_a_file_that_does_not_fit_is_named(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / "evaluation.html", "x" * 1_200_000, durable=True)
    found = explain(caught.value)
    assert found is not None
    assert "evaluation.html could not be written, 1.2 MB needed for it" in found.message
    whole = explain(caught.value, about_bytes=5_000_000)
    assert whole is not None
    assert "evaluation.html could not be written, about 5.0 MB needed for the node's output" in whole.message


@pytest.mark.parametrize(
    "exc",
    [
        OSError("Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"),
        RuntimeError("Unable to flush file (file write failed: filename = '/d/m.h5', errno = 28, error message = '')"),
        ValueError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        RuntimeError("/d/events.out; No space left on device"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_other_libraries_errors_are_known_by_their_text(exc: Exception) -> None:
    assert isinstance(explain(exc, [Path("/")]), DiskFull)


@pytest.mark.parametrize(
    ("code", "missing", "denied", "said"),
    [
        (sqlite3.SQLITE_READONLY, False, False, "too many open files to open {file}"),
        (sqlite3.SQLITE_READONLY, False, True, "no permission to use {file}"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, False, True, "no permission to use {file}"),
        (sqlite3.SQLITE_READONLY_DBMOVED, True, False, "{file}: No such file or directory"),
        (sqlite3.SQLITE_READONLY_ROLLBACK, False, False, "{folder} is read-only"),
        (sqlite3.SQLITE_CANTOPEN, False, False, "too many open files to open {file}"),
        (sqlite3.SQLITE_CANTOPEN, False, True, "no permission to use {file}"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, False, "no space left on {folder}"),
    ],
)
def test_what_sqlite_could_not_write_is_said_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, missing: bool, denied: bool, said: str
) -> None:
    file = tmp_path / "runs.db"
    if not missing:
        file.touch()
    if denied:  # root is denied nothing
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = code
    with pytest.raises(sqlite3.OperationalError), naming(file):
        raise error
    found = explain(error)
    assert found is not None
    assert found.message.startswith(said.format(file=file, folder=tmp_path))


@pytest.mark.parametrize("name", ["runs.db", "n" * 250 + "/" + "m" * 250 + "/runs.db"], ids=["journal", "long"])
def test_a_database_that_can_never_be_opened_is_not_taken_for_a_shortage_of_handles(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    if name == "runs.db":
        (tmp_path / "runs.db-journal").mkdir()
    with pytest.raises(sqlite3.OperationalError) as caught, naming(file), sqlite3.connect(file) as db:
        db.execute("CREATE TABLE t (a)")
    assert explain(caught.value) is None


def test_the_file_stands_in_the_text_of_other_libraries() -> None:
    hdf5 = OSError(28, "Can't write data (file write failed: filename = '/d/m.h5', file descriptor = 5, errno = 28)")
    assert file_of(hdf5) == "/d/m.h5"
    with pytest.raises(OSError) as caught:
        pa.OSFile("/none/at/all", "wb")
    assert file_of(caught.value) == "/none/at/all"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="the system has no /dev/full")
def test_a_real_full_disk_is_named_with_the_file_of_each_writer(tmp_path: Path) -> None:
    """`/dev/full` refuses every byte, in the words of each library."""
    full, column = tmp_path / "full", pa.table({"a": pa.array(np.arange(100_000))})

    def numpy() -> None:
        with full.open("wb") as file:
            np.savez(file, a=np.zeros(100_000))

    def text() -> None:
        full.write_text("x" * 100_000)

    def parquet() -> None:
        pq.write_table(column, full)

    def arrow() -> None:
        with naming(full), pa.OSFile(str(full), "wb") as sink, pa.ipc.new_file(sink, column.schema) as writer:
            writer.write_table(column)

    def archive() -> None:
        with zipfile.ZipFile(full, "w") as file:
            file.writestr("a", os.urandom(100_000))

    for write in (numpy, text, parquet, arrow, archive):
        # A link: pyarrow removes a file that it could not write.
        full.unlink(missing_ok=True)
        full.symlink_to("/dev/full")
        wanted = f"no space left on {tmp_path}: full could not be written"
        with pytest.raises(DiskFull, match=re.escape(wanted)) as caught, explained():
            write()
        assert caught.value.__cause__ is not None


def test_what_was_raised_while_cleaning_up_hides_no_full_disk() -> None:
    def write() -> None:
        try:
            raise refused(errno.ENOSPC)
        finally:
            raise FileNotFoundError(errno.ENOENT, "gone", "/d/y")

    with pytest.raises(FileNotFoundError) as caught:
        write()
    assert isinstance(explain(caught.value), DiskFull)


def test_an_error_of_ours_stays_unless_it_only_passes_on_that_resources_are_gone() -> None:
    def wrapped(number: int) -> DataError:
        out = DataError("the table is damaged: make it again")
        out.__cause__ = refused(number)
        return out

    assert explain(wrapped(errno.ENOENT)) is None
    assert isinstance(explain(wrapped(errno.EMFILE)), FileError)
    assert isinstance(explain(wrapped(errno.ENOSPC)), DiskFull)
    assert explain(DiskFull("full")) is None
    assert explain(Cancelled("cancelled: No space left on device")) is None
    assert explain(DataError("it says: No space left on device")) is None


def test_what_is_no_error_of_files_is_left_alone() -> None:
    assert explain(ValueError("28")) is None
    assert explain(MemoryError()) is None
    assert explain(RuntimeError("HTTP 403: Permission denied")) is None
    assert number_of(KeyError("x")) is None


def test_naming_adds_the_file_and_keeps_the_text() -> None:
    reported = OSError("Unable to copy data to file: No space left on device (os error 28)")
    with pytest.raises(OSError, match="os error 28") as caught, naming("/d/x"):
        raise reported
    assert file_of(caught.value) == "/d/x"
    with pytest.raises(OSError) as caught, naming("/d/y", {errno.ENOSPC}):
        raise OSError(errno.EIO, "x")
    assert file_of(caught.value) is None
