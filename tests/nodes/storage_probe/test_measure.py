"""A probe finds what is known of a place, keeps to its limits, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from html import escape
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from object_stores import ObjectStore
from pretended_benches import probe as pretended_probe
from pretended_benches import timed as pretended_times
from slow_network import delayed
from store_fixtures import container_in

from engine.errors import Cancelled, DataError, UsageError
from engine.probes import StorageProbe, Timed, keep_probe, probes
from engine.storage.objects import RemotePath
from engine.text import number
from engine.workspace import Workspace
from nodes.storage_probe import target
from nodes.storage_probe.measure import _epoch_there, probe_place
from nodes.storage_probe.parameters import EXAMPLE, Epoch, ProbeParameters
from nodes.storage_probe.report import JSON, PAGE, PICTURE, write_report
from nodes.storage_probe.target import ABANDONED_S, OURS, LocalTarget, _counted, target_at

SHORT = ProbeParameters(seconds=5, limit_mb=4)
SHORTER = ProbeParameters(seconds=2, limit_mb=4)
"""Less than a person may ask for: in an object store it is enough for some operations of each kind."""
SMALL = Epoch(1000, 20_000, "given")


def probe(place: object, *, name: str = "test", epoch: Epoch | None = SMALL, **more: object) -> StorageProbe:
    parameters = SHORTER if "://" in str(place) else SHORT
    return probe_place(str(place), parameters, name=name, epoch=epoch, **more)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_folder_is_measured_in_every_way_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("stays")
    found = probe(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (found.storage, found.place) == ("local", str(tmp_path))
    kinds = [value for value in dict(found).values() if isinstance(value, Timed)]
    assert len(kinds) == 11
    for timed in kinds:
        assert timed.operations >= 1
        assert timed.seconds > 0
        assert 0 < timed.p50_ms <= timed.p95_ms <= timed.p99_ms
    # Half of the space for small files, each read once: one by one or several at a time.
    assert 0 < found.bytes_written <= 4_000_000
    assert found.small_reads.operations + found.small_reads_at_once.operations == found.small_writes.operations
    assert found.listed_files == found.small_writes.operations
    assert found.table_reads.operations > 0
    assert found.deletes.operations == found.small_writes.operations + found.large_writes.operations
    assert found.epoch_one_by_one_s == pytest.approx(1000 / found.small_reads.per_s)
    assert "your 1,000 files of 20 kB" in found.meaning()[0]


def test_the_systems_cache_is_empty_when_it_says_so(tmp_path: Path) -> None:
    """A file that was just written is in the cache, and must not be taken for a read from the disk."""
    target = LocalTarget(str(tmp_path), "cache", 2)
    with target.opened():
        target.write("small/a.npy", os.urandom(100_000))
        before = target.cache(["small/a.npy"])
        target.forget(["small/a.npy"])
        after = target.cache(["small/a.npy"])
    assert (before, after) in {("warm", "cold"), ("unknown", "unknown"), ("warm", "warm")}


@pytest.mark.slow
def test_a_known_latency_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = LocalTarget.read

    def slow(self: LocalTarget, name: str) -> None:
        time.sleep(0.02)
        read(self, name)

    monkeypatch.setattr(LocalTarget, "read", slow)
    found = probe(tmp_path)
    assert 20 <= found.small_reads.p50_ms < 60
    assert found.small_reads.per_s <= 50
    assert found.epoch_one_by_one_s >= 20
    # Several at a time wait together.
    assert found.epoch_at_once_s < found.epoch_one_by_one_s
    assert found.small_reads_at_once.p50_ms >= 20


@pytest.mark.slow
@pytest.mark.parametrize("each_s", [0.05, 0.3])
def test_a_probe_takes_less_than_half_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_s: float) -> None:
    """With a fake clock that each operation advances, so the test does not wait for slow storage."""
    now, lock = 0.0, threading.Lock()

    def clock(seconds: float = 0.01) -> float:
        nonlocal now
        with lock:
            now += seconds
            return now

    def takes_its_time(done: Callable[..., object]) -> Callable[..., object]:
        def slowly(*arguments: object, **more: object) -> object:
            clock(each_s)
            return done(*arguments, **more)

        return slowly

    clocks = SimpleNamespace(monotonic=clock, perf_counter=clock, time=time.time, time_ns=time.time_ns)
    monkeypatch.setattr("nodes.storage_probe.measure.time", clocks)
    for name in ("write", "read", "read_range", "listed", "delete"):
        monkeypatch.setattr(LocalTarget, name, takes_its_time(getattr(LocalTarget, name)))
    found = probe_place(str(tmp_path), ProbeParameters(), name="test", epoch=SMALL)
    assert found.seconds == pytest.approx(now, abs=0.1)
    assert ProbeParameters().seconds / 2 < found.seconds < 30
    # Each kind of operation had its share of that time, and took no more than the one that it had begun.
    assert found.small_reads.seconds <= 0.16 * 20 + 2 * each_s + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("storage", "least", "most"), [("az", 32, 64), ("local", 4, 4)])
def test_reads_at_once_are_as_many_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, least: int, most: int
) -> None:
    """Four files are too few for 32 reads at a time: those of a store, which keeps nothing here, are read again."""
    now, seen, lock = 0, 0, threading.Lock()

    def counted(self: LocalTarget, name: str) -> None:
        nonlocal now, seen
        with lock:
            now += 1
            seen = max(seen, now)
        time.sleep(0.02)
        with lock:
            now -= 1

    monkeypatch.setattr(LocalTarget, "read", counted)
    monkeypatch.setattr(LocalTarget, "storage", storage)
    target = LocalTarget(str(tmp_path), "test", 2)
    target.streams = 32
    monkeypatch.setattr("nodes.storage_probe.target.target_at", lambda *_: target)
    parameters = ProbeParameters(seconds=5, limit_mb=16)
    found = probe_place(str(tmp_path), parameters, name="test", epoch=Epoch(100, 1_000_000, "given"))
    at_once = found.small_reads_at_once
    assert least <= at_once.operations <= most
    assert seen <= at_once.streams == min(32, at_once.operations)
    assert f"with {at_once.streams} reads at a time" in found.meaning()[0]
    assert found.small_reads.operations == 4


@pytest.mark.slow
def test_the_volumes_of_the_place_are_those_of_the_epoch(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    for i in range(12):
        np.save(tmp_path / "class" / f"{i}.npy", np.zeros(1000 - 32, "<f4"))
    (tmp_path / ".hidden.npy").write_bytes(b"no volume")
    found = probe(tmp_path, epoch=None)
    assert (found.epoch_files, found.epoch_file_bytes, found.epoch_is) == (12, 4000, "found")
    assert found.file_bytes == 4000
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden.npy", "class"]


@pytest.mark.parametrize(
    ("sizes", "looks", "epoch"),
    [
        ([100, 300, None], 9, Epoch(2, 200, "found")),
        ([None] * 9, 9, EXAMPLE),
        ([0, 0], 9, EXAMPLE),
        ([], 9, EXAMPLE),
        # Too many to be counted: their size is that of the first ones.
        ([100, 300, *[500] * 9], 2, Epoch(650_000, 200, "like those found")),
        ([100] * 700_001, 700_000, Epoch(700_000, 100, "like those found")),
        # Other files take their time, too.
        ([None] * 50, 3, EXAMPLE),
        ([None, None, 100, 100], 3, Epoch(650_000, 100, "like those found")),
    ],
)
def test_a_place_with_very_many_files_is_looked_at_for_a_moment(
    sizes: list[int | None], looks: int, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = chain([0.0] * looks, repeat(1e9))  # one look at the clock before the first file
    monkeypatch.setattr(target.time, "monotonic", lambda: next(clock))
    left = iter(sizes)
    assert _epoch_there(_counted(left)) == epoch
    assert len(list(left)) == max(0, len(sizes) - looks)


def test_files_like_those_found_are_said_to_be_no_count() -> None:
    found = pretended_probe("/d").model_copy(
        update={"epoch_is": "like those found", "epoch_files": 650_000, "epoch_file_bytes": 720_000}
    )
    assert found.meaning()[0].startswith("From here an epoch of, say, 650,000 files like yours, of 720 kB, takes ")


@pytest.mark.slow
def test_without_volumes_an_example_is_given_and_called_so(tmp_path: Path) -> None:
    found = probe_place(str(tmp_path), ProbeParameters(seconds=5, limit_mb=8), name="test")
    assert (found.epoch_files, found.epoch_file_bytes, found.epoch_is) == (650_000, 360_000, "an example")
    assert ", say, 650,000 files of 360 kB" in found.meaning()[0]
    assert found.bytes_written <= 8_000_000


@pytest.mark.slow
def test_what_is_larger_than_a_probes_files_is_reckoned_by_bytes(tmp_path: Path) -> None:
    parameters = ProbeParameters(seconds=2, limit_mb=192)
    found = probe_place(str(tmp_path), parameters, name="test", epoch=Epoch(10, 320 << 20, "given"))
    assert found.file_bytes == pytest.approx(16 << 20, rel=0.01)
    assert found.epoch_one_by_one_s == pytest.approx(10 * 20 / found.small_reads.per_s, rel=0.01)


@pytest.mark.parametrize("place", ["az://box/data", "/data"])
def test_a_measured_listing_has_the_time_of_its_requests_in_it(place: str) -> None:
    listed = {"listing": pretended_times(1, 0, ms=400), "short_listing": pretended_times(1, 0, ms=50)}
    found = pretended_probe(place).model_copy(update={**listed, "listed_files": 8000, "epoch_files": 8000})
    assert found.listing_s == pytest.approx(0.4)


@pytest.mark.slow
def test_a_listing_is_foretold_by_requests_and_files(tmp_path: Path) -> None:
    def timed(ms: float) -> Timed:
        return Timed(operations=1, bytes=0, seconds=ms / 1000, p50_ms=ms, p95_ms=ms, p99_ms=ms)

    found = probe(tmp_path).model_copy(
        update={"listing": timed(50), "listed_files": 100, "short_listing": timed(30), "epoch_files": 10_500}
    )
    assert found.listing_s == pytest.approx(0.03 + 10_500 * 0.0002)
    assert found.model_copy(update={"storage": "az"}).listing_s == pytest.approx(11 * 0.03 + 10_500 * 0.0002)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["writing", "reading small files", "reading large files", "reading a table"])
def test_a_probe_that_is_stopped_cleans_up(tmp_path: Path, step: str) -> None:
    steps: list[str] = []

    def check() -> None:
        if steps[-1] == step:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        probe(tmp_path, check=check, report=steps.append)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_killed_probes_left_is_removed_and_what_others_do_is_not(tmp_path: Path) -> None:
    for name in ("same", "old", "young"):
        (tmp_path / OURS / name / "small").mkdir(parents=True)
        (tmp_path / OURS / name / "small" / "a.npy").write_bytes(b"left")
    old = time.time() - ABANDONED_S - 60
    os.utime(tmp_path / OURS / "old", (old, old))
    probe(tmp_path, name="same")
    assert [path.name for path in (tmp_path / OURS).iterdir()] == ["young"]


@pytest.mark.slow
def test_a_disk_with_little_space_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, 20_000_000))
    assert probe(tmp_path).bytes_written <= 1_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, 2_000_000))
    with pytest.raises(UsageError, match=r"needs 0\.2 MB, and may take 0\.1 MB") as caught:
        probe(tmp_path)
    assert "twentieth" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        probe(tmp_path / "nowhere")
    (tmp_path / OURS).write_text("a file where the probe's folder would be")
    with pytest.raises(UsageError, match="nothing can be written to"):
        probe(tmp_path)


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        (r"\\server\share\x", "Mount the share"),
        ("//server/share", "Mount the share"),
        ("server:/export", "Mount the share"),
        ("smb://server/share", "Mount the share"),
        ("C:\\data", "such as /mnt/c/folder"),
        ("file:///data", "Write the path alone"),
        ("nowhere:at-all", "Name a folder, or az://container/folder."),
    ],
)
def test_names_that_other_systems_have_for_a_folder_say_what_to_write(place: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        target_at(place, "test", 2)
    assert hint in caught.value.hint


def test_a_place_that_is_no_folder_or_cannot_be_looked_at_says_so(tmp_path: Path) -> None:
    (tmp_path / "file.npy").write_bytes(b"")
    with pytest.raises(UsageError, match=r"file\.npy is a file, not a folder"):
        probe(tmp_path / "file.npy")
    with pytest.raises(UsageError, match=r"cannot be looked at: File name too long"):
        probe(tmp_path / ("x" * 300))
    with pytest.raises(UsageError, match="there is no folder"):
        target_at("a\0b", "test", 2)


def test_a_limit_that_is_too_small_and_a_disk_that_is_full_have_hints_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Epoch(10, 16 << 20, "given")
    with pytest.raises(UsageError, match=r"needs 134\.2 MB, and may take 4\.0 MB") as caught:
        probe_place(str(tmp_path), SHORT, name="test", epoch=large)
    assert caught.value.hint == "Raise the limit (limit_mb, --limit-mb of `voxelflow probe`) to at least 135 MB."
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 0))
    with pytest.raises(UsageError, match=r"may take 0\.0 MB") as caught:
        probe(tmp_path)
    assert caught.value.hint.startswith("Free some space there")


@pytest.mark.slow
def test_the_report_and_the_kept_result_say_the_same(tmp_path: Path, workspace: Workspace) -> None:
    found = probe(tmp_path)
    page = write_report(found, tmp_path)
    assert page.name == PAGE
    text = page.read_text()
    assert "<svg" in text
    picture = (tmp_path / PICTURE).read_text()
    assert picture in text
    assert "A single read" in picture
    for timed in (found.random_reads, found.sequential_reads, found.table_reads):
        rates = (number(float(f"{rate:.3g}")) for rate in (timed.mb_s, timed.per_s))
        assert ">{} MB in {} reads<".format(*rates) in picture
    for line in found.meaning():
        assert escape(line) in text
    assert StorageProbe.model_validate_json((tmp_path / JSON).read_text()) == found
    first = keep_probe(workspace, found)
    keep_probe(workspace, found.model_copy(update={"measured_at": found.measured_at + 5}))
    # A newer program's fields do no harm, another file does none either.
    first.write_text(json.dumps(json.loads(first.read_text()) | {"more": 1}))
    (first.parent / "damaged.json").write_text("{")
    (first.parent / "other.json").write_text('{"format": 2}')
    assert [kept.measured_at for kept in probes(workspace)] == [found.measured_at + 5, found.measured_at]
    assert probes(workspace)[1] == found


@pytest.mark.slow
def test_an_object_store_is_measured_and_left_empty(container: str) -> None:
    place = RemotePath.at(container) / "some" / "folder"
    found = probe(place)
    assert (found.storage, found.cache) == (place.url.scheme, "none")
    assert 2 * found.small_reads.operations <= found.small_writes.operations
    # Where there are too few files for two reads of each stream, some are read again.
    at_once = found.small_reads_at_once
    assert at_once.operations <= max(64, found.small_writes.operations - found.small_writes.operations // 2)
    assert at_once.streams == min(32, at_once.operations)
    assert found.table_reads.operations > 0
    assert found.listed_files == found.small_writes.operations
    assert list(RemotePath.at(container).walk()) == []


@pytest.mark.slow
def test_volumes_and_leftovers_in_an_object_store(container: str) -> None:
    root = RemotePath.at(container)
    (root / "a" / "1.npy").write_bytes(b"x" * 3000)
    (root / "a" / "2.npy").write_bytes(b"x" * 5000)
    (root / OURS / "same" / "small" / "000001.npy").write_bytes(b"left by a kill")
    (root / OURS / "young" / "begin").write_bytes(b"")
    found = probe(container, name="same", epoch=None)
    assert (found.epoch_files, found.epoch_file_bytes, found.epoch_is) == (2, 4000, "found")
    assert sorted(item.path for item in root.walk()) == [f"{OURS}/young/begin", "a/1.npy", "a/2.npy"]


@pytest.mark.slow
@pytest.mark.parametrize("server", ["azure_server", "s3_stand_in"])
def test_the_latency_of_a_network_is_found(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    url = container_in(store, monkeypatch)
    with delayed(store, 100) as far:
        for name, value in far.environment.items():
            monkeypatch.setenv(name, value)
        found = probe(url)
        assert list(RemotePath.at(url).walk()) == []
    for reads in (found.small_reads, found.random_reads):
        # No read is sooner; how much later depends on what else this machine does, so the upper bound is a wide one.
        assert 100 <= reads.p50_ms < 400
        assert reads.per_s < 10
    assert found.epoch_one_by_one_s > 100
    # One request.
    assert 0.1 <= found.short_listing.p50_ms / 1000 <= found.listing_s
    # 32 at a time wait together, and so do the pieces of a table.
    assert found.epoch_at_once_s < found.epoch_one_by_one_s
    assert found.epoch_table_s < found.epoch_one_by_one_s


@pytest.mark.slow
def test_a_container_that_is_not_there_is_named(azure: str) -> None:
    with pytest.raises(DataError, match="there is no container az://nowhere"):
        probe("az://nowhere/folder")
