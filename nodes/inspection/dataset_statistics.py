"""Figures of a dataset: labels over all rows, values over a sample, sizes of files."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import Selection, VolumeDelta, VolumeParquet, VolumeSpec
from engine.declare.progress import Meter, track
from engine.errors import DataError, UsageError
from engine.storage.find_place import place_at
from engine.storage.place import Place
from engine.text import plural
from engine.viewing.pictures import axes_of
from nodes.inspection.column_figures import ColumnFigures, column_figures, decoded, shown_columns
from nodes.inspection.damage import Damage, StoredFile, check_files, damage_of
from nodes.loaders.value_statistics import Statistics
from nodes.table.selection import columns_for, held, nan_as_null
from nodes.table.snapshot import local_folder, open_table
from nodes.volume_file.damage import FileCheck
from nodes.volume_file.layout import schema, spec_of
from nodes.volume_file.parts import read_parts
from nodes.volume_file.rewrite import RowSource, read_rows

BLOCK_ROWS = 4
"""Neighbouring volumes that are sampled together: many places with few volumes each say more than few with many."""
PICTURES = 6
_WARNINGS = 20
LABEL_FIGURES = 20
"""Labels that get a figure of their own; all of them are on the page."""


class DataFile(NamedTuple):
    """A Parquet file of the dataset; `bytes` and `rows` are as its manifest or log has them."""

    path: Path
    bytes: int
    rows: int

    def whole(self) -> RowSource:
        """All its rows."""
        return RowSource(self.path, self.bytes, ((0, self.rows),))


@dataclass(frozen=True)
class Task:
    """What is measured: the files of the dataset, and which of their rows belong to it."""

    dataset: VolumeDelta | VolumeParquet
    files: tuple[DataFile, ...]
    spec: VolumeSpec
    selections: tuple[Selection, ...]
    ctx: TaskContext
    partial: bool = False
    """Whether files of the dataset are left out, being damaged."""

    @property
    def stored(self) -> list[StoredFile]:
        """The files by their names in the dataset's folder."""
        root = local_folder(self.dataset.uri)
        return [StoredFile(os.path.relpath(f.path, root), f.bytes, f.rows) for f in self.files]


