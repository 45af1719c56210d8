"""What happens in a run, as small frozen values.

Workers write them as JSON lines; the run's supervisor, and nobody else, stores them and hands them
to MLflow. Everything a person watches live or reads afterwards derives from these.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, TypeAdapter

from engine.declare.datasets import AnyDataset, Dataset
from engine.errors import with_hint
from engine.storage.workspace_paths import LocalPath, WorkspacePaths

TaskState = Literal["queued", "waiting", "running", "done", "cached", "failed", "cancelled", "skipped"]
RunState = Literal["starting", "running", "stuck", "done", "failed", "cancelled", "lost"]


class Event(BaseModel):
    """Base of all events. `time` is seconds since the epoch, `node` the node's id in the pipeline."""

    # A loss that is not a number is news; plain JSON would turn it into null, which cannot be read back.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    event: str
    time: float = Field(default_factory=time.time)
    node: str | None = None


class RunStateChanged(Event):
    """The run's state changed; `error` says why it did not end well."""

    event: Literal["run-state"] = "run-state"
    state: RunState
    error: str = ""


class TaskStateChanged(Event):
    """A task moved on. `reason` says why it runs, waits, is cached or is skipped."""

    event: Literal["task-state"] = "task-state"
    state: TaskState
    attempt: int = 1
    reason: str = ""


class TaskStarted(Event):
    """A process has the task. `backend` says where its work happens, `backend_reason` why there."""

    event: Literal["task-started"] = "task-started"
    pid: int
    backend: str = "embedded"
    backend_reason: str = ""


class SparkSession(Event):
    """The run's Spark session has begun or ended. `url` is its UI's address while it lives, "" when it has none.

    `java` is the process that its Java is a child of, where that is none of the run's own; else 0.
    """

    event: Literal["spark-session"] = "spark-session"
    state: Literal["live", "ended"]
    url: str = ""
    master: str = ""
    application: str = ""
    java: int = 0


class Progress(Event):
    """`done` of `total` (None: not known) `unit`, at `rate` a second, `label` naming the step.

    These count within `phase`, where the task has several. `share` (0 to 1) and `left_s` (seconds) are of the whole
    task; None when they are not known. `samples` are the volumes that this process has trained on so far, None while it
    does something else, `waited_s` the seconds that it has waited for data.
    """

    event: Literal["progress"] = "progress"
    done: float
    total: float | None = None
    unit: str = ""
    label: str = ""
    rate: float | None = None
    phase: str = ""
    share: float | None = None
    left_s: float | None = None
    samples: float | None = None
    waited_s: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts something; one that only names a phase does not."""
        return bool(self.unit or self.done or self.total is not None)

    @property
    def whole(self) -> float | None:
        """The share of the task that is done, from 0 to 1; None when it is not known."""
        if self.share is not None or self.phase:
            return self.share
        return min(1.0, max(0.0, self.done / self.total)) if self.total else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the task's end at this pace; None when it is not known.

        Of a task with phases that is the end of all of them.
        """
        if self.left_s is not None or self.phase:
            return self.left_s
        if not self.rate or self.total is None:
            return None
        return max(0.0, self.total - self.done) / self.rate


class Message(Event):
    """A line for people, also in the task's log."""

    event: Literal["message"] = "message"
    level: Literal["info", "warning", "error"] = "info"
    text: str


class Metrics(Event):
    """Figures at one step, e.g. {"loss": 0.31}; the names are what MLflow will show."""

    event: Literal["metrics"] = "metrics"
    values: dict[str, float]
    step: int


class Facts(Event):
    """Figures about a task's work that are set once, e.g. {"parameters": 33368897}."""

    event: Literal["facts"] = "facts"
    values: dict[str, str | int | float | bool]


class Artifact(Event):
    """A file or folder worth keeping with the run. `role` says to trackers what it is."""

    event: Literal["artifact"] = "artifact"
    role: Literal["model", "plot", "table", "file"]
    name: str
    path: LocalPath


class Outputs(Event):
    """The task's result by output port: its last word."""

    event: Literal["outputs"] = "outputs"
    outputs: dict[str, SerializeAsAny[AnyDataset]]

    def datasets(self) -> dict[str, Dataset]:
        return dict(self.outputs)


class Failure(Event):
    """The task raised. `code` is the error's, `details` its traceback."""

    event: Literal["failure"] = "failure"
    code: str
    message: str
    hint: str = ""
    parameter: str | None = None
    details: str = ""

    def line(self) -> str:
        """What happened and what to do, on one line."""
        return " ".join(with_hint(self.message, self.hint).split())


class SystemSample(Event):
    """The machine and the run's own processes at one moment, by MLflow's names for system metrics."""

    event: Literal["system"] = "system"
    values: dict[str, float]


AnyEvent = Annotated[
    RunStateChanged
    | TaskStateChanged
    | TaskStarted
    | SparkSession
    | Progress
    | Message
    | Metrics
    | Facts
    | Artifact
    | Outputs
    | Failure
    | SystemSample,
    Field(discriminator="event"),
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyEvent)


def event_from_json(text: str | bytes, paths: WorkspacePaths | None = None) -> Event:
    """The event in one JSON line; `paths` of the workspace that stored it.

    Raises `pydantic.ValidationError` on anything else.
    """
    out = _ADAPTER.validate_json(text, context=paths)
    assert isinstance(out, Event)
    return out
