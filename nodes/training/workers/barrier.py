"""A group of workers on Spark's executors: a barrier stage, one task a worker.

Spark starts the tasks of such a stage all at once or not at all. A task only watches: TensorFlow runs in a
fresh process below it, because a Python worker that has once run TensorFlow hangs in its second stage. Spark
would repeat the stage when an executor is lost; the task then refuses, and the driver ends the job: the
training goes on with `voxelflow runs resume`, from its checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import BarrierTaskContext, InheritableThread

from engine.declare.context import TaskContext
from engine.errors import UsageError
from engine.profiles.dynamic_allocation import SETTING, allocates_dynamically
from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.local import watch

if TYPE_CHECKING:
    from pyspark import SparkContext

SLOTS_WAIT_S = 60
"""How long executors may take to come before there are too few of them."""
_STOP_S = 10


class BarrierGroup:
    """Workers as processes below the tasks of one barrier stage. Raises `UsageError` with too few slots for them."""

    def __init__(self, folder: GroupFolder, ranks: int, *, program: Sequence[str], ctx: TaskContext) -> None:
        self._folder, self._ctx, self._ranks = folder, ctx, ranks
        self._context = ctx.spark.sparkContext
        cores = _cores_each(self._context, ranks, ctx)
        self._job_group = f"voxelflow-training-{folder.path.name}"
        self._error: BaseException | None = None
        task = _task(str(folder.path), tuple(program), cores, _is_local(self._context))
        self._runner = InheritableThread(target=self._run, args=(task,), daemon=True)
        self._runner.start()

    def problem(self) -> str:
        """Why the group cannot go on, when Spark knows; else empty."""
        if self._error is not None:
            return _in_words(str(self._error))
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._job_group):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found else ():
                seen = tracker.getStageInfo(stage)
                if seen is not None and (seen.numFailedTasks or seen.currentAttemptId):
                    return _failure_of(self._context, stage)
        return ""

    def stop(self) -> None:
        """End all workers and the job; with lost executors, as far as they can be reached."""
        self._folder.end.touch()
        self._runner.join(0 if self.problem() else _STOP_S)
        if self._runner.is_alive():
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._job_group)
            self._runner.join(_STOP_S)

    def _run(self, task: Callable[[Iterable[int]], Iterator[int]]) -> None:
        try:
            self._context.setJobGroup(self._job_group, f"{self._ctx.node_id}: training", interruptOnCancel=False)
            self._context.parallelize(range(self._ranks), self._ranks).barrier().mapPartitions(task).collect()
        except BaseException as exc:
            self._error = exc


def _task(path: str, program: tuple[str, ...], cores: int, local: bool) -> Callable[[Iterable[int]], Iterator[int]]:
    """What each task of the stage does, with what it needs to know in it."""

    def run(items: Iterable[int]) -> Iterator[int]:
        context: Any = BarrierTaskContext.get()
        rank = context.partitionId()
        folder = GroupFolder(Path(path))
        if not folder.claim(rank):
            raise RuntimeError("a training is not repeated by Spark")
        host = "127.0.0.1" if local else context.getTaskInfos()[rank].address.rpartition(":")[0]
        devices = context.resources().get("gpu")
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(devices.addresses)} if devices is not None else {}
        watch(
            folder,
            rank,
            program=program,
            host=host,
            cores=cores,
            gather=context.allGather,
            environment=environment,
        )
        yield from items

    return run


def gpus_of_a_task(context: SparkContext, here: int) -> int:
    """The GPUs that each worker is given by Spark's settings; in a session on this machine at least those of `here`.

    What a task gets may be a share of one: such a share counts as 1.
    """
    wanted = context.getConf().get("spark.task.resource.gpu.amount", "0") or "0"
    return max(math.ceil(float(wanted)), here if _is_local(context) else 0)


def _is_local(context: SparkContext) -> bool:
    return re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None


def _cores_each(context: SparkContext, ranks: int, ctx: TaskContext) -> int:
    """The cores a worker may use. Raises `UsageError` when Spark cannot run so many tasks at once."""
    conf = context.getConf()
    # A plan refuses it already (VF314) where the profile says so; Spark's own files may say it too.
    if allocates_dynamically(str(context.master), {SETTING: conf.get(SETTING, "") or ""}):
        raise UsageError(
            "Spark starts no barrier stage, as training needs even for one worker, while it adds and removes executors"
            " by itself",
            hint=f"Set {SETTING} to false in the compute profile, and spark.executor.instances.",
        )
    slots, began = _slots(context), time.monotonic()
    while slots < ranks and not _is_local(context) and time.monotonic() - began < SLOTS_WAIT_S:
        ctx.check_cancelled()
        time.sleep(0.5)
        slots = _slots(context)
    if slots < ranks:
        raise UsageError(
            f"{ranks} workers train at the same time, and Spark ({context.master}) can run {slots} tasks at a time",
            hint=f"Set workers to {slots} or fewer, or give Spark more executors or cores"
            f"{f' (local[{ranks}])' if _is_local(context) else ''}.",
            parameter="workers",
        )
    return max(1, slots * int(conf.get("spark.task.cpus", "1") or 1) // ranks)


def _slots(context: SparkContext) -> int:
    """Tasks that can run at once now: what Spark itself compares a barrier stage with."""
    java: Any = context._jsc.sc()
    return int(java.maxNumConcurrentTasks(java.resourceProfileManager().defaultResourceProfile()))


def _failure_of(context: SparkContext, stage: int) -> str:
    """Why Spark gave the stage up, in a line."""
    text = ""
    with contextlib.suppress(Exception):  # Spark's own record, which may not be there yet
        java: Any = context._jsc.sc()
        tasks = java.statusStore().taskList(stage, 0, 1000)
        errors = [tasks.apply(i).errorMessage() for i in range(tasks.size())]
        text = next((error.get() for error in errors if error.isDefined() and "cancelled" not in error.get()), "")
    return _in_words(text) if text else "a task of the stage was lost"


def _in_words(text: str) -> str:
    """Spark's reason without its stack."""
    lost = re.search(r"ExecutorLostFailure \((executor \S+) [^)]*\)\s*(?:Reason: (.*))?", text)
    if lost:
        return f"{lost[1]} was lost{f': {lost[2].strip()}' if lost[2] else ''}"
    if "Traceback" in text:
        text = text.rpartition("Traceback (most recent call last):")[2]
    # Frames are indented, in Python's traces and in Java's.
    lines = [line for line in text.splitlines() if line.strip() and not line[0].isspace()]
    return lines[0][:300] if lines else "Spark does not say why"
