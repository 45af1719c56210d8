"""Measuring one batch size after another, each in processes of its own; finished rows are not measured again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from engine.context import TaskContext
from engine.datasets import Dataset
from engine.environment.machine import Machine, this_machine
from engine.errors import Cancelled, UsageError
from engine.progress import Meter
from nodes.durable_files import flush
from nodes.loaders.interface import LoaderState
from nodes.profiling.measuring_worker import PROGRAM, Measured, read_measured
from nodes.profiling.rows import Row
from nodes.training.checkpoints import Checkpoint, write
from nodes.training.leases import held
from nodes.training.normalisation import Normalisation, measure
from nodes.training.preparation import Prepared, prepare
from nodes.training.settings import Manner, Settings
from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.group import Seen, Starter, attend, copy_logs
from nodes.training.workers.job import Failed, Job
from nodes.training.workers.told_events import EventReader, KnownSteps

_ROWS = "rows.json"
_GROUP = "group"


@dataclass(frozen=True)
class Wanted:
    """What to measure, and how: the training's settings (but the batch size), and steps a row."""

    settings: Settings
    manner: Manner
    batch_sizes: tuple[int, ...]
    workers: tuple[int, ...]
    steps: int
    warmup: int


class Table(BaseModel):
    """The rows so far. `machine` is the one that the leading worker was on, `driver` the one that started it."""

    machine: Machine
    driver: Machine
    rows: tuple[Row, ...] = ()
    training_volumes: int = 0

    def row(self, workers: int, batch_size: int) -> Row | None:
        return next((r for r in self.rows if (r.workers, r.batch_size) == (workers, batch_size)), None)


def program(wanted: Wanted) -> tuple[str, ...]:
    """The command line of a worker, behind the interpreter and before the group's folder."""
    return (*PROGRAM, str(wanted.warmup), str(wanted.steps))


def measure_all(data: Dataset, wanted: Wanted, ctx: TaskContext, start: Starter) -> Table:
    """Every row, in order. Raises what keeps all of them from being measured, such as data without labels."""
    smallest = replace(wanted.settings, batch_size=min(wanted.batch_sizes))
    quiet = replace(ctx, emit=lambda event: None)
    with held(ctx, data), prepare(data, None, smallest, quiet) as prepared:
        measurements = _Measurements(wanted, prepared, data, ctx, start)
        meter = Meter(len(wanted.workers) * len(wanted.batch_sizes), "batch sizes", "measuring")
        for row in measurements.rows():
            meter.add(1)
            ctx.info(_told(row))
        meter.finish()
        return measurements.table


