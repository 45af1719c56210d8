"""Figures that are measured once, by Spark: to the last bit those of one process, whatever becomes of the driver."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import box, pipeline
from delta_tables import context
from npy_folders import make_volumes, numbered, rows, take
from pyspark.sql import SparkSession
from running import Runner
from spark_nodes import on_spark, spark_context, start_driver, was_killed
from system_sessions import wait_gone
from volume_sets import make_surveys

import voxelflow
from engine.declare.datasets import Dataset, VolumeFiles, VolumeParquet
from engine.declare.events import SparkSession as SessionEvent
from engine.declare.events import TaskStarted
from engine.errors import DataError
from engine.profiles import Profile
from engine.store.runs import RunStore
from engine.workspace import open_workspace
from nodes.loaders import volume_statistics
from nodes.spark import measure_volumes
from nodes.transform_volumes import transform_volumes

pytestmark = pytest.mark.slow

BOTH: dict[str, Any] = {"clip_percentiles": (5, 95), "normalise": "z-score", "normalise_over": "channel"}
ALL, SOURCE = BOTH | {"statistics": "all"}, BOTH | {"statistics": "source"}
COUNT, SHAPE = 24, (5, 4, 3, 2)


def folder(base: Path) -> VolumeFiles:
    """Of one volume there is a header, one has another number of channels, one no finite value, and one whole ones."""
    make_volumes(base / "in", numbered(COUNT), SHAPE)
    path = base / "in" / "v0005.npy"
    path.write_bytes(path.read_bytes()[:200])
    make_volumes(base / "in", ["v0009.npy"], (*SHAPE[:3], 3))
    np.save(base / "in" / "v0011.npy", np.full(SHAPE, np.nan, np.float32))
    make_volumes(base / "in", ["v0013.npy"], SHAPE, "int16")
    return take(base / "in", base / "look")


def surveys(base: Path) -> Dataset:
    """Patches of three surveys, of which some are in one task's stretch."""
    return make_surveys(base, COUNT, SHAPE, north=3.0, south=-500.0, west=0.0)


def far_from_zero(base: Path) -> Dataset:
    """One survey's percentiles lie so close together that its patches are read again."""
    return make_surveys(base, COUNT, SHAPE, north=40_000.0, south=-500.0, west=0.0)


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_volumes, "_MOST_TASKS", 5)


@pytest.mark.parametrize("kind", ["percentiles", "min-max"])
@pytest.mark.parametrize(
    ("make", "statistics"), [(folder, "all"), (surveys, "source"), (surveys, "all"), (far_from_zero, "source")]
)
@pytest.mark.usefixtures("few_tasks")
def test_the_chain_is_that_of_one_process(
    spark_local: SparkSession, tmp_path: Path, make: Any, statistics: str, kind: str
) -> None:
    volumes, params = make(tmp_path), BOTH | {"statistics": statistics, "normalise": kind}
    said: dict[str, list[str]] = {"here": [], "there": []}

    def hear(name: str) -> Any:
        return lambda event: said[name].append(str(getattr(event, "text", "")))

    here = transform_volumes(volumes, **params, ctx=dataclasses.replace(context(tmp_path, "here"), emit=hear("here")))
    ctx = spark_context(spark_local, tmp_path, "there", emit=hear("there"))
    there = on_spark(transform_volumes, volumes, ctx=ctx, **params)
    assert there.transforms == here.transforms
    assert there.spec == here.spec
    assert said["there"] == said["here"]
    assert sum("could not be measured" in text for text in said["here"]) == (2 if make is folder else 0)


def test_nothing_is_measured_where_each_volume_is_by_itself(tmp_path: Path) -> None:
    """So no Spark is started: the context has none."""
    made = on_spark(transform_volumes, folder(tmp_path), ctx=context(tmp_path), normalise="z-score")
    assert [step.name for step in made.transforms] == ["normalise"]


