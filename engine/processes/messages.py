"""What a child sends to its parent: the engine's events as JSON lines, its result, and the report of its failure."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from engine.declare.events import AnyEvent, Event, Failure, Message, Progress
from engine.errors import ExecutionError, VoxelflowError
from engine.extras import missing_package
from engine.storage.io_errors import explain


class Result(Event):
    """The child's work is done. `value` is JSON text of whatever its kind of work comes to."""

    event: Literal["result"] = "result"
    value: str = ""


class Listening(Event):
    """Other children reach process `pid` at this TCP port."""

    event: Literal["listening"] = "listening"
    port: int
    pid: int


class Answer(Event):
    """What a child that answers questions has to say to number `n`: an HTTP status, and a body, in JSON as base64.

    `headers` say what the body is.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    event: Literal["answer"] = "answer"
    n: int
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


_ANY: TypeAdapter[Any] = TypeAdapter(Annotated[AnyEvent | Result | Listening | Answer, Field(discriminator="event")])
_REPORT: TypeAdapter[Result | Failure] = TypeAdapter(Annotated[Result | Failure, Field(discriminator="event")])


def to_line(message: Event) -> bytes:
    """The message as one line of JSON.

    What people read is escaped where it is no UTF-8, as of a file's name in Latin-1. Raises
    `pydantic_core.PydanticSerializationError` where a path is not, which must stay as it is.
    """
    try:
        text = message.model_dump_json(exclude_none=True)
    except PydanticSerializationError:
        if not isinstance(message, (Failure, Message, Progress)):
            raise
        texts = {
            name: value.encode("utf-8", "backslashreplace").decode()
            for name, value in message
            if isinstance(value, str)
        }
        text = message.model_copy(update=texts).model_dump_json(exclude_none=True)
    return text.encode() + b"\n"


def from_line(line: bytes) -> Event:
    """Raises `pydantic.ValidationError`, a `ValueError`, for a line that is no message, or only part of one."""
    out = _ANY.validate_json(line)
    assert isinstance(out, Event)
    return out


def report_from_json(text: bytes) -> Result | Failure:
    """How a child's work ended."""
    return _REPORT.validate_json(text)


UNEXPECTED = frozenset(["task-failed", "memory"])
"""Codes of failures that no `VoxelflowError` explains."""
_LOG_END = 8_000


def known_error(
    exc: BaseException, folders: Sequence[Path] = (), about_bytes: int | None = None, *, in_run: bool = True
) -> VoxelflowError | None:
    """What an error is about where it is not the node's own: a package that is not installed, a full disk, a file.

    The arguments are those of `io_errors.explain`.
    """
    return missing_package(exc) or explain(exc, folders, about_bytes, in_run=in_run)


def failure_of(
    exc: BaseException, *, node: str | None = None, folders: Sequence[Path] = (), about_bytes: int | None = None
) -> Failure:
    """The report on an error, mostly one that is being handled. `folders`, `about_bytes`: see `io_errors.explain`."""
    # The traceback of the one that is being handled, also where `exc` says it in other words.
    details = traceback.format_exc() if sys.exc_info()[0] else "".join(traceback.format_exception(exc))
    exc = known_error(exc, folders, about_bytes) or exc
    if isinstance(exc, VoxelflowError):
        return Failure(
            node=node, code=exc.code, message=exc.message, hint=exc.hint, parameter=exc.parameter, details=details
        )
    if isinstance(exc, MemoryError):
        return Failure(
            node=node,
            code="memory",
            message="out of memory",
            hint="Give the node less data at once, or the profile more memory.",
            details=details,
        )
    return Failure(
        node=node,
        code="task-failed",
        message=f"{type(exc).__name__}: {exc}",
        hint="Look at the traceback in the node's log (`voxelflow runs logs`).",
        details=details,
    )


def error_of(failure: Failure) -> VoxelflowError:
    """The error as it would have been raised without a process between."""
    kind = _kinds(VoxelflowError).get(failure.code, ExecutionError)
    return kind(failure.message, hint=failure.hint, parameter=failure.parameter)


_NATIVE = "A native library gave up, as on a damaged file: `voxelflow verify TABLE` checks a table's."
_REASONS: dict[int, str] = {
    signal.SIGKILL: "A process that the system kills has often run out of memory.",
    signal.SIGABRT: _NATIVE,
    signal.SIGSEGV: _NATIVE,
    signal.SIGBUS: "A file that it had mapped was cut short, or its disk could not be read.",
    signal.SIGILL: "This processor lacks an instruction that a native library was built for.",
}


def death_of(status: int | None, log: Path, *, node: str | None = None) -> Failure:
    """The report on a child that ended without one. `status` is as of `Popen.returncode`."""
    hint = why_killed(status) or "Look at its log (`voxelflow runs logs`)."
    return Failure(
        node=node,
        code="worker-died",
        message=f"its process {how_it_ended(status)} before it was done",
        hint=f"{hint} `voxelflow runs resume` goes on from what is done.",
        details=end_of_log(log),
    )


def how_it_ended(status: int | None) -> str:
    """`status` in words, to follow "its process". It is as of `Popen.returncode`."""
    if status is None or status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def why_killed(status: int | None) -> str:
    """The likely reason of a signal that no process of ours has sent; empty for most."""
    return _REASONS.get(-(status or 0), "")


def end_of_log(log: Path) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_END))
            return file.read(_LOG_END).decode(errors="replace")
    except OSError:
        return ""


def _kinds(base: type[VoxelflowError]) -> dict[str, type[VoxelflowError]]:
    """Error classes by code. A class that takes other arguments cannot be made from a message."""
    found: dict[str, type[VoxelflowError]] = {}
    for kind in (base, *base.__subclasses__()):
        if "__init__" not in vars(kind) or kind is VoxelflowError:
            found.setdefault(kind.code, kind)
    for kind in base.__subclasses__():
        for code, deeper in _kinds(kind).items():
            found.setdefault(code, deeper)
    return found
