"""The rows that groups of workers come to, whatever becomes of them; the groups are stand-ins that only write files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from volume_sets import labels_for, make_delta, make_files, some_volumes

from engine.declare.context import Resources, TaskContext
from engine.declare.datasets import Selection, VolumeDelta
from engine.declare.events import Failure, Progress
from engine.declare.progress import current_reporter
from engine.environment import this_machine
from engine.errors import Cancelled, DataError, ExecutionError
from engine.processes.messages import Result
from engine.storage.page_cache import forget
from nodes.loaders.chained_volumes import rows_as_files
from nodes.loaders.data_files import data_files
from nodes.profiling.measurements import measure_all, program
from nodes.profiling.profile import Spent, Table
from nodes.profiling.settings import ProfileParameters
from nodes.profiling.worker import Measured, Plan, local_paths
from nodes.training.workers import group
from nodes.training.workers.folder import End, GroupFolder
from nodes.training.workers.group import Starter

VOLUMES = some_volumes(40)
Behaviour = Callable[[GroupFolder, int, int], None]
"""What a worker does, given its group's folder, its rank and the batch size."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, labels_for(VOLUMES))


@pytest.fixture
def ctx(tmp_path: Path) -> TaskContext:
    for name in ("out", "shared", "scratch"):
        (tmp_path / name).mkdir()
    return TaskContext(
        "run", "it", "0" * 64, tmp_path / "out", tmp_path / "shared", tmp_path / "scratch", Resources(cores=2)
    )


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GRACE_S", 0.0)
    monkeypatch.setattr(group, "POLL_S", 0.01)


def test_of_rows_that_are_transformed_the_tables_files_leave_the_cache(tmp_path: Path, table: VolumeDelta) -> None:
    paths = local_paths(rows_as_files(table, tmp_path / "rows.arrow"))
    assert sorted(paths) == sorted(data_files(table).paths)
    forget(paths)
    # Files without a row that is kept have no part in it.
    some = table.select(Selection(salt="s", low=0.0, high=0.03))
    assert 0 < len(local_paths(rows_as_files(some, tmp_path / "some.arrow"))) < len(paths)


def wanted(*batch_sizes: int, workers: tuple[int, ...] = (1,)) -> ProfileParameters:
    return ProfileParameters(batch_sizes=batch_sizes, workers=workers)