@dataclass
class Values:
    """Running figures of each channel, over finite values. Arrays have shape (channels,)."""

    channels: Statistics
    not_finite: int = 0
    volumes: int = 0

    @classmethod
    def empty(cls, channels: int) -> Values:
        """The figures of no volume."""
        return cls(Statistics(channels, counting=False))

    @classmethod
    def of(cls, volume: NDArray[Any]) -> Values:
        """The figures of one volume of shape (voxels, channels)."""
        out = cls.empty(volume.shape[1])
        with np.errstate(all="ignore"):  # the sum of values at the end of float64 is infinite
            out.channels.add(volume)
        out.not_finite, out.volumes = volume.size - int(out.count.sum()), 1
        return out

    def add(self, other: Values) -> None:
        """Take in others. Figures depend on the order to the last digit, so it is the same one each time."""
        with np.errstate(all="ignore"):
            self.channels.join(other.channels)
        self.not_finite += other.not_finite
        self.volumes += other.volumes

    @property
    def least(self) -> NDArray[np.float64]:
        """Infinite without a finite value, as `most` is."""
        return self.channels.least

    @property
    def most(self) -> NDArray[np.float64]:
        return self.channels.most

    @property
    def count(self) -> NDArray[np.int64]:
        """Finite values."""
        return self.channels.values

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each channel; 0 without a finite value, not finite where their sum is none."""
        return self.channels.mean

    @property
    def std(self) -> NDArray[np.float64]:
        """Population standard deviation."""
        return self.channels.deviation()


@dataclass
class Found:
    """All that was measured. `labels` counts volumes by label (None: without one)."""

    uri: str
    version: int | None
    spec: VolumeSpec
    volumes: int
    labels: dict[float | None, int]
    files: list[DataFile]
    values: Values
    pictures: list[tuple[str, NDArray[Any]]] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    """Damaged files, all of whose rows are left out of the other figures."""
    unchecked: int = 0
    """Volumes without a checksum."""
    columns: list[ColumnFigures] = field(default_factory=list)

    def label_name(self, label: float | None) -> str:
        """The class's name, else the number, for people."""
        return "no label" if label is None else self.spec.label_name(label)

    def figures(self) -> dict[str, float | int | str]:
        """The key figures, flat."""
        sizes = sorted(f.bytes for f in self.files)
        out: dict[str, float | int | str] = {
            "volumes": self.volumes,
            "labelled": self.volumes - self.labels.get(None, 0),
            "shape": "x".join(map(str, self.spec.shape)),
            "dtype": self.spec.dtype,
            "files": len(sizes),
            "bytes": sum(sizes),
            "median_file_bytes": sizes[len(sizes) // 2],
            "sampled": self.values.volumes,
            "not_finite": self.values.not_finite,
            "damaged_files": len(self.damages),
            "damaged_volumes": sum(damage.rows for damage in self.damages),
            "without_checksum": self.unchecked,
        }
        if self.version is not None:
            out["version"] = self.version
        if self.values.count.any():
            out |= {"minimum": float(self.values.least.min()), "maximum": float(self.values.most.max())}
            mean = float(np.average(self.values.mean, weights=self.values.count))
            out |= {"mean": mean} if math.isfinite(mean) else {}
        counted = [(label, n) for label, n in self.labels.items() if label is not None]
        out |= {f"label {self.label_name(label)}": n for label, n in counted[:LABEL_FIGURES]}
        return out


class Seen(NamedTuple):
    """One volume of the sample."""

    id: str
    label: float | None
    volume: NDArray[Any]

    def values(self) -> Values:
        """Its figures."""
        return Values.of(self.volume.reshape(-1, axes_of(self.volume.shape)[3]))


CountLabels = Callable[[Task], Mapping[float | None, int]]
"""Counts the labels of all rows."""
SeeSample = Callable[[Task, Sequence[RowSource]], Generator[Iterable[Values], None, None]]
"""Measures the volumes in these rows: gives each one's figures by source, in the order of the sources."""


CheckAll = Callable[[Task, Place], Iterable[tuple[StoredFile, FileCheck]]]
"""Compares all bytes of the files with their checksums; in any order."""


def check_here(task: Task, place: Place) -> Iterator[tuple[StoredFile, FileCheck]]:
    """See `CheckAll`: by threads of this process."""
    meter = Meter(sum(f.rows for f in task.files), "volumes", "comparing checksums")
    threads = max(1, task.ctx.resources.cores)
    with contextlib.closing(check_files(place, task.stored, task.spec, threads, lambda done, total: None)) as found:
        for file, check in found:
            task.ctx.check_cancelled()
            meter.add(file.rows)
            yield file, check
    meter.finish()


def count_here(task: Task) -> Counter[float | None]:
    """See `CountLabels`: in this process."""
    labels: Counter[float | None] = Counter()
    for file in track(task.files, total=sum(f.rows for f in task.files), unit="volumes", amount=lambda f: f.rows):
        labels.update(count_file(file, task.spec, task.selections))
    return labels


def count_file(file: DataFile, spec: VolumeSpec, selections: tuple[Selection, ...]) -> Counter[float | None]:
    """The selected volumes of one file by label."""
    labels: Counter[float | None] = Counter()
    names = {"label", *columns_for(selections)} if selections else {"label"}
    for batch in read_rows(file.whole(), _schema(spec, names, file.path), 65_536):
        labels.update(nan_as_null(_selected(batch, selections)["label"]).to_pylist())
    return labels


def measure_here(task: Task, looks: Sequence[RowSource]) -> Generator[Iterable[Values], None, None]:
    """See `SeeSample`: in this process."""
    for source in looks:
        yield (seen.values() for seen in see(source, task.spec, task.selections))


def measure(
    dataset: VolumeDelta | VolumeParquet,
    sample: int,
    ctx: TaskContext,
    count: CountLabels = count_here,
    measure_sample: SeeSample = measure_here,
    check: CheckAll = check_here,
) -> Found:
    """Compare everything with its checksums, and read the labels of all rows and the values of up to `sample` volumes.

    Files that are damaged are reported and left out. `count`, `measure_sample` and `check` say who reads; this process
    by default. Memory: the ids and labels of some row groups, and a few volumes. Raises `DataError` when the dataset is
    empty or no file of it is whole.
    """
    files, spec, columns = _files(dataset)
    if not files:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Check the step before.")
    selections = dataset.selections if isinstance(dataset, VolumeDelta) else ()
    task = Task(dataset, tuple(files), spec, selections, ctx)
    damages, unchecked = _compare(task, check)
    bad = {damage.file for damage in damages}
    files = [file for file in files if str(file.path) not in bad]
    if not files:
        raise DataError(
            f"every file of {dataset.uri} is damaged: {damages[0].file}: {damages[0].problem}", hint=_how_to(dataset)
        )
    task = replace(task, files=tuple(files), partial=bool(bad))
    fields = shown_columns(columns if columns is not None else pq.read_schema(files[0].path))
    labels = _known(count(task))
    found = Found(
        uri=dataset.uri,
        version=dataset.version if isinstance(dataset, VolumeDelta) else None,
        spec=spec,
        volumes=sum(labels.values()),
        labels=dict(sorted(labels.items(), key=lambda item: (item[0] is None, item[0] or 0))),
        files=files,
        values=Values.empty(axes_of(spec.shape)[3]),
        damages=damages,
        unchecked=unchecked,
        columns=column_figures(fields, _rows_of(task, fields)) if fields else [],
    )
    places = plan_looks(task, found.volumes, sample)
    shown = itertools.chain.from_iterable(see(source, spec, selections) for source in places)
    found.pictures += [
        (f"{seen.id} ({found.label_name(seen.label)})", seen.volume) for seen in itertools.islice(shown, PICTURES)
    ]
    with contextlib.closing(measure_sample(task, places)) as looks:
        for values in itertools.chain.from_iterable(looks):
            ctx.check_cancelled()
            found.values.add(values)
    return found


def _known(labels: Mapping[float | None, int]) -> Counter[float | None]:
    """The counts with NaN, which Spark tells from null, among those without a label."""
    out: Counter[float | None] = Counter()
    for label, count in labels.items():
        out[None if label is None or math.isnan(label) else label] += count
    return out


def _compare(task: Task, check: CheckAll) -> tuple[list[Damage], int]:
    """The damaged files by name, each with a warning, and how many volumes have no checksum."""
    place = place_at(task.dataset.uri)
    damages, unchecked = [], 0
    for file, found in check(task, place):
        unchecked += found.unchecked
        if found.problems:
            damages.append(damage_of(place, file, found))
    damages.sort(key=lambda damage: damage.file)
    for damage in damages[:_WARNINGS]:
        task.ctx.warn(f"{damage.file}: {damage.problem}. Lost: {damage.lost}. {_how_to(task.dataset)}")
    if len(damages) > _WARNINGS:
        task.ctx.warn(f"damaged as well: {plural(len(damages) - _WARNINGS, 'files')}. {_how_to(task.dataset)}")
    return damages, unchecked


def _how_to(dataset: VolumeDelta | VolumeParquet) -> str:
    return f"`voxelflow verify {quote(dataset.uri)}` says what repairs it."


def _rows_of(task: Task, fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
    """These columns of all rows that belong to the dataset."""
    # Decoded: one file's dictionary may be too narrow for another's, or be none there.
    wanted = pa.schema([f.with_type(decoded(f.type)) for f in fields])
    others = [name for name in columns_for(task.selections) if name not in wanted.names]
    for file in track(task.files, total=len(task.files), unit="files", label="reading columns"):
        layout = _schema(task.spec, others, file.path)
        for batch in read_rows(file.whole(), pa.schema([*layout, *wanted]), 65_536):
            yield _selected(batch, task.selections)


def _files(dataset: VolumeDelta | VolumeParquet) -> tuple[list[DataFile], VolumeSpec, pa.Schema | None]:
    """The files, the spec of the volumes, and the columns, where another place than the files knows them.

    Raises `UsageError` for a dataset in object storage.
    """
    place = place_at(dataset.uri)
    try:
        root = place.folder
    except UsageError as exc:
        raise UsageError(
            f"InspectDataset reads local folders, and {dataset.uri} is none",
            hint="Copy the table to a disk and inspect the copy, or run"
            f" `voxelflow verify {quote(dataset.uri)}`, which compares its checksums where it is.",
        ) from exc
    if isinstance(dataset, VolumeDelta):
        table = open_table(root, dataset.version)
        columns = pa.schema(table.columns.to_arrow())
        return [DataFile(root / f.path, f.bytes, f.rows) for f in table.files if f.rows], table.spec, columns
    files = [DataFile(root / p.path, p.bytes, p.rows) for p in read_parts(dataset).parts if p.rows]
    spec = dataset.spec or spec_of(pq.read_schema(files[0].path).metadata if files else None, dataset.uri)
    return files, spec, None


def plan_looks(task: Task, volumes: int, sample: int) -> list[RowSource]:
    """The rows of `sample` of the dataset's `volumes`, or of all where there are fewer: short blocks of neighbours,
    spread evenly over the files.

    Which rows of the blocks belong to the dataset is read here: their ids, and the columns that selections go by.
    """
    blocks = [-(-f.rows // BLOCK_ROWS) for f in task.files]
    total = sum(blocks)
    # On average these have `sample` volumes. Where the dataset's lie close together they may have fewer, or far more.
    wanted = min(sample, volumes)
    looks = min(total, -(-wanted * total // max(volumes, 1)))
    while True:
        sources = _spread(task.files, blocks, looks)
        rows = [_rows_held(source, task) for source in sources]
        found = sum(map(len, rows))
        if found >= wanted or looks == total:
            break
        looks = min(total, 2 * looks)
    # Of more than enough every so-and-so-many one is taken, not the first.
    taken = np.zeros(found, bool)
    taken[np.arange(min(wanted, found)) * found // max(1, wanted)] = True
    out = []
    for source, each in zip(sources, rows, strict=True):
        own, taken = taken[: len(each)], taken[len(each) :]
        if own.any():
            out.append(replace(source, keep=_ranges(each[own])))
    return out


def _spread(files: Sequence[DataFile], blocks: Sequence[int], looks: int) -> list[RowSource]:
    """The rows of so many blocks, spread evenly; `blocks` says how many each file has."""
    total = sum(blocks)
    out = []
    first = look = 0
    for file, count in zip(files, blocks, strict=True):
        keep = []
        while look < looks and (block := look * total // looks) < first + count:
            start = (block - first) * BLOCK_ROWS
            keep.append((start, min(start + BLOCK_ROWS, file.rows)))
            look += 1
        first += count
        if keep:
            out.append(RowSource(file.path, file.bytes, tuple(keep)))
    return out


def _rows_held(source: RowSource, task: Task) -> NDArray[np.int64]:
    """Which of the source's rows belong to the dataset; without a selection no row is read for it."""
    rows = np.concatenate([np.arange(start, end) for start, end in source.keep])
    if not task.selections:
        return rows
    task.ctx.check_cancelled()
    batches = read_rows(source, _schema(task.spec, columns_for(task.selections), source.path), 65_536)
    kept: NDArray[np.int64] = rows[np.concatenate([_holds(batch, task.selections) for batch in batches])]
    return kept


def _ranges(rows: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Rows in ascending order as half-open ranges."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs)


def see(source: RowSource, spec: VolumeSpec, selections: tuple[Selection, ...]) -> Iterator[Seen]:
    """The selected volumes among the source's rows. Raises `DataError` when one has not the table's shape."""
    names = {"label", "volume", *columns_for(selections)}
    for batch in read_rows(source, _schema(spec, names, source.path), BLOCK_ROWS):
        kept = _selected(batch, selections)
        for volume_id, label, volume in zip(kept["id"], nan_as_null(kept["label"]), kept["volume"], strict=True):
            array = np.frombuffer(volume.as_buffer(), np.dtype(spec.dtype).newbyteorder("<"))
            if array.nbytes != spec.volume_bytes:
                raise DataError(
                    f"the volume {volume_id} in {source.path} has {array.nbytes} bytes, not {spec.volume_bytes}",
                    hint="Make the table again: the shape of this volume is not the table's.",
                )
            yield Seen(volume_id.as_py(), label.as_py(), array.reshape(spec.shape))


def _selected(batch: pa.RecordBatch, selections: tuple[Selection, ...]) -> pa.RecordBatch:
    if not selections:
        return batch
    return batch.filter(pa.array(_holds(batch, selections)))


def _holds(batch: pa.RecordBatch, selections: tuple[Selection, ...]) -> NDArray[np.bool_]:
    return held(selections, {name: batch.column(name) for name in batch.schema.names})


def _schema(spec: VolumeSpec, names: Collection[str], path: Path) -> pa.Schema:
    """These columns of a file; one that it lacks, being older than the column, has nulls."""
    layout = schema(spec)
    fields = [f for f in layout if f.name in names]
    if others := [name for name in names if name not in layout.names]:
        there = pq.read_schema(path)
        fields += [there.field(n) if n in there.names else pa.field(n, pa.string()) for n in others]
    return pa.schema(fields)
