"""Predictions of a table: whole, the same each time, and the same after a kill at any moment."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import forked_programs
import numpy as np
import pytest
from prediction_scenarios import run_prediction
from tiny_models import make_model
from training_scenarios import Place
from volume_sets import labels_for, make_delta, make_files, make_parquet, some_volumes

from engine.declare.datasets import Dataset, Predictions, Selection, TrainedModel, VolumeDelta
from nodes.prediction.inputs import read_card

pytestmark = pytest.mark.slow

VOLUMES = some_volumes(45, (6, 6, 5, 2))
LABELS = labels_for(VOLUMES, unlabelled=5)
PARAMS: dict[str, Any] = {"batch_size": 4, "rows_per_part": 10}
KILLED = -signal.SIGKILL
Row = tuple[str, tuple[float, ...], float | None, int | None, str | None, str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return make_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    return make_delta(tmp_path_factory.mktemp("table"), VOLUMES, LABELS, rows=20)


@pytest.fixture(scope="module")
def undisturbed(model: TrainedModel, table: VolumeDelta, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    assert predict(place, model, table) == 0
    return place


def predict(place: Place, model: TrainedModel, data: Dataset, *, kill_at: str = "", **params: Any) -> int:
    return run_prediction(place, model, data, kill_at=kill_at, **PARAMS | params)


def result(place: Place) -> Predictions:
    return Predictions.model_validate_json((place.root / "result.json").read_bytes())


def rows(predictions: Predictions) -> list[Row]:
    """All rows by id, through pyarrow's dataset reader; polars must read the same."""
    import polars
    from deltalake import DeltaTable

    columns = ["id", "scores", "label", "predicted", "class", "model"]
    table = DeltaTable(predictions.uri, version=predictions.version).to_pyarrow_dataset().to_table(columns)
    frame = polars.scan_delta(predictions.uri, version=predictions.version).select(columns).collect()
    found = sorted(map(_comparable, (tuple(row.values()) for row in table.to_pylist())))
    assert found == sorted(map(_comparable, frame.rows()))
    return found


def _comparable(row: tuple[Any, ...]) -> Any:
    # A NaN is not even equal to itself.
    return row[0], tuple("NaN" if score != score else score for score in row[1]), *row[2:]


def test_every_volume_has_its_scores(undisturbed: Place, model: TrainedModel, tmp_path: Path) -> None:
    made = result(undisturbed)
    found = {row[0]: row for row in rows(made)}
    assert found.keys() == VOLUMES.keys()
    assert {volume: row[2] for volume, row in found.items()} == LABELS
    assert (made.count, made.labelled, made.classes, made.files) == (45, 40, ("no", "yes"), 4)
    assert made.bytes == sum(p.stat().st_size for p in Path(made.uri).glob("*.parquet"))
    for _, scores, _, predicted, name, digest in found.values():
        assert sum(scores) == pytest.approx(1, abs=1e-6)
        assert predicted == int(np.argmax(scores))
        assert name == ("no", "yes")[predicted]
        assert digest == made.model
    facts = next(e["values"] for e in undisturbed.events() if e["event"] == "facts")
    assert (facts["volumes"], facts["labelled"], facts["unlabelled"]) == (45, 40, 5)
    assert facts["batch_ms_p50"] <= facts["batch_ms_p95"] <= facts["batch_ms_p99"]
    assert json.loads((undisturbed.out / "latency.json").read_text())["volumes_per_s"] == facts["volumes_per_s"] > 0
    assert len({scores for _, scores, *_ in found.values()}) > 40, "the model tells volumes apart"
    # As `voxelflow predict` reads a model from MLflow's registry.
    packed, own = read_card(Path(model.uri) / "mlflow_model"), read_card(Path(model.uri))
    assert (packed.shape, packed.classes, packed.digest()) == (own.shape, own.classes, made.model)


