"""What is known of nodes and runs: problems, what a run would do, the state of the run that is shown."""

from __future__ import annotations

from typing import Literal

from engine.declare.events import RunState, TaskState
from engine.diagnostics.rule import Severity
from ui.protocol.document import Wire


class Problem(Wire):
    """A diagnostic, as `engine.diagnostics.rule.Diagnostic`."""

    code: str
    severity: Severity
    message: str
    hint: str
    node: str | None
    port: str | None
    parameter: str | None


class Headline(Wire):
    """The figure that says most of how good a dataset is, by its name in words: `Validation AUC`."""

    name: str
    value: float


class OutputInfo(Wire):
    """A dataset that a node made: its figures in words, and where it lies.

    `view` is the key under which it can be looked at; "" when there is nothing to see.
    """

    port: str
    kind: str
    uri: str
    figures: str
    view: str
    headline: Headline | None


class Last(Wire):
    """What a node last made, whichever run it was. `made` sums its outputs up in words."""

    run_id: str
    created: float
    made: str
    outputs: list[OutputInfo]


class RequestCostInfo(Wire):
    """What a training's requests to a container cost, or cost at most; `amount` is None where that is not known."""

    place: str
    amount: float | None
    currency: str
    at_most: bool


class NodeForecast(Wire):
    """What a run would do with a node: nothing (`fresh`), or work, and why.

    `backend` is where it would work, with the reason when that is not this machine's as ever. `advice` says of a
    training how long it takes under the profile and where it would be better; "" of other nodes. All of the node's work
    takes `low_s` to `high_s` seconds, None where that is not known; `basis` says how it is known, or why not.
    `requests` is what a training pays for requests to object storage; None where its volumes lie here.
    """

    fresh: bool
    reason: str
    backend: str
    backend_reason: str
    advice: str
    low_s: float | None
    high_s: float | None
    basis: str
    requests: RequestCostInfo | None
    last: Last | None


class ProgressInfo(Wire):
    """A task's progress: `rate` in units a second.

    `seconds_left` and `share` (0 to 1) are those of the whole task, where they are known; the others count within
    `phase`, when there is one. `counts`: there is something to count.
    """

    done: float
    total: float | None
    unit: str
    label: str
    rate: float | None
    seconds_left: float | None
    phase: str
    share: float | None
    counts: bool


class FailureInfo(Wire):
    """Why a task failed."""

    code: str
    message: str
    hint: str
    parameter: str | None


class NodeStatus(Wire):
    """A node's task in the run that is shown. Times are seconds since the epoch.

    `curve` is the loss of a training so far, a few points.
    """

    state: TaskState
    reason: str
    attempt: int
    started: float | None
    ended: float | None
    progress: ProgressInfo | None
    made: str
    outputs: list[OutputInfo]
    curve: list[float]
    failure: FailureInfo | None


class RunFigure(Wire):
    """A figure of what a run made. `title` is the node's name, `before` the figure in the run before; `better` is None
    when it is the same or there was none. `unit` says what is counted where that is no mere number."""

    node: str
    title: str
    name: str
    value: float
    before: float | None
    better: bool | None
    unit: Literal["", "bytes"] = ""


class RunInfo(Wire):
    """The run that is shown. Times are seconds since the epoch; `paused` is the number of seconds between its attempts.

    `changes` says how the document differs by now from what the run runs, or ran; "" when it does not. `given` are the
    values that it alone was given and that the document has otherwise, such as `volumes = 160`; "" without any.
    `limit` is the time or the cost at which it is stopped, in words, "" without one; `limited`: it was stopped there.
    `figures` are those of a run that is done, compared with the run of the id `against` ("" for none); of a run that
    has trained nothing, those of the table that it made.
    """

    run_id: str
    state: RunState
    profile: str
    error: str
    created: float
    started: float | None
    ended: float | None
    paused: float
    cancelling: bool
    changes: str
    given: str
    limit: str
    limited: bool
    figures: list[RunFigure]
    against: str


class LogLine(Wire):
    """A line of a log; `time` is seconds since the epoch."""

    time: float | None
    level: Literal["info", "warning", "error", "output"]
    text: str
