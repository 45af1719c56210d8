"""What a compute profile is, and what a check of one found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Backend = Literal["embedded", "spark"]
LOCAL_MASTER = "local[*]"
"""Spark on this machine, in one process, with all its cores."""


class Profile(BaseModel):
    """Where and with how much. Policy, not identity: nothing here enters a fingerprint.

    `cores`, `memory_bytes` and `gpus` are what tasks on this machine may use; on a cluster that is the
    driver's machine, and the Spark settings say what each executor gets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    backend: Backend = "embedded"
    cores: Annotated[int, Field(ge=1)]
    memory_bytes: Annotated[int, Field(ge=1 << 28)]
    gpus: Annotated[int, Field(ge=0)] = 0
    parallel_tasks: Annotated[int, Field(ge=1)] = 2
    """Tasks that may run side by side."""
    master: str = LOCAL_MASTER
    """The Spark master, as spark-submit takes it. Means nothing to the embedded backend."""
    spark: dict[str, str] = {}
    """Spark settings by their full names. Never a secret: those are `${NAME}` references (see `spark_settings`)."""
    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What an hour costs, in the currency that the person thinks in."""
    storage_root: Path | None = None
    """Folder for the data of runs, absolute; all executors must see it. None: the workspace."""

    @property
    def where(self) -> str:
        """The place in a word or two: `this machine`, or the Spark master."""
        if self.backend == "embedded":
            return "this machine"
        return f"this machine ({self.master})" if self.master.startswith("local") else self.master


@dataclass(frozen=True)
class Check:
    """One thing that a profile needs: its name, whether it is there, what was found, and else what to do."""

    name: str
    ok: bool
    said: str
    hint: str = ""
