"""Whether the bytes of a Parquet file of volumes are right: its footer, and every page against its checksum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from engine.errors import UnsupportedTable
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.footer import is_creator
from nodes.volume_file.id_bounds import (
    WRONG_ENDS,
    Described,
    columns_problem,
    number_statistics,
    other_content,
    read_ends,
)
from nodes.volume_file.join import is_of_known_writer
from nodes.volume_file.layout import has_spec, spec_of
from nodes.volume_file.pages import ChunkCheck, VolumePages
from nodes.volume_file.stored_chunks import stored_chunks, stored_footer

_READ_BYTES, _ROWS = 1 << 20, 64
"""Volumes that must be decoded are read so many bytes, and decoded so many rows, at a time."""
_IDS = 5
"""Ids of lost volumes that are named."""


@dataclass(frozen=True)
class FileCheck:
    """What was found in one file.

    `rows` are half-open ranges of the rows that are lost, `ids` the first few of their ids, as far as these can be
    read, `checked` and `unchecked` count volumes with and without a checksum. `archives` counts cells of which nothing
    but the checksums of the zip archive in them could be compared.
    """

    problems: tuple[str, ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    ids: tuple[str, ...] = ()
    checked: int = 0
    unchecked: int = 0
    archives: int = 0

    @property
    def lost(self) -> int:
        """How many rows are lost."""
        return sum(end - start for start, end in self.rows)


def check_file(file: pa.NativeFile, rows: int, volume_bytes: int, said: Described | None = None) -> FileCheck:
    """Read all pages of an open file that should have `rows` rows, with ids and labels as they are `said` to be.

    Memory: 1 MB, a page of volumes where these must be decoded, and a row group without its volumes.
    Never raises for what is wrong with the file's bytes; `OSError` when they cannot be read at all.
    """
    try:
        # Not closed: that would close the caller's file.
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        metadata = parquet.metadata
        if metadata.num_rows != rows:
            return _all_lost(rows, f"its footer says {metadata.num_rows:,} rows, not {rows:,}")
        refuse_fatal(metadata, stored_footer(file), statistics=is_of_known_writer(metadata))
        if problem := columns_problem(parquet.schema_arrow.names):
            return _all_lost(rows, problem)
        found, wrong = _check_pages(file, parquet, VolumePages(volume_bytes))
        if found.problems:
            return found
        there = read_ends(parquet)
        if said is not None and (problem := other_content(there, said)):
            return _all_lost(rows, f"it {problem}")
        # No row is lost by these; who asks for some ids or labels is led astray.
        return replace(found, problems=tuple(filter(None, (*wrong, spec_problem(parquet)))))
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, IndexError) as exc:
        if isinstance(exc, OSError) and exc.errno:
            raise
        return _all_lost(rows, f"its footer cannot be read ({str(exc).splitlines()[0].rstrip('.')})")


def _wrong_statistics(group: pq.RowGroupMetaData, read: pa.Table) -> Iterator[str]:
    """What the footer says wrongly of a row group's ids and labels: programs that look for some pass over row groups
    that cannot have them."""
    chunks = {chunk.path_in_schema: chunk for chunk in (group.column(n) for n in range(group.num_columns))}
    for name in ("id", "label"):
        chunk = chunks.get(name)
        said = None if chunk is None else chunk.statistics if name == "id" else number_statistics(chunk)
        if said is None or name not in read.column_names:
            continue
        values = read[name]
        if said.has_null_count and said.null_count != values.null_count:
            yield f"its footer says wrongly how many rows have no {name}"
        if said.has_min_max and not _are_ends(said, values):
            yield WRONG_ENDS.replace("ids", f"{name}s")


def _are_ends(said: pq.Statistics, values: pa.ChunkedArray) -> bool:
    """Whether these are the least and the greatest of the values, if they are text or numbers."""
    kind = values.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind) or types.is_floating(kind)):
        return True
    try:
        return bool((said.min, said.max) == tuple(pc.min_max(values).as_py().values()))
    except UnicodeDecodeError:
        return False


def spec_problem(parquet: pq.ParquetFile) -> str:
    """What is wrong with what a file of volumes that Voxelflow wrote says of these, or ""."""
    if not is_creator(parquet.metadata.created_by) or "volume" not in parquet.schema_arrow.names:
        return ""
    # It is there twice: for all readers, and within the Arrow schema, from which pyarrow takes it.
    said = []
    for metadata in (parquet.metadata.metadata, parquet.schema_arrow.metadata):
        try:
            said.append(spec_of(metadata, "it"))
        except (UnsupportedTable, UnicodeDecodeError) as exc:
            if isinstance(exc, UnsupportedTable) and has_spec(metadata) and exc.__cause__ is None:
                return ""  # a newer layout
            return "its metadata does not say the shape and dtype of its volumes"
    return "" if said[0] == said[1] else "its metadata says two things of its volumes"


def _all_lost(rows: int, problem: str) -> FileCheck:
    return FileCheck((problem,), ((0, rows),))


def _check_pages(file: pa.NativeFile, parquet: pq.ParquetFile, volumes: VolumePages) -> tuple[FileCheck, Iterable[str]]:
    """What is lost, and what the footer says wrongly of rows that are not."""
    metadata = parquet.metadata
    knows_statistics = is_of_known_writer(metadata)
    problems: dict[str, None] = {}
    wrong: dict[str, None] = {}
    lost: set[tuple[int, int]] = set()
    first = checked = unchecked = 0
    by_pages = pq.ParquetFile(file, metadata=metadata, buffer_size=_READ_BYTES, page_checksum_verification=True)
    for number, chunks in enumerate(stored_chunks(file)):
        group = metadata.row_group(number)
        to_decode = False
        for column, chunk in enumerate(chunks):
            is_volume = chunk.path == "volume"
            plain = is_volume and not chunk.compressed
            check = ChunkCheck(chunk.values, chunk.length, volumes if plain else None)
            for data in chunk.bytes_of(file):
                check.feed(data)
            check.finish()
            for page in check.damaged:
                problems[f"{page.reason} (column {chunk.path})"] = None
                # The values of a nested column are not its rows.
                flat = metadata.schema.column(column).max_repetition_level == 0
                start, end = (page.first, page.first + page.values) if flat else (0, group.num_rows)
                lost.add((first + min(start, group.num_rows - 1), first + min(end, group.num_rows)))
            if is_volume:
                to_decode = not check.all_compared
                without = chunk.values if check.unchecked else 0
                unchecked, checked = unchecked + without, checked + chunk.values - without
        # The bits of a page's header are not in its checksum, nor is how its bytes are compressed.
        read, problem = _beside_volumes(parquet, number)
        if not problem and to_decode:
            problem = _volumes_problem(by_pages, number, volumes.volume_bytes)
        if problem and not any(a < first + group.num_rows and b > first for a, b in lost):
            problems[problem] = None
            lost.add((first, first + group.num_rows))
        if read is not None and group.num_rows and knows_statistics:
            wrong |= dict.fromkeys(_wrong_statistics(group, read))
        first += group.num_rows
    if first != metadata.num_rows:
        return _all_lost(metadata.num_rows, f"its footer says {metadata.num_rows:,} rows and lists {first:,}"), ()
    rows = _joined(lost)
    return FileCheck(tuple(problems), rows, _ids(parquet, rows), checked, unchecked), wrong


def _beside_volumes(parquet: pq.ParquetFile, group: int) -> tuple[pa.Table | None, str]:
    """The columns beside the volumes, and why they cannot be read, or ""."""
    names = [name for name in parquet.schema_arrow.names if name != "volume"]
    try:
        found = parquet.read_row_group(group, columns=names, use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:
        return None, f"its ids and labels cannot be read ({str(exc).splitlines()[0].rstrip('.')})"
    rows = parquet.metadata.row_group(group).num_rows
    return found, "" if found.num_rows == rows else f"a row group has {found.num_rows:,} ids, not {rows:,}"


def _volumes_problem(parquet: pq.ParquetFile, group: int, volume_bytes: int) -> str:
    """Why the volumes of a row group cannot be decoded, or ""."""
    rows = max(1, min(_ROWS, _READ_BYTES // max(1, volume_bytes)))
    try:
        for batch in parquet.iter_batches(rows, row_groups=[group], columns=["volume"], use_threads=False):
            lengths = pc.binary_length(batch.column(0).cast(pa.binary()).drop_null()).unique().to_pylist()
            if wrong := [length for length in lengths if length != volume_bytes]:
                return f"a volume in it has {wrong[0]:,} bytes, not {volume_bytes:,}"
    except (pa.ArrowException, OSError) as exc:
        return f"its volumes cannot be read ({str(exc).splitlines()[0].rstrip('.')})"
    return ""


def _joined(ranges: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return tuple(out)


def _ids(parquet: pq.ParquetFile, rows: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
    """The ids of the first few of these rows; none where the page that holds them is damaged itself."""
    found: list[str] = []
    first = 0
    for number in range(parquet.metadata.num_row_groups):
        end = first + parquet.metadata.row_group(number).num_rows
        inside = [(max(a, first) - first, min(b, end) - first) for a, b in rows if a < end and b > first]
        if inside:
            try:
                ids = parquet.read_row_group(number, columns=["id"], use_threads=False)["id"].to_pylist()
            except (pa.ArrowException, OSError):
                ids = []
            found += [str(volume_id) for a, b in inside for volume_id in ids[a:b]]
        if len(found) >= _IDS:
            break
        first = end
    return tuple(found[:_IDS])
