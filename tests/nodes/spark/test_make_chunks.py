"""Conversion by Spark tasks: the same parts as embedded, whatever happens to the tasks."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pyarrow as pa
import pytest
from npy_folders import context, convert, hostile_folder, make_volumes, numbered, parts_of, reasons, rows, take
from pyspark.sql import SparkSession
from spark_nodes import on_spark
from waiting import wait_until

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles, VolumeParquet, VolumeSpec
from engine.declare.events import Event, Message
from engine.errors import Cancelled, TooManyBadFiles
from engine.storage import manifest
from engine.workspace import Workspace, trust
from nodes.conversion.columns import TIMESTAMP
from nodes.conversion.convert import FileRows
from nodes.conversion.make_parts import Chunks, Making
from nodes.conversion.part_store import PartStore
from nodes.conversion.part_writer import Layout
from nodes.conversion.row_ledger import RowLedger
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.spark import load_delta, make_chunks
from nodes.spark.make_chunks import MakeChunk
from nodes.transform_volumes import transform_volumes

SHAPE = (25, 25, 10, 4)
"""100 kB, so that ten volumes make a part of 1 MB."""


def spark_convert(
    session: SparkSession, root: Path, base: Path, *, previous: VolumeParquet | None = None, **params: object
) -> tuple[VolumeParquet, list[str]]:
    """As `npy_folders.convert`, on Spark; with what was reported."""
    messages: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Message):
            messages.append(event.text)

    files = take(root, base)
    fingerprint = Path(files.manifest).parent.name.ljust(32, "0")
    ctx = context(base, "parquet", fingerprint, previous={"out": previous} if previous else {}, emit=hear)
    ctx = dataclasses.replace(ctx, open_spark=lambda: session)
    return on_spark(numpy_to_parquet, files, ctx=ctx, **params), messages


def content(dataset: VolumeParquet) -> dict[str, bytes]:
    """The parts as they lie on the disk; nothing else may lie there."""
    found = {p.name: p.read_bytes() for p in Path(dataset.uri).iterdir()}
    assert found.keys() == {p.path for p in parts_of(dataset).parts}
    return found


def left_over(dataset: VolumeParquet) -> list[str]:
    return [p.name for p in Path(dataset.uri).parent.glob(".making-*")]


@pytest.mark.slow
def test_every_byte_is_as_embedded_s(spark_local: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    good, bad, proof = hostile_folder(root)
    lines = [f"v{n:04d},{n % 2},P{n % 3},{n / 4},2024-01-{n + 1:02d},2024-01-01 10:{n:02d}" for n in range(10)]
    (root / "labels.csv").write_text("file,label,patient,age,seen,at\n" + "\n".join(lines))
    here = convert(root, tmp_path / "here", max_bad_files=len(bad), row_group_rows=4)
    there, _ = spark_convert(spark_local, root, tmp_path / "there", max_bad_files=len(bad), row_group_rows=4)
    assert content(there) == content(here)
    assert rows(there).keys() == good.keys()
    assert reasons(there) == reasons(here) == bad
    assert not proof.exists()
    strip = {"uri", "manifest"}
    assert there.model_dump(exclude=strip) == here.model_dump(exclude=strip)
    without_times = [[replace(p, mtime_ns=0) for p in parts_of(d).parts] for d in (here, there)]
    assert without_times[0] == without_times[1]
    assert left_over(there) == []
    assert list((tmp_path / "there" / "scratch" / "parquet").iterdir()) == []


@pytest.mark.slow
def test_scans_become_the_same_parts_with_the_same_columns(spark_local: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for number in range(9):
        image = nibabel.Nifti1Image(np.full((4, 3, 2), number, np.int16), np.diag([1.0, 2.0, 3.0, 1.0]))
        nibabel.save(image, root / f"p{number}.nii.gz")
    (root / "broken.nii.gz").write_bytes(b"no gzip")
    here = convert(root, tmp_path / "here", max_bad_files=1, row_group_rows=4)
    there, _ = spark_convert(spark_local, root, tmp_path / "there", max_bad_files=1, row_group_rows=4)
    assert content(there) == content(here)
    assert reasons(there) == reasons(here) == {"broken.nii.gz": "format"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "rows"])
def test_transformed_volumes_become_the_same_parts(
    spark_local: SparkSession, tmp_path: Path, workspace: Workspace, kind: str
) -> None:
    """Of files of two shapes and of a table's rows, with a function of one's own among the steps."""
    workspace.my_transforms.mkdir()
    own = workspace.my_transforms / "double.py"
    own.write_text("def transform(volume, row):\n    return volume * 2\n")
    trust(workspace)
    make_volumes(tmp_path / "in", numbered(20), (6, 5, 4))
    if kind == "files":
        make_volumes(tmp_path / "in", numbered(9, 20), (5, 6, 7))
        source: VolumeFiles | VolumeParquet = take(tmp_path / "in", tmp_path / "work")
    else:
        source = convert(tmp_path / "in", tmp_path / "work", row_group_rows=4)
    steps = {"size": (4, 4, 4), "function": str(own), "normalise": "z-score"}
    files = transform_volumes(source, **steps, ctx=context(tmp_path / "work", "transform"))
    here = numpy_to_parquet(files, row_group_rows=3, ctx=context(tmp_path / "here", "parquet"))
    ctx = dataclasses.replace(context(tmp_path / "there", "parquet"), open_spark=lambda: spark_local)
    there = on_spark(numpy_to_parquet, files, row_group_rows=3, ctx=ctx)
    assert content(there) == content(here)
    assert there.spec == here.spec == files.spec


@pytest.mark.slow
def test_either_backend_goes_on_from_the_other_s_parts(spark_local: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(30), SHAPE)
    first, _ = spark_convert(spark_local, root, tmp_path / "work", target_file_mb=1)
    make_volumes(root, numbered(5, start=30), SHAPE, seed=1)
    said: list[str] = []
    second = convert(root, tmp_path / "work", previous=first, messages=said, target_file_mb=1)
    assert "; 5 files converted now, 3 parts were there already" in said[-1]
    make_volumes(root, numbered(15, start=35), SHAPE, seed=2)
    third, said = spark_convert(spark_local, root, tmp_path / "work", previous=second, target_file_mb=1)
    assert "; 15 files converted now, 4 parts were there already" in said[-1]
    found = rows(third)
    # Without the older results: the chunks' records say it.
    (tmp_path / "again").mkdir()
    shutil.move(tmp_path / "work" / "parquet", tmp_path / "again" / "parquet")
    fourth, said = spark_convert(spark_local, root, tmp_path / "again", target_file_mb=1)
    assert "; 20 files converted now, 3 parts were there already" in said[-1]
    assert rows(fourth) == found == rows(convert(root, tmp_path / "fresh", target_file_mb=1))


@pytest.mark.slow
def test_too_many_bad_files_end_the_job(spark_local: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(40), SHAPE)
    (root / "v0000.npy").write_bytes(b"no volume")
    with pytest.raises(TooManyBadFiles, match=r"1 file .*not-npy") as caught:
        spark_convert(spark_local, root, tmp_path / "work", target_file_mb=1)
    assert "quarantine.csv" in caught.value.hint
    assert not list((tmp_path / "work" / "parquet").glob("*/parts.json"))
    # Delta is loaded beside the converter the first time, by jobs of its own.
    tracker = spark_local.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds(), "the end of all jobs")


@pytest.mark.slow
def test_a_cancel_ends_the_job_and_publishes_nothing(spark_local: SparkSession, tmp_path: Path) -> None:
    make_volumes(tmp_path / "in", numbered(40), SHAPE)
    files = take(tmp_path / "in", tmp_path / "work")
    asked = threading.Event()
    ctx = dataclasses.replace(
        context(tmp_path / "work", "parquet"), open_spark=lambda: spark_local, is_cancelled=asked.is_set
    )
    object.__setattr__(ctx, "commit_point", lambda name: asked.set())
    with pytest.raises(Cancelled):
        on_spark(numpy_to_parquet, files, ctx=ctx, target_file_mb=1)
    assert not list((tmp_path / "work" / "parquet").glob("*/parts.json"))


@pytest.mark.slow
def test_delta_is_loaded_beside_the_job(
    spark_local: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From before the first part is there, once a session, to the end, and out of sight of the run's own session."""
    # A test before this one may have begun to load it in the same session.
    load_delta.wait_for_delta(dataclasses.replace(context(tmp_path, "before"), open_spark=lambda: spark_local))
    threads: dict[str, threading.Thread] = {}
    loaded: list[object] = []
    monkeypatch.setattr(load_delta, "_loading", threads)
    monkeypatch.setattr(load_delta, "delta_is_loaded", lambda gateway: False)
    monkeypatch.setattr(load_delta, "note_delta_loaded", loaded.append)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    make_volumes(tmp_path / "in", numbered(20), SHAPE)
    files = take(tmp_path / "in", tmp_path / "work")
    ctx = dataclasses.replace(context(tmp_path / "work", "parquet"), open_spark=lambda: spark_local)
    begun: list[int] = []
    object.__setattr__(ctx, "commit_point", lambda name: begun.append(len(threads)))
    settings = spark_local.conf.getAll
    on_spark(numpy_to_parquet, files, ctx=ctx, target_file_mb=1)
    assert set(begun) == {1}
    (thread,) = threads.values()
    load_delta.load_delta(ctx)
    assert [*threads.values()] == [thread]
    load_delta.wait_for_delta(ctx)
    assert not thread.is_alive()
    assert loaded == [spark_local.sparkContext._gateway], "what went wrong there is not reported"
    assert list(temporary.iterdir()) == []
    assert spark_local.conf.getAll == settings
    # Who waits for it can be cancelled.
    held = threading.Event()
    threads[spark_local.sparkContext.applicationId] = busy = threading.Thread(target=held.wait, daemon=True)
    busy.start()
    with pytest.raises(Cancelled):
        load_delta.wait_for_delta(dataclasses.replace(ctx, is_cancelled=lambda: True))
    held.set()


