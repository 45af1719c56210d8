"""Watching one worker: start its process, seat it in the cluster, end it when that is asked for.

The same for both kinds of group: a thread of the driver watches a worker on this machine, a Spark task one on
an executor. They differ in how the addresses are gathered, which is handed in.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.job import End, Seat

POLL_S = 0.1

Gather = Callable[[str], Sequence[str]]
"""Give one's own word and get those of all workers, by rank; waits until every worker has given its own."""


def watch(
    folder: GroupFolder,
    rank: int,
    *,
    program: Sequence[str],
    host: str,
    cores: int,
    gather: Gather,
    environment: Mapping[str, str],
) -> None:
    """Run worker `rank` to its end. `host` is its name for the others, `cores` what it may use.

    With CUDA_VISIBLE_DEVICES in `environment` these devices are its own; else those of a machine are shared out.
    """
    worker = _Worker(folder, rank, program, environment)
    try:
        port = worker.port()
        folder.sit(rank, Seat(host=host, pid=worker.pid))
        cluster = gather(f"{host}:{port}" if port is not None else "")
        if all(cluster):
            worker.seat(cluster, cores, own_devices="CUDA_VISIBLE_DEVICES" in environment)
            worker.wait()
    finally:
        folder.note_end(rank, End(status=worker.end()))


class _Worker:
    """The process, and the pipe that keeps it alive."""

    def __init__(self, folder: GroupFolder, rank: int, program: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = folder
        # A Spark worker whose executor is killed becomes an orphan, and has to notice by itself.
        self._parent = os.getppid()
        with folder.log(rank).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *program, str(folder.path), str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Our code may have come as a zip that Spark put on this process' path.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            )
        self.pid = self._process.pid

    def port(self) -> int | None:
        """The port that the worker chose once TensorFlow was imported; None when it ended before."""
        assert self._process.stdout is not None
        while not self._unwanted:
            if select.select([self._process.stdout], [], [], POLL_S)[0]:
                line = self._process.stdout.readline()
                if not line:
                    return None
                told = json.loads(line)
                self.pid = told["pid"]
                return int(told["port"])
        return None

    def seat(self, cluster: Sequence[str], cores: int, *, own_devices: bool) -> None:
        assert self._process.stdin is not None
        line = json.dumps({"cluster": list(cluster), "cores": cores, "own_devices": own_devices})
        with contextlib.suppress(BrokenPipeError):  # it has just died
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def wait(self) -> None:
        """Until it has ended, or is not wanted any more."""
        while not self._unwanted:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(POLL_S)
                return

    def end(self) -> int:
        """End it if it lives; its exit status."""
        if self._process.poll() is None:
            self._process.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        return status

    @property
    def _unwanted(self) -> bool:
        return self._folder.end.exists() or os.getppid() != self._parent
