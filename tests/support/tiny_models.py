"""Tiny trained models, published as TrainResNet3D does, made in a process that has TensorFlow already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from training_scenarios import PROCESSES

from engine.declare.datasets import TrainedModel, Transform


def make_model(
    folder: Path,
    shape: Sequence[int] = (6, 6, 5, 2),
    classes: Sequence[str] = ("no", "yes"),
    seed: int = 3,
    transforms: Sequence[Transform] = (),
) -> TrainedModel:
    """An untrained network of three layers with the files of a trained one in `folder`.

    `transforms` are what its volumes went through.
    """
    folder.mkdir(parents=True)
    process = PROCESSES.Process(target=_make, args=(str(folder), tuple(shape), tuple(classes), seed, tuple(transforms)))
    process.start()
    process.join(200)
    assert process.exitcode == 0
    return TrainedModel.model_validate_json((folder / "reference.json").read_bytes())


def _make(
    place: str, shape: tuple[int, ...], classes: tuple[str, ...], seed: int, transforms: tuple[Transform, ...]
) -> None:
    from training_scenarios import tiny_network

    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.interface import LoaderState
    from nodes.tensorflow_keras.learner import KerasLearner
    from nodes.tensorflow_keras.runtime import configure, keras
    from nodes.training.checkpoints import Checkpoint, write
    from nodes.training.trained_model import publish

    configure(cores=1, deterministic=True, seed=seed)
    folder = Path(place)
    channels = shape[3] if len(shape) == 4 else 1
    mean, variance = (1.0,) * channels, (900.0,) * channels
    model = tiny_network(shape, depth=18, classes=len(classes), mean=mean, variance=variance)
    history = ({"loss": 0.7, "accuracy": 0.5, "val_loss": 0.6, "val_accuracy": 0.625},)
    final = Checkpoint(LoaderState(seed, 1), {}, mean, variance, history=history)
    state = folder / "state.npz"
    with state.open("wb") as file:
        write(file, final, "tiny")
    description = {
        "task": "classification",
        "architecture": "tiny",
        "depth": 18,
        "input": {"shape": list(shape), "channels": channels, "stored_as": "float32"},
        "classes": len(classes),
        "class_names": list(classes),
        **({"transforms": [each.model_dump(mode="json") for each in transforms]} if transforms else {}),
    }
    spec = VolumeSpec(shape=shape, dtype="float32", classes=classes, transforms=transforms)
    made = publish(
        folder,
        KerasLearner(model, keras.optimizers.SGD()),
        final,
        state,
        spec=spec,
        description=description,
        metrics=dict(history[-1]),
        confusion={},
        roc={},
    )
    (folder / "reference.json").write_text(made.model_dump_json())
