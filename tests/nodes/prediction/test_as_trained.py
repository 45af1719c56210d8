"""What was done to a model's volumes is done to those that it is asked about: tables, files, and raw arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_programs
import numpy as np
import pytest
import yaml
from npy_folders import context
from prediction_scenarios import run_prediction
from tiny_models import make_model
from training_scenarios import Place
from volume_sets import labels_for, make_delta, make_files, some_volumes

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Dataset, Predictions, Preview, TrainedModel, Transform, VolumeSpec
from engine.declare.node_step import node_step
from engine.workspace import Workspace, trust
from nodes.batch_predict import batch_predict
from nodes.prediction.few_files import ask
from nodes.transform_volumes import transform_volumes
from nodes.transforms.parameters import TransformParameters
from nodes.transforms.remaining import remaining, same_way, told_apart
from nodes.transforms.steps import apply_steps, load_steps

CHAIN = TransformParameters(size=(6, 6, 5), clip_low=10.0, normalise="min-max").chain()
STEPS = load_steps([each.model_dump() for each in CHAIN])
VOLUMES = some_volumes(20, (8, 6, 7, 2))
LABELS = labels_for(VOLUMES)


def test_what_is_missing() -> None:
    clip, other = CHAIN[1], CHAIN[1].model_copy(update={"parameters": {"low": 0.0, "high": None}})
    assert remaining(CHAIN, ()) == CHAIN
    assert remaining(CHAIN, CHAIN[:2]) == CHAIN[2:]
    assert remaining(CHAIN, CHAIN) == ()
    assert remaining(CHAIN, (CHAIN[0].model_copy(update={"words": "other words"}),)) == CHAIN[1:]
    for done in ((clip,), (CHAIN[0], other), (*CHAIN, clip)):
        assert remaining(CHAIN, done) is None
    assert remaining((), ()) == ()


def function(version: int, source: str = "...") -> Transform:
    return Transform(
        name="function", version=version, parameters={"file": "gain.py", "source": source}, words="gain.py"
    )


@pytest.mark.parametrize("table", [False, True])
def test_a_function_of_before_is_the_same_where_no_step_moved_its_voxels(table: bool) -> None:
    """Version 1 was told the place of before the chain, which it then still has."""
    stay = TransformParameters(
        channels=(0,), clip_low=10.0, clip_percentiles=(1.0, 99.0), normalise="z-score", dtype="float32"
    ).chain()
    once = tuple(Transform(name=name, parameters={"kind": "z-score"}) for name in ("scale", "clip-measured"))
    for before in ((), stay, once):
        chains = [(*before, function(version), *CHAIN) for version in (1, 2)]
        assert remaining(*chains) == remaining(*chains[::-1]) == ()
        assert same_way(*chains, own_numbers=table)
        assert not same_way(chains[0], (*before, function(2, "other"), *CHAIN), own_numbers=table)
    moves = {
        "orientation": {"orientation": "RAS"}, "axes": {"axes": "ZYX"}, "resample": {"spacing": (1.0,)},
        "crop": {"size": (4, 4, 4)},
    }  # fmt: skip
    moving: list[tuple[Transform, ...]] = [TransformParameters(**each).chain() for each in moves.values()]
    for step in (function(2), node_step("Blur", {}, "code", "Blur"), Transform(name="newer")):
        moving.append((step,))
    for steps in moving:
        chains = [(*steps, *stay, function(version)) for version in (1, 2)]
        assert remaining(*chains) is remaining(*chains[::-1]) is None
        assert not same_way(*chains, own_numbers=table)


def test_chains_of_the_same_words_are_told_apart() -> None:
    crop = CHAIN[:1]
    older, newer, other = ((*crop, function(version, source)) for version, source in ((1, "a"), (2, "a"), (2, "b")))
    plain, earlier = "crop 6x6x5, gain.py", "crop 6x6x5, gain.py, made by an earlier version of Voxelflow"
    assert told_apart(older, newer) == (earlier, plain)
    assert told_apart(newer, older) == (plain, earlier)
    assert told_apart(older, other) == told_apart(newer, other) == (plain, f"{plain} with other code or values")
    assert told_apart(crop, ()) == ("crop 6x6x5", "")


def planned(data: VolumeSpec) -> dict[str, str]:
    model = VolumeSpec(shape=(6, 6, 5, 2), dtype="float32", transforms=CHAIN)
    given = {"model": Preview(kind="TrainedModel", spec=model), "data": Preview(kind="VolumeDelta", spec=data)}
    look = CheckContext(params={p.name: p.default for p in batch_predict.parameters}, inputs=given)
    assert batch_predict.preview_hook is not None
    batch_predict.preview_hook(look)
    return {each.code: each.message for each in look.problems}


def test_the_plan_says_what_would_not_fit() -> None:
    assert planned(VolumeSpec(shape=(8, 6, 7, 2), dtype="int16")) == {}
    assert planned(VolumeSpec(shape=(6, 6, 5, 2), dtype="float32", transforms=CHAIN)) == {}
    assert set(planned(VolumeSpec(shape=(8, 6, 7, 3), dtype="int16"))) == {"VF540"}
    said = planned(VolumeSpec(shape=(6, 6, 5, 2), dtype="float32", transforms=CHAIN[::-1]))
    assert said == {
        "VF542": "the model's volumes went through crop 6x6x5, clip below 10, min-max, these through min-max,"
        " clip below 10, crop 6x6x5: they are predicted as they are, and the answers may be wrong"
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return make_model(tmp_path_factory.mktemp("models") / "model", transforms=CHAIN)


def scores(place: Place, model: TrainedModel, data: Dataset) -> dict[str, list[float]]:
    import polars

    assert run_prediction(place, model, data, batch_size=4, rows_per_part=8) == 0
    made = Predictions.model_validate_json((place.root / "result.json").read_bytes())
    found = polars.scan_delta(made.uri).select("id", "scores").collect()
    return dict(zip(found["id"], found["scores"].to_list(), strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_trainings")
def test_tables_and_files_are_predicted_as_the_model_was_trained(model: TrainedModel, tmp_path: Path) -> None:
    done = {name: apply_steps(STEPS, volume)[0] for name, volume in VOLUMES.items()}
    spec = VolumeSpec(shape=(6, 6, 5, 2), dtype="float32", transforms=CHAIN)
    through = make_delta(tmp_path / "done", done, LABELS).model_copy(update={"spec": spec})
    raw = make_delta(tmp_path / "raw", VOLUMES, LABELS, own=True)
    half = transform_volumes(raw, size=(6, 6, 5), ctx=context(tmp_path, "half"))
    ways = {"through": through, "raw": raw, "half": half, "files": make_files(tmp_path / "files", VOLUMES, LABELS)}
    found = {name: scores(Place(tmp_path / f"{name}_scores"), model, data) for name, data in ways.items()}
    assert len({tuple(each) for each in found["through"].values()}) > 10
    for name in ("raw", "half", "files"):
        assert found[name].keys() == VOLUMES.keys()
        assert all(found[name][volume] == pytest.approx(found["through"][volume], rel=1e-5) for volume in VOLUMES), name
    _served(model, tmp_path, {name: found["through"][name][1] for name in VOLUMES})
    other = transform_volumes(raw, size=(6, 6, 5), clip_low=11.0, ctx=context(tmp_path, "other"))
    place = Place(tmp_path / "other_scores")
    assert scores(place, model, other) != found["raw"]
    assert any("these through crop 6x6x5, clip below 11" in str(event) for event in place.events())


@pytest.mark.slow
def test_new_files_are_clipped_at_the_limits_that_were_measured_once(tmp_path: Path) -> None:
    files = make_files(tmp_path / "files", VOLUMES, LABELS)
    once = transform_volumes(
        files, size=(6, 6, 5), clip_percentiles=(20, 70), statistics="all", ctx=context(tmp_path, "once")
    )
    (clip,) = [each for each in once.transforms if each.name == "clip-measured"]
    low, spread = clip.parameters["offsets"][0][0], clip.parameters["spreads"][0][0]
    model = make_model(tmp_path / "model", transforms=once.transforms)
    # Brighter than all that were measured.
    bright = next(iter(VOLUMES.values())) + spread
    limited = np.clip(bright[1:7, :, 1:6], low, low + spread)
    assert (limited == low + spread).mean() > 0.25
    np.save(tmp_path / "bright.npy", bright)
    np.save(tmp_path / "limited.npy", np.pad(limited, ((1, 1), (0, 0), (1, 1), (0, 0))))
    one, other = ask(Path(model.uri), [tmp_path / "bright.npy", tmp_path / "limited.npy"]).answers
    assert (one.error, other.error) == ("", "")
    assert one.scores == pytest.approx(other.scores)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        pytest.param((6, 6, 5, 2), {"spacing": (2.0,)}, id="what a volume's spacing decides"),
        pytest.param((6, 6, 5, 1), {"channels": (1,)}, id="a raw volume has more channels"),
        pytest.param((128, 128, 128, 1), {}, id="too large to be stored as text"),
    ],
)
def test_a_model_without_an_example_of_its_input(
    shape: tuple[int, ...], parameters: dict[str, Any], tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model", shape, transforms=TransformParameters(**parameters).chain())
    folder = Path(model.uri) / "mlflow_model"
    assert "saved_input_example_info" not in yaml.safe_load((folder / "MLmodel").read_text())
    assert not [*folder.glob("*example*")]


def _served(model: TrainedModel, tmp_path: Path, wanted: dict[str, float]) -> None:
    """Raw arrays, of any numbers and of shapes that differ, where Voxelflow is not installed; and raw files."""
    names = list(VOLUMES)[:4]
    saved = yaml.safe_load((Path(model.uri) / "mlflow_model" / "MLmodel").read_text())
    assert saved["saved_input_example_info"]["artifact_path"] == "input_example.json"
    folder = tmp_path / "some"
    folder.mkdir()
    for number, name in enumerate(names):
        np.save(folder / f"{number}.npy", VOLUMES[name])
    code = f"""
