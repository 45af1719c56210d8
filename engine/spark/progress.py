"""Progress of what Spark does by itself, such as SQL: its tasks, reported as the node's progress."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from pyspark import SparkContext

from engine.declare.context import TaskContext
from engine.declare.events import Progress
from engine.declare.progress import current_reporter

_POLL_S = 0.3
_number = itertools.count(1)


def job_group(ctx: TaskContext) -> str:
    """A name for the jobs of one piece of a task's work."""
    return f"voxelflow-{ctx.run_id}-{ctx.node_id}-{next(_number)}"


@contextlib.contextmanager
def following(ctx: TaskContext, label: str) -> Iterator[None]:
    """Within it, the Spark jobs of this thread are the task's progress, and a cancel of the task ends them.

    The unit is Spark's tasks; Spark lists a job's later stages only when their turn comes, so the total may grow.
    `label` is also what the Spark UI shows. Raises `Cancelled` in place of the error of a job that a cancel ended.
    """
    context = ctx.spark.sparkContext
    group = job_group(ctx)
    over = threading.Event()
    counter = _Counter(context, group)
    reporter = current_reporter.get()  # of this thread: a new one has none

    def watch() -> None:
        while not over.wait(_POLL_S):
            with contextlib.suppress(Exception):  # the session may end meanwhile; its user gets the error
                if ctx.is_cancelled():
                    context.cancelJobGroup(group)
                if (now := counter.look()) and reporter is not None:
                    done, total = now
                    reporter.emit(Progress(done=done, total=total, unit="Spark tasks", label=label))

    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in _PROPERTIES}
    context.setJobGroup(group, label)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        ctx.check_cancelled()
        raise
    finally:
        over.set()
        watcher.join()
        with contextlib.suppress(Exception):
            for name, value in before.items():
                context.setLocalProperty(name, value)
    ctx.check_cancelled()


_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class _Counter:
    """Adds up the tasks of the group's jobs and of all others that it saw running.

    Libraries such as Delta start jobs from threads of their own, and a session works for one task at a time.
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._tracker, self._group = context.statusTracker(), group
        self._jobs: set[int] = set()
        self._last: tuple[int, int] | None = None

    def look(self) -> tuple[int, int] | None:
        """Tasks done and known of; None when nothing has changed."""
        self._jobs.update(self._tracker.getJobIdsForGroup(self._group), self._tracker.getActiveJobsIds())
        done = total = 0
        for job in self._jobs:
            info = self._tracker.getJobInfo(job)
            for stage_id in info.stageIds if info else ():
                stage = self._tracker.getStageInfo(stage_id)
                if stage is not None:
                    done += stage.numCompletedTasks
                    total += stage.numTasks
        now = (done, total)
        if now == self._last or not total:
            return None
        self._last = now
        return now
