"""The driver of a group of workers: prepare, start, listen, and report how it ended."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, TrainedModel
from engine.declare.events import Failure
from engine.declare.progress import enter_phase
from engine.errors import Cancelled, ExecutionError, VoxelflowError
from engine.processes.messages import UNEXPECTED, Result, end_of_log, error_of, how_it_ended, why_killed
from nodes.training.learner import LostWorkers, framework_named, starting
from nodes.training.preparation import prepare
from nodes.training.rows import leased
from nodes.training.settings import Settings
from nodes.training.workers.events import EventReader, KnownSteps
from nodes.training.workers.folder import End, GroupFolder, Job, Seat

POLL_S = 0.1
GRACE_S = 3
"""How long the others may take to report when one worker has ended: the first to go is often not to blame."""
_FOLDER = "workers"


class Group(Protocol):
    """Workers that were started (`local`, `barrier`)."""

    def problem(self) -> str:
        """Why the group cannot continue, when it is known; else empty."""

    def stop(self) -> None:
        """End all workers that are left."""


Starter = Callable[[GroupFolder, int], Group]
"""Starts so many workers on the job in the folder."""


def train_with_workers(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    ctx: TaskContext,
    start: Starter,
    *,
    test: Dataset | None = None,
    framework: str = "keras",
) -> TrainedModel:
    """Train with `settings.workers` processes. Raises what a worker raised, and `ExecutionError` when one died."""
    root = ctx.scratch / _FOLDER
    # The workers take leases too; this one begins before theirs and reaches to the last one's end.
    with leased(ctx, data, validation, test):
        earlier = sorted(root.glob("attempt-*"))
        enter_phase("Opening the data")
        with prepare(data, validation, settings, ctx, test=test) as prepared:
            checkpoints, steps = prepared.checkpoints(ctx), prepared.loader.steps
            begin = prepared.begin(checkpoints, ctx)
            path = checkpoints.path_of(begin)
            if not path.exists():
                checkpoints.save(begin)
        folder = GroupFolder(root / f"attempt-{len(earlier) + 1:04d}")
        folder.path.mkdir(parents=True)
        pass_on_leftovers(ctx, earlier)
        known = KnownSteps(old / folder.events.name for old in earlier)
        job = job_of(ctx, ctx.scratch, data, settings, path, validation=validation, test=test, framework=framework)
        folder.write_job(job)
        events = EventReader(folder.events, ctx.emit, known)
        enter_phase(starting(framework_named(framework), settings.workers))
        group = start(folder, settings.workers)
        try:
            outcome = attend(folder, group, events, settings.workers, ctx)
        finally:
            group.stop()
            events.pass_on()
            copy_logs(folder, settings.workers)
    model = outcome.model()
    if model is None:
        at = checkpoints.position()
        step = at.epoch * steps + at.step if at else 0
        raise outcome.error(ctx.run_id, f"goes on after step {step:,}" if step else "begins again")
    shutil.rmtree(root)
    return model


def job_of(
    ctx: TaskContext,
    scratch: Path,
    data: Dataset,
    settings: Settings,
    begin: Path,
    *,
    validation: Dataset | None = None,
    test: Dataset | None = None,
    framework: str = "keras",
) -> Job:
    """What the workers of a task are to do, from the checkpoint `begin`, with half-done work in `scratch`."""
    return Job(
        run_id=ctx.run_id,
        node_id=ctx.node_id,
        fingerprint=ctx.fingerprint,
        out=str(ctx.out),
        shared=str(ctx.shared),
        scratch=str(scratch),
        data=data,
        validation=validation,
        test=test,
        settings=settings,
        begin=str(begin),
        framework=framework,
    )


def pass_on_leftovers(ctx: TaskContext, earlier: list[Path] | None = None) -> None:
    """Pass on the events that the driver of a killed attempt did not."""
    found = sorted((ctx.scratch / _FOLDER).glob("attempt-*")) if earlier is None else earlier
    for place, old in enumerate(found):
        before = [path / GroupFolder(path).events.name for path in found[:place]]
        EventReader(GroupFolder(old).events, ctx.emit, KnownSteps(before)).pass_on()


@dataclass(frozen=True)
class Outcome:
    """How a group ended, as its driver sees it: reports, ends and places of the workers by rank."""

    reports: Mapping[int, Result | Failure]
    ends: Mapping[int, End]
    seats: Mapping[int, Seat]
    ranks: int
    problem: str = ""
    cancelled: bool = False

    def model(self) -> TrainedModel | None:
        report = self.reports.get(0)
        return TrainedModel.model_validate_json(report.value) if isinstance(report, Result) and report.value else None

    def error(self, run_id: str, position: str) -> VoxelflowError:
        """Why the group failed. One worker's failure ends all: the error gives the first cause."""
        failed = {rank: report for rank, report in sorted(self.reports.items()) if isinstance(report, Failure)}
        for report in failed.values():
            if report.code not in UNEXPECTED and report.code != LostWorkers.code:
                return error_of(report)
        if self.cancelled:
            return Cancelled("cancelled on request")
        hint = f"`voxelflow runs resume {run_id}` {position}."
        for rank, end in sorted(self.ends.items()):
            if rank not in self.reports:
                message = f"{self._name(rank)} {how_it_ended(end.status)} before it was done"
                return ExecutionError(message, hint=f"{hint} {why_killed(end.status)}".strip())
        for rank, report in failed.items():
            if report.code != LostWorkers.code:
                line = next(iter(report.message.splitlines()), "")
                return ExecutionError(
                    f"{self._name(rank)} failed: {line}", hint=f"{hint} Look at the traceback in the node's log."
                )
        if self.problem:
            silent = [rank for rank in range(self.ranks) if rank not in self.reports and rank not in self.ends]
            who = f"{self._name(silent[0])} was lost" if len(silent) == 1 else "a worker was lost"
            return ExecutionError(f"{who} ({self.problem})", hint=hint)
        rank = min(failed, default=0)
        return ExecutionError(f"{self._name(rank)} lost touch with the others", hint=hint)

    def _name(self, rank: int) -> str:
        seat = self.seats.get(rank)
        where = f" on {seat.host} (process {seat.pid})" if seat else ""
        return f"worker {rank + 1} of {self.ranks}{where}"


