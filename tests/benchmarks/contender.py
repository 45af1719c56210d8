"""A contender: a class with a `round`, made and run in a process of its own, which waits for its turns.

    python -m tests.benchmarks.contender MODULE:CLASS '{"argument": ...}'

Its process reads orders as JSON lines and answers each with one. What libraries print goes to the standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.page_cache import drop


class Contender:
    """What takes part in a race. Subclasses do their preparations in `__init__`, which nobody times."""

    reads_itself = True
    """Whether this process, or one that it waits for, reads the files: then what came from the disk is known."""

    def round(self, number: int) -> dict[str, Any]:
        """Do the work once. `amount` and `seconds` of the answer make the rate; the rest is told beside it."""
        raise NotImplementedError

    def digest(self) -> str:
        """Of what the last round delivered, or of what any round delivers, if that is the same."""
        raise NotImplementedError

    def files(self) -> Iterable[str | Path]:
        """The files that the work reads: what a cold round must not find in the page cache."""
        return ()

    def tidy(self) -> None:
        """After a round and its digest: remove what it has written."""

    def close(self) -> None:
        """Nothing follows."""


@contextmanager
def timed(answer: dict[str, Any]) -> Iterator[None]:
    """Put the seconds that the block takes into `answer`."""
    began = time.perf_counter()
    yield
    answer["seconds"] = time.perf_counter() - began


def peak_bytes(process: int | str = "self") -> int:
    """The most resident memory the process ever had (since `forget_peak`); 0 when it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def forget_peak() -> None:
    """Let `peak_bytes` of this process count from now."""
    Path("/proc/self/clear_refs").write_text("5")


def disk_reads() -> int:
    """Bytes that this process and its ended children have fetched from the disk: none for what was cached."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def _turn(contender: Contender, order: dict[str, Any]) -> dict[str, Any]:
    if order["cold"]:
        drop(contender.files())
    forget_peak()
    reads = disk_reads()
    answer = contender.round(order["round"])
    # A contender whose work is done by processes of its own tells their peak itself.
    answer = {"peak": peak_bytes()} | answer
    if order["cold"] and contender.reads_itself:
        answer["beside"] = {"MB from disk": (disk_reads() - reads) / 1e6} | answer.get("beside", {})
    return answer


def _serve(name: str, arguments: dict[str, Any]) -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=channel, flush=True)

    try:
        module, _, kind = name.partition(":")
        contender: Contender = getattr(importlib.import_module(module), kind)(**arguments)
        say(ready=True)
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "round":
                say(**_turn(contender, order))
            elif order["do"] == "digest":
                say(digest=contender.digest())
            else:
                contender.tidy()
                say(tidy=True)
        contender.close()
    except BaseException:
        say(error=traceback.format_exc())


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
    # Whatever threads a library left behind, nothing is waited for.
    sys.stderr.flush()
    os._exit(0)
