"""A workspace for pictures of pages: pipelines, volumes, recorded runs and results, the same on each machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from building import pipeline
from numpy.typing import NDArray
from recorded_runs import Curves, Did, at_work, record
from stored_results import stored_result

from engine.declare.datasets import (
    Predictions,
    Report,
    Selection,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    VolumeParquet,
    VolumeSpec,
)
from engine.declare.events import Failure, Progress, SystemSample
from engine.document.pipeline import Node, Pipeline, Position, write_pipeline
from engine.profiles import profiles_file
from engine.store.monitor import FILE, Attempt, Moment, MonitorLog
from engine.store.runs import RunStore
from engine.workspace import Workspace

PATCHES, VOLUMES, STUDY = "brain patches", "volumes", "patch study"
"""The pipelines' documents."""
FIRST, SECOND, FAILED = "20251229-091000-a1b2c3", "20251229-092000-d4e5f6", "20251229-093000-0a9b8c"
"""Runs: two of one pipeline that are done, and one of another that has failed."""
EARLIER = "20251229-060000-4c4c4c"
"""Another one of the pipeline of the first two, done long before them."""
PROFILE = "lab"
"""A compute profile that takes nothing from the machine it is looked at on."""
_STUDIED, _ENDING = "20251229-050000-2b2b2b", "20251229-051000-c0ffee"
_LIVE, _CANCELLED, _LOST = "20251229-083000-7d7d7d", "20251229-084000-5e5e5e", "20251229-085000-3f3f3f"
_BEGAN = 1_767_000_000.0
_SHAPE = (48, 40, 32)
_SPEC = VolumeSpec(shape=(30, 30, 10, 10), dtype="float32", classes=("healthy", "lesion"))
_COUNT, _BYTES = 2000, 720_000_000
_PARQUET = VolumeParquet(
    uri="/data/patches/parquet", manifest="/data/patches/parts.json", count=_COUNT, bytes=_BYTES, spec=_SPEC,
    found=_COUNT, labelled=_COUNT,
)  # fmt: skip
_TABLE = VolumeDelta(
    uri="/data/patches/table", count=_COUNT, bytes=_BYTES, spec=_SPEC, version=3, data_version=3, files=12,
    labelled=_COUNT,
)  # fmt: skip


@contextmanager
def pictured_workspace(workspace: Workspace, home: Path) -> Iterator[None]:
    """Fill the workspace; one of its runs is at work meanwhile. Volumes lie in `home`."""
    _write_volumes(home / "volumes")
    write_pipeline(patches(str(home / "volumes")), workspace.pipelines / f"{PATCHES}.json")
    one = Node(id="volumes", type="VolumeFolder", title="Volumes", params={"folder": str(home / "volumes")})
    write_pipeline(pipeline(one, name=VOLUMES), workspace.pipelines / f"{VOLUMES}.json")
    write_pipeline(_small_study(), workspace.pipelines / f"{STUDY}.json")
    profiles_file(workspace).write_text(_PROFILES, encoding="utf-8")
    store = RunStore(workspace)
    _record_live(store, patches(str(home / "volumes")))
    _record_others(store)
    _record_studies(store)
    _record_machine(store)
    _keep_results(store)
    locks = [at_work(store, run_id) for run_id in (_LIVE, _ENDING)]
    try:
        yield
    finally:
        for lock in locks:
            lock.release()
        store.close()


# --- volumes ------------------------------------------------------------------------------------


def _write_volumes(folder: Path) -> None:
    for number in range(6):
        path = folder / ("layers" if number % 2 else "salt") / f"v{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, _volume(number))


def _volume(number: int) -> NDArray[np.float32]:
    """Wavy layers of both signs around a ball without any: what looks different along each axis."""
    x, y, z = (np.linspace(-1, 1, n) for n in _SHAPE)
    x, y, z = np.meshgrid(x, y, z, indexing="ij")
    layers = np.sin(14 * z + 3 * np.sin(2.5 * x + number) + 2 * y) * (0.6 + 0.4 * x)
    away = np.sqrt((x - 0.25) ** 2 + (y + 0.15) ** 2 + (z - 0.1) ** 2)
    return (layers * np.clip((away - 0.35) * 6, 0, 1)).astype(np.float32)


# --- the editor's pipeline, at work ----------------------------------------------------------------


