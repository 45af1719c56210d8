"""A training on a table's volumes after TransformVolumes: rows read one by one, as a table's rows otherwise are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from npy_folders import context, convert, make_volumes, numbered
from running import Runner
from volume_sets import labels_for, make_delta, make_files, make_parquet, some_volumes

import voxelflow
from engine.declare.check_context import CheckContext
from engine.declare.datasets import (
    Dataset,
    Preview,
    Selection,
    TrainedModel,
    VolumeDelta,
    VolumeFiles,
    VolumeSpec,
    dataset_from_json,
)
from engine.declare.events import Event, Message
from engine.errors import DataError
from engine.profiles import local_profile
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.loaders import LoaderName
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.parquet_to_delta import parquet_to_delta
from nodes.profiling.settings import ProfileParameters
from nodes.split_dataset import split_dataset
from nodes.train_resnet3d import train_resnet3d
from nodes.training.leakage import Part
from nodes.training.preparation import prepare
from nodes.training.settings import Settings
from nodes.transform_volumes import transform_volumes

VOLUMES = some_volumes(40)
LOW, HIGH = Selection(salt="x", low=0, high=0.6), Selection(salt="x", low=0.6, high=1)


def transformed(data: Dataset, folder: Path, name: str) -> VolumeFiles:
    made: VolumeFiles = transform_volumes(data, normalise="z-score", ctx=context(folder, name))
    return made


@pytest.fixture
def sides(tmp_path: Path) -> tuple[VolumeFiles, VolumeFiles]:
    """Two parts of a table, transformed apart."""
    table = make_delta(tmp_path, VOLUMES, labels_for(VOLUMES), own=True)
    return transformed(table.select(LOW), tmp_path, "low"), transformed(table.select(HIGH), tmp_path, "high")


@pytest.mark.parametrize("wired", [(), ("validation",), ("validation", "test")])
def test_it_is_prepared(tmp_path: Path, sides: tuple[VolumeFiles, VolumeFiles], wired: tuple[str, ...]) -> None:
    settings = Settings(batch_size=4, loader="npy", validation_share=0.3)
    inputs: dict[str, Any] = {"validation": None} | dict.fromkeys(wired, sides[1])
    with prepare(sides[0], settings=settings, ctx=context(tmp_path, "train"), **inputs) as prepared:
        assert prepared.held_out is not None
        known = [ids for part in (prepared.rows, prepared.held_out) for ids in part.source.ids(part.rows)]
        assert len(known) == len(set(known)) == (40 if wired else sides[0].count)
        assert len(next(prepared.loader.batches()).rows) == 4


def test_it_is_prepared_for_a_profile(tmp_path: Path, sides: tuple[VolumeFiles, VolumeFiles]) -> None:
    settings = ProfileParameters(loader="npy").settings(4)
    with prepare(sides[0], None, settings, context(tmp_path, "profile")) as prepared:
        assert len(prepared.rows.rows) == sides[0].count


def test_a_group_that_is_not_there_is_named(tmp_path: Path, sides: tuple[VolumeFiles, VolumeFiles]) -> None:
    settings = Settings(batch_size=4, loader="npy", validation_group="patient")
    with (
        pytest.raises(DataError, match="the volumes have no column patient"),
        prepare(sides[0], None, settings, context(tmp_path, "train")),
    ):
        pass


@pytest.fixture
def grouped(tmp_path: Path) -> VolumeDelta:
    """A part of a table that was split by patient."""
    root = tmp_path / "in"
    names = make_volumes(root, numbered(60), (4, 4, 4))
    lines = [f"{name},{number % 2},P{number // 2 % 12}" for number, name in enumerate(names)]
    (root / "labels.csv").write_text("\n".join(["file,label,patient", *lines]))
    table = parquet_to_delta(convert(root, tmp_path / "work"), ctx=context(tmp_path, "table"))
    return split_dataset(table, by="group", column="patient", validation=0, test=0.3, ctx=context(tmp_path, "s")).train


def patients(part: Part) -> set[str]:
    return {*part.source.rows.columns(["patient"])["patient"].take(part.rows).to_pylist()}


@pytest.mark.slow
def test_the_groups_of_a_split_stay_whole_whatever_comes_between(tmp_path: Path, grouped: VolumeDelta) -> None:
    files = transformed(grouped, tmp_path, "change")
    again = transformed(files, tmp_path, "again")
    parquet = numpy_to_parquet(again, ctx=context(tmp_path, "parquet"))
    table = parquet_to_delta(parquet, ctx=context(tmp_path, "table2"))
    others = transformed(parquet, tmp_path, "other"), transformed(table, tmp_path, "last")
    chain: list[tuple[Dataset, LoaderName]] = [
        (grouped, "arrow"), (files, "npy"), (again, "npy"), (parquet, "arrow"), (table, "arrow"),
        (table.select(LOW), "arrow"), (others[0], "npy"), (others[1], "npy"),
    ]  # fmt: skip
    for data, loader in chain:
        said: list[Event] = []
        ctx = context(tmp_path, "train", emit=said.append)
        with prepare(data, None, Settings(batch_size=4, loader=loader, validation_share=0.5), ctx) as prepared:
            assert prepared.held_out is not None
            sides = patients(prepared.rows), patients(prepared.held_out)
        assert all(sides), data
        assert not sides[0] & sides[1], data
        texts = [event.text for event in said if isinstance(event, Message)]
        assert "whole groups of patient are held back for validation, as SplitDataset keeps them" in texts
        assert Preview.of(data).grouped_by == ("patient",)
        stored = dataset_from_json(data.model_dump_json())
        assert stored == data
    # Without the column nothing can be kept together.
    bare = numpy_to_parquet(files, columns="none", ctx=context(tmp_path, "bare"))
    assert bare.grouped_by == ()
    with prepare(bare, None, Settings(batch_size=4), context(tmp_path, "train")) as prepared:
        assert prepared.held_out is not None


def test_references_without_groups_are_stored_as_before(tmp_path: Path) -> None:
    volumes = {name: VOLUMES[name] for name in list(VOLUMES)[:4]}
    for data in (
        make_files(tmp_path, volumes, labels_for(volumes)),
        make_parquet(tmp_path, volumes, labels_for(volumes)),
        make_delta(tmp_path, volumes, labels_for(volumes)),
    ):
        assert not [name for name in data.model_dump() if name.startswith("grouped")]


@pytest.mark.parametrize(
    ("column", "columns", "code"), [("patient", "all", ""), ("patient", "none", "VF517"), ("affine", "all", "VF517")]
)
def test_before_a_run_it_is_said_where_groups_are_lost(column: str, columns: str, code: str) -> None:
    spec = VolumeSpec(shape=(6, 6, 4), dtype="float32")
    known = Preview(kind="VolumeDelta", count=400, labelled=400, spec=spec, columns=("patient", "affine"))
    params: dict[str, Any] = {"by": "group", "column": column}
    for node, port, given in (
        (split_dataset, "table", params),
        (transform_volumes, "volumes", {"normalise": "z-score"}),
        (numpy_to_parquet, "files", {"columns": columns}),
        (parquet_to_delta, "parquet", {}),
        (train_resnet3d, "data", {}),
    ):
        defaults = {p.name: p.default for p in node.parameters}
        seen = CheckContext(params=defaults | given, inputs={port: known})
        assert node.preview_hook is not None
        out = node.preview_hook(seen)
        known = out if isinstance(out, Preview) else out["train"]
    assert [problem.code for problem in seen.problems if problem.code == "VF517"] == [code] * bool(code)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_trainings")
def test_the_whole_pipeline_runs(workspace: Workspace, store: RunStore) -> None:
    document = pipeline(
        box("made", "SyntheticVolumes", count=40, shape=[6, 6, 4, 1]),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("split", "SplitDataset"),
        box("change", "TransformVolumes", normalise="z-score"),
        box("train", "TrainResNet3D", loader="npy", batch_size=8, epochs=1, stem="small", width=16),
        wires="made.out>convert.files convert.out>table.parquet table.out>split.table split.train>change.volumes"
        " change.out>train.data",
    )
    run, tasks = Runner(voxelflow.catalog(workspace), workspace, store, local_profile()).run(document)
    assert run.state == "done", run.error
    model = tasks["train"].outputs["out"]
    assert isinstance(model, TrainedModel)
    assert model.spec.transforms
