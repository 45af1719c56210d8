"""A small pipeline that uses every storage node and a model, and the commands of a person around it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from building import box, pipeline
from forked_programs import PROGRAM, ForkedPopen, Forks
from volumes import write_volumes

from engine.document.pipeline import Pipeline, dump
from engine.spark import class_data
from tests.torture.judge import Finding, Row, hash_of, label_of, rows_of
from tests.torture.more import MORE

COUNT, GROWTH = 40, 12
SHAPE = (16, 16, 16, 4)
"""Of 64 KB: enough for several parts of a megabyte."""
PATIENCE_S = 300.0
"""A command that takes longer hangs: a whole run takes two seconds on an idle machine."""
STORAGE = ("folder", "convert", "table", "optimize")
MODELS = ("split", "train", "predict", "evaluate", "report")
REGISTER = "register"
SOURCES = (
    "made", "made_parts", "cubes", "cut", "patches", "chosen", "chosen_parts", "foreign", "foreign_table", "given",
    "given_table",
)  # fmt: skip
"""Nodes that volumes come from in other ways."""
NODES = (*STORAGE, *MODELS, REGISTER, *SOURCES, *MORE)
_CUBES, _FOREIGN, _PATCH = 3, 24, 8


@dataclass(frozen=True)
class Answer:
    """What a command said, and how it ended."""

    status: int
    output: str
    run_id: str = ""
    state: str = ""
    error: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict)


class Scene:
    """A workspace, a folder of volumes, and a document, below one folder."""

    def __init__(self, root: Path, environment: Mapping[str, str], forks: Forks) -> None:
        self.root = root
        self._forks = forks
        self.workspace = root / "workspace"
        self.source = root / "source"
        self.document = root / "pipeline.json"
        self.volumes: dict[str, bytes] = {}
        self._environment = dict(environment)

    def fill(self, count: int = COUNT) -> None:
        """Let the folder hold so many volumes."""
        written = write_volumes(self.source, count, shape=SHAPE)
        self.volumes = {name: volume.tobytes() for name, volume in written.items()}

    def grow(self, count: int = GROWTH) -> None:
        """Let it hold more, and other labels' file."""
        written = write_volumes(self.source, count, shape=SHAPE, first=len(self.volumes))
        self.volumes |= {name: volume.tobytes() for name, volume in written.items()}

    def fill_sources(self) -> dict[str, list[Row]]:
        """Write what the nodes of `SOURCES` read, and give the rows that each of them should make of it."""
        cubes = write_volumes(self.root / "cubes", _CUBES, shape=SHAPE)
        patches: list[Row] = []
        for name, cube in cubes.items():
            for x, y, z in product(*(range(0, length, _PATCH) for length in SHAPE[:3])):
                patch = cube[x : x + _PATCH, y : y + _PATCH, z : z + _PATCH]
                patches.append((f"{name}/x{x:05d}-y{y:05d}-z{z:05d}", None, hash_of(patch.tobytes())))
        foreign = write_volumes(self.root / "written", _FOREIGN, shape=SHAPE)
        columns = {
            "id": list(foreign),
            "label": [label_of(name) for name in foreign],
            "image": [volume.ravel().tolist() for volume in foreign.values()],
        }
        deltalake.write_deltalake(str(self.root / "foreign"), pa.table(columns), partition_by=["label"])
        shutil.rmtree(self.root / "written")
        bytes_of = {name: volume.tobytes() for name, volume in foreign.items()}
        stored = {**columns, "label": pa.array(columns["label"], pa.float32())}
        stored["volume"] = pa.array(bytes_of.values(), pa.binary(len(next(iter(bytes_of.values())))))
        del stored["image"]
        (self.root / "given").mkdir()
        for begin in range(0, _FOREIGN, 8):
            part = pa.table(stored).slice(begin, 8)
            # Without checksums nobody could find a flipped bit.
            pq.write_table(part, self.root / "given" / f"{begin}.parquet", write_page_checksum=True)
        taken = [(name, label_of(name), hash_of(cube[..., [3, 0]].tobytes())) for name, cube in cubes.items()]
        foreign_rows = rows_of({name: volume.astype("float64").tobytes() for name, volume in foreign.items()})
        return {
            "cut": sorted(patches),
            "patches": sorted(patches),
            "chosen_parts": sorted(taken),
            "foreign": foreign_rows,
            "foreign_table": foreign_rows,
            "given": rows_of(bytes_of),
            "given_table": rows_of(bytes_of),
        }

    def write(self, document: Pipeline) -> None:
        self.document.write_text(dump(document))

    def keep(self, kept: Path) -> None:
        """Copy all of it aside."""
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.root, kept, symlinks=True)

    def clear(self) -> None:
        """Empty it."""
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.volumes = {}

    def restore(self, kept: Path) -> None:
        """Have the files as they were kept, with their times."""
        self.clear()
        shutil.copytree(kept, self.root, symlinks=True, dirs_exist_ok=True)

    # --- commands ---------------------------------------------------------------------------------------------------

    def start(self, *arguments: str, extra: Mapping[str, str] | None = None, workspace: Path | None = None) -> Command:
        """Start `voxelflow ARGUMENTS --json` in this workspace or another, with more in its environment."""
        return Command(self, [*arguments, "--json", "--workspace", str(workspace or self.workspace)], extra or {})

    def run(self, *options: str, extra: Mapping[str, str] | None = None) -> Answer:
        """`voxelflow run` of the document, to its end."""
        return self.start("run", str(self.document), *options, extra=extra).wait()

    def verify(self, target: str | Path) -> Answer:
        """`voxelflow verify`, as a person reads it."""
        return Command(self, ["verify", str(target), "--workspace", str(self.workspace)], {}).wait()

    def resume(self, run_id: str) -> Answer:
        """`voxelflow runs resume`, to its end."""
        return self.start("runs", "resume", run_id).wait()

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {
            "VOXELFLOW_DATA_ROOTS": str(self.root),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "VOXELFLOW_TORTURE_NODES": " ".join(NODES),
            "HOME": str(self.root),
            # Else the first session begins an archive below that home: a Java that outlives the rounds.
            class_data.SWITCH: "off",
        }
        return {**os.environ, "VOXELFLOW_TRACKING": "off", **self._environment, **own, **extra}

    def settle(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until every process has ended: those whose command was killed go on with their run, or end with it."""
        until = time.monotonic() + patience_s
        while left := self._forks.alive():
            if time.monotonic() > until:
                self.end_all()
                raise Finding(f"hang: {', '.join(left)} still live after {patience_s:.0f} s")
            time.sleep(0.02)

    def newest_run(self) -> tuple[str, str]:
        """(id, state) of the newest run as the file says it; ("", "") when none was recorded."""
        path = self.workspace / "runs.db"
        if not path.exists() or not path.stat().st_size:
            return "", ""
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
            try:
                row = db.execute("SELECT run_id, state FROM runs ORDER BY created DESC, run_id DESC LIMIT 1").fetchone()
            except sqlite3.OperationalError:  # made a moment ago: no tables yet
                return "", ""
        return (str(row[0]), str(row[1])) if row else ("", "")

    def task_state(self, node: str) -> str:
        """Of a node of the newest run; "" when none was recorded."""
        run_id, _ = self.newest_run()
        with contextlib.closing(sqlite3.connect(self.workspace / "runs.db", timeout=30)) as db:
            row = db.execute("SELECT state FROM tasks WHERE run_id = ? AND node = ?", [run_id, node]).fetchone()
        return str(row[0]) if row else ""

    def end_all(self) -> None:
        """Kill every process that works in this workspace."""
        self._forks.kill_all()


class Command:
    """A `voxelflow` command that runs."""

    def __init__(self, scene: Scene, arguments: list[str], extra: Mapping[str, str]) -> None:
        self._scene, self.arguments = scene, arguments
        self._output = (scene.root.parent / f"output-{time.monotonic_ns()}").open("w+b")
        self.process = ForkedPopen(
            [sys.executable, *PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=scene.environment(extra),
            cwd=scene.root,
            start_new_session=True,
        )

    def wait(self, patience_s: float = PATIENCE_S) -> Answer:
        """What it said once it has ended. Raises `Finding` when it hangs, or shows a traceback."""
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.kill(self.process.pid, signal.SIGABRT)
            self._scene.end_all()
            raise Finding(
                f"hang: voxelflow {self.arguments[0]} did not end in {patience_s:.0f} s: {self._text()[-2000:]}"
            ) from None
        text = self._text()
        lines = text.splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        shown = "\n".join(line for line in lines if not line.startswith("{"))  # a task's own is in its events
        if "Traceback (most recent call last)" in shown:
            raise Finding(f"traceback of voxelflow {self.arguments[0]}: {shown[-1000:]}")
        started = next((e for e in events if e.get("event") == "run-started"), {})
        ended = next((e for e in events if e.get("event") == "run-ended"), {})
        return Answer(
            status,
            shown,
            str(started.get("run_id") or ended.get("run_id") or ""),
            str(ended.get("state", "")),
            str(ended.get("error", "")),
            ended.get("outputs") or {},
        )

    def _text(self) -> str:
        self._output.seek(0)
        text = self._output.read().decode(errors="replace")
        self._output.close()
        Path(self._output.name).unlink(missing_ok=True)
        return text


def storage_document(source: Path, table: str = "") -> Pipeline:
    """From files to an optimised table, which is vacuumed unless it lies in an object store."""
    return pipeline(
        box("folder", "VolumeFolder", folder=str(source)),
        box("convert", "NumpyToParquet", row_group_rows=8, target_file_mb=1),
        box("table", "ParquetToDelta", **({"table": table} if table else {})),
        box("optimize", "OptimizeDelta", vacuum="://" not in table),
        wires="folder.out>convert.files convert.out>table.parquet table.out>optimize.table",
    )


def whole_document(source: Path, table: str = "", *, registers: bool = False) -> Pipeline:
    """The same, and a model that is trained, asked and judged, and put into MLflow's registry."""
    before = storage_document(source, table)
    after = pipeline(
        box("split", "SplitDataset", test=0.2),
        box("train", "TrainResNet3D", epochs=2, batch_size=8, learning_rate=0.003, checkpoint_every_s=0),
        box("predict", "BatchPredict", batch_size=8, rows_per_part=8),
        box("evaluate", "EvaluateModel"),
        box("report", "InspectDataset"),
        wires="optimize.out>split.table split.train>train.data split.validation>train.validation"
        " train.out>predict.model split.test>predict.data predict.out>evaluate.predictions"
        " optimize.out>report.dataset",
    )
    if registers:
        register = pipeline(
            box(REGISTER, "RegisterModel"), wires="train.out>register.model evaluate.out>register.evaluation"
        )
        after = after.model_copy(
            update={"nodes": (*after.nodes, *register.nodes), "edges": (*after.edges, *register.edges)}
        )
    return before.model_copy(update={"nodes": (*before.nodes, *after.nodes), "edges": (*before.edges, *after.edges)})


def sources_document(root: Path) -> Pipeline:
    """Volumes that are made, cut out of larger ones, taken apart, and read from another program's table."""
    return pipeline(
        box("made", "SyntheticVolumes", count=24, shape=list(SHAPE)),
        box("made_parts", "NumpyToParquet", row_group_rows=8, target_file_mb=1),
        box("cubes", "VolumeFolder", folder=str(root / "cubes")),
        box("cut", "CutVolumes", size=[_PATCH] * 3, row_group_rows=8, target_file_mb=1),
        box("patches", "ParquetToDelta"),
        box("chosen", "TransformVolumes", channels="3,0"),
        box("chosen_parts", "NumpyToParquet", row_group_rows=8, target_file_mb=1),
        box("foreign", "ConvertTable", table=str(root / "foreign"), shape=list(SHAPE), target_file_mb=1),
        box("foreign_table", "ParquetToDelta", mode="copy"),
        box("given", "ParquetFolder", folder=str(root / "given"), shape=list(SHAPE), dtype="float32"),
        box(
            "given_table", "ParquetToDelta", mode="copy"
        ),  # a link to a file that is there before is in no log of writes
        wires="made.out>made_parts.files cubes.out>cut.files cut.out>patches.parquet cubes.out>chosen.volumes"
        " chosen.out>chosen_parts.files foreign.out>foreign_table.parquet given.out>given_table.parquet",
    )


@contextlib.contextmanager
def scene_in(folder: Path, environment: Mapping[str, str], forks: Forks) -> Iterator[Scene]:
    """A scene below the folder, whose processes are gone afterwards."""
    scene = Scene(folder / "scene", environment, forks)
    scene.root.mkdir(parents=True)
    try:
        yield scene
    finally:
        scene.end_all()
