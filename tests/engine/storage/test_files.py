from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from engine.storage.files import (
    DOCUMENT_BYTES,
    flush,
    flush_many,
    new_file,
    read_document,
    read_document_text,
    temporary_beside,
    whole_file,
    write_whole,
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is asked of the system, in order, with the names of the files; all of it is done as well."""
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def name(handle: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))

    def recorded_fsync(handle: int) -> None:
        size = "" if os.path.isdir(f"/proc/self/fd/{handle}") else f" {os.fstat(handle).st_size}"
        seen.append(("flush", name(handle) + size))
        fsync(handle)

    def recorded_replace(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        seen.append(("rename", f"{os.path.basename(source)} {os.path.basename(target)}"))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names of open files are read from /proc")
def test_a_durable_file_is_flushed_before_its_name_and_its_folder_after(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    write_whole(tmp_path / "a.json", "übrig", durable=True)
    (first, flushed), (second, renamed), (third, folder) = calls
    temporary = renamed.split()[0]
    assert (first, second, third) == ("flush", "rename", "flush")
    # All six bytes were written when the flush began.
    assert flushed == f"{temporary} 6"
    assert temporary.startswith(".a.json.")
    assert temporary.endswith(".partial")
    assert renamed == f"{temporary} a.json"
    assert folder == tmp_path.name
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "übrig"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]

    calls.clear()
    write_whole(tmp_path / "b.json", b"1", durable=False)
    assert [call for call, _ in calls] == ["rename"]


@pytest.mark.parametrize("durable", [True, False])
def test_an_error_leaves_the_old_content_and_no_temporary_file(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "old", durable=durable)

    def fail() -> None:
        with whole_file(path, durable=durable) as temporary:
            temporary.write_text("half of the n")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(folder / "a.json", "x", durable=True)
    assert missing.value.filename == str(folder / "a.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as taken:
        write_whole(tmp_path / "taken", "x", durable=True)
    assert str(taken.value).endswith(f"{str(tmp_path / 'taken')!r}")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that has no space left")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "old", durable=True)

    def fill() -> None:
        with whole_file(path, durable=True) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_bytes(b"new")

    with pytest.raises(OSError) as full:
        fill()
    assert (full.value.errno, full.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    def read_another() -> None:
        with whole_file(tmp_path / "a.json", durable=True):
            (tmp_path / "source").read_bytes()

    with pytest.raises(FileNotFoundError) as caught:
        read_another()
    assert caught.value.filename == str(tmp_path / "source")


def test_a_link_to_the_file_itself_leaves_no_second_link(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    with whole_file(path, durable=True) as temporary:
        os.link(path, temporary)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    path = tmp_path / "a"
    with new_file(path) as temporary:
        temporary.write_text("mine")
        assert not path.exists()
    assert calls == [("flush", f"{temporary.name} 4"), ("flush", tmp_path.name)]

    def again() -> None:
        with new_file(path) as temporary:
            temporary.write_text("another")

    with pytest.raises(FileExistsError) as caught:
        again()
    assert str(caught.value).endswith(f"{str(path)!r}")
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_new_file_without_hard_links_is_renamed_and_takes_no_others_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    def write(text: str) -> None:
        with new_file(tmp_path / "a") as temporary:
            temporary.write_text(text)

    monkeypatch.setattr(os, "link", no_links)
    write("mine")
    with pytest.raises(FileExistsError) as caught:
        write("another")
    assert str(caught.value).endswith(f"{str(tmp_path / 'a')!r}")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "mine")]
    (tmp_path / "a").unlink()
    monkeypatch.setattr("engine.storage.files._REPLACE_NOTHING", 1 << 20)  # as on a file system that does not know it
    with pytest.raises(PermissionError, match="no hard links here"):
        write("mine")
    assert list(tmp_path.iterdir()) == []


def test_threads_of_one_process_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    texts = [str(i) * 20_000 for i in range(8)]
    start = threading.Barrier(len(texts))
    errors: list[BaseException] = []

    def write(text: str) -> None:
        try:
            start.wait()
            for _ in range(20):
                write_whole(path, text, durable=False)
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_text() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("ä" * 127), "x", durable=True)
    assert len(os.fsencode(temporary_beside(tmp_path / ("x" * 255), ".keras").name)) <= 255


@pytest.mark.parametrize("count", [1, 100])
def test_files_and_folders_are_flushed(tmp_path: Path, count: int) -> None:
    paths = [tmp_path / str(i) for i in range(count)]
    for path in paths:
        path.write_text("x")
    flush([*paths, tmp_path])
    flush_many([*paths, tmp_path])
    with pytest.raises(FileNotFoundError):
        flush_many([tmp_path / "none", *paths])


def test_a_file_system_that_cannot_flush_a_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    write_whole(tmp_path / "a", "x", durable=True)
    assert (tmp_path / "a").read_text() == "x"


def test_a_disk_that_fails_to_flush_is_an_error_with_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_whole(tmp_path / "a", "old", durable=True)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / "a", "new", durable=True)
    assert caught.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.timeout(20)
def test_only_a_regular_file_of_a_limited_size_is_read_as_a_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "giant").open("wb") as giant:
        giant.truncate(DOCUMENT_BYTES + 1)
    (tmp_path / "link").symlink_to("text")
    (tmp_path / "dangling").symlink_to("away")
    (tmp_path / "text").write_bytes(b"{}")
    assert read_document(tmp_path / "link") == b"{}"
    for name, reason in (
        ("/dev/zero", "a device"),
        ("pipe", "a named pipe"),
        ("folder", "a folder"),
        ("giant", "larger than 64 MB"),
        ("nothing", "No such file"),
        ("dangling", "a link whose target is missing"),
    ):
        with pytest.raises(OSError, match=reason):
            read_document(tmp_path / name)


def test_a_document_as_text_has_line_feeds_only(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("a\r\nb\rä\n".encode())
    assert read_document_text(tmp_path / "text") == (tmp_path / "text").read_text(encoding="utf-8") == "a\nb\nä\n"
