"""Inline deletion vectors, checked before delta-rs decodes them.

Those in files have a checksum, which delta-rs compares. These have none, and the decoder believes each number in them:
one flipped bit, and it asks for more memory than there is, which ends the process. So the numbers are added up here.

Formats: https://github.com/delta-io/delta/blob/master/PROTOCOL.md (Deletion Vectors),
https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.storage.io_errors import raise_if_not_damage
from engine.storage.place import Place
from nodes.table.log import LOG, commit_name, kind_of, lines, torn

_MAGIC = 1681511377
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_ARRAY_VALUES, _BITSET_BYTES = 4096, 8192
"""A container has so many values as a list at most; with more it is a set of bits."""
_OFFSETS_FROM = 4
"""With runs, so many containers have their offsets listed."""
_INLINE = "i"
_MOST_ROWS = 1 << 31
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*(json|parquet)")
_BATCH = 10_000
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PYTHONS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_PYTHONS = str.maketrans(_Z85, _PYTHONS)


def refuse_damaged_vectors(log: Place, version: int, root: object) -> None:
    """Raise `DataError` with the file of the log where a vector in it makes no sense, of the files of this version.

    `log` is where the log is read, `root` the table as messages call it. Nothing is read but the commits since the
    last checkpoint, and of that the paths and vectors.
    """
    try:
        for name, add in _with_vectors(log, version):
            if add["deletionVector"]["storageType"] == _INLINE and (problem := _problem(add)):
                raise torn(f"{root}/{LOG}/{name}", f"a deletion vector in it makes no sense ({problem})")
    except _NotJsonError as exc:
        raise torn(f"{root}/{LOG}/{exc.args[0]}", f"a line of it is not JSON ({exc.__cause__})") from exc
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError) as exc:
        # delta-rs has read it: what cannot be read now went meanwhile, or is odd in a way that it allows.
        if isinstance(exc, OSError) and not isinstance(exc, FileNotFoundError):
            raise_if_not_damage(exc)


class _NotJsonError(Exception):
    """Of the file of the log with this name. delta-rs reads some of them."""


def _with_vectors(log: Place, version: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the log says of the version's files that have a vector, each with the name of the file that says it."""
    names = set(log.names(LOG))
    since = max(
        (int(m[1]) for name in names if (m := _CHECKPOINT.fullmatch(name)) and int(m[1]) <= version), default=-1
    )
    seen: set[str] = set()
    for current in range(version, since, -1):
        name = commit_name(current)
        found = [_json(line, name) for line in lines(log, current) if kind_of(line) in ("add", "remove")]
        adds = [action["add"] for action in found if "add" in action]
        yield from ((name, add) for add in adds if add.get("deletionVector") and add["path"] not in seen)
        seen.update(action["path"] for each in found for action in each.values())
    for name in sorted(name for name in names if name.startswith(f"{since:020d}.checkpoint.")):
        yield from ((part, add) for part, add in _checkpoint(log, name) if add["path"] not in seen)


