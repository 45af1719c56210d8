"""Whether a training computes in bfloat16 on this machine, by the training's own rule.

`python -m nodes.bench.precision` prints it. It is asked in a process of its own: the framework keeps the GPUs that it
has looked at.
"""

from __future__ import annotations

import subprocess
import sys

from engine.environment import Machine
from engine.processes.child import same_modules
from nodes.training.learner import framework_named

_FRAMEWORK = "keras"
"""That of the benchmark's trainings."""
_YES = "bfloat16"
_PATIENCE_S = 300.0
"""The framework's first import on a machine may take minutes."""


def trains_in_bfloat16(machine: Machine) -> bool | None:
    """Whether it does so without a value of `mixed_precision`; nobody is asked where `machine` has no GPU.

    None where the framework does not answer.
    """
    if not machine.gpus:
        return False
    try:
        said = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            env=same_modules({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # What libraries print comes before.
    return said.stdout.split()[-1:] == [_YES] if said.returncode == 0 else None


if __name__ == "__main__":
    print(_YES if framework_named(_FRAMEWORK).mixed_precision_pays() else "float32")