def attend(
    folder: GroupFolder, group: Group, events: EventReader, ranks: int, ctx: TaskContext, *, all_results: bool = False
) -> Outcome:
    """Pass on events until the group is over: worker 0 is done, or one has ended and the others had time to report.

    With `all_results` worker 0 counts as any other.
    """
    deadline = None
    began = cancelled = False
    while True:
        began = bool(events.pass_on()) or began
        if not cancelled and ctx.is_cancelled():
            folder.cancel.touch()
            cancelled = True
        outcome = _outcome_so_far(folder, ranks, group.problem(), cancelled)
        done = not all_results and isinstance(outcome.reports.get(0), Result)
        if done or (cancelled and not began):
            return outcome
        over = (
            outcome.problem or outcome.ends or any(isinstance(report, Failure) for report in outcome.reports.values())
        )
        if over and deadline is None:
            deadline = time.monotonic() + GRACE_S
        gone = outcome.reports.keys() | outcome.ends.keys()
        if deadline is not None and (len(gone) == ranks or time.monotonic() >= deadline):
            return outcome
        time.sleep(POLL_S)


def _outcome_so_far(folder: GroupFolder, ranks: int, problem: str, cancelled: bool) -> Outcome:
    every = range(ranks)
    # Ends before reports: a worker that has ended by now has reported what it had to report.
    ends = {rank: end for rank in every if (end := folder.end_of(rank)) is not None}
    return Outcome(
        reports={rank: report for rank in every if (report := folder.report(rank)) is not None},
        ends=ends,
        seats={rank: seat for rank in every if (seat := folder.seat(rank)) is not None},
        ranks=ranks,
        problem=problem,
        cancelled=cancelled,
    )


def copy_logs(folder: GroupFolder, ranks: int) -> None:
    """What the workers printed, into the task's log."""
    for rank in range(ranks):
        if printed := end_of_log(folder.log(rank)):
            print(f"--- worker {rank + 1}\n{printed}", file=sys.stderr, flush=True)
