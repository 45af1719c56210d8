"""Watching one worker: start its process, send it the addresses of the others, end it on request.

A thread of the driver watches a worker on this machine (`LocalGroup`), a Spark task one on an executor (`barrier`).
They differ in how the addresses are gathered, which is passed in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from engine.declare.events import Failure
from engine.processes.child import Child, same_modules
from engine.processes.messages import Listening, Result
from nodes.training.workers.folder import Cluster, End, GroupFolder, Seat

HOST = "127.0.0.1"
Gather = Callable[[str], Sequence[str]]
"""Give this worker's address and get those of all, by rank; waits until every worker has given its own."""


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
    arguments = [*program, str(folder.path), str(rank)]
    child = Child(arguments, folder.log(rank), environment=same_modules(environment))
    gathered = False
    try:
        for message in child.messages(lambda: not folder.end.exists()):
            if isinstance(message, Listening):
                folder.write_seat(rank, Seat(host=host, pid=message.pid))
                addresses, gathered = tuple(gather(f"{host}:{message.port}")), True
                if not all(addresses):
                    break  # one has ended already, and no training begins
                own = "CUDA_VISIBLE_DEVICES" in environment
                child.send(Cluster(addresses=addresses, cores=cores, own_devices=own).model_dump_json())
            elif isinstance(message, Result | Failure):
                folder.write_report(rank, message)
        if not gathered:
            gather("")  # the others wait for it
    finally:
        folder.write_end(rank, End(status=child.end()))


class LocalGroup:
    """Workers as children of this process, each watched by a thread, with an equal part of `cores`.

    `environment` is added to this process' own.
    """

    def __init__(
        self,
        folder: GroupFolder,
        ranks: int,
        *,
        program: Sequence[str],
        cores: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._problem, self._environment = folder, "", environment or {}
        self._addresses: dict[int, str] = {}
        self._gathered = threading.Condition()
        self._ranks, self._program, self._cores = ranks, program, max(1, cores // ranks)
        self._threads = [threading.Thread(target=self._watch, args=(rank,), daemon=True) for rank in range(ranks)]
        for thread in self._threads:
            thread.start()

    def problem(self) -> str:
        """Why the group cannot go on, when its watchers know; else empty."""
        return self._problem

    def stop(self) -> None:
        """End all workers; none of them lives afterwards."""
        self._folder.end.touch()
        for thread in self._threads:
            thread.join()

    def _watch(self, rank: int) -> None:
        try:
            watch(
                self._folder,
                rank,
                program=self._program,
                host=HOST,
                cores=self._cores,
                gather=lambda address: self._gather(rank, address),
                environment=self._environment,
            )
        except Exception as exc:
            self._problem = f"worker {rank + 1} could not be started: {exc}"
            # The others may wait for its address.
            self._gather(rank, "")

    def _gather(self, rank: int, address: str) -> Sequence[str]:
        with self._gathered:
            self._addresses.setdefault(rank, address)
            self._gathered.notify_all()
            self._gathered.wait_for(lambda: len(self._addresses) == self._ranks)
            return [self._addresses[place] for place in range(self._ranks)]
