"""The child process that runs one task, or the tasks that share a Spark session one after another.

The supervisor writes to it as to every child (`engine.processes`): first a line with what to prepare
while it waits (a `WorkerStart`), then a task, then perhaps "cancel". A worker with a Spark session
goes on with further tasks until it reads "end" or its session is lost. It sends the task's events;
standard output and error are the task's log.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from engine.catalog import Catalog
from engine.declare.context import TaskContext
from engine.declare.events import Event, Facts, Message, Outputs
from engine.errors import Cancelled, ExecutionError, VoxelflowError, wants_traceback
from engine.processes.messages import failure_of
from engine.processes.parent import Parent
from engine.processes.system import peak_memory
from engine.profiles import Profile
from engine.run.task import TaskMessage, context_of, run_task
from engine.run.unchanged import refuse_changed
from engine.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.spark.session import SharedSession

CANCEL = "cancel"
END = "end"
_LOOK_S = 2.0
"""Between two looks at whether an idle Spark session lives."""


class SparkOrder(BaseModel):
    """The session that a worker opens: of this profile, called `name` on the cluster.

    Java writes to the file `log`; Spark's temporary files go below `folder`. `tag` is that of its application on YARN.
    """

    profile: Profile
    name: str
    workspace: str
    log: str
    folder: str
    tag: str = ""


class WorkerStart(BaseModel):
    """What a worker prepares while its task's turn has not come, as one JSON line."""

    imports: tuple[str, ...] = ()
    spark: SparkOrder | None = None


class _Task:
    """One task with what was asked of it since; also the reporter behind `track`."""

    def __init__(self, message: TaskMessage, parent: Parent) -> None:
        self.message = message
        self.cancel = threading.Event()
        self.over = threading.Event()
        self._parent = parent

    def emit(self, event: Event) -> None:
        if event.node is None:
            event = event.model_copy(update={"node": self.message.node})
        if isinstance(event, Message):
            print(f"{event.level}: {event.text}", flush=True)
        self._parent.send(event)

    def cancelled(self) -> bool:
        return self.cancel.is_set()


class _Inbox:
    """What the supervisor writes, read by a thread: tasks in their order, and a cancel for the newest."""

    def __init__(self, parent: Parent, on_cancel: Callable[[_Task], None]) -> None:
        self._parent, self._on_cancel = parent, on_cancel
        self._tasks: queue.Queue[_Task | ExecutionError | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, timeout_s: float | None = None) -> _Task | None:
        """The next task; None when no more come. Raises `queue.Empty` after the time, `ExecutionError` when what the
        supervisor wrote is no task, as when another program has read a part of it."""
        found = self._tasks.get(timeout=timeout_s)
        if isinstance(found, ExecutionError):
            raise found
        return found

    def _listen(self) -> None:
        newest: _Task | None = None
        while True:
            line = self._parent.line()
            if line == CANCEL.encode():
                if newest is not None:
                    newest.cancel.set()
                    self._on_cancel(newest)
            elif line == END.encode():
                self._tasks.put(None)
            else:
                try:
                    newest = _Task(TaskMessage.model_validate_json(line), self._parent)
                except ValueError as exc:
                    # Not raised here: the main thread would wait for its task for ever.
                    self._tasks.put(_unreadable(line, exc))
                    return
                self._tasks.put(newest)


def _unreadable(line: bytes, exc: ValueError) -> ExecutionError:
    print(exc, file=sys.stderr, flush=True)
    return ExecutionError(
        f"its worker was sent a task that cannot be read ({len(line):,} bytes)",
        hint="`voxelflow runs resume` starts it again; the node's log says more (`voxelflow runs logs`).",
    )


def work(event_handle: int, catalog: Callable[[], Catalog]) -> int:
    """Run what standard input says; the exit status is 0 when the task's outputs were sent, or all tasks were done."""
    parent = Parent(event_handle)
    start = WorkerStart.model_validate_json(parent.line())
    if start.spark is not None:
        return _work_on_spark(start.spark, parent, catalog)
    # What modules make while they are loaded stays: looking through it again and again takes 5% of the time.
    gc.disable()
    for module in start.imports:
        # Only to save time: pandas may be absent, and what the task cannot do without it imports itself.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    catalog = cache(catalog)
    with contextlib.suppress(Exception):  # the task tries again, and reports its failure
        catalog()
    gc.freeze()
    gc.enable()
    try:
        task = _Inbox(parent, lambda _: None).next()
    except ExecutionError as exc:
        parent.send(failure_of(exc))
        return 1
    return 0 if task is None or _do(task, catalog) else 1