# --- one chunk, without Spark -------------------------------------------------------------------


def chunk_of(base: Path, count: int) -> tuple[MakeChunk, PartStore, VolumeFiles]:
    make_volumes(base / "in", numbered(count), SHAPE)
    files = take(base / "in", base)
    listing = manifest.read(files.manifest)
    paths = listing["path"].combine_chunks()
    ledger = RowLedger(paths, paths, listing.select(["size", "mtime_ns"]), np.full(count, np.nan, np.float32))
    store = PartStore(base / "store")
    store.open()
    layout = Layout(VolumeSpec(shape=SHAPE, dtype="float32"), 10_000_000, 4, "none", finite=True)
    source = FileRows(files.uri)
    chunks = Chunks(Making(source, ledger, layout, store), [np.arange(count)])
    make_chunks._write(chunks, base / "chunks.arrow")
    return MakeChunk(source, store, layout, base / "chunks.arrow"), store, files


def test_two_tries_of_one_chunk_at_once_make_one_part(tmp_path: Path) -> None:
    work, store, _ = chunk_of(tmp_path, 20)
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, [0, 0])
    assert one.part == two.part
    assert [p.name for p in store.parts.iterdir()] == [one.part.path if one.part else ""]
    assert list(tmp_path.glob("store/.making-*/*")) == []
    assert work(0).reused


