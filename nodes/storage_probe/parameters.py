"""What to measure of a place, and whose epoch to predict: all that the node's declaration needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.declare.parameters import Advanced, Range, Unit

Origin = Literal["found", "like those found", "given", "an example"]


@dataclass(frozen=True)
class ProbeParameters:
    """How much to measure.

    Attributes:
        seconds: how long it may take. One read of a store that hangs may take longer.
        limit_mb: what it may write at most, and never more than a twentieth of the free space.
    """

    seconds: Annotated[int, Range(5, 120), Unit("s")] = 20
    limit_mb: Annotated[int, Range(4, 65_536), Unit("MB"), Advanced()] = 256


@dataclass(frozen=True)
class Epoch:
    """The files whose epoch is to be predicted: so many, each of `file_bytes`."""

    files: int
    file_bytes: int
    origin: Origin


EXAMPLE = Epoch(650_000, 360_000, "an example")
"""What is spoken of when there is nothing else: volumes of 30 x 30 x 10 voxels with 10 channels."""
