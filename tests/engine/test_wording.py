"""What runs and datasets are called in the terminal and the editor."""

from __future__ import annotations

from engine.declare.datasets import Report, Selection, VolumeDelta, VolumeParquet
from engine.wording import details_text, made


def test_a_dataset_is_told_by_its_counts() -> None:
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
