"""The result cache: outputs of finished tasks by fingerprint, and what a look at their files found."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.declare.datasets import Dataset
from engine.storage.files import write_whole
from engine.store.database import Database, datasets_json

RECORD = ".result.json"
"""Beside a result's files: a copy of its row, from which a damaged run store is rebuilt."""
_COLUMNS = (
    "fingerprint", "lineage", "base", "node_type", "identity", "outputs", "out", "shared", "pipeline", "node", "run_id",
    "created", "used",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A finished task's outputs, by fingerprint: the result cache.

    `identity` is what went into the fingerprint, so that a later plan can say what changed. `out` and
    `shared` lie below the workspace's data, or are absolute when the run kept its data elsewhere.
    """

    fingerprint: str
    lineage: str
    base: str
    node_type: str
    identity: Mapping[str, Any]
    outputs: Mapping[str, Dataset]
    out: str
    shared: str
    pipeline: str
    node: str
    run_id: str
    created: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Use:
    """A task that made a result or took it from the cache. `outputs` is what it gave then, by port."""

    fingerprint: str
    pipeline: str
    run_id: str
    created: float
    node: str
    title: str
    node_type: str
    outputs: Mapping[str, Dataset]


@dataclass(frozen=True)
class Cached:
    """A result in the cache. `problem` says why it can't be used; `moved_on` why its table can't be changed further.

    `damaged`: the problem is in files of a dataset that is otherwise there; it was not removed as a whole.
    """

    result: Result
    problem: str = ""
    moved_on: str = ""
    damaged: bool = False


class ResultCache:
    """The table of results."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, result: Result) -> None:
        """Keep the result, on the disk once this returns: what its task could go on from is then deleted."""
        values = (
            result.fingerprint,
            result.lineage,
            result.base,
            result.node_type,
            json.dumps(dict(result.identity), sort_keys=True),
            datasets_json(result.outputs, self._database.paths),
            self._database.paths.stored(result.out),
            self._database.paths.stored(result.shared),
            result.pipeline,
            result.node,
            result.run_id,
            result.created,
            result.used,
        )
        row = dict(zip(_COLUMNS, values, strict=True))
        self.put_row(row)
        out = self._database.workspace.data / result.out
        # Not flushed: one that a power cut takes is missed only where the run store is lost too.
        if out.is_dir():
            with suppress(OSError):
                write_whole(out / RECORD, json.dumps(row, ensure_ascii=False), durable=False)

    def put_row(self, row: Mapping[str, Any]) -> None:
        """Keep a result by its row, as in its `RECORD`; on the disk once this returns. Raises `KeyError`."""
        with self._database.write(durable=True) as db:
            places = ", ".join("?" * len(_COLUMNS))
            db.execute(f"INSERT OR REPLACE INTO results VALUES ({places})", [row[name] for name in _COLUMNS])

    def all(self) -> list[Result]:
        """All results, the oldest first."""
        return list(self._select("ORDER BY created"))

    def latest(self, limit: int, pipeline: str = "") -> list[Result]:
        """At most `limit` results, those used last first; of one `pipeline`, or of all."""
        among, values = _used_by(pipeline)
        return list(self._select(f"{among} ORDER BY used DESC, created DESC LIMIT ?", *values, limit))

    def count(self, pipeline: str = "") -> int:
        """How many results there are; of one `pipeline`, or of all."""
        among, values = _used_by(pipeline)
        return int(self._database.read(f"SELECT count(*) AS n FROM results {among}", *values)[0]["n"])

    def state(self) -> tuple[object, ...]:
        """Another one whenever a result was added, used or forgotten. Cheap."""
        # The sums, since the newest stays the newest where the clock has been set back.
        newest = "max(used), max(created), total(used), total(created)"
        return tuple(self._database.read(f"SELECT count(*), {newest} FROM results")[0])

    def of(self, fingerprints: Iterable[str]) -> list[Result]:
        """Those of the results that are still known."""
        among = json.dumps(list(fingerprints))
        return list(self._select("WHERE fingerprint IN (SELECT value FROM json_each(?))", among))

    def last_uses(self, fingerprints: Iterable[str]) -> list[Use]:
        """The last use of each result by each pipeline that used it, the newest first; also of results that are gone.

        A run's name for its pipeline counts. `outputs` is empty where the task had none yet.
        """
        rows = self._database.read(
            "SELECT tasks.fingerprint, runs.pipeline, runs.run_id, max(runs.created) AS created, tasks.node,"
            " tasks.title, tasks.node_type, tasks.outputs FROM tasks JOIN runs USING (run_id)"
            " WHERE tasks.fingerprint IN (SELECT value FROM json_each(?)) AND tasks.state IN ('done', 'cached')"
            " GROUP BY tasks.fingerprint, runs.pipeline ORDER BY created DESC",
            json.dumps(list(fingerprints)),
        )
        return [Use(**{**dict(row), "outputs": self._database.datasets(row["outputs"])}) for row in rows]

    def find(self, fingerprint: str) -> Result | None:
        """The result with this fingerprint."""
        return next(self._select("WHERE fingerprint = ?", fingerprint), None)

    def newest_of_lineage(self, lineage: str, storage: Path | None = None) -> Result | None:
        """The newest result that lies in `storage` (None: in the workspace): what new work can go on from there."""
        for result in self._select("WHERE lineage = ? ORDER BY created DESC", lineage):
            shared = Path(result.shared)
            if not shared.is_absolute() if storage is None else shared.is_relative_to(storage):
                return result
        return None

    def newest_of_node(self, pipeline: str, node: str) -> Result | None:
        """What the node made or reused when its pipeline last ran."""
        found = self._select(
            "JOIN tasks USING (fingerprint) JOIN runs ON runs.run_id = tasks.run_id"
            " WHERE runs.pipeline = ? AND tasks.node = ? ORDER BY runs.created DESC LIMIT 1",
            pipeline, node,
        )  # fmt: skip
        return next(found, None)

    def of_base(self, base: str) -> list[Result]:
        """Results that differ from one another only by extendable parameters, the oldest first."""
        return list(self._select("WHERE base = ? ORDER BY created", base))

    def touch(self, fingerprint: str) -> None:
        """Note that the result was used now."""
        with self._database.write() as db:
            db.execute("UPDATE results SET used = ? WHERE fingerprint = ?", (time.time(), fingerprint))

    def forget(self, fingerprints: Iterable[str]) -> None:
        """Remove these results from the cache; their files stay."""
        with self._database.write() as db:
            db.executemany("DELETE FROM results WHERE fingerprint = ?", [(f,) for f in fingerprints])

    def _select(self, clauses: str, *values: Any) -> Iterator[Result]:
        return map(self._result, self._database.read(f"SELECT results.* FROM results {clauses}", *values))

    def _result(self, row: sqlite3.Row) -> Result:
        values = dict(row)
        values["identity"] = json.loads(values["identity"])
        values["outputs"] = self._database.datasets(values["outputs"])
        values |= {name: self._database.paths.loaded(values[name]) for name in ("out", "shared")}
        return Result(**values)


def _used_by(pipeline: str) -> tuple[str, tuple[str, ...]]:
    """The clause, and its values, that chooses the results a pipeline has used."""
    if not pipeline:
        return "", ()
    return (
        "WHERE fingerprint IN (SELECT tasks.fingerprint FROM tasks JOIN runs USING (run_id) WHERE runs.pipeline = ?)",
        (pipeline,),
    )
