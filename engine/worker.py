"""The child process that runs one task, or the tasks that share a Spark session one after another.

Its standard input is the supervisor's word: first a line with what to prepare while it waits (a
`WorkerStart`), then a task, then perhaps "cancel". A worker that holds a Spark session goes on with
further tasks until it is told "end" or its session is lost. When the pipe closes the supervisor is
gone, and the worker ends at once, children and all. Events go back as JSON lines through the pipe
whose number is on the command line; standard output and error are the task's log.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import BaseModel, SerializeAsAny

from engine.catalog import Catalog
from engine.context import Resources, TaskContext
from engine.datasets import AnyDataset, Dataset
from engine.errors import Cancelled, VoxelflowError
from engine.events import Event, Facts, Failure, Message, Outputs, Progress
from engine.offspring import kill_session
from engine.peak_memory import peak_memory
from engine.profiles import Profile
from engine.progress import current_reporter
from engine.workspace import Workspace

if TYPE_CHECKING:
    from engine.spark.held import HeldSession

CANCEL = b"cancel"
END = b"end"
_LOOK_S = 2.0
"""Between two looks at whether an idle Spark session lives."""


class SparkOrder(BaseModel):
    """The session that a worker shall hold: of this profile, called `name` on the cluster.

    Java writes to the file `log`; Spark's temporary files go below `folder`.
    """

    profile: Profile
    name: str
    workspace: str
    log: str
    folder: str


class WorkerStart(BaseModel):
    """What a worker prepares while its task's turn has not come, as one JSON line."""

    imports: tuple[str, ...] = ()
    spark: SparkOrder | None = None


class TaskMessage(BaseModel):
    """All a worker needs to run its task, as one JSON line. `log`: the task's, where the worker's own is another."""

    run_id: str
    node: str
    node_type: str
    version: int
    backend: str
    params: dict[str, Any]
    inputs: dict[str, SerializeAsAny[AnyDataset]]
    fingerprint: str
    out: str
    shared: str
    scratch: str
    cores: int
    memory_bytes: int
    gpus: int = 0
    seed: int = 0
    previous: dict[str, SerializeAsAny[AnyDataset]] = {}
    extends: dict[str, SerializeAsAny[AnyDataset]] = {}
    listings: dict[str, str] = {}
    protected: dict[str, tuple[int, ...]] = {}
    workspace: str = ""
    log: str = ""


class _Channel:
    """Sends events to the supervisor."""

    def __init__(self, handle: int) -> None:
        self._sink: IO[bytes] = os.fdopen(handle, "wb", buffering=0)
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        data = event.model_dump_json(exclude_none=True).encode() + b"\n"
        with self._lock:
            self._sink.write(data)


class _Task:
    """One task with what was asked of it since; also the reporter behind `track`."""

    def __init__(self, message: TaskMessage, channel: _Channel) -> None:
        self.message = message
        self.cancel = threading.Event()
        self.over = threading.Event()
        self._channel = channel

    def emit(self, event: Event) -> None:
        if event.node is None:
            event = event.model_copy(update={"node": self.message.node})
        if isinstance(event, Message):
            print(f"{event.level}: {event.text}", flush=True)
        self._channel.emit(event)

    def cancelled(self) -> bool:
        return self.cancel.is_set()


class _Reporter:
    """What `track` and `Meter` see of the task."""

    def __init__(self, task: _Task) -> None:
        self._task = task

    def emit(self, event: Progress, /) -> None:
        self._task.emit(event)

    def cancelled(self) -> bool:
        return self._task.cancelled()


class _Inbox:
    """The supervisor's word, heard by a thread: tasks in their order, and a cancel for the newest."""

    def __init__(self, commands: Any, channel: _Channel, on_cancel: Callable[[_Task], None]) -> None:
        self._commands, self._channel, self._on_cancel = commands, channel, on_cancel
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, timeout_s: float | None = None) -> _Task | None:
        """The next task; None when there is none any more. Raises `queue.Empty` after the time."""
        return self._tasks.get(timeout=timeout_s)

    def _listen(self) -> None:
        newest: _Task | None = None
        while True:
            line = _line(self._commands).strip()
            if line == CANCEL:
                if newest is not None:
                    newest.cancel.set()
                    self._on_cancel(newest)
            elif line == END:
                self._tasks.put(None)
            else:
                newest = _Task(TaskMessage.model_validate_json(line), self._channel)
                self._tasks.put(newest)


def work(event_handle: int, catalog: Callable[[], Catalog]) -> int:
    """Run what standard input says; the exit status is 0 when the task's outputs were sent, or all was done as told."""
    # Ctrl-C in a terminal is for the person's command; the supervisor tells us what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _Channel(event_handle)
    # Unbuffered: a text layer could read ahead past the line that the listener waits for.
    commands = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    start = WorkerStart.model_validate_json(_line(commands))
    if start.spark is not None:
        return _work_on_spark(start.spark, commands, channel, catalog)
    for module in start.imports:
        importlib.import_module(module)
    catalog = cache(catalog)
    with contextlib.suppress(Exception):  # the task tries again, and its failure is told
        catalog()
    task = _Inbox(commands, channel, lambda _: None).next()
    return 0 if task is None or _do(task, catalog) else 1


