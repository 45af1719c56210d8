"""Volumes cut into patches, and these into Parquet parts: which there are, with which labels, which are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles, VolumeParquet, VolumeSpec
from engine.declare.progress import Meter
from engine.errors import DataError
from engine.storage import is_url, manifest
from engine.text import plural
from nodes.conversion.columns import describe
from nodes.conversion.formats import HASH, Reading
from nodes.conversion.formats.interface import VolumeHeader
from nodes.conversion.formats.reader import header_of
from nodes.conversion.label_values import nfc
from nodes.conversion.make_parts import MakeChunks, Making, in_threads, make_parts, opened_store
from nodes.conversion.part_writer import Layout
from nodes.conversion.quarantine import Refused
from nodes.conversion.row_ledger import RowLedger
from nodes.conversion.volume_sources import reading_of
from nodes.cutting.cubes import Cube, find_cubes, left_out, said_left_out
from nodes.cutting.cut_parameters import CutParameters, Steps, steps_of
from nodes.cutting.grid import PatchGrid
from nodes.cutting.known_of_volumes import KnownOfVolumes, known_of_volumes
from nodes.cutting.patch_labels import LabelRule, StoredLabels
from nodes.cutting.patches import PatchSource, Place, columns_of, ids_of
from nodes.cutting.same_place import refuse_elsewhere
from nodes.cutting.source_hashes import HashCubes, StoredHashes, hash_in_threads, source_hashes
from nodes.cutting.tiles import TileCache, TooLarge, open_tiled
from nodes.volume_file.parameters import MB

_SLAB_BYTES = 512 << 20
"""What is kept in memory of a volume that is read in tiles: the slab that patches are cut from, and what comes next. Of
a volume that is wider, a strip at a time is cut (`PatchGrid.strip`). The order of patches follows from it, and so the
parts: it is the same on every machine."""
_TILE_SHARE = 3
"""One part of so many of a task's memory is for volumes, and at most `_SLAB_BYTES` where they are read in tiles."""
_LEAST_TILES = 64 << 20
_NAMED = 3


@dataclass(frozen=True)
class Known:
    """What the headers say of one volume."""

    shape: tuple[int, int, int, int]
    dtype: str
    header: VolumeHeader
    last_is_slow: bool
    label_shape: tuple[int, ...] | None = None

    @property
    def form(self) -> tuple[int, str]:
        """What all volumes of a table have in common: the number of channels, and the dtype."""
        return self.shape[3], self.dtype


@dataclass
class Survey:
    """What the headers of volumes say: what is known of each, and why others cannot be cut."""

    known: dict[str, Known] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)

    def spec(self, steps: Steps, classes: tuple[str, ...] = ()) -> VolumeSpec | None:
        """Shape and dtype of the patches: channels and dtype are those of most volumes. None without any volume."""
        if not self.known:
            return None
        ((channels, dtype), _), *_ = Counter(known.form for known in self.known.values()).most_common(1)
        return VolumeSpec(shape=(*steps.size, channels), dtype=dtype, classes=classes)


def survey(root: str, cubes: Sequence[Cube], reading: Reading, parameters: CutParameters) -> Survey:
    """Read the headers of the volumes. Those that differ from most in channels or dtype are refused."""
    found = Survey()
    # No voxel is read: a volume of any size can be looked at.
    cache = TileCache(1 << 62)
    for cube in cubes:
        try:
            found.known[cube.name] = _known(root, cube, reading, parameters, cache)
        except Refused as refused:
            found.refused[cube.name] = refused
    if found.known:
        form = Counter(known.form for known in found.known.values()).most_common(1)[0][0]
        for name, known in list(found.known.items()):
            if known.form != form:
                reason = "dtype-differs" if known.dtype != form[1] else "shape"
                is_, others = (f"has {plural(n, 'channels')} of {dtype}" for n, dtype in (known.form, form))
                found.refused[name] = Refused(reason, f"{is_}, most volumes {others.replace('has', 'have', 1)}")
                del found.known[name]
    return found