class Groups:
    """Starts stand-ins; `sizes` and `feeds` are those that were asked for."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.sizes: list[tuple[int, int]] = []
        self.feeds: list[str] = []

    def start_for(self, plan: Plan) -> Starter:
        self.feeds.append(plan.feed)
        return self.start

    def start(self, folder: GroupFolder, ranks: int) -> Groups:
        size = folder.job().settings.batch_size
        self.sizes.append((ranks, size))
        for rank in range(ranks):
            self.behaviour(folder, rank, size)
        return self

    def problem(self) -> str:
        return ""

    def stop(self) -> None:
        pass


def works(folder: GroupFolder, rank: int, size: int) -> None:
    spent = Spent(steps=10, waiting_s=1, computing_s=8, rest_s=1, memory_bytes=100 + rank, device_bytes=0)
    ends(folder, rank, Measured(machine=this_machine(), spent=spent))


def ends(folder: GroupFolder, rank: int, found: Measured) -> None:
    folder.write_report(rank, Result(value=found.model_dump_json()))
    folder.write_end(rank, End(status=0))


def outcomes(table: Table) -> list[tuple[int, int, str]]:
    return [(row.workers, row.batch_size, row.outcome) for row in table.rows]


def test_every_size_is_a_row(table: VolumeDelta, ctx: TaskContext) -> None:
    groups = Groups(works)
    found = measure_all(table, wanted(4, 1, 2, 64, workers=(1, 2)), ctx, groups.start_for)
    assert outcomes(found) == [
        (1, 1, "measured"),
        (1, 2, "measured"),
        (1, 4, "measured"),
        (1, 64, "not possible"),
        (2, 1, "not possible"),
        (2, 2, "measured"),
        (2, 4, "measured"),
        (2, 64, "not possible"),
    ]
    assert [row.note for row in found.rows if row.outcome == "not possible"] == [
        "there are 40 volumes to train on",
        "2 workers cannot share it evenly",
        "there are 40 volumes to train on",
    ]
    row = found.row(2, 4)
    assert row is not None
    assert row.spent is not None
    assert (row.samples_per_s, row.spent.memory_bytes) == (4.0, 101)
    assert program(Plan(warmup=2, steps=10))[-1] == '{"warmup":2,"steps":10,"feed":"loader"}'


class Recorder:
    """Keeps the progress that is reported."""

    def __init__(self) -> None:
        self.events: list[Progress] = []

    def emit(self, event: Progress, /) -> None:
        self.events.append(event)

    def cancelled(self) -> bool:
        return False


def test_each_size_is_a_phase_and_the_share_is_that_of_all(
    table: VolumeDelta, ctx: TaskContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.declare.progress.INTERVAL_S", 0.0)
    recorder = Recorder()
    token = current_reporter.set(recorder)
    try:
        measure_all(table, wanted(2, 4, workers=(1, 2)), ctx, Groups(works).start_for)
    finally:
        current_reporter.reset(token)
    phases = list(dict.fromkeys(event.phase for event in recorder.events if event.phase.startswith("Batches")))
    assert phases == [f"Batches of {size}, {workers}" for workers in ("1 worker", "2 workers") for size in (2, 4)]
    shares = [event.whole for event in recorder.events if event.whole is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("how", ["killed", "reported"])
def test_out_of_memory_is_a_row_and_larger_sizes_are_left_out(table: VolumeDelta, ctx: TaskContext, how: str) -> None:
    def short(folder: GroupFolder, rank: int, size: int) -> None:
        if size < 4:
            works(folder, rank, size)
        elif how == "killed":
            folder.write_end(rank, End(status=-signal.SIGKILL))
        else:
            ends(folder, rank, Measured(machine=this_machine(), out_of_memory="OOM when allocating tensor"))

    groups = Groups(short)
    found = measure_all(table, wanted(2, 4, 8), ctx, groups.start_for)
    assert outcomes(found) == [(1, 2, "measured"), (1, 4, "out of memory"), (1, 8, "not tried")]
    notes = {"killed": "the system ended its process (SIGKILL)", "reported": "OOM when allocating tensor"}
    assert [row.note for row in found.rows] == ["", notes[how], "4 volumes did not fit into memory"]
    assert groups.sizes == [(1, 2), (1, 4)]


@pytest.mark.slow
def test_finished_rows_are_not_measured_again(table: VolumeDelta, ctx: TaskContext) -> None:
    def dies(folder: GroupFolder, rank: int, size: int) -> None:
        if size == 4:
            raise KeyboardInterrupt
        works(folder, rank, size)

    with pytest.raises(KeyboardInterrupt):
        measure_all(table, wanted(2, 4), ctx, Groups(dies).start_for)
    groups = Groups(works)
    found = measure_all(table, wanted(2, 4), ctx, groups.start_for)
    assert groups.sizes == [(1, 4)]
    assert outcomes(found) == [(1, 2, "measured"), (1, 4, "measured")]
    # What another machine measured says nothing about this one.
    rows = ctx.scratch / "rows.json"
    other = Table.model_validate_json(rows.read_text())
    machine = other.driver.model_copy(update={"cores": 1000})
    rows.write_text(other.model_copy(update={"driver": machine}).model_dump_json())
    groups = Groups(works)
    measure_all(table, wanted(2, 4), ctx, groups.start_for)
    assert groups.sizes == [(1, 2), (1, 4)]


@pytest.mark.slow
def test_an_epoch_of_each_form_is_measured_once(table: VolumeDelta, ctx: TaskContext, tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", VOLUMES, labels_for(VOLUMES))

    def dies(folder: GroupFolder, rank: int, size: int) -> None:
        if folder.job().data.kind == "VolumeFiles":
            raise KeyboardInterrupt
        works(folder, rank, size)

    groups = Groups(dies)
    with pytest.raises(KeyboardInterrupt):
        measure_all(table, wanted(2, 4), ctx, groups.start_for, files)
    assert groups.feeds == ["loader", "loader", "synthetic", "cold", "cold"]
    groups = Groups(works)
    found = measure_all(table, wanted(2, 4), ctx, groups.start_for, files)
    assert (groups.feeds, groups.sizes) == (["cold"], [(1, 4)])
    epochs = [(epoch.form, epoch.loader, epoch.seconds(40)) for epoch in found.epochs]
    assert epochs == [("memory", "", 10.0), ("table", "arrow", 10.0), ("files", "npy", 10.0)]


def test_what_a_worker_refuses_is_a_row_and_what_it_breaks_of_is_raised(table: VolumeDelta, ctx: TaskContext) -> None:
    def refuses(folder: GroupFolder, rank: int, size: int) -> None:
        if folder.job().settings.workers == 1:
            works(folder, rank, size)
            return
        folder.write_report(rank, Failure(code="usage", message="2 workers have 1 GPU", hint="Use 1."))
        folder.write_end(rank, End(status=1))

    found = measure_all(table, wanted(2, workers=(1, 2)), ctx, Groups(refuses).start_for)
    assert [row.note for row in found.rows] == ["", "2 workers have 1 GPU. Use 1."]

    def breaks(folder: GroupFolder, rank: int, size: int) -> None:
        folder.write_report(rank, Failure(code="task-failed", message="KeyError: 'x'"))
        folder.write_end(rank, End(status=1))

    with pytest.raises(ExecutionError, match="worker 1 of 1 failed: KeyError"):
        measure_all(table, wanted(4), replace(ctx, scratch=ctx.shared), Groups(breaks).start_for)


def test_a_cancel_ends_it_and_unfit_data_are_refused(table: VolumeDelta, ctx: TaskContext) -> None:
    asked = replace(ctx, is_cancelled=lambda: True)
    with pytest.raises(Cancelled):
        measure_all(table, wanted(2), asked, Groups(works).start_for)
    with pytest.raises(DataError, match="do not fill one batch"):
        measure_all(table, wanted(64, 128), ctx, Groups(works).start_for)
