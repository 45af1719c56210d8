"""A model behind a node with code of its own: volumes that did not go through the node are refused, not guessed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import forked_programs
import numpy as np
import pytest
from prediction_scenarios import run_prediction
from tiny_models import make_model
from training_scenarios import Place
from volume_sets import labels_for, make_delta, make_files, some_volumes

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Predictions, Preview, Transform, VolumeDelta, VolumeParquet, VolumeSpec
from engine.declare.node import node
from engine.declare.node_step import node_step
from engine.declare.parameters import Extendable, Policy, Secret
from engine.errors import DataError
from nodes.batch_predict import batch_predict
from nodes.prediction.few_files import ask
from nodes.prediction.inputs import ModelCard, as_trained
from nodes.tensorflow_keras.served_model import DESCRIPTION, ServedModel
from nodes.transforms.parameters import TransformParameters
from nodes.transforms.steps import Unfit, apply_steps, form_after, load_steps

CLIP = TransformParameters(clip_low=10.0).chain()
BLUR = node_step("Blur", {"sigma": 1.5}, "code", "Blur sigma=1.5")
CHAIN = (*CLIP, BLUR)
SHAPE = (6, 6, 5, 2)
NAMED = r"went through the node Blur sigma=1\.5"


@node("Smooth", version=4, category="Mine")
def smooth(
    table: VolumeDelta | VolumeParquet,
    *,
    sigma: float = 1.0,
    kind: str = "gauss",
    sizes: tuple[int, ...] = (),
    threads: Annotated[int, Policy()] = 0,
    count: Annotated[int, Extendable()] = 1,
    key: Annotated[str, Secret()] = "",
    ctx: TaskContext,
) -> VolumeParquet:
    """Make volumes smoother."""
    raise NotImplementedError


def test_the_entry_of_a_node_follows_from_what_changes_volumes() -> None:
    plain = smooth.step({})
    assert plain.words == "Smooth"
    assert smooth.step({"threads": 8, "count": 30, "key": "hidden", "kind": "gauss", "sizes": []}) == plain
    assert "hidden" not in smooth.step({"key": "hidden"}).model_dump_json()
    other = smooth.step({"sigma": 2.0, "sizes": (3, 4)})
    assert (other.words, other.parameters != plain.parameters) == ("Smooth sigma=2.0 sizes=(3, 4)", True)
    assert Transform.model_validate_json(other.model_dump_json()) == other
    assert smooth.step({"kind": "x" * 500}).words == f"Smooth kind={'x' * 45}..."
    look = CheckContext(params={"sigma": 2.0}, node_type=smooth)
    spec = VolumeSpec(shape=SHAPE, dtype="float32", transforms=CLIP)
    made = look.made_of(spec)
    assert made is not None
    assert (made.transforms, made.shape) == ((*CLIP, smooth.step({"sigma": 2.0})), SHAPE)
    assert look.made_of(None) is None


def test_its_step_is_known_and_cannot_be_done() -> None:
    steps = load_steps([each.model_dump() for each in CHAIN])
    with pytest.raises(Unfit, match="node Blur"):
        apply_steps(steps, np.zeros(SHAPE))
    with pytest.raises(Unfit, match="node Blur"):
        form_after(steps, SHAPE, "float32")
    assert load_steps([step.as_json() for step in steps]) == steps


def described(folder: Path) -> Path:
    """A model's folder as far as it is looked at before TensorFlow."""
    folder.mkdir()
    chain = [each.model_dump(mode="json") for each in CHAIN]
    description = {"class_names": ["no", "yes"], "input": {"shape": list(SHAPE)}, "transforms": chain}
    (folder / "model.json").write_text(json.dumps(description))
    (folder / "model.keras").write_bytes(b"")
    (folder / DESCRIPTION).write_text(
        json.dumps({"class_names": ["no", "yes"], "shape": list(SHAPE), "transforms": chain})
    )
    return folder


