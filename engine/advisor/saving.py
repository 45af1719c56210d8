"""How long a training stands still while it saves: it goes on once its checkpoint is on the disk."""

from __future__ import annotations

from engine.advisor.machines import Candidate
from engine.declare.workload import Saving


def saving_s(saving: Saving, mb_s: float, steps: int, training_s: float) -> float:
    """What it adds to an epoch of so many steps that train for so long, where so many MB a second are written."""
    by_time = int(training_s // saving.every_s) if saving.every_s > 0 else steps
    by_steps = steps // saving.every_steps if saving.every_steps else 0
    within = min(steps, max(by_time, by_steps))
    return ((1 + within) * saving.checkpoint_bytes + saving.best_bytes) / (mb_s * 1e6)


def write_mb_s(candidate: Candidate, probed: float | None) -> float | None:
    """MB a second that the machine writes checkpoints with; None: unknown.

    `probed` is what a probe of their place says. Another machine is not faster than its own disk.
    """
    if candidate.origin == "profile" and not candidate.remote and probed:
        return probed
    return min(filter(None, (probed, candidate.disk_mb_s)), default=None)
