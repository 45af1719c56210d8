"""The child process that runs one task.

Its standard input is the supervisor's word: first a line with the modules to import while it
waits, then the task, then perhaps "cancel". When that pipe closes the supervisor is gone, and the
worker ends at once, children and all. Events go back as JSON lines through the pipe whose number is
on the command line; standard output and error are the task's log.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, SerializeAsAny

from engine.catalog import Catalog
from engine.context import Resources, TaskContext
from engine.datasets import AnyDataset, Dataset
from engine.errors import Cancelled, VoxelflowError
from engine.events import Event, Failure, Message, Outputs, Progress
from engine.progress import current_reporter


class TaskMessage(BaseModel):
    """All a worker needs to run its task, as one JSON line."""

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


class _Channel:
    """Sends events to the supervisor; also the reporter behind `track`."""

    def __init__(self, handle: int) -> None:
        self._sink: IO[bytes] = os.fdopen(handle, "wb", buffering=0)
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self.node = ""

    def emit(self, event: Event) -> None:
        if event.node is None:
            event = event.model_copy(update={"node": self.node})
        if isinstance(event, Message):
            print(f"{event.level}: {event.text}", flush=True)
        data = event.model_dump_json(exclude_none=True).encode() + b"\n"
        with self._lock:
            self._sink.write(data)

    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()


class _Reporter:
    """What `track` and `Meter` see of the channel."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def emit(self, event: Progress, /) -> None:
        self._channel.emit(event)

    def cancelled(self) -> bool:
        return self._channel.cancelled()


def work(event_handle: int, catalog: Callable[[], Catalog]) -> int:
    """Run one task from standard input; the exit status is 0 when its outputs were sent."""
    # Ctrl-C in a terminal is for the person's command; the supervisor tells us what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = _Channel(event_handle)
    # Unbuffered: a text layer could read ahead past the line that the listener waits for.
    commands = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    for module in json.loads(_line(commands))["imports"]:
        importlib.import_module(module)
    message = TaskMessage.model_validate_json(_line(commands))
    channel.node = message.node
    threading.Thread(target=_listen, args=(commands, channel), daemon=True).start()
    try:
        outputs = _run(message, channel, catalog())
    except BaseException as exc:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        channel.emit(_failure(exc, message.node))
        return 1
    channel.emit(Outputs(node=message.node, outputs=outputs))
    return 0


def _line(source: Any) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = source.read(1)
        if not byte:
            _end()
        line += byte
    return bytes(line)


def _listen(commands: Any, channel: _Channel) -> None:
    while True:
        if _line(commands).strip() == b"cancel":
            channel.cancel()


def _end() -> None:
    # The whole group: loaders and Spark start processes of their own.
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _run(message: TaskMessage, channel: _Channel, catalog: Catalog) -> dict[str, Any]:
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
        emit=channel.emit,
        is_cancelled=channel.cancelled,
    )
    for folder in (context.shared, context.out, context.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    current_reporter.set(_Reporter(channel))
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
