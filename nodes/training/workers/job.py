"""What the workers of a group are to do, and how one of them tells its end. Travels as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny

from engine.datasets import Dataset, TrainedModel, dataset_from_json
from engine.errors import ExecutionError, VoxelflowError
from nodes.training.settings import Manner, Settings


def _dataset(value: Any) -> Any:
    return dataset_from_json(value) if isinstance(value, dict) else value


AnyData = Annotated[SerializeAsAny[Dataset], BeforeValidator(_dataset)]


class Job(BaseModel):
    """One training by a group. The folders and the checkpoint `begin` are seen by every worker."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    node_id: str
    fingerprint: str
    out: str
    shared: str
    scratch: str
    data: AnyData
    validation: AnyData | None
    test: AnyData | None = None
    settings: Settings
    manner: Manner
    begin: str
    program: tuple[str, ...]
    """The worker's command line behind the interpreter."""


class Done(BaseModel):
    """The worker has taken every step; the leading one's has the model."""

    said: Literal["done"] = "done"
    model: TrainedModel | None = None


class Failed(BaseModel):
    """The worker raised. `known`: an error for the person, as `code` tells; `alone`: it lost touch with the others."""

    said: Literal["failed"] = "failed"
    known: bool
    code: str
    message: str
    hint: str = ""
    parameter: str | None = None
    alone: bool = False

    def error(self) -> VoxelflowError:
        """The error as one process would have raised it."""
        kind = _kinds(VoxelflowError).get(self.code, ExecutionError)
        return kind(self.message, hint=self.hint, parameter=self.parameter)


class Seat(BaseModel):
    """Where a worker runs."""

    host: str
    pid: int


class End(BaseModel):
    """A worker's process has ended: `status` as of `Popen.returncode`."""

    status: int


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