def _known(root: str, cube: Cube, reading: Reading, parameters: CutParameters, cache: TileCache) -> Known:
    header = header_of(root, cube.files[0].path, reading)
    with open_tiled(Path(root), cube.files, reading, cache) as volume:
        shape = volume.shape
        known = Known(shape, volume.dtype.newbyteorder("=").name, header, volume.last_is_slow)
    if parameters.labels != "volume" or cube.labels is None:
        return known
    label_header = header_of(root, cube.labels.path, reading)
    labels = label_header.shape
    if (*labels, 1, 1)[:3] != shape[:3] or labels[3:] not in ((), (1,)):
        raise Refused(
            "shape",
            f"is {_times(shape[:3])} voxels, its labels {cube.labels.path} are {_times(labels)}",
        )
    refuse_elsewhere(header, label_header, cube.labels.path)
    return known


@dataclass
class _Rows:
    """The patches of all volumes so far, a list item a volume. `columns` has a row for each of `places`."""

    columns: pa.Table
    places: Mapping[str, int]
    keys: list[pa.Array] = field(default_factory=list)
    sizes: list[NDArray[np.int64]] = field(default_factory=list)
    stamps: list[NDArray[np.int64]] = field(default_factory=list)
    labels: list[NDArray[np.float32]] = field(default_factory=list)
    volumes: list[NDArray[np.int64]] = field(default_factory=list)
    left_out: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, cube: Cube, keys: pa.Array, labels: NDArray[np.float32]) -> None:
        self.keys.append(keys)
        self.sizes.append(np.full(len(keys), cube.size, np.int64))
        self.stamps.append(np.full(len(keys), cube.stamp, np.int64))
        self.labels.append(labels)
        self.volumes.append(np.full(len(keys), self.places[cube.name], np.int64))

    def ledger(self) -> RowLedger:
        keys = pa.concat_arrays(self.keys)
        stamps = pa.table({"size": np.concatenate(self.sizes), "mtime_ns": np.concatenate(self.stamps)})
        columns = self.columns.take(pa.array(np.concatenate(self.volumes))) if self.columns.num_columns else None
        return RowLedger(keys, nfc(keys), stamps, np.concatenate(self.labels), columns)


