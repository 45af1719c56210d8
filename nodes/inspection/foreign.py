"""The stored bytes of a table of another program: what can be compared is, and what cannot is reported.

Other programs seldom write checksums of pages. Four things are compared in their place: the sizes in a Delta log, the
list of files and row groups that petastorm keeps (`_common_metadata`), the checksums that Hadoop's local file system,
and so Spark, writes beside each file (`.NAME.crc`), and those inside of cells that are zip archives (`archives`).
"""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.storage.checksum import crc32
from engine.storage.find_place import place_at
from engine.storage.io_errors import raise_if_not_damage
from engine.storage.place import Place
from engine.text import plural
from nodes.foreign_tables.tables import ForeignTable
from nodes.inspection.archives import ArchiveCells
from nodes.inspection.damage import NO_ROWS, Checked, Damage, Progress, StoredFile, in_threads, listed_rows
from nodes.volume_file.damage import FileCheck, spec_problem
from nodes.volume_file.fatal_footer import refuse_fatal
from nodes.volume_file.pages import ChunkCheck
from nodes.volume_file.stored_chunks import StoredChunk, stored_chunks

_ROWS, _BATCH_BYTES = 64, 32 << 20
"""Rows that are decoded at a time, fewer where they are large."""
_READ_BYTES = 1 << 20
_LISTS = ("_common_metadata", "_metadata")
_ROW_GROUPS = b"dataset-toolkit.num_row_groups_per_file.v1"
"""Where petastorm says how many row groups each file has (`petastorm.etl.dataset_metadata`)."""
_SUMS = struct.Struct(">4si")
"""The head of Hadoop's checksums: their kind, and the bytes that each is of. Then CRC-32s, 32 bits each, big endian
(org.apache.hadoop.fs.ChecksumFileSystem)."""


def check_foreign(table: ForeignTable, checked: Checked, threads: int, progress: Progress) -> Iterator[Damage]:
    """Read all files of the table; gives what is damaged, and counts rows with and without checksums in `checked`.

    `checked.remarks` say what could not be compared. Memory: the list of the files, and for each thread a footer, a
    page of each column and 64 rows, fewer where these are more than 32 MB.
    """
    place = place_at(table.where)
    # The size of a file that is not in a log is what it is now.
    sizes = [size for size, _ in table.stamps]
    files = [StoredFile(name, size, 0) for name, size in zip(table.names, sizes, strict=True)]
    listed, damages = _petastorm_list(place) if table.columns is None else (None, [])
    yield from damages
    for name in sorted((listed or {}).keys() - set(table.names)):
        yield Damage(place.path(name), "file", "it is gone", "all rows in it")

    def check(file: StoredFile) -> FileCheck:
        with place.open(file.path, file.bytes) as opened:
            return _check_file(opened, place, file, (listed or {}).get(file.path))

    archives = 0
    for file, found in in_threads(place, check, files, threads, progress):
        checked.files += 1
        checked.volumes += found.checked
        checked.unchecked += found.unchecked
        archives += found.archives
        if found.problems:
            yield Damage(place.path(file.path), "file", "; ".join(found.problems[:3]), _lost(found), found.lost)
    if archives:
        checked.remarks.append(
            f"{plural(archives, 'compressed arrays')} match the checksums of their archives; the other values of their"
            " rows could be decoded, and that is all that is known of them"
        )
    if checked.unchecked:
        none = "not all arrays in them have" if archives else "nothing in or beside their files has"
        checked.remarks.append(
            f"{plural(checked.unchecked, 'rows')} could be decoded, and that is all that is known: {none} checksums,"
            " so a flipped bit in a value is not noticed"
        )
    if table.columns is None and listed is None:
        checked.remarks.append("no list says which files belong to the folder: one that is gone is not missed")


def _lost(found: FileCheck) -> str:
    if rest := found.checked + found.unchecked:
        if not found.lost:
            return NO_ROWS
        return f"{found.lost:,} of {plural(found.lost + rest, 'rows')} ({listed_rows(found.rows)})"
    return f"up to {plural(found.lost, 'rows')} in it" if found.lost else "all rows in it"


def _petastorm_list(place: Place) -> tuple[dict[str, int] | None, list[Damage]]:
    """How many row groups each file has, by its path; None where petastorm did not write that down, or it is damaged.

    And what is damaged of the files in which it would be.
    """
    damages: list[Damage] = []
    for name in _LISTS:
        try:
            found = place.stat(name)
            if found is None or found.size < 0:
                continue
            with place.open(name, found.size) as file:
                metadata: Mapping[bytes, bytes] = pq.read_schema(file).metadata or {}
            if _ROW_GROUPS in metadata:
                counts = json.loads(metadata[_ROW_GROUPS]).items()
                return {str(PurePosixPath(path)): int(count) for path, count in counts}, damages
        except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError) as exc:
            raise_if_not_damage(exc)
            text = getattr(exc, "strerror", None) or str(exc)
            said = next(iter(text.splitlines()), "").rstrip(".")
            lost = "what it says of the folder's files, not their rows"
            damages.append(Damage(place.path(name), "file", f"it cannot be read ({said})", lost))
    return None, damages