def patches(folder: str) -> Pipeline:
    """A node of each category: what is done, at work, failed, waiting, and switched off."""
    rows = (
        (
            Node(id="volumes", type="VolumeFolder", title="Folder of volumes", params={"folder": folder}),
            Node(id="convert", type="NumpyToParquet", title="Pack into Parquet"),
            Node(id="table", type="ParquetToDelta", title="Delta table"),
        ),
        (
            Node(id="inspect", type="InspectDataset", title="Look for what is odd"),
            Node(id="split", type="SplitDataset", title="Train, validate, test"),
            Node(id="train", type="TrainResNet3D", title="Train ResNet-18", params={"epochs": 10}),
        ),
        (
            Node(id="probe", type="ProbeStorage", title="How fast is the disk?", mode="disabled"),
            Node(id="predict", type="BatchPredict", title="Predict the test volumes"),
            Node(id="register", type="RegisterModel", title="Register", params={"name": "patches"}),
        ),
    )
    nodes = [
        node.model_copy(update={"position": Position(x=290 * column, y=230 * row)})
        for row, line in enumerate(rows)
        for column, node in enumerate(line)
    ]
    wires = (
        "volumes.out>convert.files convert.out>table.parquet table.out>inspect.dataset table.out>split.table"
        " split.train>train.data split.validation>train.validation train.out>predict.model split.test>predict.data"
        " train.out>register.model"
    )
    return pipeline(*nodes, wires=wires, name=PATCHES)


def _record_live(store: RunStore, document: Pipeline) -> None:
    odd = "2 of 2,000 volumes have values that are not finite"
    failure = Failure(code="data", message=odd, hint="Convert them again with on_bad=quarantine.")
    progress = Progress(
        node="train", done=832, total=1400, unit="volumes", rate=41.5, phase="Epoch 4 of 10", share=0.36, left_s=228.0
    )  # fmt: skip
    tasks = {
        "volumes": Did("done", 0, 2),
        "convert": Did("cached", 2, reason="the same volumes and parameters", outputs={"out": _PARQUET}),
        "table": Did("done", 2, 9, outputs={"out": _TABLE}),
        "inspect": Did("failed", 9, 14, failure=failure),
        "split": Did("done", 9, 10, outputs=_split()),
        "train": Did("running", 10, 130, progress=progress, curves={"loss": _falling(0.7, 0.4)}, epochs=14),
        "predict": Did("queued", reason="waits for Train ResNet-18"),
        "register": Did("queued", reason="waits for Train ResNet-18"),
    }
    record(store, _LIVE, document, "running", tasks, began=_BEGAN - 3000, took=130)


def _split() -> dict[str, VolumeDelta]:
    ends = (("train", 0.0, 0.7), ("validation", 0.7, 0.85), ("test", 0.85, 1.0))
    return {
        name: _TABLE.select(Selection(salt="s", low=low, high=high), selected=round(_COUNT * (high - low)))
        for name, low, high in ends
    }


def _falling(first: float, pace: float, floor: float = 0.05) -> Callable[[int], float]:
    return lambda epoch: floor + first * math.exp(-pace * (epoch - 1)) * (1 + 0.12 * math.sin(3 * epoch))


# --- runs that have ended --------------------------------------------------------------------------


def _record_others(store: RunStore) -> None:
    record(store, EARLIER, _study(34), "done", _studied(0.42, 0.902, 0.334), began=_BEGAN - 9000, took=331)
    record(store, FIRST, _study(50), "done", _studied(0.35, 0.871, 0.402), began=_BEGAN, took=412)
    record(store, SECOND, _study(18), "done", _studied(0.5, 0.934, 0.281), began=_BEGAN + 600, took=268)
    failure = Failure(code="data", message="survey.npy ends after 3 of 4 GB", hint="Copy it again.")
    tasks = {
        "a": Did("cached", 0, reason="the same survey"),
        "b": Did("done", 8, 64, waited=8),
        "c": Did("done", 64, 140),
        "d": Did("failed", 70, 118, waited=6, failure=failure),
        "e": Did("cancelled", 140, 150, reason="another node failed"),
    }
    names = dict(zip("abcde", ("Survey", "Cut patches", "Pack into Parquet", "Check", "Delta table"), strict=True))
    facies = pipeline(*(Node(id=i, type="RunAfter", title=title) for i, title in names.items()), name="seismic facies")
    record(store, FAILED, facies, "failed", tasks, began=_BEGAN + 1200, took=150, error="Check: survey.npy ends early")
    survey = pipeline(Node(id="a", type="VolumeFolder", title="Survey"), name="old survey")
    begun = {"a": Did("cancelled", 0, 30, reason="on request")}
    record(store, _CANCELLED, survey, "cancelled", begun, began=_BEGAN - 1800, took=30)
    record(store, _LOST, survey, "lost", {"a": Did("running", 0)}, began=_BEGAN - 1500, took=75)


