"""Predictions by processes below the tasks of a Spark with two slots."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import forked_programs
import pytest
from forked_share import ForkedShare, KilledShare
from prediction_scenarios import run_prediction
from pyspark.sql import SparkSession
from spark_nodes import spark_context
from spark_sessions import spark_local
from tiny_models import make_model
from training_scenarios import Place
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.datasets import Predictions, TrainedModel, VolumeDelta
from engine.errors import ExecutionError
from nodes.batch_predict import batch_predict
from nodes.prediction.predictions_table import read_predictions
from nodes.spark import predict_parts

__all__ = ["spark_local"]
pytestmark = pytest.mark.slow

VOLUMES = some_volumes(45, (6, 6, 5, 2))
LABELS = labels_for(VOLUMES, unlabelled=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return make_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, LABELS, rows=20)


def rows(made: Predictions) -> list[dict[str, object]]:
    columns = ["id", "scores", "label", "predicted", "class", "model"]
    found = [row for batch in read_predictions(made, columns) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: str(row["id"]))


def test_the_table_is_that_of_one_process_also_after_a_lost_task(
    spark_local: SparkSession,
    model: TrainedModel,
    table: VolumeDelta,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Place(tmp_path / "here")
    assert run_prediction(here, model, table, batch_size=4, rows_per_part=10) == 0
    wanted = Predictions.model_validate_json((here.root / "result.json").read_bytes())
    ctx = spark_context(spark_local, tmp_path, "predict")
    assert forked_programs.shared is not None
    address = forked_programs.shared()["import_training"].address
    # The processes of `test_yarn` are not forked.
    monkeypatch.setattr(predict_parts, "PredictShare", partial(ForkedShare, address=address))
    with monkeypatch.context() as patch:
        patch.setattr(predict_parts, "PredictShare", partial(KilledShare, address=address))
        with pytest.raises(ExecutionError, match="was ended by SIGKILL"):
            batch_predict.backends["spark"](model, table, batch_size=4, rows_per_part=4, ctx=ctx)
    assert not list(ctx.out.glob("predictions/_delta_log/*"))
    done = len(list((ctx.scratch / "prediction").glob("part-*.json")))
    assert 0 < done < 12
    said: list[str] = []
    again = dataclasses.replace(ctx, emit=lambda event: said.append(str(getattr(event, "text", ""))))
    made = batch_predict.backends["spark"](model, table, batch_size=4, rows_per_part=4, ctx=again)
    assert any("predicted before:" in text for text in said)
    assert isinstance(made, Predictions)
    assert made.files == 12
    assert rows(made) == rows(wanted)
    found = spark_local.read.format("delta").load(made.uri).orderBy("id").collect()
    assert [row.asDict() for row in found] == rows(wanted)
