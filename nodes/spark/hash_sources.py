"""Files that patches are cut from, hashed by Spark: one task per volume.

The driver writes the hashes down as they come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from nodes.cutting.cubes import Cube
from nodes.cutting.source_hashes import LABEL, HashCube, Hashed
from nodes.spark.session import results


def hash_on_spark(cubes: Sequence[Cube], work: HashCube, ctx: TaskContext) -> Hashed:
    """See `nodes.cutting.source_hashes.HashCubes`."""
    meter = Meter(len(cubes), "volumes", LABEL)
    with contextlib.closing(results(ctx, cubes, work, meter=meter, amount=lambda _: 1)) as done:
        for place, found in done:
            yield cubes[place], found
    meter.finish()
