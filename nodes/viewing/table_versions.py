"""The versions of a Delta table: what each commit did, and how large the table was then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.datasets import VolumeDelta
from engine.declare.view import Table, TableColumn, TablePage, TableRow
from engine.storage.find_place import place_at
from nodes.table.log import LOG, commit_name, kind_of, lines, versions

_LARGEST_COMMIT = 64 << 20
"""A commit that names more files than this holds is not read: how large the table was before is then not known."""

_COLUMNS = (
    ("version", ""), ("operation", ""), ("time", "time"), ("rows", ""), ("files", ""), ("size", "bytes"),
    ("files added", ""), ("files removed", ""),
)  # fmt: skip
"""Titles and units."""


@dataclass(frozen=True)
class _Size:
    """Of a table, or of what a commit changes; `rows` is None where the log does not say."""

    rows: int | None = 0
    files: int = 0
    bytes: int = 0

    def plus(self, other: _Size, sign: int = 1) -> _Size:
        rows = None if self.rows is None or other.rows is None else self.rows + sign * other.rows
        return _Size(rows, self.files + sign * other.files, self.bytes + sign * other.bytes)


@dataclass(frozen=True)
class _Commit:
    version: int
    operation: str
    time: float | None
    added: _Size
    removed: _Size
    known: bool = True

    @property
    def change(self) -> _Size:
        return self.added.plus(self.removed, -1)


class Versions(Table):
    """Newest first; a click shows the table as it was, or the same part of it where the dataset is a part."""

    title = "Versions"

    def __init__(self, dataset: VolumeDelta) -> None:
        self._dataset = dataset
        self._place = place_at(dataset.uri)
        self._commits: dict[int, _Commit] = {}

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        found = sorted(versions(self._place), reverse=True)
        sizes = self._sizes(found, found[: offset + count])
        rows = [self._row(version, sizes.get(version)) for version in found[offset : offset + count]]
        columns = tuple(TableColumn(title=title, unit=unit) for title, unit in _COLUMNS)
        return TablePage(columns=columns, rows=tuple(rows), offset=offset, total=len(found))

    def _row(self, version: int, size: _Size | None) -> TableRow:
        commit, dataset = self._commit(version), self._dataset
        opens = None
        if size is not None and size.rows and version != dataset.version:
            update = {
                "version": version, "data_version": version, "count": size.rows, "files": size.files,
                "bytes": size.bytes, "labelled": 0, "selected": None,
            }  # fmt: skip
            opens = dataset.model_copy(update=update)
        known = (size.rows, size.files, size.bytes) if size is not None else (None, None, None)
        shown = f"{version} (this one)" if version == dataset.version else version
        changed = (commit.added.files, commit.removed.files) if commit.known else (None, None)
        return TableRow(cells=(shown, commit.operation, commit.time, *known, *changed), opens=opens)

    def _sizes(self, found: list[int], wanted: list[int]) -> dict[int, _Size]:
        """How large the table was, as far as commits lead from the version that is known to the others."""
        dataset, out = self._dataset, dict[int, _Size]()
        here = _Size(dataset.count, dataset.files, dataset.bytes)
        out[dataset.version] = here
        newer = [v for v in reversed(found) if v > dataset.version and v <= (wanted or [0])[0]]
        for version in newer:
            commit = self._commit(version)
            if not commit.known or version - 1 not in out:
                break
            out[version] = out[version - 1].plus(commit.change)
        for version in (v for v in found if v <= dataset.version and v > min(wanted, default=0)):
            commit = self._commit(version)
            if not commit.known or version not in out:
                break
            out[version - 1] = out[version].plus(commit.change, -1)
        return out

    def _commit(self, version: int) -> _Commit:
        if version not in self._commits:
            self._commits[version] = self._read(version)
        return self._commits[version]

    def _read(self, version: int) -> _Commit:
        found = self._place.stat(f"{LOG}/{commit_name(version)}")
        if found is None or found.size > _LARGEST_COMMIT:
            return _Commit(version, "", None, _Size(), _Size(), known=False)
        info: dict[str, Any] = {}
        added = removed = _Size()
        rewrites = True
        for line in lines(self._place, version):
            kind = kind_of(line)
            if kind not in ("add", "remove", "commitInfo"):
                continue
            action = json.loads(line)[kind]
            if kind == "commitInfo":
                info = action
                continue
            rewrites = rewrites and action.get("dataChange") is False
            if kind == "add":
                added = added.plus(_size_of(action))
            else:
                removed = removed.plus(_size_of(action))
        if rewrites:
            # Files were written anew, and the rows are the same, which the log need not say of those that went.
            removed = _Size(added.rows, removed.files, removed.bytes)
        time = info.get("timestamp")
        seconds = time / 1000 if isinstance(time, (int, float)) else None
        return _Commit(version, str(info.get("operation", "")), seconds, added, removed)


def _size_of(action: Mapping[str, Any]) -> _Size:
    try:
        rows = int(json.loads(action["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return _Size(None, 1, int(action.get("size") or 0))
    return _Size(rows, 1, int(action.get("size") or 0))
