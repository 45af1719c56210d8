"""What a prediction starts from: the model, described without loading it, and the volumes, labelled or not."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.declare.datasets import Dataset, Transform, VolumeDelta, VolumeFiles, VolumeParquet
from engine.errors import DataError
from engine.extras import require
from nodes.conversion.formats import ROWS
from nodes.loaders import open_source
from nodes.loaders.chained_volumes import rows_as_files, with_transforms
from nodes.loaders.interface import Source
from nodes.loaders.rows import RowNumbers
from nodes.training.labels import Task, names_without_numbers, renumbered
from nodes.transforms.function_file import refuse_untrusted
from nodes.transforms.remaining import refuse_whole_nodes, remaining, went_another_way

_MEND = "Give the folder of a model that TrainResNet3D made."


@dataclass(frozen=True)
class ModelCard:
    """What the folder of a trained model says without loading it.

    `shape` is that of one volume, without the batch; `classes` names the classes, none for a regression. `framework` is
    its name in `nodes.training.learner.FRAMEWORKS`. `learned` names the classes whose numbers a regression learned,
    none where the labels were numbers; None: it is not known. `means` and `deviations` are those of the values that it
    was trained on, by channel; none where they are not known.
    """

    file: Path
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    task: Task = "classification"
    framework: str = "keras"
    transforms: tuple[Transform, ...] = ()
    """What was done to the volumes that it was trained on, before they had this shape."""
    learned: tuple[str, ...] | None = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    @property
    def scores(self) -> int:
        """How many figures the model gives for a volume: one a class, and 1 in a regression."""
        return len(self.classes) or 1

    def digest(self) -> str:
        """SHA-256 of the model's file: which version of the model it is."""
        with self.file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()

    def check_shape(self, shape: Sequence[int], they_are: str) -> None:
        """Raise `DataError` unless volumes of this shape fit the model. `they_are` begins the message: who has it."""
        if tuple(shape) != self.shape:
            raise DataError(
                f"{they_are} {_times(shape)}, the model takes {_times(self.shape)}",
                hint="Predict with a model that was trained on volumes of this shape.",
            )


def read_card(folder: Path) -> ModelCard:
    """The card of a folder that a training made, or of one in MLflow's format. Raises `DataError`."""
    try:
        if (folder / "model.json").is_file():
            description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            return _card(folder, description)
        if (folder / "MLmodel").is_file():
            require("a model in MLflow's format", "mlflow")
            from mlflow.models import Model

            return _card(folder / "data", Model.load(str(folder)).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(f"the description of the model in {folder} cannot be read: {exc}", hint=_MEND) from exc
    raise DataError(f"there is no model in {folder}", hint=_MEND)


def _card(folder: Path, description: Mapping[str, Any]) -> ModelCard:
    # Descriptions of Keras models do not name file and framework; a name may not lead out of the folder.
    file = folder / Path(description.get("file", "model.keras")).name
    if not file.is_file():
        raise DataError(f"the model's file {file} is gone", hint="Train the model again.")
    # Absent in descriptions of the first format.
    task = description.get("task", "classification")
    if task not in ("classification", "regression"):
        raise DataError(f"{file} is a model for {task}, which is not known", hint="Update Voxelflow.")
    names = () if task == "regression" else tuple(map(str, description["class_names"]))
    shape = tuple(map(int, description["input"]["shape"]))
    done = tuple(map(Transform.model_validate, description.get("transforms", ())))
    learned = _learned(description) if task == "regression" else ()
    measured = description.get("normalisation") or {}
    means, variances = (tuple(map(float, measured.get(name, ()))) for name in ("mean", "variance"))
    deviations = tuple(math.sqrt(max(each, 0.0)) for each in variances)
    framework = description.get("framework", "keras")
    return ModelCard(file, shape, names, task, framework, done, learned, means, deviations)


def _learned(description: Mapping[str, Any]) -> tuple[str, ...] | None:
    """See `ModelCard.learned`. Earlier releases named the classes of a table alone, and none in MLflow's format."""
    if "label_names" in description:
        return tuple(map(str, description["label_names"]))
    data = description.get("data") or {}
    spec = data.get("spec")
    if spec is None or (data.get("kind") == "VolumeFiles" and data.get("format") != ROWS):
        return None
    return tuple(map(str, spec.get("classes", ())))


@dataclass(frozen=True)
class OpenedRows:
    """`rows` in the order in which they are stored, so that each file is read once and from its start to its end.

    `labels` (by row number) are in the model's numbers, NaN where there is none; `unknown` volumes have a label
    whose class the model does not know, and count as having none.
    """

    source: Source
    rows: RowNumbers
    labels: NDArray[np.float32]
    unknown: int

    def identity(self) -> str:
        """Hash of ids, labels and order."""
        out = hashlib.blake2b(self.source.rows.identity().encode(), digest_size=16)
        out.update(self.rows.tobytes())
        out.update(self.labels.tobytes())
        return out.hexdigest()


@contextmanager
def open_rows(data: Dataset, card: ModelCard, *, cores: int) -> Iterator[OpenedRows]:
    """Open a dataset for a model. Raises `DataError` when its volumes do not fit the model, or there are none."""
    with closing(open_source("npy" if isinstance(data, VolumeFiles) else "arrow", data, cores=cores)) as source:
        card.check_shape(source.spec.shape, f"the volumes of {data.uri} are")
        rows = source.rows.selected(data.selections if isinstance(data, VolumeDelta) else ())
        if not len(rows):
            raise DataError(f"{data.uri} has no volumes to predict", hint="Check the selection that it comes from.")
        rows = rows[np.argsort(source.rows.stored[rows], kind="stable")]
        labels = _in_numbers_of(card, source.rows.labels, source.spec.classes)
        unknown = int((np.isnan(labels[rows]) & ~np.isnan(source.rows.labels[rows])).sum())
        yield OpenedRows(source, rows, labels, unknown)


def _in_numbers_of(card: ModelCard, labels: NDArray[np.float32], own: Sequence[str]) -> NDArray[np.float32]:
    """Labels that number the classes `own`, or are numbers, in the model's: NaN for what it does not know."""
    classes = card.learned if card.task == "regression" else card.classes
    if classes is None:
        return labels
    if card.task == "regression" and names_without_numbers(own, classes):
        return np.full_like(labels, np.nan)
    return renumbered(labels, own, classes)


def as_trained(data: Dataset, card: ModelCard, listing: Path, warn: Callable[[str], None]) -> Dataset:
    """The volumes as the model's were: with those of its transforms that were not done to them yet.

    Where another way led to them, they stay as they are, with a warning. `listing` is where that of a table's rows is
    written. Raises `DataError` when none of a sample can be transformed, or a transform is a node that they did not go
    through.
    """
    spec = getattr(data, "spec", None)
    done = spec.transforms if spec is not None else ()
    missing = remaining(card.transforms, done)
    if missing is None:
        warn(went_another_way(card.transforms, done))
    if not missing:
        return data
    refuse_whole_nodes(missing, f"the model in {card.file.parent}", f"the volumes of {data.uri}")
    refuse_untrusted(missing, f"the model in {card.file.parent}")
    files = rows_as_files(data, listing) if isinstance(data, VolumeDelta | VolumeParquet) else data
    return with_transforms(files, missing) if isinstance(files, VolumeFiles) else data


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
