"""Every exception that Voxelflow raises on purpose (`CheckFailed`, with all diagnostics, is in
`engine.diagnostics.rule`.)

Each carries what happened (`message`), what to do next (`hint`), and where it is known, the
`node` and the `parameter`. The command line and the log of a node have one line of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

TRACEBACK = "VOXELFLOW_TRACEBACK"
"""Environment variable: with "1" such errors come with their traceback."""


def with_hint(text: str, hint: str) -> str:
    """What happened and what to do as two sentences on a line; only the first when there is no hint."""
    if not hint:
        return text
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {hint}"


def wants_traceback() -> bool:
    """Whether the person wants to see where an error comes from that was raised with a message for them."""
    return os.environ.get(TRACEBACK, "") not in ("", "0")


def with_causes(exc: BaseException, *, suppressed: bool = False) -> Iterator[BaseException]:
    """The error, and those that it was raised from or while handling, the last one first.

    With `suppressed` also those that `raise ... from None` leaves out of a traceback.
    """
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (link.__context__ if suppressed or not link.__suppress_context__ else None)


def first_line(exc: BaseException) -> str:
    """What a library's error says, or the first line of it; its type where it says nothing."""
    return next((line.strip() for line in str(exc).splitlines() if line.strip()), type(exc).__name__)


@contextmanager
def hints_as_notes() -> Iterator[None]:
    """Let a traceback show what to do about an error of ours, where no command prints it: in a script or a notebook."""
    try:
        yield
    except VoxelflowError as exc:
        if exc.hint:
            exc.add_note(exc.hint)
        raise


class VoxelflowError(Exception):
    """Base of the tree. `exit_code` is what the command line ends with."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, hint: str = "", node: str | None = None, parameter: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.node = node
        self.parameter = parameter

    def line(self) -> str:
        """One readable line: where, what happened, what to do."""
        return with_hint(f"{self.node}: {self.message}" if self.node else self.message, self.hint)


class UsageError(VoxelflowError):
    """A command or a call got an argument that cannot be used."""

    exit_code = 2
    code = "usage"


class WorkspaceError(VoxelflowError):
    """The workspace is missing, too new, or not writable."""

    exit_code = 2
    code = "workspace"


class DamagedStore(WorkspaceError):
    """The run store is no whole SQLite database."""

    code = "damaged-store"


class MissingPackage(VoxelflowError):
    """An optional package is not installed."""

    exit_code = 2
    code = "missing-package"


class PipelineError(VoxelflowError):
    """A pipeline document cannot be read, or cannot be planned."""

    exit_code = 2
    code = "pipeline"


class DeclarationError(VoxelflowError):
    """A node type is declared wrongly (for its author)."""

    code = "declaration"


class DataError(VoxelflowError):
    """The data is not what the node can use."""

    code = "data"


class TooManyBadFiles(DataError):
    """More files were quarantined than the limit allows."""

    code = "too-many-bad-files"


class StaleInput(DataError):
    """A table has moved on since the reference was made."""

    code = "stale-input"


class ChangedSincePlanned(DataError):
    """A node's code, or a file that it reads, is not what it was when the run was planned: the run cannot go on."""

    code = "changed-since-planned"


class UnsupportedTable(DataError):
    """A Delta feature or layout that would be read wrongly."""

    code = "unsupported-table"


class TableConflict(VoxelflowError):
    """Another writer committed first; planning again from the new version is safe."""

    code = "table-conflict"


class ExecutionError(VoxelflowError):
    """A run could not be started or carried on."""

    code = "execution"


class Cancelled(ExecutionError):
    """Someone asked to stop."""

    exit_code = 130
    code = "cancelled"


class DiskFull(ExecutionError):
    """There is no space for what must be written."""

    code = "disk-full"


class FileError(ExecutionError):
    """The system could not open, read or write a file."""

    code = "os"


class TrackingError(VoxelflowError):
    """The MLflow server did not take what was sent."""

    code = "tracking"
