"""How near the estimate of a whole run is: what `voxelflow plan` says of a pipeline, and what `voxelflow run` takes.

In a workspace of its own `voxelflow bench` and `voxelflow probe` measure the machine, and the pipeline (NumpyToParquet,
ParquetToDelta, OptimizeDelta, TrainResNet3D) runs once with fewer volumes and fewer epochs: as on the machine of a
person who has tried it before. Then the large one is predicted, and runs.

An estimate is a range: its middle is judged, the geometric mean of its ends. Others at work make everything take longer
by the wall's clock, the benchmark too, from which a training is predicted: so the processor seconds of both runs, and
of a step in the benchmark and in the runs, are given beside.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import make
from benchmarks.race import ROOT
from benchmarks.reports import Table

if TYPE_CHECKING:
    from engine.bench.result import BenchResult
    from engine.document.pipeline import Pipeline

SMALL, LARGE = (96, 1), (256, 3)
"""Volumes and epochs of the run before, and of the one that is predicted."""
_SHAPE, _BATCH, _WIDTH = (24, 24, 8, 4), 16, 64
_BENCH = ("--batch-sizes", "8,16", "--loaders", "arrow", "--inputs", "synthetic,cached", "--steps", "8")
_LOOK_S = 0.2
WHOLE = "the whole run"


@dataclass(frozen=True)
class Estimate:
    """Seconds from `low` to `high`, and how they are known."""

    low: float
    high: float
    basis: str = ""

    @property
    def middle(self) -> float:
        return math.sqrt(max(self.low, 1e-3) * max(self.high, 1e-3))


@dataclass(frozen=True)
class Took:
    """Seconds of a run by node, of the whole command, and of the processor by all of its processes."""

    nodes: Mapping[str, float]
    wall_s: float
    processor_s: float


def whole_run(folder: Path, seed: int) -> tuple[Table, list[str]]:
    """The table of a pipeline that is predicted and then run, and what to know of it."""
    from engine.bench.result import bench_results
    from engine.workspace import open_workspace

    folder.mkdir(parents=True)
    workspace = folder / "workspace"
    open_workspace(workspace)
    for name, (volumes, _) in (("small", SMALL), ("large", LARGE)):
        make(folder / name, volumes, _SHAPE, seed)
    at = ("--workspace", str(workspace))
    _voxelflow(folder, "bench", "--shape", ",".join(map(str, _SHAPE)), "--volumes", "64", *_BENCH, *at)
    _voxelflow(folder, "probe", "--seconds", "5", "--limit-mb", "32", *at)
    (benched,) = bench_results(open_workspace(workspace))
    before = _run(folder, workspace, document(folder / "small", SMALL[1]))
    path = _written(workspace, document(folder / "large", LARGE[1]))
    said = json.loads(_voxelflow(folder, "plan", str(path), "--json", *at))["estimate"]
    took = _run(folder, workspace, document(folder / "large", LARGE[1]))
    table, notes = judged(said, before, took)
    return table, [*notes, *_steps(benched, before, took)]


def _steps(benched: BenchResult, before: Took, took: Took) -> list[str]:
    """A step of the training as it was benchmarked, and as it was between the two runs, which both have the rest."""
    rows = [r for r in benched.typical if r.configuration.input == "synthetic" and r.configuration.batch_size == _BATCH]
    (small, large) = (epochs * (volumes // _BATCH) for volumes, epochs in (SMALL, LARGE))
    more = large - small
    each_s = (took.nodes["train"] - before.nodes["train"]) / more
    spent_s = (took.processor_s - before.processor_s) / more
    return [
        f"A step of {_BATCH} volumes from memory took {statistics.median(row.step_s):.2f} s in the benchmark,"
        f" {row.processor_s / row.steps:.2f} s of the processor; in the runs each further step took {each_s:.2f} s, and"
        f" {spent_s:.2f} s of the processor with what the other nodes did more."
        for row in rows
    ]


def judged(said: Mapping[str, Any], before: Took, took: Took) -> tuple[Table, list[str]]:
    """What was said of the run, the estimate as `voxelflow plan --json` gives it, beside what it took."""
    estimates = {
        each["node"]: Estimate(each["low_s"], each["high_s"], each["basis"])
        for each in said["nodes"]
        if each["high_s"] is not None
    }
    rows = [_row(node, estimates.get(node), seconds, before.nodes.get(node)) for node, seconds in took.nodes.items()]
    whole = None if said["high_s"] is None else Estimate(said["low_s"], said["high_s"], "all nodes, as the wires allow")
    rows.append(_row(WHOLE, whole, took.wall_s, before.wall_s))
    nodes = sum(took.nodes.values())
    grown = took.processor_s / before.processor_s if before.processor_s else math.nan
    notes = [
        f"Processor seconds of all processes: {before.processor_s:.1f} of the run before, {took.processor_s:.1f} of the"
        f" predicted one, {grown:.2f} times as many; by the wall's clock {took.wall_s / before.wall_s:.2f} times.",
        f"The nodes took {nodes:.1f} s of the command's {took.wall_s:.1f} s: no estimate has the rest, in which it"
        " starts, plans and ends.",
    ]
    columns = ("node", "predicted, s", "range", "took, s", "error", "in its range", "run before, s", "known from")
    return Table("a whole pipeline: predicted, and run", columns, rows), notes


def _row(name: str, estimate: Estimate | None, took: float, before: float | None) -> Sequence[Any]:
    earlier = "" if before is None else round(before, 2)
    if estimate is None:
        return (name, "unknown", "", round(took, 2), "", "", earlier, "")
    within = "yes" if estimate.low <= took <= estimate.high else "no"
    span = f"{estimate.low:.1f} to {estimate.high:.1f}"
    error = f"{estimate.middle / took - 1:+.0%}"
    return (name, round(estimate.middle, 2), span, round(took, 2), error, within, earlier, estimate.basis)


def document(volumes: Path, epochs: int) -> Pipeline:
    """The pipeline; another folder makes all of it anew."""
    from benchmarks.pipelines import chain
    from engine.document.pipeline import Node

    training = {"epochs": epochs, "batch_size": _BATCH, "width": _WIDTH, "loader": "arrow", "validation_share": 0.0}
    boxes = [
        Node(id="volumes", type="VolumeFolder", params={"folder": str(volumes)}),
        Node(id="convert", type="NumpyToParquet"),
        Node(id="table", type="ParquetToDelta"),
        Node(id="optimize", type="OptimizeDelta"),
        Node(id="train", type="TrainResNet3D", params=training),
    ]
    return chain("whole", boxes)


def _written(workspace: Path, pipeline: Pipeline) -> Path:
    from engine.document.pipeline import write_pipeline

    path = workspace / "pipelines" / f"{pipeline.name}.json"
    write_pipeline(pipeline, path)
    return path


def _run(folder: Path, workspace: Path, pipeline: Pipeline) -> Took:
    from engine.store.runs import RunStore
    from engine.workspace import open_workspace

    path = _written(workspace, pipeline)
    store = RunStore(open_workspace(workspace))
    earlier = {run.run_id for run in store.runs(-1)}
    spent, ended = [0.0], threading.Event()

    def watch() -> None:
        of = RunStore(open_workspace(workspace))
        while not ended.wait(_LOOK_S):
            for run in of.runs(1):
                if run.run_id not in earlier and run.pid is not None:
                    # Of processes that have ended their parent has the seconds: the most ever seen counts.
                    spent[0] = max(spent[0], _processor_s(run.pid))
        of.close()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    began = time.perf_counter()
    try:
        _voxelflow(folder, "run", str(path), "--workspace", str(workspace))
        wall_s = time.perf_counter() - began
    finally:
        ended.set()
        watching.join()
    tasks = store.tasks(store.runs(1)[0].run_id)
    store.close()
    return Took({task.node: task.seconds or 0.0 for task in tasks}, wall_s, spent[0])


def _processor_s(pid: int) -> float:
    """Of a process, and of all that it has started."""
    import psutil

    spent = 0.0
    try:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            try:
                spent += sum(each.cpu_times()[:4])
            except psutil.Error:  # it has just ended
                continue
    except psutil.Error:
        return 0.0
    return spent


def _voxelflow(folder: Path, *arguments: str) -> str:
    """What `voxelflow ...` prints. Raises `RuntimeError` with what it said when it fails."""
    command = [sys.executable, "-m", "voxelflow", *arguments]
    environment = os.environ | {"VOXELFLOW_DATA_ROOTS": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