def _checkpoint(log: Place, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Files with a vector that a checkpoint names, or the files that this one refers to."""
    sidecars: list[str] = []
    if name.endswith(".json"):
        for line in log.lines(f"{LOG}/{name}"):
            action = _json(line, name) if line.strip() else {}
            if action.get("add", {}).get("deletionVector"):
                yield name, action["add"]
            if "sidecar" in action:
                sidecars.append(action["sidecar"]["path"])
    else:
        for row in _rows(log, name):
            if (add := row.get("add")) is not None and add.get("deletionVector") is not None:
                yield name, add
            if row.get("sidecar") is not None:
                sidecars.append(row["sidecar"]["path"])
    # These have none of their own, whatever a damaged one says.
    for sidecar in sidecars if "/" not in name else ():
        yield from _checkpoint(log, f"_sidecars/{sidecar.rpartition('/')[2]}")


def _json(line: bytes, name: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as exc:
        raise _NotJsonError(name) from exc


def _rows(log: Place, name: str) -> Iterator[dict[str, Any]]:
    path = f"{LOG}/{name}"
    stat = log.stat(path)
    with log.open(path, stat.size if stat else 0) as source, pq.ParquetFile(source) as file:
        leaves = [file.schema.column(number).path for number in range(len(file.schema))]
        columns = [leaf for leaf in leaves if leaf.startswith(("add.deletionVector.", "sidecar.path"))]
        if not columns:
            return
        wanted = [*columns, *(leaf for leaf in ("add.path", "add.stats") if leaf in leaves)]
        for batch in file.iter_batches(_BATCH, columns=wanted, use_threads=False):
            kept = pa.array([False] * batch.num_rows)
            if "add" in batch.schema.names and "deletionVector" in [f.name for f in batch.schema.field("add").type]:
                kept = pc.or_(kept, pc.is_valid(pc.struct_field(batch.column("add"), "deletionVector")))
            if "sidecar" in batch.schema.names:
                kept = pc.or_(kept, batch.column("sidecar").is_valid())
            yield from batch.filter(kept).to_pylist()


def _problem(add: Mapping[str, Any]) -> str:
    """Why the vector of a file is none that has so many bytes and rows as its description says, or deletes rows that
    the file does not have; "" when it is one."""
    vector = add["deletionVector"]
    try:
        size, rows = int(vector["sizeInBytes"]), int(vector["cardinality"])
        data = base64.b85decode(str(vector["pathOrInlineDv"]).translate(_TO_PYTHONS))
        if not size <= len(data) < size + 4:
            return f"it has {len(data)} bytes, not {size}"
        counted, last, length = _rows_in(memoryview(data)[:size])
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        return str(exc) or "it ends too early"
    if length != size:
        return f"it ends after {length} bytes, not {size}"
    if counted != rows:
        return f"it is of {counted:,} rows, not {rows:,}"
    held = _held(add)
    return f"it deletes row {last:,} of {held:,}" if last >= held else ""


def _held(add: Mapping[str, Any]) -> int:
    """The rows of a file, or more than a file has where the log does not say it."""
    try:
        return int(json.loads(add["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return _MOST_ROWS


def _rows_in(data: memoryview) -> tuple[int, int, int]:
    """How many rows a vector has, the last of them (-1: none), and its length in bytes.

    Raises `ValueError` and `IndexError`.
    """
    if _number(data, 0, 4) != _MAGIC:
        raise ValueError("it is of another kind")
    rows, at, key, last = 0, 12, -1, -1
    for _ in range(_number(data, 4, 8)):
        if (following := _number(data, at, 4)) <= key:
            raise ValueError("its parts are in an odd order")
        key = following
        found, last, at = _bitmap(data, at + 4)
        rows, last = rows + found, (key << 32) + last
    return rows, last, at


def _bitmap(data: memoryview, begin: int) -> tuple[int, int, int]:
    """Of the rows that one 32-bit bitmap is of: how many, the last, and where it ends."""
    cookie, at = _number(data, begin, 4), begin + 4
    runs = b""
    if cookie == _WITHOUT_RUNS:
        count, at = _number(data, at, 4), at + 4
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = bytes(data[at : at + (count + 7) // 8])
        at += len(runs)
    else:
        raise ValueError("it is of another kind")
    # In pairs: what is common to the values of a container, and how many it has, less one.
    heads = _numbers(data, at, 2 * count).reshape(-1, 2)
    at += 4 * count
    if (np.diff(heads[:, 0]) <= 0).any():
        raise ValueError("its parts are in an odd order")
    offsets = _numbers(data, at, 2 * count, 4) if not runs or count >= _OFFSETS_FROM else None
    at += 0 if offsets is None else 4 * count
    last = -1
    for number, (key, values) in enumerate(heads.tolist()):
        if offsets is not None and offsets[number] != at - begin:
            raise ValueError("its parts are elsewhere")
        is_run = bool(runs) and bool(runs[number // 8] >> number % 8 & 1)
        found, last, at = _container(data, at, values + 1, is_run=is_run)
        if found != values + 1:
            raise ValueError(f"{values + 1} rows are {found}")
        last += key << 16
    return int((heads[:, 1] + 1).sum()), last, at


def _container(data: memoryview, at: int, values: int, *, is_run: bool) -> tuple[int, int, int]:
    """The same of a container, which says of itself that it has so many values."""
    if is_run:
        count = _number(data, at, 2)
        runs = _numbers(data, at + 2, 2 * count).reshape(-1, 2)
        ends = runs.sum(axis=1)
        if not count or (runs[1:, 0] <= ends[:-1]).any():
            raise ValueError("its rows are in an odd order")
        return int((runs[:, 1] + 1).sum()), int(ends[-1]), at + 2 + 4 * count
    if values > _ARRAY_VALUES:
        if len(data) < at + _BITSET_BYTES:
            raise IndexError("it ends too early")
        bits = int.from_bytes(data[at : at + _BITSET_BYTES], "little")
        return bits.bit_count(), bits.bit_length() - 1, at + _BITSET_BYTES
    found = _numbers(data, at, values)
    if (np.diff(found) <= 0).any():
        raise ValueError("its rows are in an odd order")
    return values, int(found[-1]), at + 2 * values


def _number(data: memoryview, at: int, size: int) -> int:
    if len(data) < at + size:
        raise IndexError("it ends too early")
    return int.from_bytes(data[at : at + size], "little")


def _numbers(data: memoryview, at: int, count: int, size: int = 2) -> NDArray[np.int64]:
    """So many numbers of `size` bytes; `count` is of numbers of two."""
    if len(data) < at + 2 * count:
        raise IndexError("it ends too early")
    return np.frombuffer(data[at : at + 2 * count], f"<u{size}").astype(np.int64)
