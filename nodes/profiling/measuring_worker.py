"""The program of one worker of a measurement: a training worker that stops the time and ends early.

`python -m nodes.profiling.measuring_worker WARMUP STEPS FOLDER RANK`, started by a watcher of
`nodes.training.workers`. What it found lies beside the group's other files, as `R.measured.json`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.context import TaskContext
from engine.environment.machine import Machine, this_machine
from nodes.profiling.rows import Spent
from nodes.profiling.stopwatch import Enough, Stopwatch, Unsaved, WatchedContext, WatchedLoader
from nodes.training.checkpoints import Checkpoint, Checkpoints
from nodes.training.preparation import Prepared
from nodes.training.settings import Manner
from nodes.training.workers import worker

PROGRAM = ("-P", "-m", "nodes.profiling.measuring_worker")


class Measured(BaseModel):
    """What one worker found: the time it spent, or that memory did not suffice."""

    model_config = ConfigDict(frozen=True)

    machine: Machine
    spent: Spent | None = None
    out_of_memory: str = ""


def main(warmup: str, steps: str, folder: str, rank: str) -> None:
    """Do the work of worker `rank` of the group in `folder`; never returns."""

    def carry_out(
        prepared: Prepared,
        begin: Checkpoint,
        checkpoints: Checkpoints,
        manner: Manner,
        ctx: TaskContext,
        strategy: Any = None,
    ) -> None:
        from nodes.training import session

        watch = Stopwatch(int(warmup), int(steps))
        ctx.commit_point(f"profile:batch-{prepared.settings.batch_size}")
        watched = replace(prepared, loader=WatchedLoader(prepared.loader, watch))
        unsaved = Unsaved(ctx.scratch, prepared.identity, every_s=float("inf"))
        try:
            session.carry_out(watched, begin, unsaved, manner, WatchedContext.of(ctx, watch), strategy)
        except Enough:
            found = Measured(machine=this_machine(), spent=watch.spent(_device_memory()))
        except Exception as exc:
            reason = out_of_memory(exc)
            if not reason:
                raise
            found = Measured(machine=this_machine(), out_of_memory=reason)
        write_measured(Path(folder), int(rank), found)

    _go_first()
    worker.main(folder, rank, carry_out)


def _go_first() -> None:
    """When the machine runs out of memory, let the system end this process and not the run that asks."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def out_of_memory(exc: BaseException) -> str:
    """The reason in a line when memory did not suffice somewhere along the chain of causes; else empty."""
    following: BaseException | None = exc
    while following is not None:
        # By name: whoever asks need not have imported TensorFlow.
        if isinstance(following, MemoryError) or type(following).__name__ == "ResourceExhaustedError":
            return next(iter(str(following).splitlines()), "") or type(following).__name__
        following = following.__cause__ or following.__context__
    return ""


def write_measured(folder: Path, rank: int, found: Measured) -> None:
    partial = folder / f".{rank}.measured.{os.getpid()}"
    with partial.open("w", encoding="utf-8") as file:
        file.write(found.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / f"{rank}.measured.json")


def read_measured(folder: Path, rank: int) -> Measured | None:
    """What worker `rank` found; None when it did not come to it."""
    try:
        return Measured.model_validate_json((folder / f"{rank}.measured.json").read_bytes())
    except FileNotFoundError:
        return None


def _device_memory() -> int:
    """Bytes that TensorFlow had at most on one of this process' devices."""
    from nodes.training.tensorflow_setup import tf

    names = [device.name.removeprefix("/physical_device:") for device in tf.config.get_visible_devices("GPU")]
    return max((int(tf.config.experimental.get_memory_info(name)["peak"]) for name in names), default=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
