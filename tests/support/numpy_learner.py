"""A second framework: softmax regression in NumPy, and a program that trains and predicts with it.

python numpy_learner.py ROOT DATA PARAMETERS    all but ROOT are JSON; ends with status 3 for an error
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, UsageError
from engine.storage.files import whole_file
from nodes.loaders.interface import Batch
from nodes.training.learner import (
    ALONE,
    FRAMEWORKS,
    WEIGHT,
    Arrays,
    Evaluated,
    Framework,
    Learner,
    LearnerSpec,
    Predictor,
    Sums,
    Team,
)

FRAMEWORKS["numpy"] = "numpy_learner:NumpyFramework"
Array = NDArray[Any]


def softmax(logits: Array) -> Array:
    powers: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class NumpyLearner(Learner):
    """Gradient descent with momentum, and dropout of inputs that draws from a state of its own."""

    model_file = "model.npz"

    def __init__(self, spec: LearnerSpec, seed: int) -> None:
        if spec.target is not None:
            raise UsageError("softmax regression tells classes apart", parameter="task")
        size = int(np.prod(spec.shape))
        self._spec = spec
        channels = -1 if len(spec.shape) == 4 else 1
        self._mean = np.broadcast_to(np.reshape(spec.mean, channels), spec.shape).ravel()
        self._deviation = np.sqrt(np.broadcast_to(np.reshape(spec.variance, channels), spec.shape).ravel())
        outputs = 1 if spec.classes == 2 else spec.classes
        weights = np.random.default_rng(seed).standard_normal((size, outputs)) * 0.01
        self._state: Arrays = {f"{WEIGHT}0000": weights, f"{WEIGHT}0001": np.zeros(outputs)}
        self._state |= {"optimizer-0000": np.zeros_like(weights), "optimizer-0001": np.zeros(outputs)}
        self._state["optimizer-0002"] = np.zeros(1, np.int64)

    def _inputs(self, volumes: Array) -> Array:
        return (volumes.reshape(len(volumes), -1) - self._mean) / self._deviation

    def _logits(self, inputs: Array) -> Array:
        return inputs @ self._state[f"{WEIGHT}0000"] + self._state[f"{WEIGHT}0001"]

    def _losses(self, logits: Array, labels: Array) -> tuple[Array, Array, Array]:
        """Losses and right answers (n,), and the gradient of the losses' sum with respect to the logits."""
        wanted = np.eye(max(2, logits.shape[1]))[labels.astype(int)]
        chances = softmax(np.concatenate([-logits, logits], axis=1) / 2 if logits.shape[1] == 1 else logits)
        losses = -np.log((chances * wanted).sum(axis=1))
        slope = chances - wanted
        return losses, chances.argmax(axis=1) == labels, slope[:, 1:] if logits.shape[1] == 1 else slope

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        step = self._state["optimizer-0002"]
        kept = np.random.default_rng(int(step[0])).random(self._mean.size) > 0.1
        inputs = self._inputs(batch.volumes) * kept
        losses, right, slope = self._losses(self._logits(inputs), batch.labels)
        scale = np.array(self._spec.class_weights or np.ones(self._spec.classes))[batch.labels.astype(int)]
        for number, gradient in enumerate((inputs.T @ (slope * scale[:, None]), (slope * scale[:, None]).sum(axis=0))):
            momentum = self._state[f"optimizer-{number:04d}"]
            momentum *= 0.9
            momentum -= learning_rate * gradient / global_rows
            self._state[f"{WEIGHT}{number:04d}"] += momentum
        step += 1
        return Sums(float((losses * scale).sum()), float(right.sum()), global_rows)

    def evaluate(self, batch: Batch, *, rows: int) -> Evaluated:
        # Row by row the same, however many there are.
        logits = np.stack([self._logits(self._inputs(volume[None]))[0] for volume in batch.volumes] or [np.zeros(0)])
        if not len(batch.rows):
            return Evaluated(Sums(), np.zeros((0, self._state[f"{WEIGHT}0001"].size), np.float32), batch.labels)
        losses, right, _ = self._losses(logits, batch.labels)
        sums = Sums(float(losses.sum()), float(right.sum()), len(batch.rows))
        return Evaluated(sums, logits.astype(np.float32), batch.labels)

    def arrays(self) -> Arrays:
        return {name: array.copy() for name, array in self._state.items()}

    def restore(self, arrays: Arrays) -> None:
        self._take(arrays, "")

    def set_weights(self, arrays: Arrays) -> None:
        self._take({name: array for name, array in arrays.items() if name.startswith(WEIGHT)}, WEIGHT)

    def _take(self, arrays: Arrays, prefix: str) -> None:
        own = {name: array.shape for name, array in self._state.items() if name.startswith(prefix)}
        if own != {name: array.shape for name, array in arrays.items()}:
            raise DataError("the training state is that of another model")
        self._state |= {name: array.copy() for name, array in arrays.items()}

    def describe(self) -> dict[str, Any]:
        total = sum(self._state[f"{WEIGHT}{number:04d}"].size for number in (0, 1))
        counts = {"total": total, "trainable": total, "non_trainable": 0}
        software = {"numpy": np.__version__}
        return {"format": 1, "parameters": counts, "software": software, "framework": "numpy", "file": self.model_file}

    def save(self, folder: Path, *, shape: Sequence[int], metadata: Mapping[str, Any]) -> None:
        model = {"mean": self._mean, "deviation": self._deviation, "shape": np.array(shape)}
        model |= {"weights": self._state[f"{WEIGHT}0000"], "bias": self._state[f"{WEIGHT}0001"]}
        with whole_file(folder / self.model_file, durable=True) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **model)


