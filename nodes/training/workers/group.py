"""The driver of a group of workers: prepare, start, listen, and say in the end what became of it."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.context import TaskContext
from engine.datasets import Dataset, TrainedModel
from engine.errors import Cancelled, ExecutionError, VoxelflowError
from nodes.training.checkpoints import Checkpoints
from nodes.training.leases import held
from nodes.training.preparation import prepare
from nodes.training.settings import Manner, Settings
from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.job import Done, End, Failed, Job, Seat
from nodes.training.workers.told_events import EventReader, KnownSteps

PROGRAM: tuple[str, ...] = ("-P", "-m", "nodes.training.workers.worker")
POLL_S = 0.1
GRACE_S = 3
"""How long the others may take to say their word when one worker has ended: the first to go is often not to blame."""
_FOLDER = "workers"
_LOG_TAIL = 8_000


class Group(Protocol):
    """Workers that were started (`local`, `barrier`)."""

    def problem(self) -> str: ...

    def stop(self) -> None: ...


Starter = Callable[[GroupFolder, int], Group]


def train_with_workers(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    manner: Manner,
    ctx: TaskContext,
    start: Starter,
    *,
    test: Dataset | None = None,
) -> TrainedModel:
    """Train with `manner.workers` processes. Raises what a worker raised, and `ExecutionError` when one died."""
    # The workers hold what they read too; this hold begins before theirs and reaches to the last one's end.
    with held(ctx, data, validation, test):
        return _train(data, validation, test, settings, manner, ctx, start)


def _train(
    data: Dataset,
    validation: Dataset | None,
    test: Dataset | None,
    settings: Settings,
    manner: Manner,
    ctx: TaskContext,
    start: Starter,
) -> TrainedModel:
    root = ctx.scratch / _FOLDER
    earlier = sorted(root.glob("attempt-*"))
    checkpoints, begin, steps = _begin(data, validation, test, settings, manner, ctx)
    folder = GroupFolder(root / f"attempt-{len(earlier) + 1:04d}")
    folder.path.mkdir(parents=True)
    hand_on_leftovers(ctx, earlier)
    known = KnownSteps(old / folder.events.name for old in earlier)
    folder.write_job(
        Job(
            run_id=ctx.run_id,
            node_id=ctx.node_id,
            fingerprint=ctx.fingerprint,
            out=str(ctx.out),
            shared=str(ctx.shared),
            scratch=str(ctx.scratch),
            data=data,
            validation=validation,
            test=test,
            settings=settings,
            manner=manner,
            begin=str(begin),
            program=PROGRAM,
        )
    )
    events = EventReader(folder.events, ctx.emit, known)
    group = start(folder, manner.workers)
    try:
        seen = attend(folder, group, events, manner.workers, ctx)
    finally:
        group.stop()
        events.hand_on()
        copy_logs(folder, manner.workers)
    model = seen.model()
    if model is None:
        raise seen.error(ctx.run_id, _standing(checkpoints, steps))
    shutil.rmtree(root)
    return model


def _begin(
    data: Dataset,
    validation: Dataset | None,
    test: Dataset | None,
    settings: Settings,
    manner: Manner,
    ctx: TaskContext,
) -> tuple[Checkpoints, Path, int]:
    """The checkpoint that every worker begins with, as a file, and the steps of an epoch."""
    with prepare(data, validation, settings, ctx, test=test) as prepared:
        checkpoints = prepared.checkpoints(ctx, manner)
        begin = prepared.begin(checkpoints, ctx)
        path = checkpoints.path_of(begin)
        if not path.exists():
            checkpoints.save(begin)
        return checkpoints, path, prepared.loader.steps


def hand_on_leftovers(ctx: TaskContext, earlier: list[Path] | None = None) -> None:
    """Give on the events that a killed attempt's driver did not come to."""
    found = sorted((ctx.scratch / _FOLDER).glob("attempt-*")) if earlier is None else earlier
    for place, old in enumerate(found):
        before = [path / GroupFolder(path).events.name for path in found[:place]]
        EventReader(GroupFolder(old).events, ctx.emit, KnownSteps(before)).hand_on()