def _check_file(file: pa.NativeFile, place: Place, stored: StoredFile, row_groups: int | None) -> FileCheck:
    """What is wrong with one file. Raises `OSError` when it cannot be read at all."""
    problems = []
    sums = _sums_beside(place, stored.path)
    if sums is not None and (problem := _sums_problem(file, stored, *sums)):
        problems.append(problem)
    cells = ArchiveCells()
    try:
        # Not closed: that would close the caller's file.
        parquet = pq.ParquetFile(file, buffer_size=_READ_BYTES, page_checksum_verification=True)
        metadata = parquet.metadata
        if row_groups not in (None, metadata.num_row_groups):
            problems.append(f"it has {plural(metadata.num_row_groups, 'row groups')}, not {row_groups}")
        complete = []
        for number, chunks in enumerate(stored_chunks(file)):
            damaged, has_sums = _check_group(file, metadata.row_group(number).num_rows, chunks)
            problems += damaged
            complete.append(has_sums or sums is not None)
        if problems:
            return FileCheck(tuple(dict.fromkeys(problems)), ((0, metadata.num_rows),))
        refuse_fatal(metadata)
        found = _check_cells(parquet, complete, cells)
        if problem := spec_problem(parquet):
            found = replace(found, problems=(*found.problems, problem))
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, IndexError) as exc:
        if isinstance(exc, OSError) and exc.errno:
            raise
        said = next(iter(str(exc).splitlines()), "").rstrip(".")
        return FileCheck((*problems, *cells.problems, f"it cannot be read as Parquet ({said})"))
    return found


def _check_cells(parquet: pq.ParquetFile, complete: list[bool], cells: ArchiveCells) -> FileCheck:
    """Decode all rows, and compare the archives in them. `complete` says of which row groups all else is compared."""
    first = checked = archives = 0
    for number, has_sums in enumerate(complete):
        group = parquet.metadata.row_group(number)
        rows = max(1, min(_ROWS, _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))
        damaged, covered, compared = cells.damaged, cells.covered, cells.compared
        for batch in parquet.iter_batches(rows, row_groups=[number], use_threads=False):
            cells.feed(batch, number, first)
            first += batch.num_rows
        if has_sums:
            checked += group.num_rows - (cells.damaged - damaged)
        else:
            checked += cells.covered - covered
            archives += cells.compared - compared
    unchecked = parquet.metadata.num_rows - checked - cells.damaged
    return FileCheck(tuple(cells.problems), tuple(cells.rows), (), checked, unchecked, archives)


def _check_group(file: pa.NativeFile, rows: int, chunks: Sequence[StoredChunk]) -> tuple[list[str], bool]:
    """What is wrong with the pages of a row group, and whether each of them has a checksum."""
    problems, complete = [], True
    for chunk in chunks:
        if not rows and not chunk.values:
            # Arrow writes an empty dictionary there, and an offset of pages at which there are none.
            continue
        check = ChunkCheck(chunk.values, chunk.length)
        for data in chunk.bytes_of(file):
            check.feed(data)
        check.finish()
        problems += [f"{page.reason} (column {chunk.path})" for page in check.damaged]
        complete = complete and not check.unchecked
    return problems, complete


def _sums_beside(place: Place, name: str) -> tuple[int, bytes] | None:
    """Hadoop's checksums of a file: the bytes that each is of, and the checksums; None where there are none."""
    path = PurePosixPath(name)
    beside = str(path.with_name(f".{path.name}.crc"))
    try:
        if place.local_folder is None or place.stat(beside) is None:
            return None
    except OSError as exc:
        if exc.errno != errno.ENAMETOOLONG:
            raise
        return None  # the file's own name is as long as names can be
    data = bytes(place.read(beside))
    if len(data) < _SUMS.size:
        return None
    kind, each = _SUMS.unpack_from(data)
    return (each, data[_SUMS.size :]) if kind == b"crc\0" and each > 0 else None


def _sums_problem(file: pa.NativeFile, stored: StoredFile, each: int, sums: bytes) -> str:
    """Where the file differs from Hadoop's checksums, or ""."""
    wanted = np.frombuffer(sums[: len(sums) // 4 * 4], ">u4")
    beside = f".{PurePosixPath(stored.path).name}.crc"
    if len(wanted) != -(-stored.bytes // each):
        return f"{beside} is of a file of another size: {plural(len(wanted), 'checksums')} of {each} bytes"
    file.seek(0)
    at = 0
    step = max(1, _READ_BYTES // each)
    while at < len(wanted):
        data = memoryview(file.read_buffer(step * each))
        for start in range(0, len(data), each):
            if crc32(data[start : start + each]) != wanted[at]:
                return f"its bytes from {at * each:,} on do not match their checksum in {beside}"
            at += 1
        if not len(data):
            return "it ends too early"
    return ""
