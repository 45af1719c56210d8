"""What a workspace really holds, read without Voxelflow: SQLite, deltalake, PyArrow, NumPy and json alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[str, float | None, str]
Check = Callable[[Mapping[str, Any], Mapping[str, Mapping[str, Any]]], None]
"""Whether an output is right, beside those of the other nodes that are done; raises `Finding`."""
MADE = ("made_parts",)
"""Nodes whose rows are known only from an undisturbed run."""
COMPARED = (
    "train", "predict", "report", *MADE, "one", "other", "by_files", "loaded", "kept", "asked", "compared",
)  # fmt: skip
"""Nodes whose results are compared with those of an undisturbed run."""


class Finding(Exception):
    """Something that must not be: lost, doubled, wrongly called right, a hang, a traceback."""


def rows_of(volumes: Mapping[str, bytes]) -> list[Row]:
    """What a table of these volumes holds: id, label (as `write_volumes` gives it), SHA-256 of the bytes."""
    return sorted((name, label_of(name), hash_of(data)) for name, data in volumes.items())


def label_of(name: str) -> float:
    """The label that `write_volumes` gives the file."""
    return float(int(Path(name).stem) % 2)


def rows_in(uri: str, version: int | None, options: Mapping[str, str] | None = None) -> list[Row]:
    """The same as it is there: each file that the log names, read with PyArrow."""
    table = deltalake.DeltaTable(uri, version=version, storage_options=dict(options) if options else None)
    if options is not None or "://" in uri:
        found = table.to_pyarrow_dataset().to_table(columns=["id", "label", "volume"])
        return _rows([found])
    return _rows([_read(name, ["id", "label", "volume"]) for name in _files(table)])


def _read(name: str, columns: list[str]) -> pa.Table:
    try:
        return pq.read_table(name, columns=columns, partitioning=None)
    except FileNotFoundError as exc:
        raise Finding(f"the log lists {name}, which is gone") from exc
    except (pa.ArrowException, OSError) as exc:
        raise Finding(f"{name} cannot be read: {exc}") from exc


def compare(what: str, wanted: list[Row], found: list[Row]) -> None:
    """Raise `Finding` unless both are the same."""
    if wanted == found:
        return
    ids, there = [row[0] for row in wanted], [row[0] for row in found]
    lost, extra = sorted(set(ids) - set(there)), sorted(set(there) - set(ids))
    doubled = len(there) - len(set(there))
    changed = sorted({row[0] for row in set(found) - set(wanted)} & set(ids))
    raise Finding(
        f"{what}: {len(lost)} lost {lost[:3]}, {len(extra)} not wanted {extra[:3]}, {doubled} doubled,"
        f" {len(changed)} changed {changed[:3]} of {len(ids)}"
    )


class Judge:
    """Of one workspace, whose volumes are known; `others` are the rows of nodes that do not hold all of these.

    `checks` are further ones, by node.
    """

    def __init__(
        self,
        workspace: Path,
        volumes: Mapping[str, bytes],
        others: Mapping[str, list[Row]],
        checks: Mapping[str, Check] | None = None,
    ) -> None:
        self._workspace, self._wanted, self._others = workspace, rows_of(volumes), others
        self._checks = checks or {}

    def tasks(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Of the newest run: by node its state and its outputs."""
        with contextlib.closing(sqlite3.connect(self._workspace / "runs.db", timeout=60)) as db:
            if (found := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                raise Finding(f"runs.db is damaged: {found}")
            newest = "SELECT run_id FROM runs ORDER BY created DESC, run_id DESC LIMIT 1"
            rows = db.execute(f"SELECT node, state, outputs FROM tasks WHERE run_id = ({newest})").fetchall()
        return {node: (state, json.loads(outputs or "{}")) for node, state, outputs in rows}

    def output(self, node: str) -> Mapping[str, Any]:
        """What a node of the newest run, which is done, gave."""
        return self._found(self.tasks()[node][1]["out"])

    def content(self, node: str) -> Any:
        """What is in that: rows, arrays, scores or figures, to be compared."""
        return self._content(self.tasks()[node][1]["out"])

    def claims(self) -> None:
        """What the newest run calls done must be there, and right. Raises `Finding`."""
        if not (self._workspace / "runs.db").exists():
            return
        try:
            tasks = self.tasks()
        except sqlite3.OperationalError:  # no tables yet
            return
        for node, (state, outputs) in tasks.items():
            if state in ("done", "cached"):
                if not outputs:
                    raise Finding(f"{node} is {state} without an output")
                for output in outputs.values():
                    self._right(node, output)
        done = {node: self._found(outputs["out"]) for node, (_, outputs) in tasks.items() if "out" in outputs}
        for node in self._checks.keys() & done.keys():
            self._checks[node](done[node], done)

    def whole(self, nodes: tuple[str, ...], reference: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The newest run must have done all of these nodes, exactly; what a model and its predictions are.

        With a `reference` they must be those. Raises `Finding`.
        """
        tasks = self.tasks()
        undone = [node for node in nodes if tasks.get(node, ("missing", {}))[0] not in ("done", "cached")]
        if undone:
            raise Finding(f"the run is done and {', '.join(undone)} not")
        self.claims()
        left = [str(p) for p in (self._workspace / "scratch").iterdir()]
        if left:
            raise Finding(f"half-done work is left behind: {left[:3]}")
        found = {node: self._content(tasks[node][1]["out"]) for node in nodes if node in COMPARED}
        if reference is not None:
            for node, content in found.items():
                # Of a training that went on after a kill a comparison has the last part.
                same = content <= reference[node] if isinstance(content, frozenset) else content == reference[node]
                if not same:
                    raise Finding(f"{node} differs from that of an undisturbed run")
        return found

    def _path(self, uri: str) -> Path:
        return self._workspace / uri.removeprefix("workspace:/") if uri.startswith("workspace:/") else Path(uri)

    def _found(self, output: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same with paths instead of places in the workspace."""
        return dict(output) | {name: str(self._path(output[name])) for name in ("uri", "manifest") if output.get(name)}

    def _right(self, node: str, output: Mapping[str, Any]) -> None:
        kind, path = output["kind"], self._path(output["uri"])
        if not path.exists() and "://" not in output["uri"]:
            raise Finding(f"{node} is done and {path} is not there")
        if kind == "VolumeDelta":
            compare(node, self._others.get(node, self._wanted), rows_in(str(path), output["version"]))
        elif kind == "VolumeParquet":
            found = self._content(output)
            if node not in MADE:
                compare(node, self._others.get(node, self._wanted), found)
        elif kind == "Report":
            text = path.read_text().rstrip()
            if not text.endswith("}" if path.suffix == ".json" else "</html>"):
                raise Finding(f"{node} is done and {path} is cut short")
        elif kind in ("TrainedModel", "Predictions"):
            content = self._content(output)
            if kind == "Predictions" and len(content) != output["count"]:
                raise Finding(f"{node}: {len(content)} predictions, not {output['count']}")

    def _content(self, output: Mapping[str, Any]) -> Any:
        path = self._path(output["uri"])
        if output["kind"] == "TrainedModel":
            files = [path / "model.keras", path / "training_state.npz"]
            return {f"{f.name}/{name}": hash_of(data) for f in files for name, data in _arrays(f).items()}
        if output["kind"] == "VolumeParquet":
            parts = json.loads(self._path(output["manifest"]).read_text())["parts"]
            return _rows([_read(str(path / part["path"]), ["id", "label", "volume"]) for part in parts])
        if output["kind"] == "Predictions":
            table = deltalake.DeltaTable(str(path), version=output["version"])
            read = [_read(name, ["id", "scores"]) for name in _files(table)]
            rows = [row for part in read for row in _values(part)]
            ids = [row["id"] for row in rows]
            if len(ids) != len(set(ids)):
                raise Finding(f"{len(ids) - len(set(ids))} predictions are doubled")
            return sorted((row["id"], row["scores"]) for row in rows)
        if (compared := path.with_name("comparison.json")).exists():
            found = json.loads(compared.read_text())["trainings"]
            return frozenset((each["node"], step, loss) for each in found for step, loss in each["losses"])
        return {k: v for k, v in output.get("figures", {}).items() if k in ("volumes", "labelled", "mean", "minimum")}


def _files(table: deltalake.DeltaTable) -> list[str]:
    return [uri.removeprefix("file://") for uri in table.file_uris()]


def _arrays(path: Path) -> dict[str, bytes]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name].tobytes() for name in file.files}


def _rows(tables: list[Any]) -> list[Row]:
    return sorted(
        (row["id"], row["label"], hash_of(row["volume"]))
        for table in tables
        for row in _values(table.select(["id", "label", "volume"]))
    )


def _values(table: pa.Table) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except UnicodeDecodeError as exc:
        raise Finding(f"a text in a table is none: {exc}") from exc
    return rows


def hash_of(data: bytes) -> str:
    """As rows have it of their volume."""
    return hashlib.sha256(data).hexdigest()[:20]