@dataclass(frozen=True)
class Seen:
    """What the driver saw of the group when it was over."""

    words: Mapping[int, Done | Failed]
    ends: Mapping[int, End]
    seats: Mapping[int, Seat]
    ranks: int
    problem: str = ""
    cancelled: bool = False

    def model(self) -> TrainedModel | None:
        word = self.words.get(0)
        return word.model if isinstance(word, Done) else None

    def error(self, run_id: str, standing: str) -> VoxelflowError:
        """What the group failed of. One worker's trouble ends all: the error tells the first cause."""
        failed = {rank: word for rank, word in self.words.items() if isinstance(word, Failed)}
        for _, word in sorted(failed.items()):
            if word.known:
                return word.error()
        if self.cancelled:
            return Cancelled("cancelled on request")
        hint = f"`voxelflow runs resume {run_id}` {standing}."
        for rank, end in sorted(self.ends.items()):
            if rank not in self.words:
                killed = " A process that the system ends has often run out of memory." if end.status < 0 else ""
                return ExecutionError(f"{self._name(rank)} {_how(end.status)}", hint=hint + killed)
        for rank, word in sorted(failed.items()):
            if not word.alone:
                return ExecutionError(
                    f"{self._name(rank)} failed: {word.message}", hint=f"{hint} The node's log has the traceback."
                )
        if self.problem:
            silent = [rank for rank in range(self.ranks) if rank not in self.words and rank not in self.ends]
            who = f"{self._name(silent[0])} was lost" if len(silent) == 1 else "a worker was lost"
            return ExecutionError(f"{who} ({self.problem})", hint=hint)
        rank = min(failed, default=0)
        return ExecutionError(f"{self._name(rank)} lost touch with the others", hint=hint)

    def _name(self, rank: int) -> str:
        seat = self.seats.get(rank)
        where = f" on {seat.host} (process {seat.pid})" if seat else ""
        return f"worker {rank + 1} of {self.ranks}{where}"


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status} before it was done"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def attend(folder: GroupFolder, group: Group, events: EventReader, ranks: int, ctx: TaskContext) -> Seen:
    """Hand on events until the group is over: worker 0 is done, or one has ended and the others had time to speak."""
    deadline = None
    began = cancelled = False
    while True:
        began = bool(events.hand_on()) or began
        if not cancelled and ctx.is_cancelled():
            folder.cancel.touch()
            cancelled = True
        seen = _look(folder, ranks, group.problem(), cancelled)
        if seen.model() is not None or (cancelled and not began):
            return seen
        over = seen.problem or seen.ends or any(isinstance(word, Failed) for word in seen.words.values())
        if over and deadline is None:
            deadline = time.monotonic() + GRACE_S
        gone = seen.words.keys() | seen.ends.keys()
        if deadline is not None and (len(gone) == ranks or time.monotonic() >= deadline):
            return seen
        time.sleep(POLL_S)


def _look(folder: GroupFolder, ranks: int, problem: str, cancelled: bool) -> Seen:
    every = range(ranks)
    # Ends before words: whoever has ended by now has said what he had to say.
    ends = {rank: end for rank in every if (end := folder.ended(rank)) is not None}
    return Seen(
        words={rank: word for rank in every if (word := folder.word(rank)) is not None},
        ends=ends,
        seats={rank: seat for rank in every if (seat := folder.seat(rank)) is not None},
        ranks=ranks,
        problem=problem,
        cancelled=cancelled,
    )


def _standing(checkpoints: Checkpoints, steps: int) -> str:
    state = checkpoints.standing()
    step = state.epoch * steps + state.step if state else 0
    return f"goes on after step {step:,}" if step else "begins again"


def copy_logs(folder: GroupFolder, ranks: int) -> None:
    """What the workers printed, into the task's log."""
    for rank in range(ranks):
        path = folder.log(rank)
        if path.exists() and path.stat().st_size:
            print(f"--- worker {rank + 1}", file=sys.stderr)
            print(path.read_bytes()[-_LOG_TAIL:].decode(errors="replace"), file=sys.stderr, flush=True)
