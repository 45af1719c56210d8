"""What a run made, and that the code shown for it does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from delta_tables import context, shards
from spark_nodes import _duckdb

from engine.declare.datasets import Predictions, Report, TrainedModel, VolumeDelta, VolumeSpec
from engine.history.details import read_details
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.runs.outputs import made_in, model_code, model_files, models, pictured, predict_line, table_code, tables

SPEC = VolumeSpec(shape=(4, 4, 4), dtype="float32", classes=("dome", "fault"))


@pytest.mark.slow
def test_what_was_made_knows_its_node_and_what_that_was_given(workspace: Workspace, store: RunStore, runs) -> None:
    run, _ = runs.run(pipeline(box("a", "Make"), box("j", "Join"), wires="a.out>j.first", name="p"))
    table = VolumeDelta(uri="/t", count=1, bytes=1, version=0, data_version=0)
    store.update_task(run.run_id, "a", outputs={"out": table})
    store.update_task(run.run_id, "j", outputs={"out": TrainedModel(uri="/m", spec=SPEC)})
    found = made_in(read_details(workspace, store, run.run_id))
    assert [(m.node, m.title) for m in found] == [("a", "Make"), ("j", "Join")]
    assert found[1].made_from == {"first": table}
    assert [m.node for m in models(found)] == ["j"]
    assert [m.node for m in tables(found)] == ["a"]
    assert [m.node for m in pictured(found)] == ["j", "a"]


@pytest.mark.slow
def test_what_a_bypassed_node_passed_through_was_given(workspace: Workspace, store: RunStore, runs) -> None:
    through = box("b", "Join").model_copy(update={"mode": "bypass"})
    run, _ = runs.run(pipeline(box("a", "Make"), through, box("j", "Join"), wires="a.out>b.first b.out>j.first"))
    first, last = made_in(read_details(workspace, store, run.run_id))
    assert (last.node, last.made_from) == ("j", {"first": first.dataset})


@pytest.mark.slow
def test_predictions_are_seen_first_and_reports_before_tables(workspace: Workspace, store: RunStore, runs) -> None:
    run, _ = runs.run(pipeline(box("a", "Make"), box("b", "Make", text="y"), box("c", "Make", text="z"), name="p"))
    store.update_task(
        run.run_id, "c", outputs={"out": VolumeDelta(uri="/t", count=1, bytes=1, version=0, data_version=0)}
    )
    store.update_task(run.run_id, "a", outputs={"out": Predictions(uri="/p", count=1, bytes=1, version=0, model="m")})
    store.update_task(run.run_id, "b", outputs={"out": Report(uri="/r.html")})
    assert [m.node for m in pictured(made_in(read_details(workspace, store, run.run_id)))] == ["a", "b", "c"]


def test_the_command_names_the_node_only_where_it_must() -> None:
    assert predict_line("r-1", "train", several=False) == "voxelflow predict r-1 volume.npy"
    assert predict_line("r-1", "train", several=True) == "voxelflow predict r-1 --node train volume.npy"


def test_a_model_of_three_axes_is_given_its_channel(tmp_path: Path) -> None:
    (tmp_path / "model.keras").write_bytes(b"x" * 10)
    (tmp_path / "mlflow_model").mkdir()
    code = model_code(TrainedModel(uri=str(tmp_path), spec=SPEC))
    compile(code, "code", "exec")
    assert ".reshape((4, 4, 4, 1))" in code
    assert "'dome', 'fault'" in code
    assert [(f.name, f.bytes) for f in model_files(TrainedModel(uri=str(tmp_path), spec=SPEC))] == [("model.keras", 10)]
    assert "mlflow.pyfunc" in model_code(TrainedModel(uri="/elsewhere", spec=SPEC))
    assert model_files(TrainedModel(uri="s3://bucket/model", spec=SPEC)) == []


@pytest.fixture
def delta(tmp_path: Path) -> VolumeDelta:
    from nodes.parquet_to_delta import parquet_to_delta

    ctx = context(tmp_path / "o'clock", "t")
    return parquet_to_delta(shards(tmp_path / "in", 7, 5), ctx=ctx)


def test_the_code_for_a_table_reads_it(delta: VolumeDelta) -> None:
    code = table_code(delta)
    names: dict[str, object] = {}
    exec(code["pandas"], names)
    assert len(names["frame"]) == 12  # type: ignore[arg-type]
    assert names["volume"].shape == delta.spec.shape  # type: ignore[attr-defined, union-attr]
    compile(code["Spark"], "code", "exec")
    query = code["DuckDB"].partition("LOAD delta;\n")[2]
    with _duckdb().cursor() as connection:
        assert len(connection.execute(query).fetchall()) == 12


def test_the_code_for_parquet_files_reads_them(tmp_path: Path) -> None:
    code = table_code(shards(tmp_path / "in", 7, 5))
    names: dict[str, object] = {}
    exec(code["pandas"], names)
    assert sorted(names["frame"].columns) == ["id", "label"]  # type: ignore[attr-defined]
    with _duckdb().cursor() as connection:
        assert len(connection.execute(code["DuckDB"]).fetchall()) == 12
