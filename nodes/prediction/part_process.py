"""Parts made in a process of their own: `python -m nodes.prediction.part_process FOLDER PART PART ... PIPE`.

For Spark's executors, whose Python workers must not run TensorFlow themselves: one that has once done so hangs in
its second stage. The process reads its work from a file that all machines see.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.errors import ExecutionError
from engine.failpoints import failpoint
from engine.processes.child import Child, same_modules
from engine.processes.messages import UNEXPECTED, end_of_log, error_of
from engine.processes.parent import serve
from engine.storage.files import write_whole
from nodes.training.workers.folder import AnyData

PROGRAM = ("-P", "-m", "nodes.prediction.part_process")
_OF_THIS_MACHINE = frozenset(["os", "disk-full", "worker-died", *UNEXPECTED])
"""Codes of failures that another machine may not have."""


class Died(Exception):
    """A process failed before its parts were done: (message, hint, details). No `VoxelflowError`, which Spark would
    not try again: on another machine it may go well."""


class Job(BaseModel):
    """What is predicted. `identity` is what the driver found; a process that finds other rows refuses."""

    model_config = ConfigDict(frozen=True)

    data: AnyData
    model: str
    digest: str
    batch_size: int
    rows: int
    identity: str
    cores: int


def write_job(folder: Path, job: Job) -> None:
    """Put the job where the processes look for it."""
    # Another machine sees of shared storage only what was flushed.
    write_whole(folder / "job.json", job.model_dump_json(), durable=True)


def make_in_process(folder: Path, numbers: Sequence[int], environment: Mapping[str, str]) -> None:
    """Make these parts of the ledger in `folder` in a fresh process, and wait for it.

    Raises what it raised, or `Died` when that may be the fault of this machine; the end of its log goes to standard
    error.
    """
    log = folder / f"process-{numbers[0]:05d}-{os.getpid()}.log"
    arguments = [*PROGRAM, str(folder), *map(str, numbers)]
    with Child(arguments, log, environment=same_modules(environment)) as child:
        for _ in child.messages():
            pass
    failure = child.failure()
    if failure is None:
        log.unlink(missing_ok=True)
        return
    print(end_of_log(log), file=sys.stderr, flush=True)
    if failure.code in _OF_THIS_MACHINE:
        raise Died(failure.message, failure.hint, failure.details)
    raise error_of(failure)


def main(path: str, *arguments: str) -> None:
    """Make parts of the ledger in the folder `path`; never returns."""
    *numbers, handle = map(int, arguments)
    serve(handle, lambda _: _work(Path(path), numbers))


def _work(folder: Path, numbers: Sequence[int]) -> str:
    # Only here: the driver's Spark task must stay small.
    from nodes.prediction.inputs import open_rows, read_card
    from nodes.prediction.parts import Division, Ledger
    from nodes.prediction.session import Prediction

    job = Job.model_validate_json((folder / "job.json").read_bytes())
    card = read_card(Path(job.model))
    with open_rows(job.data, card, cores=job.cores) as opened:
        division = Division(job.batch_size, job.rows)
        prediction = Prediction(job.data, card, card.digest(), division, opened, Ledger(folder))
        if prediction.identity() != job.identity:
            raise ExecutionError(
                "this machine sees other volumes or another model than the driver",
                hint="Mount the same storage on every machine for the folders of the data and the model.",
            )
        prediction.make(numbers, job.cores, lambda problem: None, lambda count: None, _executor_point)
    return ""


def _executor_point(name: str) -> None:
    failpoint(f"executor:{name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
