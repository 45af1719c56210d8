"""What runs and datasets are called in the terminal and the editor."""

from __future__ import annotations

from engine.declare.datasets import Report, Selection, VolumeDelta, VolumeParquet
from engine.store.costs import CostSum
from engine.wording import COST_COLUMNS, cost_rows, details_text, made


def test_a_dataset_is_described_by_its_counts() -> None:
    parquet = VolumeParquet(
        uri="/d", count=1990, bytes=720_000_000, manifest="/m", found=2000, quarantined=10, labelled=1500
    )
    assert details_text(parquet.details()) == "1,990 volumes, 720 MB, 10 quarantined, 1,500 labelled"
    delta = VolumeDelta(uri="/d", count=1, bytes=10, version=3, data_version=2, files=1, labelled=1)
    assert made({"out": delta}) == "1 volume, 10 bytes, version 3, 1 file"
    part = delta.select(Selection(salt="a", low=0.5, high=1)).select(Selection(salt="b", low=0, high=0.25))
    assert made({"out": part}) == "12.5% of 1 volume, 10 bytes, version 3, 1 file"
    report = Report(uri="/r", figures={"note": "a\x1bb", "nothing": "", "score": 0.5})
    assert made({"train": delta, "report": report}).endswith("; report: note a\\x1bb, score 0.5")
    assert made({}) == ""


def test_costs_by_month_in_words() -> None:
    idle = CostSum("2026-06", "p", "USD", 1_200, 7_260.0, 12.4, 3.1, (10.0, 20.0))
    unknown = CostSum("2026-05", "q", "USD", 1, 60.0, 2.0, None, None)
    rows = [dict(zip(COST_COLUMNS, row, strict=True)) for row in cost_rows([idle, unknown])]
    assert rows == [
        {
            "month": "2026-06", "pipeline": "p", "runs": "1,200", "time": "2 h 01 min", "cost": "12.40 USD",
            "of it idle": "3.10 USD", "expected": "10.00 to 20.00 USD",
        },
        {
            "month": "2026-05", "pipeline": "q", "runs": "1", "time": "1 min 00 s", "cost": "2.00 USD",
            "of it idle": "", "expected": "unknown",
        },
    ]  # fmt: skip
