"""What the battery asks of reports: each wrong one is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.torture.judge import Finding
from tests.torture.reported import (
    BATCH_SIZES,
    check_comparison,
    check_folds,
    check_listing,
    check_probe,
    check_profile,
)

_KINDS = ("small_reads", "small_reads_at_once", "random_reads", "sequential_reads", "table_reads", "small_writes")


def _written(folder: Path, name: str, content: dict[str, Any]) -> dict[str, Any]:
    (folder / f"{name}.json").write_text(json.dumps(content))
    return {"uri": str(folder / f"{name}.html"), "figures": content.get("figures", {})}


def test_files_that_are_handed_on(tmp_path: Path) -> None:
    listing = tmp_path / "volumes.arrow"
    table = pa.table({"path": ["a.npy", "b.npy"]})
    with pa.ipc.new_file(listing, table.schema) as writer:
        writer.write_table(table)
    output = {"manifest": str(listing), "count": 2}
    check_listing("later", output, ["a.npy", "b.npy"])
    with pytest.raises(Finding, match="later lists 2 files and says 2, not 1"):
        check_listing("later", output, ["a.npy"])
    with pytest.raises(Finding, match="says 3"):
        check_listing("later", {**output, "count": 3}, ["a.npy", "b.npy"])


def test_means_of_folds(tmp_path: Path) -> None:
    outputs = {"one": {"metrics": {"auc": 0.5, "loss": 1.0}}, "other": {"metrics": {"auc": 0.7, "f1": 1.0}}}
    right = {"folds": 2, "auc": 0.6, "auc_std": 0.1 * 2**0.5}
    check_folds(_written(tmp_path, "report", {"figures": right}), outputs, ("one", "other"))
    for wrong in ({**right, "auc": 0.61}, {**right, "loss": 1.0}, {"folds": 2}):
        with pytest.raises(Finding, match="the figures of the folds"):
            check_folds(_written(tmp_path, "report", {"figures": wrong}), outputs, ("one", "other"))
    with pytest.raises(Finding, match="not all are done"):
        check_folds(_written(tmp_path, "report", {"figures": right}), {"one": outputs["one"]}, ("one", "other"))


def test_compared_trainings(tmp_path: Path) -> None:
    one, other = {"node": "one", "volumes": 20}, {"node": "by_files", "volumes": 8}
    wanted = ({"one", "by_files"}, {"by_files": 8})
    check_comparison(_written(tmp_path, "comparison", {"trainings": [one, other]}), *wanted)
    for wrong in ([one], [one, other, other], [one, {**other, "volumes": 9}]):
        with pytest.raises(Finding, match="compared are"):
            check_comparison(_written(tmp_path, "comparison", {"trainings": wrong}), *wanted)


def test_a_probe(tmp_path: Path) -> None:
    (place := tmp_path / "place").mkdir()
    right = {"place": str(place), "epoch_files": 8, "epoch_is": "given"} | {name: {"operations": 4} for name in _KINDS}
    check_probe(_written(tmp_path, "probe", right), place, 8)
    with pytest.raises(Finding, match="for 9 files"):
        check_probe(_written(tmp_path, "probe", {**right, "epoch_files": 9}), place, 8)
    with pytest.raises(Finding, match="has no table_reads"):
        check_probe(_written(tmp_path, "probe", {**right, "table_reads": {"operations": 0}}), place, 8)
    (place / ".left").touch()
    with pytest.raises(Finding, match="behind"):
        check_probe(_written(tmp_path, "probe", right), place, 8)


def test_a_profile(tmp_path: Path) -> None:
    rows = [{"batch_size": size, "outcome": "measured", "note": ""} for size in BATCH_SIZES]
    figures = {"recommended_batch_size": BATCH_SIZES[0]}
    check_profile(_written(tmp_path, "profile", {"rows": rows, "figures": figures}))
    killed = {**rows[1], "outcome": "out of memory", "note": "the system ended its process (SIGKILL)"}
    check_profile(_written(tmp_path, "profile", {"rows": [rows[0], killed], "figures": figures}))
    failed = {**rows[1], "outcome": "not possible"}
    with pytest.raises(Finding, match="not every batch size"):
        check_profile(_written(tmp_path, "profile", {"rows": [rows[0], failed], "figures": figures}))
    with pytest.raises(Finding, match="measured are the batch sizes"):
        check_profile(_written(tmp_path, "profile", {"rows": rows[:1], "figures": figures}))
    with pytest.raises(Finding, match="recommended is"):
        check_profile(_written(tmp_path, "profile", {"rows": rows, "figures": {"recommended_batch_size": 64}}))
