"""Looking at volumes: folders of files, Parquet files, Delta tables and selections of them."""

from __future__ import annotations

import contextlib
import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.view import (
    Chart,
    ChartPanel,
    Choice,
    DatasetView,
    Gallery,
    GalleryItem,
    Option,
    Panel,
    Picked,
    Table,
    TableColumn,
    TablePage,
    TableRow,
)
from engine.errors import DataError, VoxelflowError
from engine.text import label_text, plural
from engine.viewing.pictures import axes_of, four_axes
from engine.viewing.volume_bytes import reduced
from nodes.conversion.npy_files import spread
from nodes.inspection.column_figures import shown_columns
from nodes.loaders.data_files import LOCAL, RemoteFiles
from nodes.table.log_sample import sample_table
from nodes.table.snapshot import TableVersion, local_folder, open_table
from nodes.viewing.histograms import histogram
from nodes.viewing.listed_parquet import ListedRows, is_listing
from nodes.viewing.table_versions import Versions
from nodes.viewing.volume_rows import FolderRows, TableFile, TableRows, VolumeRows
from nodes.volume_file.layout import spec_of
from nodes.volume_file.parts import read_parts

_FEW_FILES = 20_000
"""Files of a folder whose labels are found before the first thumbnail is shown: it takes a moment for so many."""
_RARE = 0.02
"""Share of a selection below which trying rows one by one takes longer than reading all ids."""
_MOST_LABELS = 40
"""Labels that are offered as a choice; more are numbers to be learned and no classes."""
_COUNTED_FILES = 300
"""Files in which the labels are counted for a choice: more take longer than a tenth of a second, and the names of the
classes are in the table's description."""
_OTHERS = "others"
_SAMPLE_VOLUMES, _SAMPLE_BYTES = 64, 64 << 20
_UNREAD = 8
"""When so many volumes cannot be read, and none could, no more are tried: a store without a connection answers late."""
_MOST_CHANNELS = 32
_KNOWN_BEFORE = ("bytes", "shape", "dtype", "transforms")
"""Figures of Parquet files that are known before a run counts their volumes."""
_MOST_FILES, _SAMPLED_FILES = 20_000, 1000
"""Files of a table or a folder that are opened all, and how many of more: opening one takes a millisecond, and labels
are in all of them."""


class VolumesGallery(Gallery):
    """Thumbnails, in a random order or as they are stored, of one label or of all."""

    def __init__(self, rows: VolumeRows, title: str = "Volumes") -> None:
        self.title, self._rows = title, rows
        self.shape, self.dtype = rows.spec.shape, rows.spec.dtype
        self._order: tuple[object, _Order] | None = None

    def choices(self) -> Sequence[Choice]:
        """The order, the split where the dataset is one, and the labels that there are."""
        order = Choice(
            name="order",
            title="Order",
            options=(Option(value="random", text="Random"), Option(value="stored", text="As stored")),
        )
        first = [order]
        if self._rows.selections:
            split = (Option(value="", text="This split"), Option(value=_OTHERS, text="The others of the table"))
            first.append(Choice(name="split", title="Split", options=split))
        options = self._label_options()
        if not 1 < len(options) <= _MOST_LABELS:
            return first
        return [*first, Choice(name="label", title="Label", options=(Option(value="", text="Any"), *options))]

    def _label_options(self) -> list[Option]:
        """The labels, with how many volumes have each where that is known without a wait."""
        rows = self._rows
        if rows.unread_label_files > _COUNTED_FILES and rows.spec.classes:
            return [Option(value=f"{number}", text=name) for number, name in enumerate(rows.spec.classes)]
        labels = rows.labels()
        values, counts = np.unique(labels[~np.isnan(labels)], return_counts=True)
        names = [rows.spec.label_name(float(value)) for value in values]
        # A part of the table has its share of each; how many exactly would take a look at every id.
        exact = not rows.selections and not rows.note
        texts = [f"{name} ({count:,})" if exact else name for name, count in zip(names, counts.tolist(), strict=True)]
        return [Option(value=label_text(value), text=text) for value, text in zip(values.tolist(), texts, strict=True)]

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        key = (seed, chosen.get("order", "random"), chosen.get("label", ""), chosen.get("split") == _OTHERS)
        if self._order is None or self._order[0] != key:
            self._order = key, self._ordered(*key)
        order = self._order[1]
        return Picked(items=tuple(map(self.item, order.part(offset, count))), total=order.total)

    def _ordered(self, seed: int, order: str, label: str, others: bool) -> _Order:
        rows = self._rows
        candidates: NDArray[np.int64] | None = None
        tried = bool(rows.selections)
        share = math.prod(each.share for each in rows.selections)
        if tried and (1 - share if others else share) < _RARE:
            candidates, tried = rows.members(), False
            if others:
                candidates = np.setdiff1d(np.arange(rows.count), candidates)
        if label:
            of_label = rows.labels() == np.float32(_as_number(label))
            candidates = np.flatnonzero(of_label) if candidates is None else candidates[of_label[candidates]]
        length = rows.count if candidates is None else len(candidates)
        numbers: Iterator[int] = iter(range(length))
        if order == "random":
            # A cheap shuffle: only those that are looked at are drawn.
            numbers = _shuffled(length, seed)
        found = numbers if candidates is None else (int(candidates[n]) for n in numbers)
        if not tried:
            return _Order(found, length)
        return _Order(itertools.filterfalse(rows.holds, found) if others else filter(rows.holds, found), None)

    def item(self, row: int) -> GalleryItem:
        known = self._rows.row(row)
        waits = isinstance(self._rows, FolderRows) and not self._rows.labels_known
        return GalleryItem(row=row, id=known.id, label=None if waits else self._rows.spec.label_name(known.label))

    def volume(self, row: int) -> NDArray[Any]:
        return self._rows.volume(row)

    def sample(self, count: int) -> Sequence[NDArray[Any]]:
        return self._rows.sample(count)

    def spacing(self, row: int) -> tuple[float, float, float] | None:
        return self._rows.spacing(row)


