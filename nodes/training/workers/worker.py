"""The program of one worker: `python -m nodes.training.workers.worker FOLDER RANK PIPE`, started by a watcher.

It imports the framework first, then sends its watcher a free port, reads the addresses of all workers, and does its
part of the training.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.declare.context import Resources, TaskContext
from engine.declare.events import Progress
from engine.declare.progress import Phases, current_reporter
from engine.errors import UsageError
from engine.processes.messages import Listening, Result
from engine.processes.parent import Parent, serve
from nodes.training import session
from nodes.training.checkpoints import read
from nodes.training.learner import Framework, LostWorkers, Team, framework_named, starting
from nodes.training.preparation import prepare
from nodes.training.workers.events import EventWriter
from nodes.training.workers.folder import Cluster, GroupFolder, Job

PROGRAM = ("-P", "-m", "nodes.training.workers.worker")
"""The command line after the interpreter, before the group's folder."""
CarryOut = Callable[..., BaseModel | None]
"""`session.carry_out`, or what a measurement does instead. What it gives is the worker's result."""


def main(path: str, number: str, handle: str, carry_out: CarryOut = session.carry_out) -> None:
    """Do the work of worker `number` of the group in the folder `path`; never returns."""
    serve(int(handle), lambda parent: _take_part(GroupFolder(Path(path)), int(number), parent, carry_out))


def _take_part(folder: GroupFolder, rank: int, parent: Parent, carry_out: CarryOut) -> str:
    job = folder.job()
    framework = framework_named(job.framework)
    framework.load()  # before the port: the others wait for the slowest import
    parent.send(Listening(port=_free_port(), pid=os.getpid()))
    cluster = Cluster.model_validate_json(parent.line())
    if not cluster.own_devices:
        framework.share_devices(cluster.addresses, rank)
    try:
        made = _work(folder, job, rank, cluster, framework, carry_out)
    except Exception as exc:
        if framework.lost_workers(exc):
            raise LostWorkers(f"{type(exc).__name__}: {exc}") from exc
        raise
    result = made.model_dump_json() if made is not None else ""
    if rank:
        parent.send(Result(value=result))
        # The first one still needs the exchange to be whole while it saves; the watcher ends this.
        threading.Event().wait()
    return result


def _free_port() -> int:
    """Below the ports that the system gives to outgoing connections, so that none of them takes it meanwhile."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise UsageError("no port between 20000 and 32000 is free on this machine", hint="See what holds them (ss -tlnp).")


def _work(
    folder: GroupFolder, job: Job, rank: int, cluster: Cluster, framework: Framework, carry_out: CarryOut
) -> BaseModel | None:
    team = Team(rank, len(cluster.addresses))
    ctx = _context(job, folder, team, cluster.cores, framework)
    settings = job.settings
    for problem in framework.set_up(
        cores=cluster.cores, deterministic=settings.deterministic, seed=settings.seed, team=team
    ):
        ctx.warn(problem)
    if team.ranks > 1:
        framework.join(cluster.addresses, rank, ctx.warn)
    # The driver has reported what there is to report of the data.
    quiet = replace(ctx, emit=lambda event: None)
    with prepare(job.data, job.validation, settings, quiet, team, job.test) as prepared:
        checkpoints = prepared.checkpoints(ctx)
        begin = read(Path(job.begin), prepared.identity)
        return carry_out(prepared, begin, checkpoints, ctx, framework)


@dataclass(frozen=True)
class _LeadersContext(TaskContext):
    """Events are on shared storage before anything is committed that they report."""

    sync: Callable[[], None] = lambda: None

    def commit_point(self, name: str) -> None:
        if name != "train:step":
            self.sync()
        super().commit_point(name)


class _Reporter:
    """What `track` and `Meter` see in the leading worker."""

    def __init__(self, writer: EventWriter, cancel: Path) -> None:
        self._writer, self._cancel = writer, cancel

    def emit(self, event: Progress, /) -> None:
        self._writer.emit(event)

    def cancelled(self) -> bool:
        return self._cancel.exists()


def _context(job: Job, folder: GroupFolder, team: Team, cores: int, framework: Framework) -> TaskContext:
    """The task's context as this worker sees it. Only the leading one reports, and notices a cancel."""
    fixed: dict[str, Any] = {
        "run_id": job.run_id,
        "node_id": job.node_id,
        "fingerprint": job.fingerprint,
        "out": Path(job.out),
        "shared": Path(job.shared),
        "scratch": Path(job.scratch),
        "resources": Resources(cores=cores),
    }
    if not team.leads:
        return TaskContext(**fixed)
    writer = EventWriter(folder.events)
    reporter = _Reporter(writer, folder.cancel)
    # The driver has named the phase up to the first one of the training.
    current_reporter.set(Phases(reporter, phase=starting(framework, team.ranks)))
    return _LeadersContext(**fixed, emit=writer.emit, is_cancelled=reporter.cancelled, sync=writer.sync)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