@pytest.mark.usefixtures("forked_trainings")
def test_the_scores_are_those_of_the_plain_keras_and_mlflow_models(
    undisturbed: Place, model: TrainedModel, tmp_path: Path
) -> None:
    """In a process without Voxelflow, and through `voxelflow predict`."""
    import subprocess

    ids = sorted(VOLUMES)[:5]
    np.save(tmp_path / "volumes.npy", np.stack([VOLUMES[i] for i in ids]))
    code = f"""
import sys, json, numpy as np, keras, mlflow.pyfunc, mlflow.keras, mlflow.tensorflow
volumes = np.load({str(tmp_path / "volumes.npy")!r})
packed = {str(Path(model.uri) / "mlflow_model")!r}
answers = [
    keras.saving.load_model({str(Path(model.uri) / "model.keras")!r}, safe_mode=True).predict(volumes, verbose=0),
    mlflow.keras.load_model(packed).predict(volumes, verbose=0),
    mlflow.tensorflow.load_model(packed).predict(volumes, verbose=0),
]
served = mlflow.pyfunc.load_model(packed)
assert served.metadata.signature.outputs.input_names() == ["class", "probability no", "probability yes"]
assert served.predict(served.input_example).shape == (1, 3)
for kind in (np.float32, np.float64):
    found = served.predict(volumes.astype(kind))
    answers.append(found[["probability yes"]].to_numpy())
    assert list(found["class"]) == [("no", "yes")[int(p > 0.5)] for p in answers[0][:, 0]]
whole = served.predict(volumes.astype(np.int16))["probability yes"]
assert np.allclose(whole, answers[0][:, 0], atol=0.05) and not np.array_equal(whole, answers[0][:, 0])
assert not {{"nodes", "engine", "voxelflow"}} & set(sys.modules)
print(json.dumps([np.asarray(answer)[:, 0].tolist() for answer in answers]))
"""
    done = forked_programs.run_without_voxelflow(code, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {row[0]: row[1] for row in rows(result(undisturbed))}
    for answer in json.loads(done.stdout.splitlines()[-1]):
        assert answer == pytest.approx([found[i][1] for i in ids], rel=1e-6)
    for volume in ids:
        np.save(tmp_path / Path(volume).name, VOLUMES[volume])
    names = [Path(volume).name for volume in ids]
    (tmp_path / "bad.npy").write_bytes(b"\x93NUM")
    command = [sys.executable, "-m", "voxelflow", "predict", model.uri, *names, "bad.npy", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert said.returncode == 1
    answers = json.loads(said.stdout)["files"]
    assert [[f["scores"]["no"], f["scores"]["yes"]] for f in answers[:-1]] == [
        pytest.approx(list(found[i]), rel=1e-6) for i in ids
    ]
    assert "within its header" in answers[-1]["error"]


@pytest.mark.parametrize(
    "point",
    [
        "predict:part-written#3",
        "predict:part-done",
        "predict:part-done#4",
        "predict:before-commit",
        "predict:after-commit",
    ],
)
def test_killed_and_gone_on_with_is_as_if_nothing_had_happened(
    model: TrainedModel, table: VolumeDelta, undisturbed: Place, tmp_path: Path, point: str
) -> None:
    place = Place(tmp_path)
    assert predict(place, model, table, kill_at=point) == KILLED
    done = len(list(place.scratch.glob("prediction/part-*.json")))
    assert predict(place, model, table) == 0
    assert rows(result(place)) == rows(result(undisturbed))
    assert result(place).model_dump(exclude={"uri"}) == result(undisturbed).model_dump(exclude={"uri"})
    messages = [e["text"] for e in place.events() if e["event"] == "message"]
    assert any(f"predicted before: {min(45, 12 * done)} of 45 volumes" in text for text in messages) == bool(done)
    # One commit with rows, whatever was killed.
    log = sorted((place.out / "predictions" / "_delta_log").glob("*.json"))
    assert [sum('"add"' in line for line in path.read_text().splitlines()) for path in log] == [0, 4]


def test_again_with_another_division_gives_the_same_scores_in_another_version(
    model: TrainedModel, table: VolumeDelta, undisturbed: Place, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    assert predict(place, model, table) == 0
    first = result(place)
    # As the engine leaves it after success.
    for path in sorted(place.scratch.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert predict(place, model, table, rows_per_part=1000, batch_size=7) == 0
    again = result(place)
    assert (first.version, again.version, again.files) == (1, 2, 1)
    assert rows(first) == rows(undisturbed_result := result(undisturbed))
    plain = [(row[0], row[2:]) for row in rows(again)]
    assert plain == [(row[0], row[2:]) for row in rows(undisturbed_result)]
    scores = [[row[1] for row in rows(made)] for made in (again, first)]
    assert np.allclose(*scores, rtol=0, atol=1e-6)


def test_parts_of_another_model_do_not_count(
    model: TrainedModel, table: VolumeDelta, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_model(tmp_path_factory.mktemp("other") / "model", seed=4)
    place = Place(tmp_path)
    assert predict(place, other, table, kill_at="predict:part-done#3") == KILLED
    assert predict(place, model, table) == 0
    assert {row[5] for row in rows(result(place))} == {result(place).model}


def test_other_sources_give_the_same(
    model: TrainedModel, table: VolumeDelta, undisturbed: Place, tmp_path: Path
) -> None:
    wanted = rows(result(undisturbed))
    for name, data in {
        "files": make_files(tmp_path / "a", VOLUMES, LABELS),
        "zstd": make_parquet(tmp_path / "b", VOLUMES, LABELS, compression="ZSTD"),
    }.items():
        place = Place(tmp_path / name)
        assert predict(place, model, data) == 0
        assert rows(result(place)) == wanted, name
    part = table.select(Selection(salt="x", low=0, high=0.3))
    place = Place(tmp_path / "part")
    assert predict(place, model, part) == 0
    assert rows(result(place)) == [row for row in wanted if part.selections[0].holds(row[0])]


def test_what_cannot_be_predicted_is_reported(model: TrainedModel, tmp_path: Path) -> None:
    place = Place(tmp_path / "shape")
    small = some_volumes(4, (3, 4, 2))
    assert predict(place, model, make_delta(tmp_path, small, labels_for(small))) == 3
    assert "are 3x4x2, the model takes 6x6x5x2" in json.loads((place.root / "failure.json").read_text())["message"]
    broken = dict(VOLUMES)
    broken[next(iter(broken))] = np.full((6, 6, 5, 2), np.nan, np.float32)
    place = Place(tmp_path / "nan")
    assert predict(place, model, make_parquet(tmp_path / "c", broken, LABELS)) == 0
    odd = [row for row in rows(result(place)) if row[3] is None]
    assert [row[0] for row in odd] == [next(iter(broken))]
    assert odd[0][4] is None
    assert any("1 volume with scores" in e.get("text", "") for e in place.events())