def cut_files(
    files: VolumeFiles,
    parameters: CutParameters,
    ctx: TaskContext,
    make: MakeChunks = in_threads,
    take_hashes: HashCubes = hash_in_threads,
) -> VolumeParquet:
    """Cut `files` and publish the patches in `ctx.out`, with their parts in `ctx.shared`.

    Raises `DataError` for parameters that do not fit the files, for a volume that cannot be read (unless
    `parameters.bad_volumes` says otherwise), and when there is no patch.
    """
    steps = steps_of(parameters.size, parameters.stride)
    if files.transforms:
        raise DataError(
            "the volumes have transforms, and patches are cut from the files as they are",
            hint="Cut first, and transform the patches.",
        )
    reading = reading_of(files)
    refuse_remote(files)
    rule = LabelRule.of(parameters)
    listing = manifest.read(files.manifest)
    cubes = find_cubes(listing, parameters)
    if unused := left_out(listing, cubes, parameters):
        ctx.warn(said_left_out(unused))
    found = survey(files.uri, cubes, reading, parameters)
    _report_refused(found, cubes, parameters, ctx)
    spec = found.spec(steps, rule.classes)
    assert spec is not None
    known = known_of_volumes(cubes, reading, parameters)
    _report_known(known, cubes, parameters, ctx)
    rows = _Rows(known.columns, {cube.name: place for place, cube in enumerate(cubes)})
    stored = StoredLabels(ctx.shared / ".labels")
    for cube in cubes:
        if cube.name in found.known:
            _select(files.uri, reading, cube, found.known[cube.name], steps, rule, stored, rows, ctx)
    stored.forget_others()
    if not sum(map(len, rows.keys)):
        raise DataError(
            f"no patch of {_times(steps.size)} voxels is left of {plural(len(found.known), 'volumes')}",
            hint="Choose a smaller size, other edges, or keep more.",
            parameter="keep" if rows.left_out else "size",
        )
    # A volume that cannot be opened counts as one: how many patches it has is not known.
    refused = [cube for cube in cubes if cube.name in found.refused]
    for cube in refused:
        rows.add(cube, pa.array([cube.name]), np.full(1, np.nan, np.float32))
    for name, number in sorted(rows.counts.items()) if parameters.labels != "none" else ():
        ctx.info(f"{name}: {number:,} patches")
    if rows.left_out:
        ctx.info(f"{plural(rows.left_out, 'patches')} are left out by keep")
    ledger = rows.ledger()
    ledger.refuse_double_ids()
    for place, cube in enumerate(refused, len(ledger) - len(refused)):
        why = found.refused[cube.name]
        ledger.refuse(place, why.reason, why.message)
    cut = [cube for cube in cubes if cube.name in found.known]
    more: dict[str, dict[str, str | None]] = {}
    if parameters.hash_sources:
        taken = source_hashes(files.uri, cut, reading, StoredHashes(ctx.shared / ".hashes"), ctx, take_hashes)
        more = {name: {HASH[0]: value} for name, value in taken.items()}
    source = PatchSource(
        root=files.uri,
        reading=reading,
        cubes={cube.name: cube for cube in cut},
        places={name: Place.of(each.header, **more.get(name, {})) for name, each in found.known.items()},
        size=steps.size,
        edges=parameters.edges,
        no_data=parameters.no_data,
        tile_bytes=min(_SLAB_BYTES, _tile_bytes(ctx)),
        whole_bytes=_tile_bytes(ctx),
        carried=known.columns.num_columns,
        stop=parameters.bad_volumes == "stop",
    )
    layout = Layout(
        spec=spec,
        target_bytes=parameters.target_file_mb * MB,
        row_group_rows=parameters.row_group_rows,
        compression=parameters.compression,
        finite=parameters.not_finite == "quarantine",
        columns=pa.schema([*columns_of(reading, hashes=parameters.hash_sources), *known.columns.schema]),
    )
    with opened_store(ctx) as store:
        making = Making(
            source, ledger, layout, store,
            threads=parameters.threads, most_refused=len(ledger), left_out=rows.left_out,
        )  # fmt: skip
        try:
            return make_parts(making, ctx, make, doing="cutting")
        finally:
            source.volumes.close()


def refuse_remote(files: VolumeFiles) -> None:
    """Raise `DataError` for volumes in object storage: they are read in tiles, here and there in a file."""
    if is_url(files.uri):
        raise DataError(
            f"patches are cut from files on a disk, and the volumes are in {files.uri}",
            hint="Copy them to a disk. The table that is made of the patches may be in object storage.",
        )