import sys, json, pathlib, numpy as np, mlflow.pyfunc
volumes = [np.load(p) for p in sorted(pathlib.Path({str(folder)!r}).glob("*.npy"))]
served = mlflow.pyfunc.load_model({str(Path(model.uri) / "mlflow_model")!r})
stacked = served.predict(np.stack(volumes).astype(np.float64))
padded = [np.pad(v, [(2, 2), (0, 0), (0, 0), (0, 0)], constant_values=1) for v in volumes]
several = served.predict([volumes[0], *padded[1:]])
assert served.predict(served.input_example).shape == (1, 3)
assert not {{"nodes", "engine", "voxelflow"}} & set(sys.modules)
print(json.dumps([answer["probability yes"].tolist() for answer in (stacked, several)]))
"""
    done = forked_programs.run_without_voxelflow(code, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for answer in json.loads(done.stdout.splitlines()[-1]):
        assert answer == pytest.approx([wanted[name] for name in names], rel=1e-5)
    command = [sys.executable, "-m", "voxelflow", "predict", model.uri, str(folder), "--json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    scores = [each["scores"]["yes"] for each in json.loads(said.stdout)["files"]]
    assert scores == pytest.approx([wanted[name] for name in names], rel=1e-5)


def test_functions_of_somebody_else_are_not_run(tmp_path: Path, workspace: Workspace) -> None:
    source = "def transform(volume, row):\n    raise SystemExit\n"
    own = Transform(name="function", parameters={"file": "mine.py", "source": source}, words="mine.py")
    description: dict[str, Any] = {
        "class_names": ["no", "yes"], "input": {"shape": [2, 2, 2]}, "transforms": [own.model_dump(mode="json")],
    }  # fmt: skip
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(description))
    (folder / "model.keras").write_bytes(b"")
    np.save(tmp_path / "v.npy", np.zeros((2, 2, 2), np.float32))
    with pytest.raises(Exception, match=r"mine\.py, which is not trusted here") as caught:
        ask(folder, [tmp_path / "v.npy"])
    assert "my_transforms" in caught.value.hint  # type: ignore[attr-defined]
    workspace.my_transforms.mkdir()
    (workspace.my_transforms / "another name.py").write_text(source)
    trust(workspace)
    assert ask(folder, [tmp_path / "v.npy"]).classes == ("no", "yes")
