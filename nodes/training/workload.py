"""What a training of the ResNet has to do, by arithmetic, for `engine.advisor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview
from engine.declare.workload import Access, Network, Saving, TrainingWork
from engine.errors import UsageError
from nodes.training.architecture import resnet_layers


def training_work(look: CheckContext) -> TrainingWork | None:
    """The work of TrainResNet3D with these parameters; None where the volumes' shape or number is not known yet.

    A network of the person's own is taken for the ResNet of the same parameters, and said to be no exact one.
    """
    data, params = look.inputs.get("data"), look.params
    if data is None or data.spec is None or not _count(data):
        return None
    spec, validation = data.spec, look.inputs.get("validation")
    try:
        layers = list(resnet_layers(spec.shape, depth=params["depth"], stem=params["stem"], width=params["width"]))
    except UsageError:
        return None
    held_out = 0 if validation is not None else round(_count(data) * params["validation_share"])
    volumes = _count(data) - held_out
    if params["steps_per_epoch"]:
        volumes = min(volumes, params["steps_per_epoch"] * params["batch_size"])
    return TrainingWork(
        network=Network(
            layers=len(layers),
            parameters=sum(layer.parameters for layer in layers),
            multiply_adds=sum(layer.multiply_adds for layer in layers),
            values=sum(layer.values for layer in layers),
        ),
        shape=spec.shape,
        dtype=spec.dtype,
        volume_bytes=spec.volume_bytes,
        volumes=volumes,
        validation=held_out if validation is None else _count(validation),
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        workers=params["workers"],
        loader=params["loader"],
        kind=data.kind,
        uri=data.uri or "",
        kept_bytes=_kept_bytes(*filter(None, (data, validation))),
        mixed_precision=params["mixed_precision"],
        jit=params["jit"],
        access=_access(params["loader"]),
        saving=_saving(sum(layer.parameters for layer in layers), params),
        exact_network=not params["model_file"],
    )


def _count(data: Preview) -> int:
    return (data.held if data.labelled is None else data.labelled_held) or 0


def _kept_bytes(*read: Preview) -> int:
    """Of all volumes where these lie. Parts of one table have its place, and its count."""
    places: dict[str | None, int] = {}
    for each in read:
        size = (each.count or 0) * (each.spec.volume_bytes if each.spec is not None else 0)
        places[each.uri] = max(size, places.get(each.uri, 0))
    return sum(places.values())


def _saving(parameters: int, params: Mapping[str, Any]) -> Saving:
    """A checkpoint holds the weights and the optimizer's one or two values of each, as float32."""
    return Saving(
        checkpoint_bytes=4 * parameters * (3 if params["optimizer"] == "adam" else 2),
        best_bytes=4 * parameters if params["keep"] == "best" else 0,
        every_s=params["checkpoint_every_s"],
        every_steps=params["checkpoint_every_steps"],
    )


def _access(loader: str) -> Mapping[str, Access]:
    from nodes.loaders.data_files import STREAMS
    from nodes.loaders.random_access import LEAST_THREADS, MOST_THREADS
    from nodes.loaders.windows import WINDOW_BYTES
    from nodes.volume_file.layout import ROW_GROUP_ROWS

    at_random = Access(1, MOST_THREADS, LEAST_THREADS)
    return {
        "files": at_random,
        "table": Access(1 / ROW_GROUP_ROWS, 1, 1, WINDOW_BYTES) if loader == "petastorm" else at_random,
        "remote table": Access(1 / ROW_GROUP_ROWS, STREAMS, STREAMS, WINDOW_BYTES),
    }
