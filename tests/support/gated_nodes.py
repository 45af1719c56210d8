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
    ctx: TaskContext,
) -> Report:
    """Learn nothing, but tell how: a loss, an accuracy and a line of log for each epoch."""
    from engine.progress import Meter

    meter = Meter(epochs, "epochs", "")
    for epoch in range(epochs):
        while gate and not _lets(gate, epoch):
            time.sleep(0.02)
            meter.add(0)  # it can be cancelled meanwhile
        ctx.metrics(epoch + 1, loss=1.0 / (1 + epoch * rate), accuracy=epoch * rate / (1 + epoch))
        ctx.info(f"epoch {epoch + 1} is over")
        meter.add(1)
    meter.finish()
    ctx.info(f"wrote {text}")
    path = ctx.out / "report.txt"
    path.write_text(text)
    return Report(uri=str(path), figures={"epochs": epochs})


def _lets(gate: str, done: int) -> bool:
    path = Path(gate)
    return path.exists() and path.stat().st_size > done
