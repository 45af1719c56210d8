"""What a run made, and that the code shown for it does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import forked_programs
import numpy as np
import pytest
from building import box, pipeline
from delta_tables import context, shards
from spark_nodes import _duckdb
from tiny_models import make_model

from engine.declare.datasets import Predictions, Report, Selection, TrainedModel, VolumeDelta, VolumeFiles, VolumeSpec
from engine.history.details import read_details
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.transforms.parameters import TransformParameters
from ui.runs.outputs import (
    Made,
    asked_file,
    made_in,
    model_code,
    model_files,
    models,
    pictured,
    predict_line,
    table_code,
    tables,
)
from ui.runs.results import judging_figures

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
    assert predict_line("r-1", "train", "volume.npy", several=False) == "voxelflow predict r-1 volume.npy"
    assert predict_line("r-1", "train", "FILE", several=True) == "voxelflow predict r-1 --node train FILE"


def test_files_of_another_format_are_not_called_npy() -> None:
    files = VolumeFiles(uri="/v", count=1, bytes=1, spec=SPEC, manifest="/m")
    rows, scans = (files.model_copy(update={"format": name}) for name in ("rows", "nifti"))
    assert asked_file([Made("a", "out", "A", each, {}) for each in (files, rows)]) == "volume.npy"
    assert asked_file([Made("a", "out", "A", each, {}) for each in (files, scans)]) == "FILE"


def test_a_model_of_three_axes_is_given_its_channel(tmp_path: Path) -> None:
    (tmp_path / "model.keras").write_bytes(b"x" * 10)
    (tmp_path / "mlflow_model").mkdir()
    (tmp_path / ".result.json").write_text("{}")
    code = model_code(TrainedModel(uri=str(tmp_path), spec=SPEC))
    compile(code, "code", "exec")
    assert ".reshape((4, 4, 4, 1))" in code
    assert "model.predict(volume[np.newaxis], verbose=0)" in code
    assert "'dome', 'fault'" in code
    assert [(f.name, f.bytes) for f in model_files(TrainedModel(uri=str(tmp_path), spec=SPEC))] == [("model.keras", 10)]
    (tmp_path / "model.keras").unlink()
    assert "mlflow.pyfunc" in model_code(TrainedModel(uri=str(tmp_path), spec=SPEC))
    assert "load_model('s3://bucket/model/mlflow_model')" in model_code(
        TrainedModel(uri="s3://bucket/model", spec=SPEC)
    )
    assert model_files(TrainedModel(uri="s3://bucket/model", spec=SPEC)) == []


def test_a_model_that_no_other_program_reads_is_asked_as_the_command_does(tmp_path: Path) -> None:
    """One of another framework; one whose volumes went through transforms; one that is given another format."""
    (tmp_path / "model.npz").write_bytes(b"x")
    assert "few_files import ask" in model_code(TrainedModel(uri=str(tmp_path), spec=SPEC))
    (tmp_path / "model.keras").write_bytes(b"x")
    assert "few_files" not in model_code(TrainedModel(uri=str(tmp_path), spec=SPEC))
    assert "[Path('FILE')]" in model_code(TrainedModel(uri=str(tmp_path), spec=SPEC), "FILE")


def test_a_model_in_object_storage_is_loaded_by_mlflow_and_its_transforms_are_named() -> None:
    spec = SPEC.model_copy(update={"transforms": TransformParameters(normalise="min-max").chain()})
    code = model_code(TrainedModel(uri="s3://bucket/model", spec=spec), "FILE")
    compile(code, "code", "exec")
    assert "load_model('s3://bucket/model/mlflow_model')" in code
    assert "# a volume must have gone through min-max before" in code


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_code_for_a_model_does_the_transforms_of_its_training(tmp_path: Path) -> None:
    chain = TransformParameters(size=(6, 6, 5), normalise="min-max").chain()
    model = make_model(tmp_path / "model", transforms=chain)
    file = tmp_path / "volume.npy"
    np.save(file, np.random.default_rng(0).normal(500, 90, (8, 6, 7, 2)).astype(np.float32))
    code = model_code(model, str(file))
    assert "# Volumes as they are in their files, after " in code
    command = (
        "from pathlib import Path; from nodes.prediction.few_files import ask; "
        f"(answer,) = ask(Path({model.uri!r}), [Path({str(file)!r})]).answers; "
        "print(answer.file, answer.name, dict(answer.scores))"
    )
    both = forked_programs.run(f"{code}\n{command}", training=True, timeout=300, cwd=tmp_path)
    shown, answered = both.stdout.splitlines()
    assert (both.returncode, shown) == (0, answered), both.stderr
    assert re.match(rf"{re.escape(str(file))} (no|yes) \{{'no': 0\.\d+, ", shown)


@pytest.fixture
def delta(tmp_path: Path) -> VolumeDelta:
    from nodes.parquet_to_delta import parquet_to_delta

    ctx = context(tmp_path / "o'clock", "t")
    return parquet_to_delta(shards(tmp_path / "in", 7, 5), ctx=ctx)


def test_the_code_for_a_table_reads_and_shows_it(delta: VolumeDelta, capsys: pytest.CaptureFixture[str]) -> None:
    code = table_code(delta)
    names: dict[str, object] = {}
    exec(code["pandas"], names)
    said = capsys.readouterr().out
    assert "[12 rows x 2 columns]" in said or len(said.splitlines()) == 14
    assert said.endswith(f"{delta.spec.shape} {delta.spec.dtype}\n")  # type: ignore[union-attr]
    assert len(names["frame"]) == 12  # type: ignore[arg-type]
    assert names["volume"].shape == delta.spec.shape  # type: ignore[attr-defined, union-attr]
    compile(code["Spark"], "code", "exec")
    assert code["Spark"].endswith("frame.show()")
    query = code["DuckDB"].partition("LOAD delta;\n")[2]
    with _duckdb().cursor() as connection:
        assert len(connection.execute(query).fetchall()) == 12


def test_the_code_for_a_part_of_a_table_reads_the_part_or_says_that_it_reads_all(
    delta: VolumeDelta, capsys: pytest.CaptureFixture[str]
) -> None:
    part = delta.select(Selection(salt="0", low=0.0, high=0.5))
    code = table_code(part)
    exec(code["Voxelflow"], {})
    read = {word for line in capsys.readouterr().out.splitlines() for word in re.findall(r"'([^']+)'", line)}
    names: dict[str, object] = {}
    exec(code["pandas"], names)
    frame = names["frame"].dropna()  # type: ignore[attr-defined]
    assert read == {each for each in frame["id"] if part.selections[0].holds(each)}
    assert 0 < len(read) < len(frame)
    for program, sign in (("pandas", "#"), ("Spark", "#"), ("DuckDB", "--")):
        comment, _, rest = code[program].partition("\n")
        assert comment.startswith(f"{sign} Other programs read all 12 rows of the table")
        assert rest == table_code(delta)[program]


def test_the_code_for_files_that_may_have_no_label_asks_for_none(tmp_path: Path) -> None:
    found = shards(tmp_path / "in", 7).model_copy(update={"labelled": 0})
    assert not [code for code in table_code(found).values() if "label" in code]


def test_the_figure_that_says_most_is_the_first_choice_for_the_best_version() -> None:
    names = ["val_accuracy", "loss", "val_zeal", "val_auc", "val_loss", "accuracy", "val_own"]
    assert judging_figures(names) == ["val_auc", "val_accuracy", "val_loss", "val_own", "val_zeal"]


def test_the_code_for_parquet_files_reads_them(tmp_path: Path) -> None:
    code = table_code(shards(tmp_path / "in", 7, 5))
    names: dict[str, object] = {}
    exec(code["pandas"], names)
    assert sorted(names["frame"].columns) == ["id", "label"]  # type: ignore[attr-defined]
    compile(code["Spark"], "code", "exec")
    # It makes its own session.
    assert "SparkSession.builder.getOrCreate()" in code["Spark"]
    with _duckdb().cursor() as connection:
        assert len(connection.execute(code["DuckDB"]).fetchall()) == 12