class _Measurements:
    def __init__(self, wanted: Wanted, prepared: Prepared, data: Dataset, ctx: TaskContext, start: Starter) -> None:
        self._wanted, self._prepared, self._data, self._ctx, self._start = wanted, prepared, data, ctx, start
        self._normalisation: Normalisation | None = None
        self.table = self._kept() or Table(
            machine=this_machine(), driver=this_machine(), training_volumes=len(prepared.rows.rows)
        )

    def rows(self) -> Iterator[Row]:
        for workers in sorted(set(self._wanted.workers)):
            ended = ""
            for batch_size in sorted(set(self._wanted.batch_sizes)):
                row = self.table.row(workers, batch_size)
                if row is None:
                    self._ctx.check_cancelled()
                    row = self._row(workers, batch_size, ended)
                    self._keep(row)
                if row.outcome == "out of memory":
                    ended = f"{batch_size} volumes did not fit into memory"
                yield row

    def _row(self, workers: int, batch_size: int, ended: str) -> Row:
        volumes = self.table.training_volumes
        if batch_size > volumes:
            return self._without(workers, batch_size, f"there are {volumes:,} volumes to train on")
        if batch_size % workers:
            return self._without(workers, batch_size, f"{workers} workers cannot share it evenly")
        if ended:
            return Row(workers=workers, batch_size=batch_size, outcome="not tried", note=ended)
        return self._measure(workers, batch_size)

    def _without(self, workers: int, batch_size: int, note: str) -> Row:
        return Row(workers=workers, batch_size=batch_size, outcome="not possible", note=note)

    def _measure(self, workers: int, batch_size: int) -> Row:
        folder = GroupFolder(self._ctx.scratch / _GROUP)
        shutil.rmtree(folder.path, ignore_errors=True)
        folder.path.mkdir(parents=True)
        folder.write_job(self._job(folder, workers, batch_size))
        try:
            group = self._start(folder, workers)
        except UsageError as exc:
            # Such as more workers than Spark runs at a time: the other rows may do.
            return self._without(workers, batch_size, exc.line())
        try:
            # What the workers tell of their training is nobody's news here.
            events = EventReader(folder.events, lambda event: None, KnownSteps(()))
            seen = attend(folder, group, events, workers, self._ctx)
        finally:
            group.stop()
            copy_logs(folder, workers)
        found = [read_measured(folder.path, rank) for rank in range(workers)]
        row = self._judged(workers, batch_size, seen, [one for one in found if one is not None])
        shutil.rmtree(folder.path, ignore_errors=True)
        return row

    def _judged(self, workers: int, batch_size: int, seen: Seen, found: Sequence[Measured]) -> Row:
        """What became of the group."""
        short = next((one.out_of_memory for one in found if one.out_of_memory), "")
        if not short and any(
            end.status == -signal.SIGKILL and rank not in seen.words for rank, end in seen.ends.items()
        ):
            short = "the system ended its process (SIGKILL)"
        if short:
            return Row(workers=workers, batch_size=batch_size, outcome="out of memory", note=short)
        if seen.cancelled:
            raise Cancelled("cancelled on request")
        if len(found) == workers and all(one.spent for one in found):
            spent = [one.spent for one in found if one.spent is not None]
            self.table = self.table.model_copy(update={"machine": found[0].machine})
            most = {name: max(getattr(one, name) for one in spent) for name in ("memory_bytes", "device_bytes")}
            leader = spent[0].model_copy(update=most)
            return Row(workers=workers, batch_size=batch_size, outcome="measured", spent=leader)
        error = seen.error(self._ctx.run_id, "measures what is left")
        known = any(isinstance(word, Failed) and word.known for word in seen.words.values())
        if known and isinstance(error, UsageError):
            # Such as more workers than devices: the other rows may do.
            return self._without(workers, batch_size, error.line())
        raise error

    def _job(self, folder: GroupFolder, workers: int, batch_size: int) -> Job:
        ctx = self._ctx
        settings = replace(self._wanted.settings, batch_size=batch_size)
        begin = folder.path / "begin.npz"
        with begin.open("wb") as file:
            write(file, self._begin(), replace(self._prepared, settings=settings).identity)
        return Job(
            run_id=ctx.run_id,
            node_id=ctx.node_id,
            fingerprint=ctx.fingerprint,
            out=str(ctx.out),
            shared=str(ctx.shared),
            scratch=str(folder.path),
            data=self._data,
            validation=None,
            settings=settings,
            manner=replace(self._wanted.manner, workers=workers),
            begin=str(begin),
            program=program(self._wanted),
        )

    def _begin(self) -> Checkpoint:
        """The very start, with the input normalised as in training."""
        if self._normalisation is None:
            self._normalisation = measure(self._prepared.rows.source, self._prepared.rows.rows)
        measured = self._normalisation
        return Checkpoint(LoaderState(self._wanted.settings.seed), {}, measured.mean, measured.variance)

    # --- what stands already -------------------------------------------------------------------

    def _kept(self) -> Table | None:
        """The rows of an attempt that was ended, where it was on this machine."""
        path = self._ctx.scratch / _ROWS
        table = Table.model_validate_json(path.read_bytes()) if path.exists() else None
        return table if table is not None and table.driver == this_machine() else None

    def _keep(self, row: Row) -> None:
        self.table = self.table.model_copy(update={"rows": (*self.table.rows, row)})
        path = self._ctx.scratch / _ROWS
        partial = path.with_name(f".{_ROWS}.{os.getpid()}")
        partial.write_text(self.table.model_dump_json(), encoding="utf-8")
        flush([partial])
        partial.replace(path)
        flush([path.parent])
        self._ctx.commit_point("profile:row-kept")


def _told(row: Row) -> str:
    what = f"batch of {row.batch_size}" + (f", {row.workers} workers" if row.workers > 1 else "")
    if row.spent is None:
        return f"{what}: {row.outcome} ({row.note})"
    return f"{what}: {row.samples_per_s:,.1f} volumes/s"