@pytest.mark.parametrize("backend", ["spark", "embedded"])
@pytest.mark.parametrize(
    ("point", "measured"),
    [
        ("statistics added#5", 0),
        ("statistics measured", 1),
        (f"statistics added#{COUNT + 7}", 1),
        ("statistics measured#2", 2),
    ],
)
def test_a_driver_that_is_killed(
    spark_local: SparkSession, tmp_path: Path, point: str, measured: int, backend: str
) -> None:
    """While the first step is measured, after it, while the second is, after that."""
    volumes = surveys(tmp_path)
    undisturbed = transform_volumes(volumes, **SOURCE, ctx=context(tmp_path, "undisturbed")).transforms
    assert was_killed(start_driver(spark_local, tmp_path, "TransformVolumes", volumes, "t", point, **SOURCE))
    scratch = context(tmp_path, "t").scratch
    finished = {path: path.stat().st_ino for path in scratch.glob("statistics-*.arrow")}
    assert len(finished) == measured
    if backend == "embedded":
        made = transform_volumes(volumes, **SOURCE, ctx=context(tmp_path, "t"))
    else:
        made = on_spark(transform_volumes, volumes, ctx=spark_context(spark_local, tmp_path, "t"), **SOURCE)
    assert made.transforms == undisturbed
    # What was measured is not written again.
    assert {path: path.stat().st_ino for path in finished} == finished


@pytest.mark.usefixtures("few_tasks")
def test_what_tasks_have_measured_is_found_unless_it_is_damaged(
    spark_local: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = surveys(tmp_path)
    undisturbed = transform_volumes(volumes, **SOURCE, ctx=context(tmp_path, "undisturbed")).transforms
    ctx = spark_context(spark_local, tmp_path, "t")
    with monkeypatch.context() as patch:
        patch.setattr(volume_statistics.Pass, "finish", _full)
        with pytest.raises(DataError, match="no room"):
            on_spark(transform_volumes, volumes, ctx=ctx, **SOURCE)
    (measured,) = ctx.scratch.glob("measured-*")
    there = sorted(measured.glob("[0-9]*.arrow"))
    assert there
    damaged, data = there[0], bytearray(there[0].read_bytes())
    data[len(data) // 2] ^= 4
    damaged.write_bytes(data)
    before = {path: path.stat().st_ino for path in there}
    made = on_spark(transform_volumes, volumes, ctx=ctx, **SOURCE)
    assert made.transforms == undisturbed
    assert {path for path in there if path.stat().st_ino != before[path]} == {damaged}


def _full(*_: Any) -> None:
    raise DataError("no room")


@pytest.mark.usefixtures("few_tasks")
def test_files_go_when_what_they_say_is_saved(
    spark_local: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_statistics, "_SAVE_VALUES", 1)
    volumes, ctx = surveys(tmp_path), spark_context(spark_local, tmp_path, "t")
    undisturbed = transform_volumes(volumes, **ALL, ctx=context(tmp_path, "undisturbed")).transforms
    assert on_spark(transform_volumes, volumes, ctx=ctx, **ALL).transforms == undisturbed
    left = [path.name for path in ctx.scratch.glob("measured-*/*")]
    # Nothing was saved after the last one.
    assert left == ["20-24.arrow"] * 2


@pytest.mark.usefixtures("forked_runs")
def test_a_run_on_spark_makes_what_one_without_it_makes(tmp_path: Path) -> None:
    """Its profile keeps nothing warm: Java is below its worker, and gone with it."""
    make_volumes(tmp_path / "in", numbered(COUNT), SHAPE)
    document = pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "in")),
        box("transform", "TransformVolumes", **ALL | {"clip_percentiles": [5, 95]}),
        box("convert", "NumpyToParquet"),
        wires="folder.out>transform.volumes transform.out>convert.files",
    )
    spark = Profile(
        name="spark", backend="spark", master="local[2]", cores=2, memory_bytes=4 << 30,
        keep_warm_minutes=0, spark={"spark.driver.memory": "512m"},
    )  # fmt: skip
    found = []
    for profile in (None, spark):
        workspace = open_workspace(tmp_path / (profile.name if profile else "embedded"))
        runner = Runner(voxelflow.catalog(workspace), workspace, RunStore(workspace), profile)
        run, tasks = runner.run(document)
        assert run.state == "done", run.error
        made = tasks["convert"].outputs["out"]
        assert isinstance(made, VolumeParquet)
        found.append((rows(made), made.spec))
        events = [event for _, event in runner.store.events(run.run_id)]
        started = {e.node: e for e in events if isinstance(e, TaskStarted)}
        assert started["transform"].backend == ("spark" if profile else "embedded")
        sessions = [(e.state, e.java) for e in events if isinstance(e, SessionEvent)]
        assert sessions == ([("live", 0), ("ended", 0)] if profile else [])
    assert found[0] == found[1]
    wait_gone(started["transform"].pid)
