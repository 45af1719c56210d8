"""What the steps of an exported file have made so far, in a file of its own: its run store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.catalog import AnyNodeType
from engine.declare.datasets import dataset_from_json
from engine.document.identity import Identity
from engine.errors import UsageError
from engine.export.source import one_line
from engine.observe.results import check_result, result_to_extend
from engine.storage.files import write_whole
from engine.store.results import Result

RUN = "exported"
"""The id of the run that an exported file is."""


class Done:
    """What was made, by fingerprint, oldest first (`engine.observe.results.Results`).

    It is kept in a file that appears whole or not at all. Each result's folders lie below the file's own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            self._results: list[Result] = [_result(entry) for entry in entries]
        except FileNotFoundError:
            self._results = []
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise UsageError(
                f"{path} is damaged: {one_line(str(exc))}", hint="Delete it; the steps then find their own work again."
            ) from exc

    def all(self) -> tuple[Result, ...]:
        """All results, the oldest first."""
        return tuple(self._results)

    def find(self, fingerprint: str) -> Result | None:
        """The result of that fingerprint; None when it was not made."""
        return next((r for r in self._results if r.fingerprint == fingerprint), None)

    def find_newest(self, identity: Identity) -> Result | None:
        """The newest result of that work, whatever the files were that it read; None when there is none."""
        wanted = json.loads(json.dumps(identity.parts))
        for result in reversed(self._results):
            made = result.identity
            same = made["params"] == wanted["params"] and made.get("inputs") == wanted["inputs"]
            if result.lineage == identity.lineage and same:
                return result
        return None

    def problem_with(self, node_type: AnyNodeType, result: Result) -> str:
        """Why a result can no longer be used, or "".

        Also when its table can no longer be changed: unlike a run, which knows its whole plan, a step does not know
        whether one downstream will change the table in place.
        """
        return check_result(node_type, result, self._path.parent).moved_on

    def to_make(self, step: str, node_type: AnyNodeType, identity: Identity) -> Result:
        """The result that a step is about to make, without outputs: beside the newest of its lineage."""
        newest = self.newest_of_lineage(identity.lineage)
        shared = newest.shared if newest is not None else _shared_folder(step, identity.lineage)
        return Result(
            fingerprint=identity.fingerprint,
            lineage=identity.lineage,
            base=identity.base,
            node_type=node_type.name,
            identity=identity.parts,
            outputs={},
            out=_own_folder(shared, identity.fingerprint),
            shared=shared,
            pipeline="",
            node=step,
            run_id=RUN,
        )

    def add(self, result: Result) -> None:
        """Record a finished result in the file, durably; it replaces one of the same fingerprint."""
        self._results = [r for r in self._results if r.fingerprint != result.fingerprint] + [result]
        entries = [_entry(r) for r in self._results]
        write_whole(self._path, json.dumps(entries, indent=1) + "\n", durable=True)

    def newest_of_lineage(self, lineage: str) -> Result | None:
        """The newest result of the lineage; None when there is none."""
        return next((r for r in reversed(self._results) if r.lineage == lineage), None)

    def of_base(self, base: str) -> list[Result]:
        """Results that differ from one another only by extendable parameters, the oldest first."""
        return [r for r in self._results if r.base == base]

    def to_extend(self, node_type: AnyNodeType, identity: Identity) -> Result | None:
        """The result to extend; see `result_to_extend`."""
        return result_to_extend(self, node_type, identity, self._path.parent)


def _shared_folder(step: str, lineage: str) -> str:
    """Where the results of a step's lineage lie: under a name that a person finds."""
    return f"{step}-{lineage[:8]}"


def _own_folder(shared: str, fingerprint: str) -> str:
    return f"{shared}/{fingerprint[:16]}"


def _entry(result: Result) -> dict[str, Any]:
    return {
        "step": result.node,
        "fingerprint": result.fingerprint,
        "base": result.base,
        "lineage": result.lineage,
        "shared": result.shared,
        "params": result.identity["params"],
        "inputs": result.identity.get("inputs"),
        "outputs": {port: dataset.model_dump(mode="json") for port, dataset in result.outputs.items()},
    }


def _result(entry: Mapping[str, Any]) -> Result:
    step, fingerprint, lineage = entry["step"], entry["fingerprint"], entry["lineage"]
    shared = entry.get("shared") or _shared_folder(step, lineage)  # an earlier version did not write it
    return Result(
        fingerprint=fingerprint,
        lineage=lineage,
        base=entry["base"],
        node_type="",
        identity={"params": entry["params"], "inputs": entry.get("inputs")},
        outputs={port: dataset_from_json(d) for port, d in entry["outputs"].items()},
        out=_own_folder(shared, fingerprint),
        shared=shared,
        pipeline="",
        node=step,
        run_id=RUN,
    )
