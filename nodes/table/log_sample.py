"""A sample of a version's files, for who wants to look at a table of very many without opening all of them.

delta-rs keeps every file of a version in memory: 0.8 GB for 650,000. The log is read line by line here instead, newest
commit first, and a few of its `add` lines are drawn by chance. A log of these alone is then opened as any other.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DataError, first_line
from engine.storage.find_place import place_at
from engine.storage.place import Place
from nodes.table.log import LOG, commit_name, kind_of, lines, refuse_damaged, torn
from nodes.table.snapshot import TableVersion, naming_files, table_version
from nodes.table.temporary_folder import temporary_folder

_PATH = re.compile(rb'\s*\{\s*"\w+"\s*:\s*\{\s*"path"\s*:\s*"([^"\\]*)"')
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:parquet|(\d{10})\.(\d{10})\.parquet)")
_ROWS = 10_000


def sample_table(where: str | Path | Place, version: int, count: int) -> TableVersion:
    """A version of the table with `count` of its files, always the same ones, or all if there are fewer. To look at:
    what a writer must know of it (`token`) is not there.

    Raises as `open_table`, and `DataError` when the log does not have all of the version as lines or as a checkpoint of
    one of the two old kinds.
    """
    from deltalake import DeltaTable

    place = place_at(where)
    sample = _Sample(count)
    names = set(place.names(LOG))
    checkpoints = _checkpoints(names)
    begin = max((found for found in checkpoints if found <= version), default=-1)
    for current in range(version, begin, -1):
        if commit_name(current) not in names:
            raise DataError(f"the log of {place} lacks {commit_name(current)}", hint="Run the node that made it again.")
        try:
            sample.take(lines(place, current))
        except ValueError as exc:
            raise torn(place.path(f"{LOG}/{commit_name(current)}"), str(exc)) from exc
    for name in checkpoints.get(begin, ()):
        for batch in _checkpoint_rows(place, f"{LOG}/{name}"):
            sample.take_rows(batch)
    try:
        chosen = b"".join(sample.lines())
    except ValueError as exc:
        # Lines are parsed when they are chosen: which file it is has to be looked for.
        refuse_damaged(place, version)
        raise torn(place.path(LOG), str(exc)) from exc
    with temporary_folder() as folder:
        log = folder / LOG
        log.mkdir()
        (log / commit_name(0)).write_bytes(chosen)
        with naming_files(place, version):
            delta = DeltaTable(str(folder))
        return table_version(delta, place, version)


class _Sample:
    """Lines of a log, given newest commit first: the first of those that come once, and some `add`s by chance."""

    def __init__(self, count: int) -> None:
        self._count, self._seen = count, 0
        self._random = random.Random(0)
        self._once: dict[str, bytes] = {}
        self._adds: list[bytes] = []
        self._gone: set[int] = set()
        """Hashes of the paths that a later commit has removed."""

    def take(self, commit: Iterable[bytes]) -> None:
        """Raises `ValueError` for a line that is no JSON."""
        gone: set[int] = set()
        for line in commit:
            kind = kind_of(line)
            if kind == "add":
                if not self._gone or hash(_path(line)) not in self._gone:
                    self._draw(lambda line=line: line)  # type: ignore[misc]
            elif kind == "remove":
                gone.add(hash(_path(line)))
            elif kind in ("protocol", "metaData"):
                self._once.setdefault(kind, line)
        self._gone |= gone

    def take_rows(self, rows: pa.RecordBatch) -> None:
        """Rows of a checkpoint. Only those that are drawn are made into lines: 650,000 would take ten seconds."""
        for kind in ("protocol", "metaData"):
            for at in _numbers(rows, kind):
                self._once.setdefault(kind, _line(rows, kind, at))
        paths = rows.column("add").field("path").to_pylist() if self._gone else []
        for at in _numbers(rows, "add"):
            if not self._gone or hash(paths[at].encode()) not in self._gone:
                self._draw(lambda at=at: _line(rows, "add", at))  # type: ignore[misc]

    def _draw(self, line: Callable[[], bytes]) -> None:
        """Each of the lines stays with the same chance (Vitter's algorithm R)."""
        self._seen += 1
        if len(self._adds) < self._count:
            self._adds.append(line())
        elif (place := int(self._random.random() * self._seen)) < self._count:
            self._adds[place] = line()

    def lines(self) -> Iterator[bytes]:
        """The lines of a log that has these alone."""
        for line in (*self._once.values(), *{_path(line): line for line in self._adds}.values()):
            yield line.rstrip() + b"\n"


def _path(line: bytes) -> bytes:
    """The path that an `add` or `remove` names. Raises `ValueError` when the line is no JSON."""
    if match := _PATH.match(line):
        return match[1]
    (action,) = json.loads(line).values()
    return str(action["path"]).encode()


def _checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """The names of the files of each whole checkpoint, by version."""
    found: dict[int, list[str]] = {}
    parts: dict[int, int] = {}
    for name in sorted(names):
        if match := _CHECKPOINT.fullmatch(name):
            version = int(match[1])
            if match[3] is None:
                found[version], parts[version] = [name], 1
            elif parts.setdefault(version, int(match[3])) == int(match[3]) > 1:
                found.setdefault(version, []).append(name)
    return {version: files for version, files in found.items() if len(files) == parts[version]}


def _checkpoint_rows(place: Place, name: str) -> Iterator[pa.RecordBatch]:
    """The actions of a checkpoint that say what there is."""
    stat = place.stat(name)
    try:
        with pq.ParquetFile(place.open(name, stat.size if stat else 0)) as file:
            yield from file.iter_batches(_ROWS, columns=["add", "protocol", "metaData"], use_threads=False)
    except (OSError, pa.ArrowException) as exc:
        raise torn(place.path(name), first_line(exc)) from exc


def _numbers(rows: pa.RecordBatch, kind: str) -> list[int]:
    """The rows that have an action of this kind."""
    found: list[int] = np.flatnonzero(rows.column(kind).is_valid().to_numpy(zero_copy_only=False)).tolist()
    return found


def _line(rows: pa.RecordBatch, kind: str, at: int) -> bytes:
    """The action as a line of a commit; statistics as text alone."""
    action = rows.column(kind)[at].as_py(maps_as_pydicts="strict")
    known = {n: v for n, v in action.items() if v is not None and n not in ("stats_parsed", "partitionValues_parsed")}
    return json.dumps({kind: known}, ensure_ascii=False).encode()
