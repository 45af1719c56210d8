"""Ctrl-C while a command's modules are still imported: the process ends at once, as a command that was interrupted.

`KeyboardInterrupt` amid an import comes out as something else: a `RuntimeError` of a class in the making, a panic of
Rust. Until a command begins nothing is there to be put right, so nothing has to see it.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
"""Exit status of a command that was interrupted, 128 + SIGINT as in the shell."""
SAID = "\ninterrupted\n"


def is_command(name: str) -> bool:
    """Whether the module called `name`, of which the command is made, is imported by that command and no script."""
    program = (getattr(sys, "argv", None) or [""])[0]  # none where Python is embedded
    return name == "__main__" or os.path.basename(program) == "voxelflow"


def end_at_interrupt() -> None:
    """From now on SIGINT ends this process, unless it is ignored or handled already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """From now on SIGINT raises `KeyboardInterrupt` again, where it has ended this process."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    # Not through `sys.stderr`, amid whose own work this may be.
    os.write(2, SAID.encode())
    os._exit(INTERRUPTED)
