"""Measuring trainings, each in processes of its own: one alone, or one batch size after another as a table.

Finished rows of a table are not measured again.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset
from engine.declare.events import Failure
from engine.declare.progress import Meter, Phases, PlannedWork, current_phases
from engine.environment import Machine, this_machine
from engine.errors import Cancelled, UsageError
from engine.processes.messages import UNEXPECTED, Result
from engine.storage.files import whole_file, write_whole
from engine.text import plural
from nodes.loaders import READS, LoaderName
from nodes.loaders.interface import LoaderState
from nodes.profiling.profile import Epoch, Row, Table, recommend
from nodes.profiling.worker import PROGRAM, Feed, Measured, Plan
from nodes.training.checkpoints import Checkpoint, write
from nodes.training.normalisation import Normalisation, measure
from nodes.training.preparation import Prepared, prepare
from nodes.training.rows import leased
from nodes.training.settings import Settings
from nodes.training.workers.events import EventReader, KnownSteps
from nodes.training.workers.folder import GroupFolder, Job
from nodes.training.workers.group import Outcome, Starter, attend, copy_logs, job_of

if TYPE_CHECKING:
    from nodes.profiling.settings import ProfileParameters

_ROWS = "rows.json"
_GROUP = "group"
_TRAININGS = "trainings"
"""The kind of work of which the time left is counted: each is one short training."""
_EPOCHS = 3
"""Epochs that are measured beside the rows where there is another form of the volumes."""


def program(plan: Plan) -> tuple[str, ...]:
    """The command line of a worker, after the interpreter and before the group's folder."""
    return (*PROGRAM, plan.model_dump_json())


StartFor = Callable[[Plan], Starter]
"""What starts the workers of a plan."""


def measure_all(
    data: Dataset,
    parameters: ProfileParameters,
    ctx: TaskContext,
    start_for: StartFor,
    other: Dataset | None = None,
) -> Table:
    """Every row, in order; with the `other` form of the volumes also an epoch of each as it is recommended.

    Raises what keeps all of them from being measured, such as data without labels.
    """
    with current_phases().reporting() as phases, leased(ctx, data, other):
        phases.enter("Opening the data")
        return _measure_all(data, parameters, ctx, start_for, other, phases)


def _measure_all(
    data: Dataset,
    parameters: ProfileParameters,
    ctx: TaskContext,
    start_for: StartFor,
    other: Dataset | None,
    phases: Phases,
) -> Table:
    smallest = parameters.settings(min(parameters.batch_sizes))
    quiet = replace(ctx, emit=lambda event: None)
    with prepare(data, None, smallest, quiet) as prepared:
        measurements = _TableOfSizes(parameters, prepared, data, ctx, start_for)
        rows = len(set(parameters.workers)) * len(set(parameters.batch_sizes))
        kept = len(measurements.table.rows) + len(measurements.table.epochs)
        phases.plan({_TRAININGS: PlannedWork(rows + (_EPOCHS if other is not None else 0), kept)})
        meter = Meter(rows, "batch sizes", "")
        for row in measurements.rows():
            meter.add(1)
            ctx.info(_line(row))
        meter.finish()
        chosen = recommend(measurements.table.rows)
        if other is not None and chosen is not None:
            for number, epoch in enumerate(measurements.epochs(other, chosen, quiet), start=1):
                phases.advance(rows + number)
                ctx.info(f"epoch from {epoch.form}: {_line(epoch.row)}")
        return measurements.table


