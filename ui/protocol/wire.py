"""What all that crosses between the canvas and Python has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
