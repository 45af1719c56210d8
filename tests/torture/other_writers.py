"""Other writers: delta-rs changes a table in all its ways between our commits and during them."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError, DeltaError

from tests.torture.judge import Finding, compare, rows_in, rows_of
from tests.torture.rounds import Kind, World
from tests.torture.stages import stages_of

_ACTS = ("add", "delete", "compact", "vacuum")
_WHOLE = ("overwrite", "restore")
"""What changes a table as a whole: in every third round."""


class OtherWriters(Kind):
    name = "other-writers"
    what = "delta-rs adds, deletes, overwrites, restores, compacts and vacuums, between our commits and during them"
    short = (1, 2)
    usual = 200

    def __init__(self, world: World) -> None:
        self._scene = world.scene
        self._stages = stages_of(world)
        self._grown = self._stages.named("grown")

    def play(self, seed: int) -> str:
        dice = random.Random(f"writers {seed}")
        self._stages.set(self._grown)
        (root,) = self._scene.workspace.glob("data/ParquetToDelta/*/table")
        choice = (*_ACTS, *_WHOLE, *_WHOLE) if seed % 3 == 0 else _ACTS
        acts = [dice.choice(choice) for _ in range(dice.randint(1, 3))]
        moments = [dice.uniform(0.0, 1.5) if dice.random() < 0.7 else -1.0 for _ in acts]
        other = self._other(str(root), dice, sorted(self._first_ids()))
        for act, moment in zip(acts, moments, strict=True):
            if moment < 0:
                other.act(act)
        during = [(moment, act) for act, moment in zip(acts, moments, strict=True) if moment >= 0]
        thread = threading.Thread(target=other.act_at, args=[sorted(during)])
        thread.start()
        answer = self._scene.run()
        thread.join()
        self._scene.settle()
        self._stages.check_answer(answer)
        last = self._scene.run()
        if last.state != "done" and not _doubled_by_itself(root / "_delta_log"):
            raise Finding(f"{acts}: the run after it is {last.state or last.status}: {last.error}")
        volumes = {k: v for k, v in {**self._grown.volumes, **other.added}.items() if k not in other.deleted}
        try:
            compare("the table", rows_of(volumes), rows_in(str(root), None))
        except Finding as exc:
            if not (_doubled_by_itself(root / "_delta_log") and self._is_said(root)):
                raise Finding(f"{list(zip(acts, moments, strict=True))}: {exc}") from exc
            other.done.append("doubled rows by itself, which is reported")
        return ", ".join(other.done)

    def _other(self, uri: str, dice: random.Random, ids: list[str]) -> Other:
        """The program that changes the table at `uri`, in which these volumes are at the beginning."""
        return Other(uri, dice, ids)

    def _is_said(self, root: Path) -> bool:
        """Whether `voxelflow verify` reports rows that are there twice."""
        answer = self._scene.verify(root)
        return answer.status != 0 and "twice" in answer.output

    def _first_ids(self) -> list[str]:
        """The volumes that are in the table at the beginning."""
        first = self._stages.named("first").volumes
        return list(first)


def _doubled_by_itself(log: Path) -> bool:
    """Whether delta-rs compacted files that were gone, as its versions 1.3 to 1.6 do when another compaction is first.

    Then rows are there twice, whoever wrote the other one.
    """
    removed: set[str] = set()
    for path in sorted(log.glob("*.json")):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        gone = {action["remove"]["path"] for action in found if "remove" in action}
        if gone & removed:
            return any("delta-rs" in action.get("commitInfo", {}).get("engineInfo", "") for action in found)
        removed |= gone
        removed -= {action["add"]["path"] for action in found if "add" in action}
    return False


def _among(ids: Sequence[str]) -> str:
    """The condition, in SQL, that a row is one of these."""
    listed = ", ".join(f"'{name}'" for name in ids)
    return f"id IN ({listed})"


class Other:
    """A program that knows Delta and nothing of Voxelflow."""

    refusals: tuple[type[Exception], ...] = (CommitFailedError, DeltaError, OSError)
    """What it raises when another commit came first, or when files are gone that it wanted."""

    def __init__(self, uri: str, dice: random.Random, ids: list[str]) -> None:
        self.uri, self.dice, self._ids = uri, dice, ids
        self.added: dict[str, bytes] = {}
        self.deleted: set[str] = set()
        self.done: list[str] = []

    def act_at(self, plan: list[tuple[float, str]]) -> None:
        began = time.monotonic()
        for moment, act in plan:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            self.act(act)

    def act(self, act: str) -> None:
        """Do it, again when another commit came first; without it when that never ends."""
        for _ in range(5):
            try:
                getattr(self, f"_{act}")()
            except self.refusals:
                continue
            self.done.append(act)
            return

    def _add(self) -> None:
        table = deltalake.DeltaTable(self.uri)
        like = table.to_pyarrow_dataset().head(1).to_pylist()[0]
        number = self.dice.randrange(10**6, 10**7)
        name, data = f"{number}.npy", self.dice.randbytes(len(like["volume"]))
        self.append(like | {"id": name, "label": float(number % 2), "volume": data})
        self.added[name] = data

    def _delete(self) -> None:
        gone = self.dice.sample(self._ids, 3)
        self.delete(_among(gone))
        self.deleted |= set(gone)

    def _overwrite(self) -> None:
        """Write all rows but three again, as `mode="overwrite"` does."""
        self.overwrite_without(self.dice.sample(self._ids, 3))
        self._see_change()

    def _restore(self) -> None:
        """Let the table be as it was up to three commits ago."""
        newest = deltalake.DeltaTable(self.uri).version()
        self.restore(max(1, newest - self.dice.randint(1, 3)))
        self._see_change()

    def append(self, row: Mapping[str, Any]) -> None:
        table = deltalake.DeltaTable(self.uri)
        schema = table.to_pyarrow_dataset().schema
        deltalake.write_deltalake(table, pa.Table.from_pylist([dict(row)], schema=schema), mode="append")

    def delete(self, condition: str) -> None:
        deltalake.DeltaTable(self.uri).delete(condition)

    def overwrite_without(self, gone: Sequence[str]) -> None:
        table = deltalake.DeltaTable(self.uri)
        rows = table.to_pyarrow_table()
        kept = rows.filter(pc.invert(pc.is_in(rows["id"], pa.array(gone))))
        deltalake.write_deltalake(table, kept, mode="overwrite")

    def restore(self, version: int) -> None:
        deltalake.DeltaTable(self.uri).restore(version)

    def compact(self) -> None:
        deltalake.DeltaTable(self.uri).optimize.compact()

    def _see_change(self) -> None:
        """Note which rows the newest commit of ours took away or brought."""
        version = next(
            entry["version"]
            for entry in deltalake.DeltaTable(self.uri).history()
            if entry.get("operation") == "RESTORE" or entry.get("operationParameters", {}).get("mode") == "Overwrite"
        )
        before, after = (self._ids_at(number) for number in (version - 1, version))
        self.deleted = (self.deleted | (before - after)) - (after - before)

    def _ids_at(self, version: int) -> set[str]:
        return set(
            deltalake.DeltaTable(self.uri, version=version).to_pyarrow_dataset().to_table(["id"])["id"].to_pylist()
        )

    def _compact(self) -> None:
        self.compact()

    def _vacuum(self) -> None:
        # Younger files are those of commits that are being made.
        table = deltalake.DeltaTable(self.uri)
        table.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)
