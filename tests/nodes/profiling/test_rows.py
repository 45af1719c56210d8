"""What a table recommends, and what a stopwatch makes of a training's calls."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.advisor.choice import WITHIN
from engine.environment import Machine
from engine.processes.system import peak_memory
from nodes.profiling.profile import Epoch, Row, Spent, Table, recommend, scaling
from nodes.profiling.report import draw_profile, write_report
from nodes.profiling.worker import Enough, Stopwatch, out_of_memory

_MACHINE = Machine(processor="Some <CPU>", cores=2, memory_bytes=8 * 10**9)


def _row(batch_size: int, rate: float, workers: int = 1) -> Row:
    spent = Spent(
        steps=4, waiting_s=batch_size / rate, computing_s=3 * batch_size / rate, rest_s=0,
        memory_bytes=10**8, device_bytes=0,
    )  # fmt: skip
    return Row(workers=workers, batch_size=batch_size, outcome="measured", spent=spent)


_ROWS = st.lists(
    st.builds(_row, st.integers(1, 512), st.floats(0.1, 1e4), st.integers(1, 4)),
    min_size=1,
    unique_by=lambda row: (row.workers, row.batch_size),
)


@given(_ROWS)
def test_the_recommendation_is_the_smallest_near_the_best(rows: list[Row]) -> None:
    chosen = recommend(rows)
    assert chosen in rows
    best = max(row.samples_per_s for row in rows)
    of_these = [row for row in rows if row.workers == chosen.workers]
    near = max(row.samples_per_s for row in of_these)
    assert near >= (1 - WITHIN) * best
    assert chosen.samples_per_s >= (1 - WITHIN) * near
    assert all(row.samples_per_s < (1 - WITHIN) * near for row in of_these if row.batch_size < chosen.batch_size)
    assert all(row.samples_per_s < (1 - WITHIN) * best for row in rows if row.workers < chosen.workers)


def test_nothing_measured_recommends_nothing(tmp_path: Path) -> None:
    row = Row(workers=1, batch_size=2, outcome="out of memory", note="the system ended its process (SIGKILL)")
    assert recommend([row]) is None
    assert row.samples_per_s == 0
    figures = write_report(Table(machine=_MACHINE, driver=_MACHINE, rows=(row,)), "a model", tmp_path)
    assert figures["out_of_memory_at"] == 2
    assert "recommended_batch_size" not in figures
    assert "Nothing could be measured" in (tmp_path / "profile.html").read_text()
    assert not (tmp_path / "profile.png").exists()


@pytest.mark.slow
def test_the_report_has_table_picture_and_machine(tmp_path: Path) -> None:
    skipped = Row(workers=1, batch_size=64, outcome="not tried", note="32 volumes did not fit into memory")
    rows = (_row(8, 10), _row(16, 99), _row(32, 100), _row(16, 60, workers=2), skipped)
    table = Table(machine=_MACHINE, driver=_MACHINE, rows=rows, training_volumes=640)
    figures = write_report(table, "ResNet-18", tmp_path)
    assert figures == {
        "recommended_batch_size": 16,
        "recommended_workers": 1,
        "recommended_samples_per_s": 99,
        "best_samples_per_s": 100,
        "training_volumes": 640,
        "machine": "Some <CPU>, 2 cores, 8.0 GB",
    }
    lines = (tmp_path / "profile.csv").read_text().splitlines()
    assert lines[0].startswith("workers,batch_size,outcome,samples_per_s,step_ms,waiting_share")
    assert lines[1].startswith("1,8,measured,10.0,800.0,0.25,0.75,0.0,100.0,0.0,4,")
    assert lines[-1].endswith("not tried,,,,,,,,,32 volumes did not fit into memory")
    kept = json.loads((tmp_path / "profile.json").read_text())
    assert kept["machine"]["processor"] == "Some <CPU>"
    assert len(kept["rows"]) == 5
    page = (tmp_path / "profile.html").read_text()
    assert "<b>batch size 16</b>" in page
    assert "data:image/png;base64," in page
    assert "Some &lt;CPU&gt;" in page
    assert sorted(path.suffix for path in tmp_path.glob("*profile*")) == [".csv", ".html", ".json", ".png"]


@pytest.mark.slow
def test_the_report_compares_workers_and_forms(tmp_path: Path) -> None:
    rows = (_row(8, 40), _row(16, 50), _row(8, 60, workers=2), _row(16, 55, workers=2))
    epochs = [("memory", "", 64.0), ("table", "arrow", 60.0), ("files", "npy", 10.0)]
    table = Table(
        machine=_MACHINE, driver=_MACHINE, rows=rows, training_volumes=600,
        epochs=tuple(Epoch(form=form, loader=loader, row=_row(8, rate)) for form, loader, rate in epochs),
    )  # fmt: skip
    figures = write_report(table, "ResNet-18", tmp_path)
    assert [figures[f"epoch_s_{form}"] for form, _, _ in epochs] == [9.375, 10.0, 60.0]
    kept = json.loads((tmp_path / "profile.json").read_text())
    assert [(line["workers"], line["best_batch_size"], line["efficiency"]) for line in kept["workers"]] == [
        (1, 16, 1.0),
        (2, 8, 0.6),
    ]
    page = (tmp_path / "profile.html").read_text()
    assert "Reading from files instead of table takes 6.00 times as long." in page
    assert "<h2>Several workers</h2>" in page


@pytest.mark.slow
def test_forms_that_could_not_be_measured_have_no_time(tmp_path: Path) -> None:
    failed = Row(workers=1, batch_size=8, outcome="not possible", note="the files are gone")
    epochs = tuple(Epoch(form=form, loader="npy", row=failed) for form in ("memory", "files"))
    table = Table(machine=_MACHINE, driver=_MACHINE, rows=(_row(8, 40),), training_volumes=600, epochs=epochs)
    write_report(table, "ResNet-18", tmp_path)
    page = (tmp_path / "profile.html").read_text()
    assert "<p>None of them could be measured; the table says why.</p>" in page
    assert "An epoch of 600 volumes takes" not in page
    some = (epochs[0], Epoch(form="files", loader="npy", row=_row(8, 10)))
    write_report(table.model_copy(update={"epochs": some}), "ResNet-18", tmp_path)
    page = (tmp_path / "profile.html").read_text()
    assert "An epoch of 600 volumes takes 1 min 00 s from files; " in page
    assert "From memory" not in page


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(6,), (1, 2, 512)])
def test_a_picture_fits_few_and_many_sizes(sizes: tuple[int, ...]) -> None:
    rows = tuple(_row(size, 10.0, workers) for size in sizes for workers in (1, 2))
    table = Table(machine=_MACHINE, driver=_MACHINE, rows=rows, training_volumes=600)
    # Warnings are errors here: that of a layout with no space left, too.
    assert draw_profile(table, rows[0]).startswith(b"\x89PNG")
    alone = table.model_copy(update={"rows": rows[:1]})
    assert draw_profile(alone, rows[0]).startswith(b"\x89PNG")


@pytest.mark.slow
@given(_ROWS)
def test_the_efficiency_is_the_rate_over_that_of_as_many_alone(rows: list[Row]) -> None:
    best = {w: max(r.samples_per_s for r in rows if r.workers == w) for w in {r.workers for r in rows}}
    for line in scaling(rows):
        workers = line.best.workers
        assert line.best.samples_per_s == best[workers]
        if 1 in best:
            assert line.speed_up == best[workers] / best[1]
            assert line.efficiency == pytest.approx(best[workers] / (workers * best[1]))
        else:
            assert line.speed_up is line.efficiency is None
    assert [line.best.workers for line in scaling(rows)] == sorted(best)


def test_the_watch_counts_the_steps_after_the_warm_up() -> None:
    watch = Stopwatch(warmup=1, steps=2)
    for step in range(3):
        watch.waited(0.25 if step else 100.0)
        time.sleep(0.002)
        watch.computed()
        if step == 2:
            with pytest.raises(Enough):
                watch.stepped()
        else:
            watch.stepped()
    spent = watch.spent(7)
    assert (spent.steps, spent.waiting_s, spent.device_bytes) == (2, 0.5, 7)
    assert spent.computing_s >= 0.004
    assert spent.total_s == spent.waiting_s + spent.computing_s + spent.rest_s
    assert spent.memory_bytes == pytest.approx(peak_memory(), rel=0.5)


def test_the_watch_counts_what_is_waited_for_a_batch_ahead() -> None:
    """At the begin of an epoch the loop takes two batches, the first of which has to be waited for."""
    watch = Stopwatch(warmup=1, steps=2)
    for waits in ([100.0, 0.0], [0.5, 0.0], [0.0]):
        for seconds in waits:
            watch.waited(seconds)
        with suppress(Enough):
            watch.stepped()
    spent = watch.spent(0)
    assert spent.waiting_s == 0.5
    assert spent.step_s[0] >= 0.5 > spent.step_s[1]


def test_out_of_memory_is_distinguished_from_other_errors() -> None:
    class ResourceExhaustedError(Exception):
        """As TensorFlow's."""

    wrapped = RuntimeError("too little")
    wrapped.__cause__ = ResourceExhaustedError("OOM when allocating tensor\nmore")
    assert out_of_memory(wrapped) == "OOM when allocating tensor"
    assert out_of_memory(MemoryError()) == "MemoryError"
    assert out_of_memory(ValueError("no")) == ""
