"""The parts of a prediction made by Spark: each task has a process of its own that makes a share of them.

A part's record is what counts, and it lies in the task's scratch folder on shared storage: a task that Spark tries
again, or runs twice, leaves out what has a record by then, and the driver commits them all at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext as SparkTask

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import Cancelled, ExecutionError
from nodes.prediction.part_process import Died, Job, make_in_process, write_job
from nodes.prediction.session import Prediction, begin_predicting
from nodes.spark.session import results

_LOOK_S = 1.0


@dataclass(frozen=True)
class PredictShare:
    """The work of one Spark task."""

    folder: Path

    def __call__(self, numbers: tuple[int, ...]) -> int:
        task = SparkTask.get()
        devices = task.resources().get("gpu") if task is not None else None
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(devices.addresses)} if devices is not None else {}
        make_in_process(self.folder, numbers, environment)
        return len(numbers)


def predict_on_spark(prediction: Prediction, numbers: Sequence[int], ctx: TaskContext, meter: Meter) -> None:
    """See `nodes.prediction.session.MakeParts`. As many processes as Spark runs tasks at once: each loads the model."""
    context = ctx.spark.sparkContext
    cores = int(context.getConf().get("spark.task.cpus", "1") or 1)
    shares = max(1, min(len(numbers), context.defaultParallelism // cores))
    folder = prediction.ledger.folder
    job = Job(
        data=prediction.data,
        model=str(prediction.card.file.parent),
        digest=prediction.digest,
        batch_size=prediction.division.batch_size,
        rows=prediction.division.rows,
        identity=prediction.identity(),
        cores=cores,
    )
    write_job(folder, job)
    items = [tuple(numbers[share::shares]) for share in range(shares)]
    begin_predicting()
    try:
        with _counting(prediction, meter):
            # The meter follows the records, not the tasks: a task may take hours.
            for _ in results(ctx, items, PredictShare(folder), meter=meter, amount=lambda item: 0):
                pass
    except Died as exc:
        message, hint, details = exc.args
        print(details, file=sys.stderr, flush=True)
        raise ExecutionError(
            f"a process that predicts failed: {message}",
            hint=f"{hint} Where memory ran out, choose a smaller batch size.",
        ) from exc


@contextmanager
def _counting(prediction: Prediction, meter: Meter) -> Iterator[None]:
    """Move the meter on while records come, from a thread of its own."""
    over, ledger = threading.Event(), prediction.ledger
    before = ledger.numbers()

    def follow() -> None:
        seen = before
        with contextlib.suppress(Cancelled):  # who waits for the tasks notices by himself
            while not over.wait(_LOOK_S):
                there = ledger.numbers()
                meter.add(prediction.size(sorted(there - seen)))
                seen = there

    thread = threading.Thread(target=contextvars.copy_context().run, args=(follow,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