def test_a_try_that_comes_too_late_changes_nothing(tmp_path: Path) -> None:
    work, store, _ = chunk_of(tmp_path, 5)
    store.close()
    with pytest.raises(FileNotFoundError):
        work(0)
    assert list(store.parts.iterdir()) == []
    assert list(tmp_path.glob("store/.making-*")) == []


def test_what_a_killed_try_left_goes_with_the_driver_s_folder(tmp_path: Path) -> None:
    _, store, _ = chunk_of(tmp_path, 5)
    with store.attempt() as own:
        half = own.temporary("key")
        half.write_bytes(b"half a part")
        # A kill runs no clean-up: the folder is as it would be then.
        shutil.copytree(half.parent, half.parent.with_name("killed"))
    assert (half.parent.with_name("killed") / half.name).exists()
    store.close()
    assert list(tmp_path.glob("store/.making-*")) == []


def test_a_chunk_travels_whole(tmp_path: Path) -> None:
    """Names and labels come out of the file of chunks as they went in."""
    names = ["a.npy", "b \u00e9\u0301'.npy", "c.npy"]
    listing = pa.table({"path": names, "size": [1, 2, 3], "mtime_ns": [2**62, 0, 5]})
    paths = listing["path"].combine_chunks()
    columns = pa.table({"path": ["x", None, "y"], "at": pa.array([1, 2, None], TIMESTAMP)})
    stamps = listing.select(["size", "mtime_ns"])
    ledger = RowLedger(paths, paths, stamps, np.array([0.1, np.nan, 7], np.float32), columns)
    rows = [np.array([0, 2]), np.array([1])]
    layout = Layout(VolumeSpec(shape=(1,), dtype="int8"), 1, 1, "", finite=True)
    chunks = Chunks(Making(FileRows(""), ledger, layout, PartStore(tmp_path)), rows)
    make_chunks._write(chunks, tmp_path / "chunks.arrow")
    for number in range(2):
        assert make_chunks._read(tmp_path / "chunks.arrow", number) == chunks.rows(number)


def test_nothing_to_convert_starts_no_spark(tmp_path: Path) -> None:
    """All parts stand already: the session is not even asked for."""
    make_volumes(tmp_path / "in", numbered(5), SHAPE)
    first = convert(tmp_path / "in", tmp_path / "work")
    files = take(tmp_path / "in", tmp_path / "work")
    ctx: TaskContext = context(tmp_path / "work", "parquet", previous={"out": first})
    again = on_spark(numpy_to_parquet, files, ctx=ctx)
    assert rows(again) == rows(first)