def _study(depth: int) -> Pipeline:
    """A training; the shallow one is followed by another check than the deep one."""
    check = ("report", "EvaluateModel", "Evaluate") if depth == 18 else ("inspect", "InspectDataset", "Inspect")
    wire = " predict.out>report.predictions" if depth == 18 else " table.out>inspect.dataset"
    nodes = (
        Node(id="table", type="DeltaTable", title="Patches", params={"table": "/data/patches/table"}),
        Node(id="train", type="TrainResNet3D", title="Train", params={"depth": depth}),
        Node(id="predict", type="BatchPredict", title="Predict"),
        Node(id=check[0], type=check[1], title=check[2]),
    )
    places = ((0, 0), (290, 0), (580, 0), (580, 230) if depth == 18 else (290, 230))
    placed = [
        node.model_copy(update={"position": Position(x=x, y=y)}) for node, (x, y) in zip(nodes, places, strict=True)
    ]
    wires = "table.out>train.data table.out>predict.data train.out>predict.model" + wire
    return pipeline(*placed, wires=wires, name="lesions")


def _studied(pace: float, auc: float, loss: float) -> dict[str, Did]:
    curves: Curves = {
        "loss": _falling(0.68, pace),
        "val_loss": lambda epoch: 0.72 * math.exp(-0.8 * pace * (epoch - 1)) + loss * 0.6,
        "auc": lambda epoch: 1 - 0.45 * math.exp(-pace * epoch),
        "val_auc": lambda epoch: auc - 0.35 * math.exp(-pace * epoch),
    }
    metrics = {"val_auc": auc, "val_accuracy": auc - 0.05, "val_loss": loss, "loss": loss / 2}
    model = TrainedModel(uri="/data/lesions/model", spec=_SPEC, metrics=metrics, parameters=33_368_897)
    return {
        "table": Did("done", 0, 1, outputs={"out": _TABLE}),
        "train": Did("done", 1, 250, outputs={"out": model}, curves=curves, epochs=12),
        "predict": Did("done", 250, 262),
    }


# --- a run that ends while it is looked at ----------------------------------------------------------


def _small_study() -> Pipeline:
    nodes = (
        Node(id="table", type="DeltaTable", title="Patches", params={"table": "/data/patches/table"}),
        Node(id="train", type="TrainResNet3D", title="Train", position=Position(x=290, y=0)),
    )
    return pipeline(*nodes, wires="table.out>train.data", name=STUDY)


def _trained(auc: float, loss: float) -> Did:
    metrics = {"val_auc": auc, "val_accuracy": auc - 0.05, "val_loss": loss, "loss": loss / 2}
    model = TrainedModel(uri="/data/study/model", spec=_SPEC, metrics=metrics, parameters=33_368_897)
    return Did("done", 1, 250, outputs={"out": model})


def _record_studies(store: RunStore) -> None:
    table = Did("done", 0, 1, outputs={"out": _TABLE})
    before = {"table": table, "train": _trained(0.871, 0.402)}
    record(store, _STUDIED, _small_study(), "done", before, began=_BEGAN - 12_000, took=250)
    at = {"table": table, "train": Did("running", 1)}
    record(store, _ENDING, _small_study(), "running", at, began=_BEGAN - 11_000, took=250)


def begin_again(workspace: Workspace) -> Callable[[], None]:
    """Have the run of the study be at work, whatever has become of it. What is given ends it."""
    store = RunStore(workspace)
    began = _BEGAN - 11_000
    store.update_task(_ENDING, "train", **Did("running", 1).columns(began))
    with store.write() as db:
        db.execute("UPDATE runs SET state = 'running', ended = NULL WHERE run_id = ?", (_ENDING,))

    def end() -> None:
        store.update_task(_ENDING, "train", **_trained(0.934, 0.281).columns(began))
        store.record_end(_ENDING, "done")
        store.close()

    return end


