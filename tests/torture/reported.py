"""What reports must say, found again from what the run recorded: with json, PyArrow and statistics alone."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.torture.judge import Finding

Outputs = Mapping[str, Mapping[str, Any]]
"""By node: its output, as the run recorded it."""
BATCH_SIZES = (2, 4)
"""What the profile is asked to measure."""
_ENDED = "(SIGKILL)"
"""A batch size whose process was killed does not fit into memory, whatever ended it."""


def check_listing(node: str, output: Mapping[str, Any], wanted: list[str]) -> None:
    """A node that hands files on lists exactly these. Raises `Finding`."""
    with pa.memory_map(output["manifest"]) as source:
        found = pa.ipc.open_file(source).read_all()["path"].to_pylist()
    if found != wanted or output["count"] != len(wanted):
        raise Finding(f"{node} lists {len(found)} files and says {output['count']}, not {len(wanted)}")


def check_folds(output: Mapping[str, Any], outputs: Outputs, models: tuple[str, ...]) -> None:
    """The mean and the deviation are those of the models' figures. Raises `Finding`."""
    metrics = [outputs[name]["metrics"] for name in models if name in outputs]
    if len(metrics) < len(models):
        raise Finding(f"folds are averaged, and of {', '.join(models)} not all are done")
    common = {n for n in metrics[0] if all(n in each and math.isfinite(each[n]) for each in metrics)}
    wanted: dict[str, float] = {"folds": len(models)}
    for name in common:
        values = [each[name] for each in metrics]
        wanted |= {name: statistics.fmean(values), f"{name}_std": statistics.stdev(values)}
    beside = json.loads(Path(output["uri"]).with_suffix(".json").read_text())
    for found in (output["figures"], beside["figures"]):
        if found.keys() != wanted.keys() or not all(math.isclose(found[n], wanted[n], abs_tol=1e-12) for n in wanted):
            raise Finding(f"the figures of the folds are {found}, not {wanted}")


def check_comparison(output: Mapping[str, Any], nodes: set[str], volumes: Mapping[str, int]) -> None:
    """It has the trainings of these nodes once each, those of `volumes` with so many. Raises `Finding`."""
    found = json.loads(Path(output["uri"]).with_name("comparison.json").read_text())["trainings"]
    counts = {each["node"]: each["volumes"] for each in found}
    if counts.keys() != nodes or len(found) != len(nodes) or not volumes.items() <= counts.items():
        raise Finding(f"compared are {[(each['node'], each['volumes']) for each in found]}, not {sorted(nodes)}")


def check_probe(output: Mapping[str, Any], place: Path, files: int) -> None:
    """It has measured the place for these files, with each kind of read. Raises `Finding`."""
    found = json.loads(Path(output["uri"]).with_suffix(".json").read_text())
    if found["place"] != str(place) or (found["epoch_files"], found["epoch_is"]) != (files, "given"):
        raise Finding(f"probed is {found['place']} for {found['epoch_files']} files, not {place} for {files}")
    kinds = ("small_reads", "small_reads_at_once", "random_reads", "sequential_reads", "table_reads", "small_writes")
    if empty := [name for name in kinds if not found[name]["operations"]]:
        raise Finding(f"a probe that is done has no {', '.join(empty)}")
    if left := [str(path) for path in place.rglob("*")]:
        raise Finding(f"a probe that is done leaves {left[:3]} behind")


def check_profile(output: Mapping[str, Any]) -> None:
    """It has a row for each batch size, and recommends one that was measured. Raises `Finding`."""
    found = json.loads(Path(output["uri"]).with_suffix(".json").read_text())
    rows = found["rows"]
    if [row["batch_size"] for row in rows] != list(BATCH_SIZES):
        raise Finding(f"measured are the batch sizes {[row['batch_size'] for row in rows]}, not {BATCH_SIZES}")
    measured = [row["batch_size"] for row in rows if row["outcome"] == "measured"]
    killed = any(_ENDED in row["note"] for row in rows)
    if len(measured) < len(rows) and not killed:
        raise Finding(f"not every batch size was measured: {[(r['outcome'], r['note']) for r in rows]}")
    if found["figures"] != output["figures"] or (
        measured and output["figures"]["recommended_batch_size"] not in measured
    ):
        raise Finding(f"recommended is {output['figures']}, measured {measured}")
