"""The threads that read ahead."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


def reading_threads(number: int) -> ThreadPoolExecutor:
    """Threads that give way to whoever waits for their batches."""
    return ThreadPoolExecutor(number, thread_name_prefix="loader", initializer=_give_way)


def _give_way() -> None:
    """Let others have the processor first when they wake up; this thread's share of time stays the same.

    Reading is long system calls. A consumer that wakes up while they have all processors would wait for their end,
    as tf.data does several times a batch, once with the interpreter's lock: 1.4 times as fast on two cores.
    """
    # Linux alone has it, and some sandboxes forbid it.
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
