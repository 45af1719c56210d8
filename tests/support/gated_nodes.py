"""A node that goes as far as a test lets it, loaded as `my_nodes/gated_nodes.py`; the test holds its `Gate`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from voxelflow import Policy, Report, TaskContext, node


class Gate:
    """How many epochs `Learn` may do: give its `path` to the node's `gate`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")

    def let(self, epochs: int) -> None:
        """Let it do so many, counted from its start."""
        # Its size, not its text: a file is never half as long as it shall be for long.
        Path(self.path).write_bytes(b"." * epochs)

    def open(self) -> None:
        """Let it run to its end."""
        self.let(1_000)


@node("Learn", version=1, category="Probes")
def learn(
    *,
    text: str = "made",
    epochs: int = 4,
    rate: float = 0.5,
    gate: Annotated[str, Policy()] = "",
    phases: Annotated[bool, Policy()] = False,
    epoch_s: Annotated[float, Policy()] = 0.0,
    ctx: TaskContext,
) -> Report:
    """Learn nothing, but report how: a loss, an accuracy and a line of log for each epoch.

    With `phases` as a training reports them: what it measures first, then each epoch, and the time left of them all. An
    epoch lasts `epoch_s` seconds at least.
    """
    from engine.declare.progress import Meter, PlannedWork, current_phases, enter_phase

    if phases:
        enter_phase("Measuring the input")
        _wait(gate, 0)
        current_phases().plan({"training": PlannedWork(32 * epochs)})
    meter = Meter(epochs, "epochs", "")
    for epoch in range(epochs):
        if phases:
            current_phases().enter(f"Epoch {epoch + 1} of {epochs}", "training", 32 * epoch)
            batch = Meter(32, "volumes", "")
            batch.add(16)
            _wait(gate, epoch)
            batch.add(16)
            batch.finish()
        while gate and not _lets(gate, epoch):
            time.sleep(0.02)
            meter.add(0)  # it can be cancelled meanwhile
        time.sleep(epoch_s)
        ctx.check_cancelled()
        ctx.metrics(epoch + 1, loss=1.0 / (1 + epoch * rate), accuracy=epoch * rate / (1 + epoch))
        ctx.info(f"epoch {epoch + 1} is over")
        if not phases:
            meter.add(1)
    if not phases:
        meter.finish()
    ctx.info(f"wrote {text}")
    path = ctx.out / "report.txt"
    path.write_text(text)
    return Report(uri=str(path), figures={"epochs": epochs})


def _wait(gate: str, epoch: int) -> None:
    while gate and not _lets(gate, epoch):
        time.sleep(0.02)


def _lets(gate: str, done: int) -> bool:
    path = Path(gate)
    return path.exists() and path.stat().st_size > done
