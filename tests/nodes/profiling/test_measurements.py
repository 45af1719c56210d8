"""The rows that groups of workers come to, whatever becomes of them; the groups are stand-ins that only write files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from volume_sets import labels_for, make_delta, some_volumes

from engine.context import Resources, TaskContext
from engine.datasets import VolumeDelta
from engine.environment.machine import this_machine
from engine.errors import Cancelled, DataError, ExecutionError
from nodes.profile_training import _wanted, profile_training
from nodes.profiling.measurements import Table, Wanted, measure_all, program
from nodes.profiling.measuring_worker import Measured, write_measured
from nodes.profiling.rows import Spent
from nodes.training.workers import group
from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.job import Done, End, Failed

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


def wanted(*batch_sizes: int, workers: tuple[int, ...] = (1,)) -> Wanted:
    values = {parameter.name: parameter.default for parameter in profile_training.parameters}
    return _wanted(values | {"batch_sizes": batch_sizes, "workers": workers})


class Groups:
    """Starts stand-ins; `sizes` are those that were asked for."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.sizes: list[tuple[int, int]] = []

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
    write_measured(folder.path, rank, found)
    folder.say(rank, Done())
    folder.note_end(rank, End(status=0))


def outcomes(table: Table) -> list[tuple[int, int, str]]:
    return [(row.workers, row.batch_size, row.outcome) for row in table.rows]


def test_every_size_is_a_row(table: VolumeDelta, ctx: TaskContext) -> None:
    groups = Groups(works)
    found = measure_all(table, wanted(4, 1, 2, 64, workers=(1, 2)), ctx, groups.start)
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
    assert program(wanted(1))[-2:] == ("2", "10")


@pytest.mark.parametrize("how", ["killed", "told"])
def test_out_of_memory_is_a_row_and_larger_sizes_are_left_out(table: VolumeDelta, ctx: TaskContext, how: str) -> None:
    def short(folder: GroupFolder, rank: int, size: int) -> None:
        if size < 4:
            works(folder, rank, size)
        elif how == "killed":
            folder.note_end(rank, End(status=-signal.SIGKILL))
        else:
            ends(folder, rank, Measured(machine=this_machine(), out_of_memory="OOM when allocating tensor"))

    groups = Groups(short)
    found = measure_all(table, wanted(2, 4, 8), ctx, groups.start)
    assert outcomes(found) == [(1, 2, "measured"), (1, 4, "out of memory"), (1, 8, "not tried")]
    notes = {"killed": "the system ended its process (SIGKILL)", "told": "OOM when allocating tensor"}
    assert [row.note for row in found.rows] == ["", notes[how], "4 volumes did not fit into memory"]
    assert groups.sizes == [(1, 2), (1, 4)]


def test_finished_rows_are_not_measured_again(table: VolumeDelta, ctx: TaskContext) -> None:
    def dies(folder: GroupFolder, rank: int, size: int) -> None:
        if size == 4:
            raise KeyboardInterrupt
        works(folder, rank, size)

    with pytest.raises(KeyboardInterrupt):
        measure_all(table, wanted(2, 4), ctx, Groups(dies).start)
    groups = Groups(works)
    found = measure_all(table, wanted(2, 4), ctx, groups.start)
    assert groups.sizes == [(1, 4)]
    assert outcomes(found) == [(1, 2, "measured"), (1, 4, "measured")]
    # What another machine measured says nothing about this one.
    rows = ctx.scratch / "rows.json"
    other = Table.model_validate_json(rows.read_text())
    machine = other.driver.model_copy(update={"cores": 1000})
    rows.write_text(other.model_copy(update={"driver": machine}).model_dump_json())
    groups = Groups(works)
    measure_all(table, wanted(2, 4), ctx, groups.start)
    assert groups.sizes == [(1, 2), (1, 4)]


def test_what_a_worker_refuses_is_a_row_and_what_it_breaks_of_is_raised(table: VolumeDelta, ctx: TaskContext) -> None:
    def refuses(folder: GroupFolder, rank: int, size: int) -> None:
        if folder.job().manner.workers == 1:
            works(folder, rank, size)
            return
        folder.say(rank, Failed(known=True, code="usage", message="2 workers have 1 GPU", hint="Use 1."))
        folder.note_end(rank, End(status=1))

    found = measure_all(table, wanted(2, workers=(1, 2)), ctx, Groups(refuses).start)
    assert [row.note for row in found.rows] == ["", "2 workers have 1 GPU. Use 1."]

    def breaks(folder: GroupFolder, rank: int, size: int) -> None:
        folder.say(rank, Failed(known=False, code="task-failed", message="KeyError: 'x'"))
        folder.note_end(rank, End(status=1))

    with pytest.raises(ExecutionError, match="worker 1 of 1 failed: KeyError"):
        measure_all(table, wanted(4), replace(ctx, scratch=ctx.shared), Groups(breaks).start)


def test_a_cancel_ends_it_and_unfit_data_are_told(table: VolumeDelta, ctx: TaskContext) -> None:
    asked = replace(ctx, is_cancelled=lambda: True)
    with pytest.raises(Cancelled):
        measure_all(table, wanted(2), asked, Groups(works).start)
    with pytest.raises(DataError, match="do not fill one batch"):
        measure_all(table, wanted(64, 128), ctx, Groups(works).start)
