"""What a Delta table promises wherever it is, as a pytest class to subclass.

    from voxelflow import TableConformance

    class TestMyStorage(TableConformance):
        @pytest.fixture
        def folder(self) -> str:
            return "mine://bucket/an-empty-folder"

ParquetToDelta and OptimizeDelta fill, change and compact a table in the folder. What is in it is read back by delta-rs,
version by version: that shares no code with them. A new kind of storage passes `PlaceConformance` first. One that
delta-rs does not open needs nothing more, but is better read without your own code:

    @contextmanager
    def opened_by_delta_rs(self, url):
        yield f"/srv/mine/{url.removeprefix('mine://')}"  # where the server keeps its files
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError, StaleInput
from engine.storage.find_place import place_at
from engine.storage.local_place import LocalPlace
from engine.storage.place import Place
from nodes.inspection.verify import check_data
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import commit
from nodes.table.log import LOG
from nodes.table.snapshot import open_table
from nodes.writing.volumes import Volumes
from nodes.writing.write import write_volumes

SHAPE = (40, 40, 10)
"""64 kB a volume: three parts of five make a file of a megabyte."""
STEP = 5
"""Volumes in a part."""
_COMPACT: dict[str, Any] = {"target_file_mb": 1, "min_fill": 1.0}


def ids(first: int, count: int) -> list[str]:
    """The ids of so many volumes."""
    return [f"volume-{number:04d}" for number in range(first, first + count)]


def volume_of(volume_id: str) -> NDArray[np.float32]:
    """The volume with this id: noise."""
    seed = int(hashlib.sha256(volume_id.encode()).hexdigest()[:8], 16)
    return np.random.default_rng(seed).standard_normal(SHAPE, dtype=np.float32)


def label_of(volume_id: str) -> float | None:
    """The label of the volume with this id; every seventh has none."""
    number = int(volume_id[-4:])
    return None if number % 7 == 0 else float(number % 2)


def _make(batch: Volumes) -> Volumes:
    return replace(
        batch,
        volumes=np.stack([volume_of(each) for each in batch.ids]),
        labels=np.array([np.nan if (x := label_of(each)) is None else x for each in batch.ids], np.float32),
    )


def _key(wanted: Iterable[str]) -> str:
    return hashlib.blake2b(" ".join(wanted).encode(), digest_size=6).hexdigest()


class _Ended(Exception):
    """Stands for whatever ends a task."""


def _end() -> None:
    raise _Ended


class _Disturbed(TaskContext):
    """A task in which something happens at the n-th time that it passes a point."""

    _point = ""
    _left = 0
    _happens = staticmethod(_end)

    def ends_at(self, point: str, time: int) -> _Disturbed:
        self._point, self._left = point, time
        return self

    def meets(self, point: str, others: Callable[[], None]) -> _Disturbed:
        """Another program does `others` when this task comes to the point first."""
        self._point, self._left, self._happens = point, 1, others
        return self

    def commit_point(self, name: str) -> None:
        if name == self._point:
            self._left -= 1
            if not self._left:
                self._happens()


class Tables:
    """Makes and changes tables in one folder, each step as a task of its own with folders below `tmp_path`."""

    def __init__(self, folder: str, tmp_path: Path) -> None:
        self.folder = folder
        self._home = tmp_path / "tasks"

    def context(self, name: str, shared: str = "") -> _Disturbed:
        """The same name gives the same folders and the same fingerprint again."""
        out, scratch = self._home / name / "out", self._home / name / "scratch"
        together = self._home / (shared or name) / "shared"
        for place in (out, scratch, together):
            place.mkdir(parents=True, exist_ok=True)
        fingerprint = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        return _Disturbed(
            run_id="run", node_id=name, fingerprint=fingerprint, out=out, shared=together, scratch=scratch
        )

    def dataset(self, wanted: Iterable[str], name: str = "volumes") -> VolumeParquet:
        """These volumes in Parquet files. Those of an earlier dataset of that name keep their files."""
        chosen = list(wanted)
        return write_volumes(
            self.context(f"{name}-{_key(chosen)}", name), batches=_make, ids=chosen, classes=["a", "b"]
        )

    def fill(self, url: str, wanted: Iterable[str], name: str = "volumes") -> VolumeDelta:
        """Have the table hold these volumes of that dataset."""
        chosen = list(wanted)
        ctx = self.context(f"fill-{name}-{_key(chosen)}")
        return parquet_to_delta(self.dataset(chosen, name), table=url, ctx=ctx)

    def in_steps(self, url: str, steps: int) -> VolumeDelta:
        """A table that has grown by a file at a time, each from a dataset of its own."""
        for step in range(steps):
            table = self.step(url, step)
        return table

    def step(self, url: str, number: int) -> VolumeDelta:
        """Have the table hold the volumes of this step, too."""
        return self.fill(url, ids(STEP * number, STEP), f"step-{number}")


@contextmanager
def _copied(place: Place) -> Iterator[str]:
    """A local folder with all files of a table, for delta-rs. What it adds there goes into the table at the end: data
    first, then the log, each file of which must be new."""
    with TemporaryDirectory(prefix="voxelflow-") as folder:
        copied = dict(place.files())
        place.fetch(list(copied.items()), Path(folder))
        yield folder
        here = LocalPlace(Path(folder))
        for name in sorted(dict(here.files()).keys() - copied.keys(), key=lambda name: (name.startswith(LOG), name)):
            assert place.put_if_absent(name, bytes(here.read(name))), f"{place.path(name)} is there already"


def _append(path: str, wanted: Iterable[str]) -> None:
    """Add the rows of these volumes, as another program does."""
    columns = [(each, label_of(each), volume_of(each).tobytes()) for each in wanted]
    values = dict(zip(("id", "label", "volume"), map(list, zip(*columns, strict=True)), strict=True))
    rows = pa.table(values).cast(pa.schema(DeltaTable(path).schema()))
    write_deltalake(path, rows, mode="append")


class TableConformance:
    """Subclass it and override the fixture `folder`: a path or URL where nothing is, and nobody else writes."""

    @pytest.fixture
    def folder(self) -> str:
        """An empty folder."""
        raise NotImplementedError

    @pytest.fixture
    def tables(self, folder: str, tmp_path: Path) -> Tables:
        """What makes tables there."""
        return Tables(folder, tmp_path)

    @contextmanager
    def opened_by_delta_rs(self, url: str) -> Iterator[str]:
        """The address by which delta-rs, as another program, reads the table at `url` and writes to it.

        Where it opens no such place (`Place.delta_rs_address` is None) that is a copy in a local folder, and what it
        writes there is put into the place. Override it where the files can be reached without your own code.
        """
        place = place_at(url)
        if place.delta_rs_address is not None:
            yield place.delta_rs_address
        else:
            with _copied(place) as folder:
                yield folder

    def holds(self, table: VolumeDelta | str, wanted: Iterable[str], version: int | None = None) -> None:
        """Assert that a version of the table has these volumes and no others, each once."""
        chosen = sorted(wanted)
        with self.opened_by_delta_rs(table if isinstance(table, str) else table.uri) as address:
            rows = pa.table(DeltaTable(address, version=version).scan().read_all())
        found = sorted(zip(*(rows[name].to_pylist() for name in ("id", "label", "volume")), strict=True))
        assert [row[0] for row in found] == chosen
        assert found == [(each, label_of(each), volume_of(each).tobytes()) for each in chosen]

    def test_a_table_is_filled_grows_and_shrinks(self, tables: Tables) -> None:
        url = f"{tables.folder}/a table"
        table = tables.fill(url, ids(0, 7))
        assert (table.uri, table.version, table.count) == (url, 1, 7)
        assert tables.fill(url, ids(0, 7)) == table, "done already"
        grown = tables.fill(url, ids(0, 12))
        less = tables.fill(url, ids(0, 3))
        assert (grown.version, less.version) == (2, 3)
        for version, count in ((1, 7), (2, 12), (3, 3)):
            self.holds(url, ids(0, count), version)

    def test_two_datasets_share_a_table(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        tables.fill(url, ids(0, 6), "one")
        both = tables.fill(url, ids(100, 4), "two")
        self.holds(both, [*ids(0, 6), *ids(100, 4)])
        self.holds(tables.fill(url, ids(0, 2), "one"), [*ids(0, 2), *ids(100, 4)])

    def test_a_compaction_changes_no_row_and_growing_goes_on(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        table = tables.in_steps(url, 6)
        packed = optimize_delta(table, **_COMPACT, ctx=tables.context("optimize"))
        assert (table.files, packed.files, packed.data_version) == (6, 2, table.data_version)
        self.holds(packed, ids(0, 6 * STEP))
        self.holds(url, ids(0, 6 * STEP), table.version)
        assert optimize_delta(packed, **_COMPACT, ctx=tables.context("optimize")) == packed
        grown = tables.step(url, 6)
        assert grown.files == 3
        self.holds(grown, ids(0, 7 * STEP))
        with pytest.raises(StaleInput):
            optimize_delta(packed, **_COMPACT, ctx=tables.context("late"))

    def test_a_compaction_that_ends_between_two_commits_has_every_row_in_each_version(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One compaction, which ends after each of its commits but the last, and goes on."""
        url, every = f"{tables.folder}/table", ids(0, 9 * STEP)
        table = tables.in_steps(url, 9)
        with monkeypatch.context() as patch:
            patch.setattr(commit, "MAX_ACTIONS", 2)  # fewer than the three files out and one in of a change
            for commits in (1, 2):
                ending = tables.context("optimize").ends_at("optimize:after-commit", 1)
                with pytest.raises(_Ended):
                    optimize_delta(table, **_COMPACT, ctx=ending)
                assert open_table(url).version == table.version + commits
        done = optimize_delta(table, **_COMPACT, ctx=tables.context("optimize"))
        assert (done.files, done.version) == (3, table.version + 3)
        for version in range(table.version, done.version + 1):
            self.holds(url, every, version)

    @pytest.mark.parametrize("point", ["delta:file-linked", "delta:before-ledger", "delta:before-commit"])
    def test_what_ends_before_its_commit_leaves_the_table_as_it_was(self, tables: Tables, point: str) -> None:
        url = f"{tables.folder}/table"
        tables.fill(url, ids(0, 6))
        grown = tables.dataset(ids(0, 12))
        with pytest.raises(_Ended):
            parquet_to_delta(grown, table=url, ctx=tables.context("grow").ends_at(point, 1))
        self.holds(url, ids(0, 6))
        self.holds(parquet_to_delta(grown, table=url, ctx=tables.context("grow")), ids(0, 12))

    def test_writers_that_come_at_once_all_get_their_rows_in(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        datasets = [tables.dataset(ids(100 * n, 4), f"set-{n}") for n in range(4)]
        tables.fill(url, ids(0, 4), "set-0")
        fill: Callable[[int], VolumeDelta] = lambda n: parquet_to_delta(  # noqa: E731
            datasets[n], table=url, ctx=tables.context(f"writer-{n}")
        )
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fill, range(4)))
        self.holds(url, [each for n in range(4) for each in ids(100 * n, 4)])

    def test_what_another_program_commits_meanwhile_is_kept(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        tables.step(url, 0)
        strange = ids(900, 2)

        def add_and_compact() -> None:
            """A row of its own, in files that are no longer those that were read."""
            with self.opened_by_delta_rs(url) as address:
                _append(address, strange[:1])
                DeltaTable(address).optimize.compact()

        def add() -> None:
            with self.opened_by_delta_rs(url) as address:
                _append(address, strange[1:])

        grow = tables.context("grow").meets("delta:before-commit", add_and_compact)
        grown = parquet_to_delta(tables.dataset(ids(STEP, STEP), "step-1"), table=url, ctx=grow)
        self.holds(grown, [*ids(0, 2 * STEP), *strange[:1]])
        with pytest.raises(StaleInput):
            optimize_delta(grown, **_COMPACT, ctx=tables.context("late").meets("optimize:before-commit", add))
        self.holds(url, [*ids(0, 2 * STEP), *strange])
        self.holds(tables.step(url, 2), [*ids(0, 3 * STEP), *strange])

    def test_constraints_of_the_table_are_kept(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        tables.fill(url, ids(1, 5))
        with self.opened_by_delta_rs(url) as address:
            DeltaTable(address).alter.add_constraint({"known": "label IS NOT NULL"})
        with pytest.raises(DataError, match="known"):
            tables.fill(url, ids(1, 8))
        self.holds(url, ids(1, 5))
        self.holds(tables.fill(url, ids(1, 6)), ids(1, 6))

    def test_damaged_files_are_put_back_from_their_parts(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        tables.fill(url, ids(0, 7))
        place = place_at(url)
        (file,) = open_table(url).files
        content = bytes(place.read(file.path))
        for damaged in (None, content[:-1]):
            place.delete(file.path)
            if damaged is not None:
                place.write(file.path, lambda sink, data=damaged: sink.write(data))  # type: ignore[misc]
            self.holds(tables.fill(url, ids(0, 7)), ids(0, 7))

    def test_a_flipped_bit_is_found(self, tables: Tables) -> None:
        url = f"{tables.folder}/table"
        tables.fill(url, ids(0, 7))
        place = place_at(url)
        (file,) = open_table(url).files
        content = bytearray(bytes(place.read(file.path)))
        content[content.find(volume_of(ids(3, 1)[0]).tobytes()) + 1] ^= 4
        place.delete(file.path)
        place.write(file.path, lambda sink: sink.write(bytes(content)))
        (damage,) = check_data(url, threads=2, progress=lambda done, total: None).damages
        assert damage.file == place.path(file.path)
        assert list(damage.ids) == ids(3, 1)
