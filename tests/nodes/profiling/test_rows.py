"""What a table recommends, and what a stopwatch makes of a training's calls."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.environment.machine import Machine
from engine.peak_memory import peak_memory
from nodes.profiling.measurements import Table
from nodes.profiling.measuring_worker import out_of_memory
from nodes.profiling.report import write_report
from nodes.profiling.rows import WITHIN, Row, Spent, recommend
from nodes.profiling.stopwatch import Enough, Stopwatch

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
        "machine": "Some <CPU>, 2 cores, 8 GB",
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


def test_the_watch_counts_the_steps_behind_the_warm_up() -> None:
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


def test_short_memory_is_told_from_other_errors() -> None:
    class ResourceExhaustedError(Exception):
        """As TensorFlow's."""

    wrapped = RuntimeError("too little")
    wrapped.__cause__ = ResourceExhaustedError("OOM when allocating tensor\nmore")
    assert out_of_memory(wrapped) == "OOM when allocating tensor"
    assert out_of_memory(MemoryError()) == "MemoryError"
    assert out_of_memory(ValueError("no")) == ""
