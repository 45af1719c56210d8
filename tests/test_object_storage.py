"""From `.npy` objects to a table in object storage and a trained model, through real runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from delta_tables import read_by_deltalake
from running import Runner
from store_fixtures import upload_folder
from volumes import etl, expected_rows, write_volumes

import voxelflow
from engine.declare.datasets import TrainedModel, VolumeDelta
from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import Pipeline
from engine.storage.objects import RemotePath
from engine.store.runs import RunStore, Task
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_trainings")]
SHAPE = (8, 8, 8, 1)


def table_of(tasks: dict[str, Task]) -> VolumeDelta:
    table = tasks["optimize"].outputs["out"]
    assert isinstance(table, VolumeDelta)
    return table


@pytest.fixture
def runner(workspace: Workspace, store: RunStore) -> Runner:
    return Runner(voxelflow.catalog(workspace), workspace, store)


# A run takes ten seconds, and knows nothing of the store but its address: two kinds of store are enough here.
@pytest.mark.parametrize("container", ["azure_server", "s3_stand_in"], indirect=True)
def test_from_objects_to_a_table_that_grows(container: str, tmp_path: Path, runner: Runner) -> None:
    volumes = write_volumes(tmp_path / "files", 40, shape=SHAPE)
    source = upload_folder(tmp_path / "files", f"{container}/volumes")
    document = etl(source, table=f"{container}/table")
    run, tasks = runner.run(document)
    assert run.state == "done", run.error
    assert read_by_deltalake(table_of(tasks).uri) == expected_rows(volumes)
    assert table_of(tasks).uri == f"{container}/table"

    _, tasks = runner.run(document)
    assert {t.state for t in tasks.values()} == {"cached"}

    volumes = write_volumes(tmp_path / "files", 45, shape=SHAPE)
    upload_folder(tmp_path / "files", source)
    (RemotePath.at(source) / "broken.npy").write_bytes(b"\x93NUMPY not")
    (RemotePath.at(source) / "empty.npy").write_bytes(b"")
    run, tasks = runner.run(etl(source, table=f"{container}/table", max_bad_files=2))
    assert run.state == "done", run.error
    assert read_by_deltalake(table_of(tasks).uri) == expected_rows(volumes)

    # No secret that was sent to a server is kept anywhere.
    secrets = (b"testing-secret-key", b"Eby8vdM02xNOcqFlqUwJPLlmEtl")
    kept = [p for p in runner.workspace.root.rglob("*") if p.is_file()]
    assert [p for p in kept if any(secret in p.read_bytes() for secret in secrets)] == []


def test_a_model_is_trained_from_a_table_in_object_storage(azure: str, tmp_path: Path, runner: Runner) -> None:
    write_volumes(tmp_path / "files", 40, shape=SHAPE)
    source = upload_folder(tmp_path / "files", f"{azure}/volumes")
    document = etl(source, table=f"{azure}/table")
    train = box("train", "TrainResNet3D", width=16, epochs=1, batch_size=8, steps_per_epoch=2)
    edges = pipeline(wires="optimize.out>train.data").edges
    run, tasks = runner.run(
        document.model_copy(update={"nodes": (*document.nodes, train), "edges": (*document.edges, *edges)})
    )
    assert run.state == "done", run.error
    model = tasks["train"].outputs["out"]
    assert isinstance(model, TrainedModel)
    assert model.metrics["loss"] > 0


def test_a_document_names_only_places_that_the_person_allows(
    azure: str, tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_volumes(tmp_path / "files", 4, shape=SHAPE)
    source = upload_folder(tmp_path / "files", f"{azure}/volumes")

    def codes(document: Pipeline) -> set[str]:
        with pytest.raises(CheckFailed) as refused:
            runner.start(document)
        return {d.code for d in refused.value.diagnostics if d.severity == "error"}

    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", source)
    assert codes(etl(source, table=f"{azure}/table")) == {"VF308"}
    assert codes(etl(azure, table=source)) == {"VF308"}
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{tmp_path}:{source}:{azure}/table")
    assert codes(etl(f"{source}/none", table=f"{azure}/table")) == {"VF306"}
    assert codes(etl("hdfs://box/a", table=f"{azure}/table")) == {"VF302"}
    assert codes(etl(source, table="s3://me:geheim@box/a")) == {"VF303"}


def test_a_container_that_is_not_there_is_reported_before_the_run(
    azure: str, tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{azure}:{azure}nowhere")
    with pytest.raises(CheckFailed) as refused:
        runner.start(etl(f"{azure}nowhere", table=f"{azure}/table"))
    assert any("there is no container" in d.message for d in refused.value.diagnostics)