class NumpyPredictor(Predictor):
    def __init__(self, file: Path, shape: Sequence[int]) -> None:
        try:
            with np.load(file, allow_pickle=False) as saved:
                self._model = {name: saved[name] for name in saved.files}
        except (OSError, ValueError, zipfile.BadZipFile) as exc:
            raise DataError(f"{file} cannot be loaded: {exc}") from exc

    def scores(self, volumes: NDArray[np.float32]) -> NDArray[np.float32]:
        model, out = self._model, []
        for volume in volumes:
            logits = ((volume.ravel() - model["mean"]) / model["deviation"])[None] @ model["weights"] + model["bias"]
            out.append(softmax(np.concatenate([-logits, logits], 1) / 2 if logits.shape[1] == 1 else logits)[0])
        return np.array(out, np.float32)


class NumpyFramework(Framework):
    def __init__(self) -> None:
        self._seed = 0

    def load(self) -> None:
        pass

    def set_up(self, *, cores: int, deterministic: bool, seed: int, team: Team = ALONE) -> list[str]:
        self._seed = seed
        return []

    def join(self, addresses: Sequence[str], rank: int, warn: Callable[[str], None]) -> None:
        raise UsageError("this framework trains in one process", parameter="workers")

    def share_devices(self, addresses: Sequence[str], rank: int) -> None:
        pass

    def mixed_precision_pays(self) -> bool:
        return False

    def learner(self, spec: LearnerSpec, warn: Callable[[str], None]) -> Learner:
        return NumpyLearner(spec, self._seed)

    def predictor(self, file: Path, shape: Sequence[int], scores: int, batch_size: int) -> Predictor:
        return NumpyPredictor(file, shape)


def main(root: str, data_json: str, parameters: str) -> None:
    """Train in ROOT and predict the same data; `report.json` says what came of it."""
    from engine.declare.context import Resources, TaskContext
    from engine.declare.datasets import dataset_from_json
    from nodes.prediction.parts import Division
    from nodes.prediction.session import predict
    from nodes.training.learner import framework_named
    from nodes.training.session import train_and_publish
    from nodes.training.settings import Settings

    place, data = Path(root), dataset_from_json(data_json)
    for name in ("out", "scratch", "shared", "predicted"):
        (place / name).mkdir(exist_ok=True)
    with (place / "events.jsonl").open("a") as sink:
        ctx = TaskContext(
            "run", "train", "0" * 64, place / "out", place / "shared", place / "scratch", Resources(cores=1),
            emit=lambda event: print(event.model_dump_json(), file=sink, flush=True),
        )  # fmt: skip
        settings = Settings(**json.loads(parameters))
        model = train_and_publish(data, None, settings, ctx, framework_named("numpy"))
        ctx = TaskContext(
            "run", "predict", "1" * 64, place / "predicted", place / "shared", place / "scratch", Resources(cores=1)
        )
        made = predict(model, data, Division.of(4, 8), ctx)
    imported = sorted({"tensorflow", "keras", "mlflow"} & sys.modules.keys())
    report = {"model": model.model_dump(mode="json"), "predictions": made.model_dump(mode="json"), "imported": imported}
    (place / "report.json").write_text(json.dumps(report))