class Measuring:
    """Measures trainings on one dataset, as `prepared` opened it.

    What the workers print goes to this process' standard error: with `all_logs` always, else where one failed.
    """

    def __init__(self, data: Dataset, prepared: Prepared, ctx: TaskContext, *, all_logs: bool = True) -> None:
        self._data, self._prepared, self._ctx, self._all_logs = data, prepared, ctx, all_logs
        self._normalisation: Normalisation | None = None
        self.volumes = len(prepared.rows.rows)
        """How many there are to train on."""
        self.machine: Machine | None = None
        """That of the leading worker which was measured last."""

    def row(self, settings: Settings, start: Starter) -> Row:
        """Train so for some steps, in fresh processes that `start` starts; where that cannot be, the row says why.

        Raises `Cancelled` on request, and what keeps any training from going on, such as a damaged volume.
        """
        workers, batch_size = settings.workers, settings.batch_size
        if batch_size > self.volumes:
            return not_possible(workers, batch_size, f"there are {self.volumes:,} volumes to train on")
        if batch_size % workers:
            return not_possible(workers, batch_size, f"{workers} workers cannot share it evenly")
        folder = GroupFolder(self._ctx.scratch / _GROUP)
        shutil.rmtree(folder.path, ignore_errors=True)
        folder.path.mkdir(parents=True)
        folder.write_job(self._job(folder, settings))
        try:
            group = start(folder, workers)
        except UsageError as exc:
            # Such as more workers than Spark runs at a time: the other rows may do.
            return not_possible(workers, batch_size, exc.line())
        try:
            # Nobody asked for the events of these trainings.
            events = EventReader(folder.events, lambda event: None, KnownSteps(()))
            outcome = attend(folder, group, events, workers, self._ctx, all_results=True)
        finally:
            group.stop()
            if self._all_logs:
                copy_logs(folder, workers)
        results = [report for _, report in sorted(outcome.reports.items()) if isinstance(report, Result)]
        if len(results) < workers and not self._all_logs:
            copy_logs(folder, workers)
        found = [Measured.model_validate_json(report.value) for report in results]
        row = self._judged(workers, batch_size, outcome, found)
        shutil.rmtree(folder.path, ignore_errors=True)
        return row

    def _judged(self, workers: int, batch_size: int, outcome: Outcome, found: Sequence[Measured]) -> Row:
        """What became of the group."""
        short = next((one.out_of_memory for one in found if one.out_of_memory), "")
        if not short and any(
            end.status == -signal.SIGKILL and rank not in outcome.reports for rank, end in outcome.ends.items()
        ):
            short = "the system ended its process (SIGKILL)"
        if short:
            return Row(workers=workers, batch_size=batch_size, outcome="out of memory", note=short)
        if outcome.cancelled:
            raise Cancelled("cancelled on request")
        if len(found) == workers and all(one.spent for one in found):
            spent = [one.spent for one in found if one.spent is not None]
            self.machine = found[0].machine
            over_all: dict[str, float] = {
                name: max(getattr(one, name) for one in spent) for name in ("memory_bytes", "device_bytes")
            }
            over_all["processor_s"] = sum(one.processor_s for one in spent)
            leader = spent[0].model_copy(update=over_all)
            return Row(workers=workers, batch_size=batch_size, outcome="measured", spent=leader)
        error = outcome.error(self._ctx.run_id, "measures what is left")
        known = any(
            isinstance(report, Failure) and report.code not in UNEXPECTED for report in outcome.reports.values()
        )
        if known and isinstance(error, UsageError):
            # Such as more workers than devices: the other rows may do.
            return not_possible(workers, batch_size, error.line())
        raise error

    def _job(self, folder: GroupFolder, settings: Settings) -> Job:
        begin = folder.path / "begin.npz"
        # Durable: another machine sees of shared storage only what was flushed.
        with whole_file(begin, durable=True) as temporary, temporary.open("wb") as file:
            write(file, self._begin(), replace(self._prepared, settings=settings).identity)
        return job_of(self._ctx, folder.path, self._data, settings, begin)

    def _begin(self) -> Checkpoint:
        """The very start, with the input normalised as in training."""
        if self._normalisation is None:
            self._normalisation = measure(self._prepared.rows.source, self._prepared.rows.rows)
        measured = self._normalisation
        return Checkpoint(LoaderState(self._prepared.settings.seed), {}, measured.mean, measured.variance)


def not_possible(workers: int, batch_size: int, note: str) -> Row:
    """A row that says why nothing was measured."""
    return Row(workers=workers, batch_size=batch_size, outcome="not possible", note=note)


