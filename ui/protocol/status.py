"""What is known of nodes and runs: problems, what a run would do, how the run that is shown stands."""

from __future__ import annotations

from typing import Literal

from engine.diagnostics import Severity
from engine.events import RunState, TaskState
from ui.protocol.wire import Wire


class Problem(Wire):
    """A diagnostic, as `engine.diagnostics.Diagnostic`."""

    code: str
    severity: Severity
    message: str
    hint: str
    node: str | None
    port: str | None
    parameter: str | None


class OutputInfo(Wire):
    """A dataset that a node made: its figures in words, and where it lies."""

    port: str
    kind: str
    uri: str
    figures: str


class Last(Wire):
    """What a node last made, whichever run it was. `made` sums its outputs up in words."""

    run_id: str
    created: float
    made: str
    outputs: list[OutputInfo]


class Outlook(Wire):
    """What a run would do with a node: nothing (`fresh`), or work, and why.

    `backend` is where it would work, with the reason when that is not this machine's as ever.
    """

    fresh: bool
    reason: str
    backend: str
    backend_reason: str
    last: Last | None


class ProgressInfo(Wire):
    done: float
    total: float | None
    unit: str
    label: str
    rate: float | None
    seconds_left: float | None


class FailureInfo(Wire):
    code: str
    message: str
    hint: str
    parameter: str | None


class NodeStatus(Wire):
    """A node's task in the run that is shown. Times are seconds since the epoch."""

    state: TaskState
    reason: str
    attempt: int
    started: float | None
    ended: float | None
    progress: ProgressInfo | None
    made: str
    outputs: list[OutputInfo]
    failure: FailureInfo | None


class RunInfo(Wire):
    run_id: str
    state: RunState
    profile: str
    error: str
    created: float
    started: float | None
    ended: float | None
    cancelling: bool


class LogLine(Wire):
    time: float | None
    level: Literal["info", "warning", "error", "output"]
    text: str
