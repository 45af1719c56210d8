"""A training's GPUs that nothing computes on: said while it runs, since they are paid for by the hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.declare.context import TaskContext
from engine.declare.events import Event, Facts
from engine.extras import install
from engine.text import plural


def warning_of_idle_gpus(ctx: TaskContext, given: Callable[[], int] | None = None) -> TaskContext:
    """The context, which warns once where the fact `device` is "CPU" although the training was given GPUs.

    `given` says how many, by default those of the task's resources; it is asked when the fact comes, which may be from
    a worker on another machine.
    """
    warned = False

    def emit(event: Event) -> None:
        nonlocal warned
        ctx.emit(event)
        if warned or not isinstance(event, Facts) or event.values.get("device") != "CPU":
            return
        warned = True
        if count := ctx.resources.gpus if given is None else given():
            ctx.warn(
                f"the training computes on the CPU, although the profile gives it {plural(count, 'GPUs')}"
                " (paid for all the same). Most often CUDA's libraries are missing where it runs:"
                f" {install('gpu')}."
                " `voxelflow profiles test` with the profile's name says what TensorFlow sees on this machine"
            )

    return replace(ctx, emit=emit)