def _work_on_spark(order: SparkOrder, parent: Parent, catalog: Callable[[], Catalog]) -> int:
    from engine.spark.session import SharedSession

    shared = SharedSession(
        order.profile, order.name, Workspace(Path(order.workspace)), Path(order.log), Path(order.folder), parent.send
    )
    inbox = _Inbox(parent, lambda task: shared.cancel_jobs(task.over.is_set))
    reusable = True
    while True:
        try:
            task = inbox.next(_LOOK_S)
        except queue.Empty:
            if shared.lost():
                shared.ended()
                return 1
            continue
        except ExecutionError as exc:
            shared.ended()
            parent.send(failure_of(exc))
            return 1
        if task is None:
            shared.close(reusable=reusable)
            return 0
        with _logged(Path(task.message.log)):
            done = _do(task, catalog, shared)
        reusable = reusable and done and not task.cancelled()
        if shared.failed or shared.lost():
            return 1


@contextmanager
def _logged(log: Path) -> Iterator[None]:
    """Standard output and error go to the task's own log; what Java says has a file of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(handle) for handle in (1, 2)]
    with log.open("ab") as output:
        for handle in (1, 2):
            os.dup2(output.fileno(), handle)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for handle, before in zip((1, 2), kept, strict=True):
            os.dup2(before, handle)
            os.close(before)


def _do(task: _Task, catalog: Callable[[], Catalog], shared: SharedSession | None = None) -> bool:
    """Run the task and send its outputs or its failure; True for outputs."""
    try:
        outputs = _run(task, catalog(), shared)
    except BaseException as exc:
        task.over.set()
        lost = shared.lost() if shared is not None else None
        if shared is not None and (lost or shared.failed):
            # First, so that the supervisor gives this process no further task.
            shared.ended()
        message = task.message
        meant = _meant(exc, task, shared, lost)
        failure = failure_of(meant, node=message.node, folders=message.folders, about_bytes=message.about_bytes)
        if not isinstance(exc, VoxelflowError) or wants_traceback():
            print(failure.details, file=sys.stderr, flush=True)
        else:  # its message says all
            level = "info" if isinstance(exc, Cancelled) else "error"
            print(f"{level}: {failure.line()}", file=sys.stderr, flush=True)
        task.emit(failure)
        return False
    task.over.set()
    if shared is not None and shared.lost():
        shared.ended()
    # Of this process alone, without Java and the processes that the node has started.
    task.emit(Facts(values={"peak_memory_mb": round(peak_memory() / 1e6, 1)}))
    task.emit(Outputs(node=task.message.node, outputs=outputs))
    return True


def _meant(exc: BaseException, task: _Task, shared: SharedSession | None, lost: VoxelflowError | None) -> BaseException:
    """What an error within Spark was about: the session's end, the cancel, or what Spark says itself."""
    if shared is None or isinstance(exc, Cancelled):
        return exc
    from engine.spark.failures import is_spark_error, spark_error

    if lost is not None:
        return lost
    if not is_spark_error(exc):
        return exc
    return Cancelled("cancelled on request") if task.cancelled() else spark_error(exc, shared.log)


def _run(task: _Task, catalog: Catalog, shared: SharedSession | None) -> dict[str, Any]:
    message = task.message
    node_type = catalog.find(message.node_type, message.version)
    if node_type is None or node_type.version != message.version:
        raise VoxelflowError(
            f"the node type {message.node_type} version {message.version} is gone since the run was planned",
            hint="Run the pipeline again.",
        )
    refuse_changed(node_type, message.params, message.code, message.files)

    def session(context: TaskContext) -> SparkSession:
        assert shared is not None
        return shared.get(context.check_cancelled, context.info)

    context = context_of(
        message,
        emit=task.emit,
        is_cancelled=task.cancelled,
        open_spark=session if shared is not None else None,
    )
    return run_task(message, node_type, context, task)
