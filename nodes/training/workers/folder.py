"""A group's folder: how the driver, the watchers and the workers speak. All of them see it.

    job.json          what to do                      driver -> workers
    cancel, end       wishes, by being there          driver -> worker 0, driver -> watchers
    events.jsonl      events of worker 0              worker 0 -> driver
    R.claimed         worker R is started             its Spark task
    R.seat.json       host and process of worker R    its watcher -> driver
    R.word.json       what worker R came to           worker R -> driver
    R.end.json        its process has ended           its watcher -> driver
    R.log             its standard output and error

Files but events.jsonl and the logs appear whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from nodes.training.workers.job import Done, End, Failed, Job, Seat

M = TypeVar("M", bound=BaseModel)
_WORD: TypeAdapter[Done | Failed] = TypeAdapter(Done | Failed)


class GroupFolder:
    """One attempt's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def cancel(self) -> Path:
        return self.path / "cancel"

    @property
    def end(self) -> Path:
        return self.path / "end"

    def log(self, rank: int) -> Path:
        return self.path / f"{rank}.log"

    def write_job(self, job: Job) -> None:
        self._write("job", job)

    def job(self) -> Job:
        return Job.model_validate_json((self.path / "job.json").read_bytes())

    def claim(self, rank: int) -> bool:
        """Whether the caller is the first to start worker `rank`, and so may."""
        try:
            (self.path / f"{rank}.claimed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def sit(self, rank: int, seat: Seat) -> None:
        self._write(f"{rank}.seat", seat)

    def seat(self, rank: int) -> Seat | None:
        return self._read(f"{rank}.seat", Seat)

    def say(self, rank: int, word: Done | Failed) -> None:
        self._write(f"{rank}.word", word)

    def word(self, rank: int) -> Done | Failed | None:
        """What a worker came to; None while it has not said."""
        data = self._bytes(f"{rank}.word")
        return _WORD.validate_json(data) if data else None

    def note_end(self, rank: int, end: End) -> None:
        self._write(f"{rank}.end", end)

    def ended(self, rank: int) -> End | None:
        return self._read(f"{rank}.end", End)

    def _write(self, name: str, value: BaseModel) -> None:
        partial = self.path / f".{name}.{os.getpid()}"
        with partial.open("w", encoding="utf-8") as file:
            file.write(value.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path / f"{name}.json")

    def _read(self, name: str, kind: type[M]) -> M | None:
        data = self._bytes(name)
        return kind.model_validate_json(data) if data else None

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.path / f"{name}.json").read_bytes()
        except FileNotFoundError:
            return b""
