"""Pipelines run as a person runs them, `voxelflow run` in a workspace, and what each task took.

The workspace has nodes of its own. `Settle...` stands between two others and waits until the next one's process has
started, imported and fallen silent, so that the span of that one is its work; it can also let go of the source files
just before. `TableAt` names a Delta table that lies somewhere, as the beginning of a pipeline.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.race import ROOT

if TYPE_CHECKING:
    from engine.declare.datasets import Dataset
    from engine.declare.events import Event
    from engine.document.pipeline import Pipeline
    from engine.store.runs import RunStore

_OWN_NODES = '''
import os
import time
from pathlib import Path

import psutil
from voxelflow import VolumeDelta, VolumeFiles, VolumeParquet, node


@node("SettleFiles", version=1, category="Benchmarks")
def settle_files(data: VolumeFiles, *, drop: str = "") -> VolumeFiles:
    """Wait."""
    return _settle(data, drop)


@node("SettleParquet", version=1, category="Benchmarks")
def settle_parquet(data: VolumeParquet, *, drop: str = "") -> VolumeParquet:
    """Wait."""
    return _settle(data, drop)


@node("SettleDelta", version=1, category="Benchmarks")
def settle_delta(data: VolumeDelta, *, drop: str = "") -> VolumeDelta:
    """Wait."""
    return _settle(data, drop)


def _settle(data, drop):
    me = psutil.Process()
    # A worker's arguments: the workspace, and a number of its own.
    run = me.cmdline()[:-1]
    busy, since = -1.0, time.monotonic()
    while time.monotonic() < since + 0.5:
        time.sleep(0.05)
        now = sum(_seconds_of(p, run) for p in me.parent().children() if p != me)
        if now > busy + 0.02:
            busy, since = now, time.monotonic()
    for path in [p for p in Path(drop).rglob("*") if p.is_file()] if drop else ():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    return data


def _seconds_of(process, run):
    """The processor seconds of a worker of this run; 0 for another process, and for one that has ended meanwhile."""
    try:
        return sum(process.cpu_times()[:2]) if process.cmdline()[:-1] == run else 0.0
    except psutil.Error:  # gone, or dead and not yet reaped
        return 0.0


@node("TableAt", version=1, category="Benchmarks")
def table_at(*, folder: str) -> VolumeDelta:
    """Name a Delta table."""
    from nodes.table.snapshot import open_table

    return open_table(folder).reference(folder)
'''


@dataclass(frozen=True)
class Span:
    """One task: its seconds, the peak of its process in bytes, its outputs by port, and when it began and ended."""

    seconds: float
    peak: int
    outputs: Mapping[str, Dataset]
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Ran:
    """A run that went well. `seconds` is the whole command, from the shell's view."""

    run_id: str
    seconds: float
    tasks: Mapping[str, Span] = field(default_factory=dict)

    def out(self, node: str, port: str = "out") -> Dataset:
        return self.tasks[node].outputs[port]


class Benchwork:
    """A workspace in `folder` with the nodes above, and `more_nodes` as the text of a module, trusted."""

    def __init__(self, folder: Path, more_nodes: str = "") -> None:
        from engine.store.runs import RunStore
        from engine.workspace import open_workspace, trust

        self.workspace = open_workspace(folder)
        (self.workspace.my_nodes / "benchmark_nodes.py").write_text(_OWN_NODES)
        if more_nodes:
            (self.workspace.my_nodes / "more_nodes.py").write_text(more_nodes)
        trust(self.workspace)
        self.store: RunStore = RunStore(self.workspace)

    def run(self, document: Pipeline, *, profile: str = "local", fresh: bool = False) -> Ran:
        """`voxelflow run` to its end. Raises `RuntimeError` with what it said when it fails."""
        from engine.declare.events import Facts
        from engine.document.pipeline import write_pipeline

        path = self.workspace.pipelines / f"{document.name}.json"
        write_pipeline(document, path)
        command = [sys.executable, "-m", "voxelflow", "run", str(path), "--workspace", str(self.workspace.root)]
        command += ["--profile", profile, *(["--fresh"] if fresh else [])]
        environment = os.environ | {"VOXELFLOW_DATA_ROOTS": str(self.workspace.root.parent)}
        began = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
        run_id = self.store.runs(1)[0].run_id
        peaks = {
            event.node: int(1e6 * float(event.values["peak_memory_mb"]))
            for event in self.events(run_id, "facts")
            if isinstance(event, Facts) and "peak_memory_mb" in event.values
        }
        spans = {}
        for task in self.store.tasks(run_id):
            began_at, ended_at = task.started or 0.0, task.ended or 0.0
            spans[task.node] = Span(ended_at - began_at, peaks.get(task.node, 0), task.outputs, began_at, ended_at)
        return Ran(run_id, seconds, spans)

    def events(self, run_id: str, *kinds: str) -> list[Event]:
        """The run's events of some kinds, in their order."""
        return [event for _, event in self.store.events(run_id, kinds=kinds, limit=1_000_000)]

    def clean(self) -> None:
        """Remove all that runs have made, and forget the results, so that the next run makes everything anew."""
        import shutil

        self.store.results.forget([result.fingerprint for result in self.store.results.all()])
        shutil.rmtree(self.workspace.data, ignore_errors=True)
        self.workspace.data.mkdir(exist_ok=True)

    def close(self) -> None:
        self.store.close()


def etl(source: Path, *, settle: bool = False, drop: str = "", target_file_mb: int = 78) -> Pipeline:
    """A folder through the three storage nodes. `settle` puts `Settle` between them; `drop`: see there."""
    from engine.document.pipeline import Node

    boxes = [Node(id="volumes", type="VolumeFolder", params={"folder": str(source)})]
    storage = [
        ("SettleFiles", Node(id="convert", type="NumpyToParquet", params={"target_file_mb": target_file_mb})),
        ("SettleParquet", Node(id="table", type="ParquetToDelta")),
        ("SettleDelta", Node(id="optimize", type="OptimizeDelta", params={"target_file_mb": target_file_mb})),
    ]
    for kind, node in storage:
        if settle or drop:
            params: dict[str, Any] = {"drop": drop if kind == "SettleFiles" else ""}
            boxes.append(Node(id=f"before-{node.id}", type=kind, params=params))
        boxes.append(node)
    return chain("etl", boxes)


def chain(name: str, boxes: list[Any]) -> Pipeline:
    """Nodes wired one after the other: the output `out` of each goes to the first port of the next."""
    import voxelflow
    from engine.document.pipeline import Edge, Pipeline

    ports = {"SettleFiles": "data", "SettleParquet": "data", "SettleDelta": "data", "FilePerVolume": "files"}
    catalog = voxelflow.catalog()
    edges = []
    for one, other in pairwise(boxes):
        node_type = catalog.find(other.type)
        port = ports.get(other.type) or (node_type.inputs[0].name if node_type else "")
        edges.append(Edge.model_validate({"from": f"{one.id}.out", "to": f"{other.id}.{port}"}))
    return Pipeline(name=name, nodes=tuple(boxes), edges=tuple(edges))