class _Order:
    """Rows in some order, found as far as they were asked for."""

    def __init__(self, numbers: Iterator[int], total: int | None) -> None:
        self.total = total
        self._numbers, self._found = numbers, list[int]()

    def part(self, offset: int, count: int) -> list[int]:
        missing = offset + count - len(self._found)
        self._found += itertools.islice(self._numbers, max(0, missing))
        return self._found[offset : offset + count]


def _shuffled(count: int, seed: int) -> Iterator[int]:
    """0 ... count - 1 in an order that the seed decides; takes time and memory only for those that are taken."""
    generator = np.random.default_rng(seed)
    moved: dict[int, int] = {}
    for place in range(count):
        other = int(generator.integers(place, count))
        yield moved.get(other, other)
        moved[other] = moved.pop(place, place)


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise DataError(f"{text[:40]!r} is no label", hint="Choose a label from the list.") from exc


class Values(ChartPanel):
    """How often each label comes, and each value of each channel."""

    title = "Values"

    def __init__(self, rows: VolumeRows) -> None:
        self._rows = rows
        self._made: list[Chart] = []

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        if not self._made:
            self._made = [*self._labels(), *self._channels()]
        return self._made

    def _labels(self) -> Iterator[Chart]:
        labels = self._rows.labels()
        if self._rows.selections:
            labels = labels[self._rows.members()]
        known = labels[~np.isnan(labels)]
        missing = len(labels) - len(known)
        without = f"{plural(missing, 'volumes')} without a label" if missing else ""
        note = ", ".join(filter(None, (without, self._rows.note)))
        if not len(known):
            return
        values, counts = np.unique(known, return_counts=True)
        if len(values) <= _MOST_LABELS:
            names = tuple(self._rows.spec.label_name(value) for value in values.tolist())
            yield Chart(
                title="Labels", kind="bars", x=names, series={"volumes": tuple(counts.tolist())}, y_title="volumes",
                note=note,
            )  # fmt: skip
        else:
            of = "number of the class" if self._rows.spec.classes else "value"
            yield _histogram("Labels", known.astype(np.float64), "volumes", note, of)

    def _channels(self) -> Iterator[Chart]:
        rows = self._rows
        channels = axes_of(rows.spec.shape)[3]
        most = max(1, min(_SAMPLE_VOLUMES, _SAMPLE_BYTES // rows.spec.volume_bytes))
        numbers = itertools.islice(filter(rows.holds, _shuffled(rows.count, 0)), most)
        volumes, unread = list[NDArray[Any]](), list[Exception]()
        for number in numbers:
            try:
                part, _ = reduced(four_axes(rows.volume(number)), _SAMPLE_BYTES)
            except (VoxelflowError, OSError) as exc:  # one damaged file must not hide what the others hold
                unread.append(exc)
                if not volumes and len(unread) == _UNREAD:
                    break
                continue
            if part.shape[3] == channels:
                volumes.append(np.asarray(part).reshape(-1, channels))
        if not volumes:
            if unread:
                raise unread[0]
            return
        sample = np.concatenate(volumes)
        whole = len(volumes) + len(unread) >= rows.count
        parts = [
            "" if whole else f"of {plural(len(volumes), 'volumes')}, drawn at random",
            f"{plural(len(unread), 'volumes')} could not be read" if unread else "",
            f"the first {_MOST_CHANNELS} of {channels:,} channels" if channels > _MOST_CHANNELS else "",
        ]
        share = ", ".join(filter(None, parts))
        for channel in range(min(channels, _MOST_CHANNELS)):
            values = sample[:, channel].astype(np.float64)
            finite = values[np.isfinite(values)]
            lost = len(values) - len(finite)
            note = ", ".join(
                filter(
                    None,
                    (share, f"{plural(lost, 'values')} {'is' if lost == 1 else 'are'} NaN or infinite" if lost else ""),
                )
            )
            if len(finite):
                yield _histogram(f"Channel {channel}" if channels > 1 else "Values", finite, "voxels", note)


def _histogram(title: str, values: NDArray[np.float64], counted: str, note: str, of: str = "value") -> Chart:
    counts, edges = histogram(values)
    return Chart(
        title=title, kind="histogram", x=tuple(edges.tolist()), series={counted: tuple(counts.tolist())},
        x_title=of, y_title=counted, note=note,
    )  # fmt: skip


class RowTable(Table):
    """Each volume's id, label, further columns and file."""

    title = "Rows"

    def __init__(self, rows: VolumeRows) -> None:
        self._rows = rows

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        rows = self._rows
        if isinstance(rows, FolderRows):
            rows.labels()
        members = rows.members() if rows.selections else None
        total = rows.count if members is None else len(members)
        shown = range(offset, min(offset + count, total))
        numbers = list(shown) if members is None else members[shown.start : shown.stop].tolist()
        in_files = isinstance(rows, FolderRows)
        columns = [
            TableColumn(title="id"),
            TableColumn(title="label"),
            *(TableColumn(title=name) for name in rows.columns),
            *([] if in_files else [TableColumn(title="file")]),
        ]
        found: list[TableRow] = []
        for number in numbers:
            row = rows.row(number)
            # NaN is no value, as InspectDataset counts.
            known = ("" if value is None or value != value else str(value) for value in row.columns)
            cells = (row.id, rows.spec.label_name(row.label), *known, *([] if in_files else [row.file]))
            found.append(TableRow(cells=cells, volume=number))
        return TablePage(columns=tuple(columns), rows=tuple(found), offset=offset, total=total, note=rows.note)


class Quarantine(Table):
    """Source files that could not be converted, with reasons."""

    title = "Quarantine"

    def __init__(self, path: Path) -> None:
        self._path = path

    def choices(self) -> Sequence[Choice]:
        reasons = Counter(row[1] for row in self._lines())
        options = [Option(value=reason, text=f"{reason} ({count:,})") for reason, count in reasons.most_common()]
        return [Choice(name="reason", title="Reason", options=(Option(value="", text="Any"), *options))]

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        reason, total, rows = chosen.get("reason", ""), 0, []
        for line in self._lines():
            if reason in ("", line[1]):
                if offset <= total < offset + count:
                    rows.append(TableRow(cells=tuple(line)))
                total += 1
        columns = tuple(TableColumn(title=title) for title in ("file", "reason", "problem"))
        return TablePage(columns=columns, rows=tuple(rows), offset=offset, total=total)

    def _lines(self) -> Iterator[list[str]]:
        try:
            with self._path.open(newline="", encoding="utf-8") as source:
                lines = csv.reader(source)
                next(lines, None)
                yield from (line for line in lines if len(line) == 3)
        except FileNotFoundError as exc:
            raise DataError(f"{self._path} is gone", hint="Run the node that made it again.") from exc


class VolumesView(DatasetView):
    """The panels of any dataset of volumes, and those that only some have."""

    def __init__(self, rows: VolumeRows, **others: Panel) -> None:
        self.rows, self.note = rows, rows.note
        self.panels = {"volumes": VolumesGallery(rows), "values": Values(rows), "rows": RowTable(rows), **others}

    def close(self) -> None:
        self.rows.close()


def volume_rows(dataset: Dataset) -> VolumeRows:
    """The rows of a dataset of volumes. Raises `DataError`, also for a dataset of something else."""
    if isinstance(dataset, VolumeFiles):
        return FolderRows(dataset)
    if isinstance(dataset, VolumeDelta):
        return _delta_rows(dataset)
    if isinstance(dataset, VolumeParquet):
        return _parquet_rows(dataset)
    raise DataError(f"a {dataset.kind} holds no volumes", hint="Choose another dataset.")


def files_view(dataset: VolumeFiles, made_from: Mapping[str, Dataset]) -> DatasetView:
    """A folder of `.npy` files, also before any run."""
    rows = FolderRows(dataset)
    if rows.count <= _FEW_FILES:
        rows.labels()
    return VolumesView(rows)


def parquet_view(dataset: VolumeParquet, made_from: Mapping[str, Dataset]) -> DatasetView:
    """Parquet files, and what was left out when they were made; of a folder also before any run."""
    if is_listing(dataset):
        return _ListedView(dataset)
    listed = read_parts(dataset).quarantine
    others: dict[str, Panel] = {}
    if listed is not None and dataset.quarantined:
        others["quarantine"] = Quarantine(Path(listed))
    return VolumesView(_parquet_rows(dataset), **others)


def delta_view(dataset: VolumeDelta, made_from: Mapping[str, Dataset]) -> DatasetView:
    """A version of a Delta table, and its other versions."""
    return VolumesView(_delta_rows(dataset), versions=Versions(dataset))


class _ListedView(VolumesView):
    """Of a folder before any run: nothing is known of it but what the files opened here say."""

    def __init__(self, dataset: VolumeParquet) -> None:
        rows = ListedRows(dataset)
        super().__init__(rows)
        known = {"volumes": rows.count} if rows.all_counted else {}
        self.figures = known | {name: value for name, value in dataset.details().items() if name in _KNOWN_BEFORE}


def _parquet_rows(dataset: VolumeParquet) -> TableRows:
    if is_listing(dataset):
        return ListedRows(dataset)
    folder = local_folder(dataset.uri)
    parts = read_parts(dataset).parts
    shown = spread(len(parts), _SAMPLED_FILES) if len(parts) > _MOST_FILES else range(len(parts))
    files = [TableFile(str(folder / parts[at].path), parts[at].rows, parts[at].path) for at in shown]
    if not files:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    columns = pa.schema([])
    with contextlib.suppress(OSError, pa.ArrowException):  # a damaged file is named where its rows are looked at
        columns = pq.read_schema(files[0].path)
    spec = dataset.spec or spec_of(columns.metadata, files[0].path)
    of = len(parts) if len(files) < len(parts) else None
    return TableRows(files, spec, LOCAL, columns=[f.name for f in shown_columns(columns)], sampled_of=of)


def _delta_rows(dataset: VolumeDelta) -> TableRows:
    table = _opened(dataset)
    files = [TableFile(table.place.path(file.path), file.rows, file.path) for file in table.files]
    if not files:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    sizes = {table.place.path(file.path): file.bytes for file in table.files}
    access = LOCAL if table.place.local_folder is not None else RemoteFiles(sizes)
    columns = [f.name for f in shown_columns(pa.schema(table.columns.to_arrow()))]
    of = dataset.files if dataset.files > max(_MOST_FILES, len(files)) else None
    return TableRows(files, table.spec, access, dataset.selections, columns, of)


def _opened(dataset: VolumeDelta) -> TableVersion:
    if dataset.files > _MOST_FILES:
        with contextlib.suppress(VoxelflowError, OSError):  # what is wrong, or only unusual, opening all of it says
            return sample_table(dataset.uri, dataset.version, _SAMPLED_FILES)
    return open_table(dataset.uri, dataset.version)