def _tile_bytes(ctx: TaskContext) -> int:
    return max(_LEAST_TILES, ctx.resources.memory_bytes // _TILE_SHARE)


def _report_refused(found: Survey, cubes: Sequence[Cube], parameters: CutParameters, ctx: TaskContext) -> None:
    """Say which volumes cannot be cut. Raises `DataError` where that ends the run."""
    if found.refused:
        first = "; ".join(f"{name} {refused.message}" for name, refused in list(found.refused.items())[:_NAMED])
        problem = f"{plural(len(found.refused), 'volumes')} of {len(cubes)} cannot be cut: {first}"
        if parameters.bad_volumes == "stop" or not found.known:
            raise DataError(
                problem, hint="Repair or remove them, or set bad_volumes to leave them out.", parameter="bad_volumes"
            )
        ctx.warn(problem)
    if parameters.labels == "volume":
        without = [cube.name for cube in cubes if cube.labels is None]
        if without:
            listed = ", ".join(without[:_NAMED])
            ctx.warn(f"{len(without)} of {plural(len(cubes), 'volumes')} without labels, for example {listed}")


def _report_known(known: KnownOfVolumes, cubes: Sequence[Cube], parameters: CutParameters, ctx: TaskContext) -> None:
    """Say which columns come from the table of the volumes, and what does not fit."""
    if not parameters.columns_file:
        return
    ctx.info(f"columns of {Path(parameters.columns_file).name}: {describe(known.columns.schema) or 'none'}")
    for remark in known.remarks:
        ctx.warn(remark)
    if known.without or known.rows_without_volume:
        ctx.warn(said_not_matched(known, len(cubes), Path(parameters.columns_file).name))


def said_not_matched(known: KnownOfVolumes, volumes: int, table: str) -> str:
    """A sentence about volumes that the table does not name, and rows that name no volume; empty without either."""
    parts = []
    if known.without:
        named = ", ".join(known.without[:_NAMED])
        parts.append(f"{table} says nothing of {len(known.without)} of {plural(volumes, 'volumes')}: {named}")
    if known.rows_without_volume:
        rows = plural(known.rows_without_volume, "rows")
        parts.append(f"{rows} of {table} {'names' if known.rows_without_volume == 1 else 'name'} no volume")
    return "; ".join(parts)


def _select(
    root: str,
    reading: Reading,
    cube: Cube,
    known: Known,
    steps: Steps,
    rule: LabelRule,
    stored: StoredLabels,
    rows: _Rows,
    ctx: TaskContext,
) -> None:
    """The patches of one volume that are kept, in the order in which they are cut, with their labels."""
    grid = PatchGrid(known.shape[:3], steps, rule.parameters.edges != "drop")
    positions = positions_of(grid, known)
    keys = ids_of(cube.name, positions)
    meter = Meter(len(positions), "patches", f"reading labels of {cube.name}")

    def step(count: int) -> None:
        meter.add(count)
        ctx.check_cancelled()

    file = cube.labels if rule.parameters.labels == "volume" else None
    key = stored.key(file, rule, positions) if file is not None else ""
    labels = stored.recall(key, len(positions)) if key else None
    if labels is None:
        labels = label_patches(root, reading, rule, cube, known, grid, positions, _tile_bytes(ctx), step)
        if labels is None:
            assert file is not None
            raise DataError(
                f"the labels {file.path} have to be read whole, and there is not enough memory for that",
                hint="Store them uncompressed, or as Zarr.",
                parameter="label_volume",
            )
        if key:
            stored.remember(key, labels)
    kept = rule.keep(labels, keys)
    rows.left_out += int(np.count_nonzero(~kept))
    rows.counts.update(rule.names(labels[kept]))
    if kept.any():
        rows.add(cube, keys.filter(pa.array(kept)), labels[kept])


def label_patches(
    root: str,
    reading: Reading,
    rule: LabelRule,
    cube: Cube,
    known: Known,
    grid: PatchGrid,
    positions: NDArray[np.int32],
    most_bytes: int,
    step: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float32] | None:
    """The labels of the patches at these positions, NaN for none; None when it takes more memory than `most_bytes`.

    Raises `DataError` for a volume of labels that cannot be read, or has a value that is no class.
    """
    if rule.parameters.labels != "volume":
        return rule.label(grid, positions, known.header, cube.name)
    if cube.labels is None:
        return np.full(len(positions), np.nan, np.float32)
    try:
        cache = TileCache(min(_SLAB_BYTES, most_bytes), most_bytes)
        with open_tiled(Path(root), (cube.labels,), reading, cache) as volume:
            return rule.label_by_volume(volume, grid, positions, step)
    except TooLarge:
        return None
    except Refused as refused:
        raise DataError(
            f"the labels {cube.labels.path} cannot be read: it {refused.message}",
            hint="Repair the file, or remove it: the patches of its volume have no labels then.",
            parameter="label_volume",
        ) from refused


def positions_of(grid: PatchGrid, known: Known) -> NDArray[np.int32]:
    """Where the patches begin, in the order in which they are cut."""
    slow = known.last_is_slow
    across = (grid.shape[0] if slow else grid.shape[2]) * known.shape[3] * np.dtype(known.dtype).itemsize
    strip = grid.strip(across, last_is_slow=slow, most_bytes=_SLAB_BYTES)
    return grid.positions(strip, last_is_slow=slow)


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
