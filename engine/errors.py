"""Every exception Voxelflow raises on purpose.

    VoxelflowError
    ├── UsageError              a command or a call got an argument that cannot be used
    ├── WorkspaceError          the workspace is missing, too new, or not writable
    ├── PipelineError           a pipeline document cannot be read, or cannot be planned
    │   └── CheckFailed         carries all diagnostics that were found
    ├── DeclarationError        a node type is declared wrongly (for its author)
    ├── DataError               the data is not what the node can use
    │   ├── TooManyBadFiles     more files were quarantined than the limit allows
    │   ├── StaleInput          a table has moved on since the reference was made
    │   └── UnsupportedTable    a Delta feature or layout that would be read wrongly
    ├── TableConflict           another writer committed first; planning again from the new version is safe
    ├── ExecutionError          a run could not be started or carried on
    │   ├── Cancelled           someone asked to stop
    │   └── DiskFull            there is no room for what must be written
    └── TrackingError           the MLflow server did not take what was sent

Each carries what happened (`message`), what to do next (`hint`), and where it can be told, the
`node` and the `parameter`. The command line prints one line of it; the traceback goes to the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.diagnostics import Diagnostic


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
        where = f"{self.node}: " if self.node else ""
        text = f"{where}{self.message}"
        if not self.hint:
            return text
        return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {self.hint}"


class UsageError(VoxelflowError):
    exit_code = 2
    code = "usage"


class WorkspaceError(VoxelflowError):
    exit_code = 2
    code = "workspace"


class PipelineError(VoxelflowError):
    exit_code = 2
    code = "pipeline"


class CheckFailed(PipelineError):
    code = "checks"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        errors = [d for d in diagnostics if d.severity == "error"]
        plural = "problem" if len(errors) == 1 else "problems"
        super().__init__(f"{len(errors)} {plural} must be mended before this pipeline can run")
        self.diagnostics = tuple(diagnostics)


class DeclarationError(VoxelflowError):
    code = "declaration"


class DataError(VoxelflowError):
    code = "data"


class TooManyBadFiles(DataError):
    code = "too-many-bad-files"


class StaleInput(DataError):
    code = "stale-input"


class UnsupportedTable(DataError):
    code = "unsupported-table"


class TableConflict(VoxelflowError):
    code = "table-conflict"


class ExecutionError(VoxelflowError):
    code = "execution"


class Cancelled(ExecutionError):
    exit_code = 130
    code = "cancelled"


class DiskFull(ExecutionError):
    code = "disk-full"


class TrackingError(VoxelflowError):
    code = "tracking"
