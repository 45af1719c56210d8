"""Parts made in a process of their own: `python -m nodes.prediction.away FOLDER PART PART ...`.

For Spark's executors, whose Python workers must not run TensorFlow themselves: one that has once done so hangs in
its second stage. The process is told its work by a file that all machines see, says its last word on standard
output, and ends at once when its standard input closes, with whoever started it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.errors import ExecutionError, VoxelflowError
from engine.failpoints import failpoint
from nodes.durable_files import flush
from nodes.training.workers.job import AnyData, Failed

_LOG_TAIL = 8_000
_POLL_S = 0.2


class Died(Exception):
    """A process ended before its parts were done. No `VoxelflowError`: on another machine it may go well."""


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
    partial = folder / ".job"
    partial.write_text(job.model_dump_json(), encoding="utf-8")
    flush([partial])
    partial.replace(folder / "job.json")


def make_away(folder: Path, numbers: Sequence[int], environment: Mapping[str, str]) -> None:
    """Make these parts of the ledger in `folder` in a fresh process, and wait for it.

    Raises what it raised, when that is meant for a person, else `Died`; the end of its log goes to standard error.
    """
    log = folder / f"process-{numbers[0]:05d}-{os.getpid()}.log"
    parent = os.getppid()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nodes.prediction.away", str(folder), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Our code may have come as a zip that Spark put on this process' path.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # One whose own parent is gone is wanted by nobody: Spark's executor was killed.
        while os.getppid() == parent:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                break
        else:
            raise Died("its executor is gone")
        word = process.stdout.read()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdin.close()
        process.stdout.close()
    if process.returncode == 0:
        log.unlink(missing_ok=True)
        return
    if word:
        failed = Failed.model_validate_json(word)
        if failed.known:
            raise failed.error()
    print(log.read_bytes()[-_LOG_TAIL:].decode(errors="replace"), file=sys.stderr, flush=True)
    raise Died(f"it ended with status {process.returncode}")


def main(path: str, *numbers: str) -> None:
    """Make parts of the ledger in the folder `path`; never returns."""
    # Standard output is for the last word; what libraries print goes to the log.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _work(Path(path), [int(number) for number in numbers])
    except BaseException as exc:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        print(_failure(exc).model_dump_json(), file=answer, flush=True)
        os._exit(1)
    os._exit(0)


def _work(folder: Path, numbers: Sequence[int]) -> None:
    from nodes.prediction.ledger import Ledger
    from nodes.prediction.model_card import read_card
    from nodes.prediction.opened_rows import open_rows
    from nodes.prediction.part_work import Division, PartWork
    from nodes.prediction.session import Prediction

    job = Job.model_validate_json((folder / "job.json").read_bytes())
    card, ledger = read_card(Path(job.model)), Ledger(folder)
    division = Division(job.batch_size, job.rows)
    with open_rows(job.data, card, cores=job.cores) as opened:
        prediction = Prediction(job.data, card, card.digest(), division, opened, ledger)
        if prediction.identity() != job.identity:
            raise ExecutionError(
                "this machine sees other volumes or another model than the driver",
                hint="The folders of the data and the model must be the same storage on every machine.",
            )
        # Only now: importing TensorFlow takes seconds.
        from nodes.prediction.predictor import Predictor
        from nodes.training.tensorflow_setup import configure

        configure(cores=job.cores, deterministic=True, seed=0)
        predictor = Predictor(card, job.batch_size)
        predictor.warm_up()
        work = PartWork(opened, division, card, job.digest, ledger, predictor.scores, _executor_point)
        work(numbers, lambda count: None)


def _executor_point(name: str) -> None:
    failpoint(f"executor:{name}")


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _failure(exc: BaseException) -> Failed:
    if isinstance(exc, VoxelflowError):
        return Failed(known=True, code=exc.code, message=exc.message, hint=exc.hint, parameter=exc.parameter)
    return Failed(known=False, code="task-failed", message=f"{type(exc).__name__}: {exc}")


if __name__ == "__main__":
    main(*sys.argv[1:])
