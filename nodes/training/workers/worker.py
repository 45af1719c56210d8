"""The program of one worker: `python -m nodes.training.workers.worker FOLDER RANK`, started by a watcher.

It imports TensorFlow first, then tells its watcher a free port, gets everybody's addresses through its
standard input, and takes its part in the training. It ends at once when that pipe closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.context import Resources, TaskContext
from engine.datasets import TrainedModel
from engine.errors import UsageError, VoxelflowError
from engine.events import Progress
from engine.progress import current_reporter
from nodes.training.team import Team
from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.job import Done, Failed, Job
from nodes.training.workers.loopback import is_loopback, only_from_this_machine
from nodes.training.workers.told_events import EventWriter

CarryOut = Callable[..., TrainedModel | None]
"""What takes the place of `session.carry_out`, with its arguments."""


def main(path: str, number: str, carry_out: CarryOut | None = None) -> None:
    """Do the work of worker `number` of the group in the folder `path`; never returns."""
    folder, rank = GroupFolder(Path(path)), int(number)
    # Standard output is the watcher's; what libraries print goes to the log.
    watcher = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    try:
        import nodes.training.tensorflow_setup  # noqa: F401 - the others wait for the slowest import

        print(json.dumps({"port": _free_port(), "pid": os.getpid()}), file=watcher, flush=True)
        seated = json.loads(lines.get())
        if not seated["own_devices"]:
            _share_devices(seated["cluster"], rank)
        model = _work(folder, rank, seated["cluster"], seated["cores"], carry_out)
    except BaseException as exc:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        folder.say(rank, _failure(exc))
        os._exit(1)
    folder.say(rank, Done(model=model))
    if rank:
        # The first one still needs the exchange to be whole while it saves; the watcher ends this.
        threading.Event().wait()
    os._exit(0)


def _listen(lines: queue.SimpleQueue[bytes]) -> None:
    source = os.fdopen(0, "rb", buffering=0)
    while line := source.readline():
        lines.put(line)
    os._exit(1)


def _free_port() -> int:
    """Below the ports that the system gives to outgoing connections, so that none of them takes it meanwhile."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise UsageError("no port between 20000 and 32000 is free on this machine", hint="See what holds them (ss -tlnp).")


def _work(
    folder: GroupFolder, rank: int, cluster: Sequence[str], cores: int, carry_out: CarryOut | None
) -> TrainedModel | None:
    from nodes.training import session
    from nodes.training.checkpoints import read
    from nodes.training.preparation import prepare
    from nodes.training.tensorflow_setup import configure, tf

    job = folder.job()
    team = Team(rank, len(cluster))
    ctx = _context(job, folder, team, cores)
    for problem in configure(cores=cores, deterministic=job.manner.deterministic, seed=job.settings.seed, team=team):
        ctx.warn(problem)
    strategy = None
    if team.ranks > 1:
        task = {"type": "worker", "index": rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(cluster)}, "task": task})
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        port = int(cluster[rank].rpartition(":")[2])
        if all(map(is_loopback, cluster)) and not only_from_this_machine(port):
            ctx.warn(f"TensorFlow listens for workers on port {port} of every network that this machine is in")
    # The driver has told what there is to tell of the data.
    quiet = replace(ctx, emit=lambda event: None)
    with prepare(job.data, job.validation, job.settings, quiet, team, job.test) as prepared:
        checkpoints = prepared.checkpoints(ctx, job.manner)
        begin = read(Path(job.begin), prepared.identity)
        return (carry_out or session.carry_out)(prepared, begin, checkpoints, job.manner, ctx, strategy)


@dataclass(frozen=True)
class _LeadersContext(TaskContext):
    """What is told is on shared storage before anything is committed that it tells of."""

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


def _context(job: Job, folder: GroupFolder, team: Team, cores: int) -> TaskContext:
    """The task's context as this worker sees it. Only the leading one is heard, and told of a cancel."""
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
    current_reporter.set(reporter)
    return _LeadersContext(**fixed, emit=writer.emit, is_cancelled=reporter.cancelled, sync=writer.sync)


def _share_devices(cluster: Sequence[str], rank: int) -> None:
    """The GPUs of this machine, divided among the workers on it."""
    from nodes.training.tensorflow_setup import tf

    here = [place for place, address in enumerate(cluster) if _host(address) == _host(cluster[rank])]
    devices = tf.config.list_physical_devices("GPU")
    if len(here) == 1 or not devices:
        return
    if len(devices) < len(here):
        raise UsageError(
            f"{len(here)} workers on {_host(cluster[rank])} have {len(devices)} GPUs",
            hint="Set workers so that each has one, or hide the GPUs (CUDA_VISIBLE_DEVICES=-1).",
            parameter="workers",
        )
    place, count = here.index(rank), len(devices)
    mine = devices[count * place // len(here) : count * (place + 1) // len(here)]
    tf.config.set_visible_devices(mine, "GPU")


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _failure(exc: BaseException) -> Failed:
    if isinstance(exc, VoxelflowError):
        return Failed(known=True, code=exc.code, message=exc.message, hint=exc.hint, parameter=exc.parameter)
    return Failed(
        known=False, code="task-failed", message=f"{type(exc).__name__}: {_first_line(exc)}", alone=_lost_touch(exc)
    )


def _first_line(exc: BaseException) -> str:
    return next(iter(str(exc).splitlines()), "")


def _lost_touch(exc: BaseException) -> bool:
    """Whether TensorFlow says that another worker is gone."""
    setup = sys.modules.get("nodes.training.tensorflow_setup")
    if setup is None:
        return False
    errors = setup.tf.errors
    return isinstance(
        exc, errors.UnavailableError | errors.AbortedError | errors.CancelledError | errors.DeadlineExceededError
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
