"""What the tracker remembers between two starts, kept in the run store beside its cursor."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

_NOTES = 20
"""Problems kept for people to read; the tracker's log has them all."""


class ChildState(BaseModel):
    """The MLflow run of one node."""

    # A loss may be NaN, which JSON has no word for.
    model_config = ConfigDict(ser_json_inf_nan="strings")

    run: str
    status: str = "RUNNING"
    samples: int = 0
    """System samples sent, the step of the next one."""
    replayed: bool = False
    """The node was started again: steps that were sent before come again."""
    last: dict[str, tuple[int, int, float]] = {}
    """By metric: step, time in ms and value of the newest point."""
    models: dict[str, str] = {}
    """MLflow model ids by the model's name."""


class NodeState(BaseModel):
    """What is needed of a node's past to understand its next event. Times in seconds since the epoch."""

    started: float | None = None
    running: bool = False


class TrackState(BaseModel):
    """Where a run stands in MLflow. Ids are empty until made."""

    location: str = ""
    """Where it was sent, without secrets: ids mean nothing anywhere else."""
    experiment: str = ""
    run: str = ""
    status: str = "RUNNING"
    described: bool = False
    """Document and parameters were sent."""
    samples: int = 0
    ended: float | None = None
    nodes: dict[str, NodeState] = {}
    children: dict[str, ChildState] = {}
    notes: list[str] = []

    def node(self, name: str) -> NodeState:
        return self.nodes.setdefault(name, NodeState())

    def note(self, text: str) -> None:
        """Keep a problem that was passed over, once."""
        if text not in self.notes:
            self.notes = [*self.notes, text][-_NOTES:]
