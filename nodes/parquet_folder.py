"""`ParquetFolder`: Parquet files of volumes that exist already, where they lie."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import DTYPES, DTypeName, Preview, VolumeParquet, VolumeSpec
from engine.declare.node import node
from engine.declare.parameters import PathIn
from engine.diagnostics.rule import Rule
from engine.errors import DataError, UnsupportedTable, VoxelflowError, first_line
from engine.storage.files import check_regular
from engine.storage.io_errors import number_of, remedy
from engine.text import plural

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from engine.declare.path_found import PathFound
    from nodes.volume_file.parts import Part

_FILES = ("**/*.parquet", "**/*.PARQUET")
_READ_BYTES = 1 << 20
_SOON_READ = 32_000_000
"""Bytes of volumes in a row group, not compressed, of which the first one is looked at."""


@node(
    "ParquetFolder",
    version=1,
    category="Sources",
    icon="file-box",
    keywords=("existing files", "parquet"),
    imports=("engine.processes.pyarrow_without_pandas", "pyarrow.parquet"),
    anywhere="only names files, and reads their ids and labels",
)
def parquet_folder(
    *,
    folder: Annotated[str, PathIn("folder", *_FILES, holds="Parquet files")],
    shape: tuple[int, ...] = (),
    dtype: Literal["", DTypeName] = "",
    ctx: TaskContext,
) -> VolumeParquet:
    """Take Parquet files of volumes that are there already, from another workspace or another program.

    Nothing is copied or changed. A file has the columns id (text), volume (the array's bytes, C order, little-endian),
    mostly label (a number; float32 for ParquetToDelta), and any others. Files that Voxelflow made say the volumes'
    shape and dtype; for those of other programs the parameters say them. Such files may be compressed; training then
    reads them decoded.

    Args:
        folder: folder with the files, at any depth; hidden files and folders are left out.
        shape: axes X, Y, Z, then channels, e.g. 30, 30, 10, 2, in files that do not say it. Empty takes what they say.
        dtype: of the voxels, in files that do not say it. Empty takes what they say.
    """
    from engine.declare.progress import track
    from engine.storage import manifest
    from nodes.volume_file.parts import Parts, write_parts

    listing = manifest.read(ctx.inputs_found["folder"])
    given = _given(shape, dtype)
    said: VolumeSpec | None = None
    parts = []
    for entry in track(manifest.entries(listing), unit="files", total=len(listing), label="reading ids"):
        part, own = _part(Path(folder), entry.path, given)
        said = _agreed(said, own, entry.path)
        if part is not None:
            parts.append(part)
    spec = said or given
    if spec is None or not parts:
        raise DataError(f"the Parquet files in {folder} have no rows", hint="Choose another folder.")
    write_parts(Parts(parts=tuple(parts)), ctx.out / "parts.json")
    count = sum(part.rows for part in parts)
    return VolumeParquet(
        uri=folder,
        manifest=str(ctx.out / "parts.json"),
        count=count,
        bytes=sum(part.bytes for part in parts),
        spec=spec,
        found=count,
        labelled=sum(part.labelled for part in parts),
    )


def _given(shape: tuple[int, ...], dtype: str) -> VolumeSpec | None:
    """What the parameters say of the volumes. Raises `DataError` when they say half of it."""
    if not shape and not dtype:
        return None
    if not shape or dtype not in DTYPES or any(n <= 0 for n in shape):
        raise DataError(
            "shape and dtype belong together, and every length of a shape is 1 or more",
            hint="Give both, or neither.",
            parameter="dtype" if shape else "shape",
        )
    return VolumeSpec(shape=shape, dtype=dtype)


def _own_spec(metadata: Mapping[Any, Any] | None, name: str, given: VolumeSpec | None) -> VolumeSpec | None:
    """What a file itself says of its volumes. None: it says nothing, and `given` is for it.

    Raises `UnsupportedTable` when it says something else than `given`, or neither says anything.
    """
    from nodes.volume_file.layout import has_spec, spec_of

    if given is not None and not has_spec(metadata):
        return None
    try:
        own = spec_of(metadata, name)
    except UnsupportedTable as exc:
        if given is None or exc.__cause__ is None:  # a newer layout
            raise
        return None  # what it says cannot be understood: the parameters are the way out
    # Its bytes are as it says, and its class names and transforms are nowhere else.
    if given is not None and (_without_ones(own.shape), own.dtype) != (_without_ones(given.shape), given.dtype):
        raise UnsupportedTable(
            f"{name} says that its volumes are {own.describe()}, the parameters say {given.describe()}",
            hint="Leave shape and dtype empty: they are for files that do not say them.",
            parameter="shape",
        )
    return own


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths without those of 1 at the end, which say nothing of the bytes."""
    kept = [at for at, length in enumerate(shape) if length != 1]
    return shape[: kept[-1] + 1] if kept else ()


def _agreed(said: VolumeSpec | None, own: VolumeSpec | None, name: str) -> VolumeSpec | None:
    """What the files say so far, this one with them. Raises `DataError` when it says something else."""
    if said is None or own is None or own == said:
        return said or own
    one, other = own.describe(), said.describe()
    if one == other:
        one, other = (f"{one} and the classes {', '.join(each.classes) or '(none)'}" for each in (own, said))
    raise DataError(
        f"{name} has volumes of {one}, the files before it {other}",
        hint="Put files of one shape, dtype and kind of label into a folder of their own.",
        parameter="folder",
    )


def _part(folder: Path, name: str, given: VolumeSpec | None) -> tuple[Part | None, VolumeSpec | None]:
    """What one file holds, and what it says of its volumes itself. No part: it has no rows.

    Only its ids and labels are read, of which NaN is none, and the first volume where `given` is for it. Raises
    `UnsupportedTable` for a file that is none of volumes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from nodes.volume_file.fatal_footer import refuse_fatal
    from nodes.volume_file.id_bounds import doubled_column
    from nodes.volume_file.parts import Part

    path = folder / name
    try:
        check_regular(path, sys.maxsize)
    except OSError as exc:
        raise UnsupportedTable(
            f"{name} cannot be read: {exc.strerror}", hint=f"{remedy(exc)} Or remove the file."
        ) from exc
    try:
        with pq.ParquetFile(path, buffer_size=_READ_BYTES) as file:
            refuse_fatal(file.metadata)
            columns, rows = file.schema_arrow, file.metadata.num_rows
            if problem := doubled_column(columns.names):
                raise pa.ArrowInvalid(problem)
            _check_columns(columns, name)
            own = _own_spec(columns.metadata, name, given)
            if own is None and given is not None:
                _check_first_volume(file, name, given)
            wanted = ["id", "label"] if "label" in columns.names else ["id"]
            table = file.read(columns=wanted)
        found = path.stat()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as exc:
        if number_of(exc) is not None:  # Arrow's own errors about the bytes have none
            raise
        raise UnsupportedTable(
            f"{name} cannot be read as Parquet: {first_line(exc)}", hint="Make it again, or remove it."
        ) from exc
    if not rows:
        return None, own
    ids = pc.min_max(table.column("id").cast(pa.string()))
    labels = _labels(table.column("label"), name) if "label" in wanted else None
    ends = pc.min_max(labels) if labels is not None else None
    if table.column("id").null_count:
        raise UnsupportedTable(f"{name} has rows without an id", hint="Give every row an id of its own.")
    return (
        Part(
            path=name,
            rows=rows,
            bytes=found.st_size,
            mtime_ns=found.st_mtime_ns,
            labelled=rows - labels.null_count if labels is not None else 0,
            id_min=ids["min"].as_py(),
            id_max=ids["max"].as_py(),
            label_min=ends["min"].as_py() if ends is not None else None,
            label_max=ends["max"].as_py() if ends is not None else None,
        ),
        own,
    )


def _labels(column: Any, name: str) -> Any:
    """The labels of a file as a table has them, null for none. Raises `UnsupportedTable` where one would be another."""
    import numpy as np
    import pyarrow as pa

    from nodes.table.selection import nan_as_null

    if pa.types.is_integer(column.type):
        values = column.drop_null().to_numpy()
        # One out of range becomes another of its type, too.
        with np.errstate(invalid="ignore"):
            lost = values[values.astype(np.float32).astype(values.dtype) != values]
        if len(lost):
            raise UnsupportedTable(
                f"the column label of {name}: label {lost[0]} is not exact in 32 bits",
                hint="Use smaller numbers, or class names and ConvertTable.",
            )
    return nan_as_null(column.cast(pa.float32(), safe=False))


def _check_first_volume(file: pq.ParquetFile, name: str, given: VolumeSpec) -> None:
    """Raise `UnsupportedTable` when the first volume is not as long as the parameters say, where that is soon known.

    Others of another length are found when they are read: looking for them here would read the whole file.
    """
    import pyarrow.types as types

    from nodes.foreign_tables.sample import column_bytes

    kind, length = file.schema_arrow.field("volume").type, None
    if types.is_fixed_size_binary(kind):
        length = kind.byte_width
    elif file.metadata.num_row_groups and 0 < column_bytes(file.metadata, "volume")[0] <= _SOON_READ:
        # The first value alone takes a whole page, and other programs write a page for many volumes.
        first = next(file.iter_batches(1, columns=["volume"], use_threads=False), None)
        value = first.column(0)[0].as_py() if first is not None and len(first) else None
        length = None if value is None else len(value)
    if length is not None and length != given.volume_bytes:
        raise UnsupportedTable(
            f"the volumes of {name} have {plural(length, 'bytes')}, {given.describe()} has {given.volume_bytes:,}",
            hint="Give the shape and dtype that its arrays have.",
            parameter="shape",
        )


def _check_columns(columns: Any, name: str) -> None:
    import pyarrow.types as types

    found = {field.name: field.type for field in columns}
    listed = ", ".join(f"{column}: {kind}" for column, kind in list(found.items())[:8])
    if missing := {"id", "volume"} - found.keys():
        raise UnsupportedTable(
            f"{name} has no column {' and '.join(sorted(missing))}; it has {listed}",
            hint="Convert it with ConvertTable: a file of volumes has the columns id, label and volume.",
        )
    fits = {
        "id": types.is_string(found["id"]) or types.is_large_string(found["id"]),
        # A file holds the same bytes whether its writer, such as polars, calls them large or not.
        "volume": any(
            test(found["volume"]) for test in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
        ),
        # Training takes any number, and ParquetToDelta, which takes the files as they are, float32 alone.
        "label": "label" not in found or types.is_floating(found["label"]) or types.is_integer(found["label"]),
    }
    for column, fit in fits.items():
        if not fit:
            raise UnsupportedTable(
                f"the column {column} of {name} is {found[column]}",
                hint="Convert it with ConvertTable: id is text, label a number, and volume the bytes of an array.",
            )


@parquet_folder.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """Look into the first file, and into the footers of those sampled: what they say of the volumes has to agree."""
    found = look.paths["folder"]
    if not found.sample:
        return {}
    try:
        given = _given(look.params["shape"], look.params["dtype"])
        said = _part(Path(found.path), found.sample[0], given)[1]
        for name, metadata in _metadata_of(Path(found.path), found.sample[1:]):
            said = _agreed(said, _own_spec(metadata, name, given), name)
        spec = said or given
    except VoxelflowError as exc:
        return {"problem": exc.message, "hint": exc.hint, "parameter": exc.parameter}
    assert spec is not None, "a file that says nothing is refused where nothing is given"
    return {"spec": spec.model_dump(mode="json"), **_said_by_footers(Path(found.path), found.sample, found.count)}


def _metadata_of(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Mapping[Any, Any] | None]]:
    """The schema metadata of these files. Of those that cannot be read, the run names the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in names:
        with suppress(pa.ArrowException, OSError):
            check_regular(folder / name, sys.maxsize)
            yield name, pq.read_schema(folder / name).metadata


def _said_by_footers(folder: Path, names: Sequence[str], files: int) -> dict[str, Any]:
    """What the footers of some of the folder's files say: columns, rows, and the ends of the labels in row groups.

    Of files that cannot be read, the run names the first.
    """
    import numpy as np
    import pyarrow as pa

    from nodes.conversion.label_values import different
    from nodes.volume_file.fatal_footer import refuse_fatal
    from nodes.volume_file.footer import read_footer
    from nodes.volume_file.id_bounds import column_chunks, number_statistics

    rows = labelled = 0
    ends, columns = list[float](), list[str]()
    counted = known = alike = len(names) == files
    for name in names:
        try:
            check_regular(folder / name, sys.maxsize)
            _, file, stored = read_footer(folder / name)
            footer = file.metadata
            refuse_fatal(footer)
            refuse_fatal(footer, stored, statistics=False)  # those of numbers, as labels are, are never shortened
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            counted = alike = False
            continue
        rows += footer.num_rows
        columns += [each for each in footer.schema.to_arrow_schema().names if each not in columns]
        for chunk in column_chunks(footer, "label"):
            label = number_statistics(chunk)
            if label is None or not label.has_null_count:
                known = alike = False
                continue
            labelled += (there := chunk.num_values - label.null_count)
            if there:
                known = known and label.has_min_max  # without ends: all of them are NaN, or it is not said
                ends += [label.min, label.max] if label.has_min_max else []
                alike = alike and label.has_min_max and label.min == label.max
    return {
        "rows": rows if counted else None,
        "labelled": labelled if counted and known else None,
        "columns": [name for name in columns if name not in ("id", "label", "volume")],
        "labels": different(np.array(ends, np.float32)),
        "labels_complete": alike,
    }


@parquet_folder.preview
def _preview(look: CheckContext) -> Preview:
    if "problem" in look.facts:
        parameter = look.facts["parameter"] or "folder"
        look.report(NoVolumeFile, look.facts["problem"], hint=look.facts["hint"], parameter=parameter)
    found = look.paths.get("folder")
    spec = VolumeSpec.model_validate(look.facts["spec"]) if "spec" in look.facts else None
    known = Preview(
        kind="VolumeParquet",
        uri=str(look.params.get("folder") or "") or None,
        bytes=found.bytes if found is not None and found.manifest else None,
        spec=spec,
        dataset=_there(found, spec, look.facts.get("rows")),
    )
    if "columns" not in look.facts:
        return known
    said = {
        "count": look.facts["rows"],
        "labelled": look.facts["labelled"],
        "columns": tuple(look.facts["columns"]),
        "labels": tuple(look.facts["labels"]),
        "labels_complete": look.facts["labels_complete"],
    }
    return known.model_copy(update=said)


def _there(found: PathFound | None, spec: VolumeSpec | None, rows: int | None) -> VolumeParquet | None:
    """The files as they lie, to be looked at: those of the listing. A run counts their volumes."""
    if found is None or not found.manifest or not found.count or spec is None:
        return None
    count = rows or 0
    return VolumeParquet(
        uri=found.path, manifest=found.manifest, count=count, bytes=found.bytes, spec=spec, found=count
    )


# --- what it reports before a run ----------------------------------------------------------------


class NoVolumeFile(Rule):
    """A file of the folder that ParquetFolder is given is no file of volumes that can be read, or says another shape or
    dtype than the parameters or the files before it. The message has the reason.

    What to do: give the parameters `shape` and `dtype` for files of other programs, whose column `volume` has the bytes
    of arrays. ConvertTable converts files with other columns, nested lists or petastorm's arrays.
    """

    code = "VF561"
    severity = "error"
    title = "a Parquet file that is none of volumes"