def _work_on_spark(order: SparkOrder, commands: Any, channel: _Channel, catalog: Callable[[], Catalog]) -> int:
    from engine.spark.held import HeldSession

    held = HeldSession(
        order.profile, order.name, Workspace(Path(order.workspace)), Path(order.log), Path(order.folder), channel.emit
    )
    inbox = _Inbox(commands, channel, lambda task: held.cancel_jobs(task.over.is_set))
    while True:
        try:
            task = inbox.next(_LOOK_S)
        except queue.Empty:
            if held.lost():
                held.ended()
                return 1
            continue
        if task is None:
            held.close()
            return 0
        with _logged(Path(task.message.log)):
            _do(task, catalog, held)
        if held.failed or held.lost():
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


def _line(source: Any) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = source.read(1)
        if not byte:
            _end()
        line += byte
    return bytes(line)


def _end() -> None:
    # Not the group alone: loaders and Spark start processes of their own, and Spark's leave the group.
    kill_session(os.getsid(0))


def _do(task: _Task, catalog: Callable[[], Catalog], held: HeldSession | None = None) -> bool:
    """Run the task and send its last word; whether that is its outputs."""
    try:
        outputs = _run(task, catalog(), held)
    except BaseException as exc:
        task.over.set()
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        lost = held.lost() if held is not None else None
        if held is not None and (lost or held.failed):
            # First, so that the supervisor gives this process no further task.
            held.ended()
        task.emit(_failure(_meant(exc, task, held, lost), task.message.node))
        return False
    task.over.set()
    if held is not None and held.lost():
        held.ended()
    # Of this process alone, without Java and the processes that the node has started.
    task.emit(Facts(values={"peak_memory_mb": round(peak_memory() / 1e6, 1)}))
    task.emit(Outputs(node=task.message.node, outputs=outputs))
    return True


def _meant(exc: BaseException, task: _Task, held: HeldSession | None, lost: VoxelflowError | None) -> BaseException:
    """What an error within Spark was about: the session's end, the cancel, or what Spark says itself."""
    if held is None or isinstance(exc, Cancelled):
        return exc
    from engine.spark.failures import is_sparks, told

    if lost is not None:
        return lost
    if not is_sparks(exc):
        return exc
    return Cancelled("cancelled on request") if task.cancelled() else told(exc, held.log)


def _run(task: _Task, catalog: Catalog, held: HeldSession | None) -> dict[str, Any]:
    message = task.message
    node_type = catalog.find(message.node_type, message.version)
    if node_type is None or node_type.version != message.version:
        raise VoxelflowError(
            f"the node type {message.node_type} version {message.version} is gone since the run was planned",
            hint="Run the pipeline again.",
        )
    context = TaskContext(
        run_id=message.run_id,
        node_id=message.node,
        fingerprint=message.fingerprint,
        out=Path(message.out),
        shared=Path(message.shared),
        scratch=Path(message.scratch),
        resources=Resources(message.cores, message.memory_bytes, message.gpus),
        seed=message.seed,
        previous=message.previous,
        extends=message.extends,
        inputs_found={name: Path(path) for name, path in message.listings.items()},
        protected=message.protected,
        workspace=Path(message.workspace) if message.workspace else None,
        emit=task.emit,
        is_cancelled=task.cancelled,
    )
    if held is not None:
        spark = held
        context = replace(context, open_spark=lambda: spark.get(context.check_cancelled, context.info))
    for folder in (context.shared, context.out, context.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    current_reporter.set(_Reporter(task))
    keywords: dict[str, Any] = dict(message.params)
    for parameter in node_type.parameters:
        if isinstance(keywords.get(parameter.name), list):
            keywords[parameter.name] = tuple(keywords[parameter.name])
    if node_type.context_argument:
        keywords[node_type.context_argument] = context
    result = node_type.backends[message.backend](**message.inputs, **keywords)
    outputs: dict[str, Dataset] = node_type.collect(result)
    return dict(outputs)


def _failure(exc: BaseException, node: str) -> Failure:
    # The one that is being handled, also where `exc` says it in other words.
    details = traceback.format_exc()
    if isinstance(exc, Cancelled):
        return Failure(node=node, code="cancelled", message=exc.message, details=details)
    if isinstance(exc, VoxelflowError):
        return Failure(
            node=node,
            code=exc.code,
            message=exc.message,
            hint=exc.hint,
            parameter=exc.parameter,
            details=details,
        )
    if isinstance(exc, MemoryError):
        return Failure(
            node=node, code="memory", message="out of memory", hint="Give the node less to hold.", details=details
        )
    if isinstance(exc, OSError):
        name = f"{exc.filename}: " if exc.filename else ""
        return Failure(node=node, code="os", message=f"{name}{exc.strerror or exc}", details=details)
    return Failure(
        node=node,
        code="task-failed",
        message=f"{type(exc).__name__}: {exc}",
        hint="The node's log has the traceback (`voxelflow runs logs`).",
        details=details,
    )
