"""The folder through which the driver, the watchers and the workers of a group communicate. All of them see it.

    job.json          what to do                      driver -> workers
    cancel, end       requests, by being there        driver -> worker 0, driver -> watchers
    events.jsonl      events of worker 0              worker 0 -> driver
    R.claimed         worker R is started             its Spark task
    R.seat.json       host and process of worker R    its watcher -> driver
    R.word.json       its result, or its failure      its watcher -> driver
    R.end.json        its process has ended           its watcher -> driver
    R.log             its standard output and error

Files but events.jsonl and the logs appear whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny

from engine.declare.datasets import Dataset, dataset_from_json
from engine.declare.events import Failure
from engine.processes.messages import Result, report_from_json
from engine.storage.files import write_whole
from nodes.training.settings import Settings

M = TypeVar("M", bound=BaseModel)


def _dataset(value: Any) -> Any:
    return dataset_from_json(value) if isinstance(value, dict) else value


AnyData = Annotated[SerializeAsAny[Dataset], BeforeValidator(_dataset)]
"""Any dataset, whole in JSON."""


class Job(BaseModel):
    """One training by a group. The folders and the checkpoint `begin` are seen by every worker."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    node_id: str
    fingerprint: str
    out: str
    shared: str
    scratch: str
    data: AnyData
    validation: AnyData | None
    test: AnyData | None = None
    settings: Settings
    begin: str
    framework: str = "keras"
    """Its name in `nodes.training.learner.FRAMEWORKS`."""


class Seat(BaseModel):
    """Where a worker runs."""

    host: str
    pid: int


class Cluster(BaseModel):
    """What a worker needs to begin: the host:port of all by rank, its cores, and whether its devices are its own."""

    addresses: tuple[str, ...]
    cores: int
    own_devices: bool


class End(BaseModel):
    """A worker's process has ended: `status` as of `Popen.returncode`."""

    status: int


class GroupFolder:
    """One attempt's folder: the only way in which driver, watchers and workers communicate beyond pipes."""

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

    def write_seat(self, rank: int, seat: Seat) -> None:
        self._write(f"{rank}.seat", seat)

    def seat(self, rank: int) -> Seat | None:
        return self._read(f"{rank}.seat", Seat)

    def write_report(self, rank: int, report: Result | Failure) -> None:
        self._write(f"{rank}.word", report)

    def report(self, rank: int) -> Result | Failure | None:
        """How a worker's work ended; None while it has not reported."""
        data = self._bytes(f"{rank}.word")
        return report_from_json(data) if data else None

    def write_end(self, rank: int, end: End) -> None:
        self._write(f"{rank}.end", end)

    def end_of(self, rank: int) -> End | None:
        return self._read(f"{rank}.end", End)

    def _write(self, name: str, value: BaseModel) -> None:
        # Another machine sees of shared storage only what was flushed.
        write_whole(self.path / f"{name}.json", value.model_dump_json(), durable=True)

    def _read(self, name: str, kind: type[M]) -> M | None:
        data = self._bytes(name)
        return kind.model_validate_json(data) if data else None

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.path / f"{name}.json").read_bytes()
        except FileNotFoundError:
            return b""