class _TableOfSizes:
    """The rows of ProfileTraining, kept on the disk one by one."""

    def __init__(
        self, parameters: ProfileParameters, prepared: Prepared, data: Dataset, ctx: TaskContext, start_for: StartFor
    ) -> None:
        self._parameters, self._data, self._ctx, self._start_for = parameters, data, ctx, start_for
        self._measuring = Measuring(data, prepared, ctx)
        self.table = self._kept() or Table(
            machine=this_machine(), driver=this_machine(), training_volumes=self._measuring.volumes
        )

    def rows(self) -> Iterator[Row]:
        for workers in sorted(set(self._parameters.workers)):
            ended = ""
            for batch_size in sorted(set(self._parameters.batch_sizes)):
                row = self.table.row(workers, batch_size)
                if row is None:
                    self._ctx.check_cancelled()
                    current_phases().enter(f"Batches of {batch_size}, {plural(workers, 'workers')}", _TRAININGS)
                    row = self._row(workers, batch_size, ended)
                    self._keep(row)
                if row.outcome == "out of memory":
                    ended = f"{batch_size} volumes did not fit into memory"
                yield row

    def _row(self, workers: int, batch_size: int, ended: str) -> Row:
        if ended and batch_size <= self._measuring.volumes and not batch_size % workers:
            return Row(workers=workers, batch_size=batch_size, outcome="not tried", note=ended)
        row = self._measuring.row(self._parameters.settings(batch_size, workers), self._start("loader"))
        if self._measuring.machine is not None:
            self.table = self.table.model_copy(update={"machine": self._measuring.machine})
        return row

    def _start(self, feed: Feed) -> Starter:
        return self._start_for(Plan(warmup=self._parameters.warmup, steps=self._parameters.steps, feed=feed))

    def epochs(self, other: Dataset, chosen: Row, quiet: TaskContext) -> Iterator[Epoch]:
        """The chosen row again: from memory, from the data, from its other form, the caches emptied before."""
        own = self._parameters.settings(chosen.batch_size, chosen.workers)
        yield self._epoch("memory", "", lambda: self._measuring.row(own, self._start("synthetic")))
        yield self._epoch(_form(self._data), own.loader, lambda: self._measuring.row(own, self._start("cold")))
        loader: LoaderName = own.loader if other.kind in READS[own.loader] else _loader_for(other)
        settings = replace(own, loader=loader)

        def read_other() -> Row:
            with prepare(other, None, settings, quiet) as prepared:
                return Measuring(other, prepared, self._ctx).row(settings, self._start("cold"))

        form = _form(other)
        yield self._epoch(form if form != _form(self._data) else f"{form} (other)", loader, read_other)

    def _epoch(self, form: str, loader: str, measured: Callable[[], Row]) -> Epoch:
        kept = next((epoch for epoch in self.table.epochs if epoch.form == form), None)
        if kept is not None:
            return kept
        self._ctx.check_cancelled()
        current_phases().enter(f"An epoch from {form}", _TRAININGS)
        epoch = Epoch(form=form, loader=loader, row=measured())
        self.table = self.table.model_copy(update={"epochs": (*self.table.epochs, epoch)})
        self._save()
        self._ctx.commit_point("profile:epoch-kept")
        return epoch

    # --- finished rows -------------------------------------------------------------------------

    def _kept(self) -> Table | None:
        """The rows of an attempt that was ended, where it was on this machine."""
        try:
            table = Table.model_validate_json((self._ctx.scratch / _ROWS).read_bytes())
        except (FileNotFoundError, ValidationError):  # a power cut has cut it short: all is measured again
            return None
        return table if table.driver == this_machine() else None

    def _keep(self, row: Row) -> None:
        self.table = self.table.model_copy(update={"rows": (*self.table.rows, row)})
        self._save()
        self._ctx.commit_point("profile:row-kept")

    def _save(self) -> None:
        write_whole(self._ctx.scratch / _ROWS, self.table.model_dump_json(), durable=True)


def _form(data: Dataset) -> str:
    return {"VolumeFiles": "files", "VolumeParquet": "parquet"}.get(data.kind, "table")


def _loader_for(data: Dataset) -> LoaderName:
    return "npy" if data.kind in READS["npy"] else "arrow"


def _line(row: Row) -> str:
    what = f"batch of {row.batch_size}" + (f", {row.workers} workers" if row.workers > 1 else "")
    if row.spent is None:
        return f"{what}: {row.outcome} ({row.note})"
    return f"{what}: {row.samples_per_s:,.1f} volumes/s"