def test_files_as_they_are_are_refused(tmp_path: Path) -> None:
    folder = described(tmp_path / "model")
    np.save(tmp_path / "v.npy", np.zeros(SHAPE, np.float32))
    with pytest.raises(DataError, match=NAMED) as caught:
        ask(folder, [tmp_path / "v.npy"])
    assert "BatchPredict" in caught.value.hint
    with pytest.raises(ValueError, match=NAMED):
        ServedModel(folder)


def test_a_table_is_predicted_as_far_as_it_went_the_models_way(tmp_path: Path) -> None:
    card = ModelCard(tmp_path / "model.keras", SHAPE, ("no", "yes"), transforms=CHAIN)
    volumes = some_volumes(6, SHAPE)
    raw = make_delta(tmp_path, volumes, labels_for(volumes), own=True)
    assert raw.spec is not None

    def trained_on(*chain: Transform) -> tuple[Any, list[str]]:
        said: list[str] = []
        data = raw.model_copy(update={"spec": raw.spec.model_copy(update={"transforms": chain})})
        return as_trained(data, card, tmp_path / "rows.arrow", said.append) is data, said

    assert trained_on(*CHAIN) == (True, [])
    for done in ((), CLIP):
        with pytest.raises(DataError, match=rf"{NAMED}, and the volumes of .*a table did not"):
            trained_on(*done)
    for other in (node_step("Blur", {"sigma": 2.0}, "code", "Blur sigma=2.0"), node_step("Blur", {}, "x", BLUR.words)):
        kept, said = trained_on(*CLIP, other)
        assert (kept, len(said)) == (True, 1)
    assert "these through clip below 10, Blur sigma=1.5 with other code or values: they are" in said[0]


@pytest.mark.parametrize(("kind", "codes"), [("VolumeFiles", ["VF543"]), ("VolumeDelta", [])])
def test_the_plan_refuses_files_and_leaves_tables_to_the_run(kind: str, codes: list[str]) -> None:
    """A preview of a table that an own node will make may leave the node out."""
    spec = VolumeSpec(shape=SHAPE, dtype="float32")
    model = Preview(kind="TrainedModel", spec=spec.model_copy(update={"transforms": CHAIN}))
    given: Mapping[str, Preview] = {"model": model, "data": Preview(kind=kind, spec=spec)}
    look = CheckContext(params={p.name: p.default for p in batch_predict.parameters}, inputs=given)
    assert batch_predict.preview_hook is not None
    batch_predict.preview_hook(look)
    assert [each.code for each in look.problems] == codes
    assert all("Blur sigma=1.5" in each.message for each in look.problems)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_trainings")
def test_a_whole_model(tmp_path: Path) -> None:
    """BatchPredict, the command and MLflow's generic flavour, with a model that a training published."""
    volumes = some_volumes(8, SHAPE)
    labels = labels_for(volumes)
    model = make_model(tmp_path / "model", SHAPE, transforms=CHAIN)
    raw = make_delta(tmp_path / "raw", volumes, labels, own=True)
    assert raw.spec is not None
    through = raw.model_copy(update={"spec": raw.spec.model_copy(update={"transforms": CHAIN})})
    for name, data, status in (
        ("through", through, 0),
        ("raw", raw, 3),
        ("files", make_files(tmp_path / "files", volumes, labels), 3),
    ):
        place = Place(tmp_path / name)
        assert run_prediction(place, model, data) == status, name
        if status:
            assert "Blur sigma=1.5" in (place.root / "failure.json").read_text()
        else:
            made = Predictions.model_validate_json((place.root / "result.json").read_bytes())
            assert made.count == 8
    np.save(tmp_path / "v.npy", next(iter(volumes.values())))
    command = [sys.executable, "-m", "voxelflow", "predict", model.uri, str(tmp_path / "v.npy")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert said.returncode != 0
    assert "went through the node Blur sigma=1.5" in said.stdout + said.stderr
    assert "Traceback" not in said.stderr
    code = f"import mlflow.pyfunc; mlflow.pyfunc.load_model({str(Path(model.uri) / 'mlflow_model')!r})"
    served = forked_programs.run(code, training=True, timeout=200, cwd=tmp_path)
    assert "Blur sigma=1.5, which it cannot repeat" in served.stderr