# --- the machine of a run, and of a profile ---------------------------------------------------------

_PROFILES = f"""
[{PROFILE}]
cores = 8
memory = "32 GB"
gpus = 1
price_per_hour = 1.2
currency = "EUR"
stop_after = "8h"
"""


def _record_machine(store: RunStore) -> None:
    """What was measured of the machine during the second run, and of its training and its predictions."""
    log = MonitorLog(store.workspace.run_folder(SECOND) / FILE)
    log.begin(Attempt(_BEGAN + 600, {"host": "workstation", "cores": 8, "gpu": "", "unknown": [], "elsewhere": ""}))
    for second in range(1, 263):
        node = "train" if second <= 250 else "predict"
        log.add(Moment(_BEGAN + 600 + second, 1.0, _measured(second, node)))
    log.flush()
    samples = [SystemSample(values=_sampled(at), time=_BEGAN + 600 + at) for at in range(0, 264, 12)]
    store.add_events(SECOND, samples)


def _measured(second: int, node: str) -> dict[str, float]:
    wave, reads = math.sin(second / 9), second % 60 < 8
    return {
        "cpu": 55 + 20 * wave,
        "memory": 9000 + 12 * second,
        "network_receive": 0.4 + 0.3 * wave,
        "network_transmit": 0.1,
        "gpu_0": 85 + 10 * wave,
        "gpu_0_memory": 14_000.0,
        f"{node}.cpu": 320 + 120 * wave,
        f"{node}.cpu:worker": 210 + 80 * wave,
        f"{node}.cpu:reader": 110 + 40 * wave,
        f"{node}.memory": 5000 + 9 * second,
        f"{node}.read": (180 + second / 4 if reads else 6.0),
        f"{node}.write": 2.0 + (60.0 if second == 120 else 0.0),
        f"{node}.rate:volumes": 64 + 9 * wave,
        f"{node}.waiting": 22.0 if reads else 4.0,
    }


def _sampled(second: int) -> dict[str, float]:
    wave = math.sin(second / 40)
    return {
        "cpu_utilization_percentage": 55 + 20 * wave,
        "run_processes_cpu_percentage": 320 + 120 * wave,
        "system_memory_usage_megabytes": 9000.0 + 12 * second,
        "run_processes_memory_usage_megabytes": 5000.0 + 9 * second,
    }


# --- results for the lineage ------------------------------------------------------------------------


def _keep_results(store: RunStore) -> None:
    """A folder that became a table, which two models were trained on, of which one was asked and registered."""
    files = VolumeFiles(
        uri="/data/scans", manifest="/data/scans.arrow", count=_COUNT, bytes=_BYTES, spec=_SPEC, format="nifti"
    )  # fmt: skip
    models = [
        TrainedModel(uri=f"/data/{name}", spec=_SPEC, metrics={"val_auc": auc})
        for name, auc in (("shallow", 0.87), ("deep", 0.93))
    ]
    said = Predictions(uri="/data/predictions", count=300, bytes=90_000, version=0, model="5f")
    report = Report(uri="/data/report.html", figures={"auc": 0.93})
    registered = Report(uri="/data/registered.json", figures={"name": "patches", "version": 2, "alias": "champion"})
    made = (
        ("scans", files, {"params": {"folder": "/scans"}, "files": {"folder": "0f"}}),
        ("packed", _PARQUET, {"inputs": {"files": "scans.out"}}),
        ("table", _TABLE, {"inputs": {"parquet": "packed.out"}}),
        ("shallow", models[0], {"inputs": {"data": "table.out"}}),
        ("deep", models[1], {"inputs": {"data": "table.out"}}),
        ("said", said, {"inputs": {"model": "deep.out", "data": "table.out"}}),
        ("report", report, {"inputs": {"predictions": "said.out"}}),
        ("registered", registered, {"inputs": {"model": "deep.out"}}),
    )
    for at, (name, dataset, identity) in enumerate(made):
        created = _BEGAN + at
        store.results.put(
            stored_result(
                name, node=name, pipeline="lesions of before", created=created, used=created, identity=identity,
                outputs={"out": dataset},
            )
        )  # fmt: skip
