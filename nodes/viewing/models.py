"""Looking at a trained model: its curves, its mistakes by class, its layers, and the volumes as it sees them."""

from __future__ import annotations

import json
import math
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.declare.dataset_type import stored_dataset
from engine.declare.datasets import Dataset, Selection, TrainedModel, VolumeDelta
from engine.declare.view import (
    Chart,
    ChartPanel,
    Choice,
    DatasetView,
    Gallery,
    GalleryItem,
    Option,
    Panel,
    Picked,
    Table,
    TableColumn,
    TablePage,
    TableRow,
)
from engine.errors import DataError
from engine.wording import figure_name
from nodes.loaders import open_source
from nodes.loaders.interface import Batch, Source
from nodes.loaders.random_access import RandomAccessSource
from nodes.training.architecture import volume_shape
from nodes.training.augmentation import Augmentation, augment
from nodes.training.rows import held_back
from nodes.training.trained_model import CONFUSION, DESCRIPTION, HISTORY, ROC

_KERAS_MODEL = "model.keras"
_VALIDATION = "val_"
_NOT_DRAWN = ("seconds", "per_second")
"""Endings of figures that say how fast an epoch was, and not how good."""
_MOST_EPOCHS = 20
_HELD_BACK = "validation"
_MOST_CLASSES = 40


def model_view(dataset: TrainedModel, made_from: Mapping[str, Dataset]) -> DatasetView:
    """What the model's folder holds; the volumes that it saw, while they are there."""
    folder = Path(dataset.uri)
    panels: dict[str, Panel] = {"curves": Curves(folder / HISTORY)}
    if (folder / CONFUSION).is_file():
        panels["confusion"] = ConfusionMatrices(folder / CONFUSION)
    if (folder / CONFUSION).is_file() or (folder / ROC).is_file():
        panels["roc"] = RocCurves(folder / ROC)
    if (folder / _KERAS_MODEL).is_file():
        panels["layers"] = Layers(folder / _KERAS_MODEL)
    described = _read_json(folder / DESCRIPTION)
    data = made_from.get("data") or (stored_dataset(described["data"]) if described.get("data") else None)
    if data is not None and "normalisation" in described:
        panels["seen"] = Seen(data, described, held_back=described.get("validation") is None)
    return ModelView(panels)


class ModelView(DatasetView):
    """The panels of a model."""

    def __init__(self, panels: Mapping[str, Panel]) -> None:
        self.panels = panels

    def close(self) -> None:
        for panel in self.panels.values():
            if isinstance(panel, Seen):
                panel.close()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as exc:
        raise DataError(f"{path} is gone", hint="Train the model again.") from exc
    except ValueError as exc:
        raise DataError(f"{path} is damaged: {exc}", hint="Train the model again.") from exc


class Curves(ChartPanel):
    """Each figure over the epochs, of the training and the validation volumes in one chart."""

    title = "Curves"

    def __init__(self, history: Path) -> None:
        self._path = history

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        history: list[dict[str, float]] = _read_json(self._path)
        epochs = tuple(float(number) for number in range(1, len(history) + 1))
        names = dict.fromkeys(name for figures in history for name in figures)
        out: list[Chart] = []
        for name in dict.fromkeys(name.removeprefix(_VALIDATION) for name in names):
            if name == "epoch" or name.endswith(_NOT_DRAWN) or name.startswith("epoch_"):
                continue
            pairs = {"training": name, "validation": f"{_VALIDATION}{name}"}
            series = {
                word: tuple(_finite(figures.get(key)) for figures in history)
                for word, key in pairs.items()
                if key in names
            }
            out.append(Chart(title=figure_name(name), kind="lines", x=epochs, series=series, x_title="epochs"))
        return out


def _finite(value: float | None) -> float | None:
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


class ConfusionMatrices(ChartPanel):
    """What the volumes of each class were taken for."""

    title = "Confusion"

    def __init__(self, path: Path) -> None:
        self._path = path

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        stored = _read_json(self._path)
        out = []
        for name, counts in stored.items():
            if not isinstance(counts, list) or not counts or not isinstance(counts[0], list):
                continue
            names = tuple(map(str, stored["classes"])) or tuple(map(str, range(len(counts))))
            out.append(matrix_chart(name.capitalize(), names, np.asarray(counts)))
        return out


def matrix_chart(title: str, classes: Sequence[str], counts: NDArray[Any]) -> Chart:
    """A matrix of labels (rows) and answers (columns), of as many classes as can be shown."""
    shown = list(classes)[:_MOST_CLASSES]
    note = f"the first {_MOST_CLASSES} of {len(classes)} classes" if len(classes) > len(shown) else ""
    # Browsers go through an object with the keys that are whole numbers first: rows in another order than the columns
    # would have their right answers beside the diagonal.
    order = sorted(range(len(shown)), key=lambda at: (0, int(shown[at])) if _is_index(shown[at]) else (1, at))
    names = tuple(shown[at] for at in order)
    rows = {shown[at]: tuple(counts[at, order].tolist()) for at in order}
    return Chart(title=title, kind="matrix", x=names, series=rows, x_title="predicted", y_title="label", note=note)


def _is_index(name: str) -> bool:
    """Whether JavaScript takes a key for a number: https://tc39.es/ecma262/#array-index."""
    return name.isascii() and name.isdigit() and len(name) <= 10 and name == str(int(name)) and int(name) < 2**32 - 1


class RocCurves(ChartPanel):
    """Of each class against the rest: how many of its volumes are found, by how many others are taken for it."""

    title = "ROC"

    def __init__(self, path: Path) -> None:
        self._path = path

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        if not self._path.is_file():
            raise DataError(
                "this model has no ROC curve: it was trained before they were kept, or its labels are of one class",
                hint="Train it again, or connect BatchPredict and EvaluateModel, whose page has one.",
            )
        stored = _read_json(self._path)
        rates = tuple(stored["false_positive_rates"])
        names = [str(name) for name in stored["classes"]]
        out = []
        for title in ("validation", "test"):
            curves = stored.get(title, [])
            shown = names[1:2] if len(curves) == 1 and len(names) == 2 else names
            series: dict[str, tuple[float | None, ...]] = {
                shown[at] if at < len(shown) else str(at): tuple(curve) for at, curve in enumerate(curves) if curve
            }
            if series:
                note = f"the first {len(curves)} of {len(names)} classes" if len(curves) < len(shown) else ""
                out.append(roc_chart(title.capitalize(), rates, series, note))
        return out


def roc_chart(title: str, rates: Sequence[float], curves: Mapping[str, tuple[float | None, ...]], note: str) -> Chart:
    """ROC curves over false positive rates, beside what mere chance would reach."""
    chance = "chance" if "chance" not in curves else "no better than chance"  # a class may be called so
    series = {**curves, chance: tuple(rates)} if curves else curves
    return Chart(
        title=title, kind="lines", x=tuple(rates), series=series,
        x_title="false positive rate", y_title="true positive rate", note=note,
    )  # fmt: skip


class Layers(Table):
    """The layers of a Keras model, from its file and without Keras."""

    title = "Layers"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[TableRow] = []

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        if not self._rows:
            self._rows = [TableRow(cells=cells) for cells in self._read()]
        columns = tuple(TableColumn(title=title) for title in ("layer", "type", "settings", "input", "parameters"))
        rows = tuple(self._rows[offset : offset + count])
        return TablePage(columns=columns, rows=rows, offset=offset, total=len(self._rows))

    def _read(self) -> Iterator[tuple[str, str, str, str, int | None]]:
        # The format: https://keras.io/guides/serialization_and_saving/, a zip file with a config.json.
        try:
            with zipfile.ZipFile(self._path) as archive:
                config = json.loads(archive.read("config.json"))
            layers = list(_layers(config))
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as exc:
            raise DataError(f"the layers in {self._path} cannot be read: {exc}", hint="Train the model again.") from exc
        for layer in layers:
            own = layer.get("config", {})
            shape = (layer.get("build_config") or {}).get("input_shape") or own.get("batch_shape")
            settings = [
                f"{word} {_times(own[name])}"
                for name, word in (("filters", "filters"), ("units", "units"), ("kernel_size", "kernel"),
                                   ("strides", "stride"), ("pool_size", "pool"), ("rate", "rate"),
                                   ("activation", "activation"))
                if own.get(name) not in (None, "linear", [1, 1, 1])
            ]  # fmt: skip
            text = _times(shape[1:]) if isinstance(shape, list) and shape and not isinstance(shape[0], list) else ""
            kind = str(layer.get("class_name", ""))
            yield str(own.get("name", "")), kind, ", ".join(settings), text, parameters_of_layer(kind, own, shape)


def _layers(model: Mapping[str, Any], within: str = "") -> Iterator[dict[str, Any]]:
    """The layers of a model, those of models in it in their place."""
    for layer in model["config"]["layers"]:
        own = layer.get("config", {})
        name = f"{within}{own.get('name', '')}"
        if isinstance(own.get("layers"), list):
            yield from _layers(layer, f"{name}/")
        else:
            yield {**layer, "config": {**own, "name": name}}


def _times(value: Any) -> str:
    return " x ".join("?" if part is None else str(part) for part in value) if isinstance(value, list) else str(value)


def parameters_of_layer(kind: str, config: Mapping[str, Any], shape: Any) -> int | None:
    """How many numbers the layer has learned or keeps; 0 without any, None where it is not known."""
    channels = shape[-1] if isinstance(shape, list) and shape and isinstance(shape[-1], int) else None
    outputs = config.get("filters") or config.get("units")
    if outputs is not None and channels is not None:
        kernel = math.prod(config.get("kernel_size") or [1])
        return int(kernel * channels * outputs + (outputs if config.get("use_bias") else 0))
    if kind == "BatchNormalization" and channels is not None:
        return channels * (2 + bool(config.get("scale", True)) + bool(config.get("center", True)))
    return 0 if outputs is None and kind != "BatchNormalization" else None


class Seen(Gallery):
    """The training volumes as the network gets them: augmented as in an epoch, and normalised."""

    title = "What the network sees"

    def __init__(self, data: Dataset, described: Mapping[str, Any], *, held_back: bool) -> None:
        training = described["training"]
        self.shape = tuple(described["input"]["shape"])
        self.dtype = "float32"
        self._data, self._loader = data, training.get("loader", "arrow")
        self._share = training.get("validation_share", 0.0) if held_back else 0.0
        # Older models have no "held_back_by": without a group of their own they parted volumes one by one.
        group = training.get("validation_group", "")
        self._by = tuple(described.get("held_back_by", [group] if group else []))
        self._seed = int(training.get("seed", 0))
        self._epochs = max(1, int(described.get("epoch", 1)))
        known = {name: training[name] for name in ("flips", "quarter_turns", "intensity", "noise") if name in training}
        self._augmentation = Augmentation(**known)
        self._mean = np.array(described["normalisation"]["mean"])
        self._deviation = np.sqrt(np.array(described["normalisation"]["variance"]))
        self._lock = threading.Lock()
        self._opened: tuple[RandomAccessSource, NDArray[np.int64]] | None = None
        self._epoch = 0

    def choices(self) -> Sequence[Choice]:
        out = []
        if self._share:
            split = (("", "Training"), (_HELD_BACK, "Validation, held back"))
            options = tuple(Option(value=value, text=words) for value, words in split)
            out.append(Choice(name="split", title="Split", options=options))
        if self._augmentation == Augmentation():
            return out
        epochs = [Option(value=str(n), text=f"{n + 1}") for n in range(min(self._epochs, _MOST_EPOCHS))]
        plain = Option(value="plain", text="Without augmentation")
        return [*out, Choice(name="epoch", title="Epoch", options=(*epochs, plain))]

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        source, rows = self._open()
        if chosen.get("split") == _HELD_BACK and self._share:
            # Augmented is what the network learns from, never what it is judged by.
            rows, chosen = self._held_back(source), {"epoch": "plain"}
        wanted = chosen.get("epoch", "0")
        epoch = int(wanted) if wanted.isdigit() and int(wanted) < _MOST_EPOCHS else -1
        order = np.random.default_rng(seed).permutation(len(rows))[offset : offset + count]
        # A volume is another one in each epoch: its number says which.
        items = tuple(self.item((epoch + 1) * len(source.rows) + int(row)) for row in rows[order])
        return Picked(items=items, total=len(rows))

    def item(self, row: int) -> GalleryItem:
        source, _ = self._open()
        number = row % len(source.rows)
        label = source.spec.label_name(float(source.rows.labels[number]))
        return GalleryItem(row=row, id=source.ids([number])[0], label=label)

    def volume(self, row: int) -> NDArray[Any]:
        source, _ = self._open()
        epoch, number = divmod(row, len(source.rows))
        if epoch > _MOST_EPOCHS:
            raise DataError(f"there is no volume {row:,}", hint="Choose one from the gallery.")
        volume = np.empty((1, *source.spec.shape), np.float32)
        numbers = np.array([number], np.int64)
        source.fill(numbers, volume)
        if epoch:
            batch = Batch(volume, source.rows.labels[numbers], numbers)
            augment(self._augmentation, self._seed, self._mean, self._deviation, batch, epoch - 1)
        four = volume[0].reshape(volume_shape(source.spec.shape))
        out: NDArray[np.float32] = ((four - self._mean) / self._deviation).astype(np.float32)
        return out

    def close(self) -> None:
        """Let go of the data."""
        with self._lock:
            if self._opened is not None:
                self._opened[0].close()

    def _open(self) -> tuple[RandomAccessSource, NDArray[np.int64]]:
        with self._lock:
            if self._opened is None:
                source: Source = open_source(self._loader, self._data, cores=1)
                if not isinstance(source, RandomAccessSource):
                    source.close()
                    raise DataError(
                        f"the volumes of {self._data.uri} cannot be read one by one as the network does",
                        hint="Give the table a layout in which they can with OptimizeDelta.",
                    )
                self._opened = source, source.rows_in(*self._selections(1))
            return self._opened

    def _held_back(self, source: RandomAccessSource) -> NDArray[np.int64]:
        """The rows of the validation."""
        return source.rows_in(*self._selections(0))

    def _selections(self, side: int) -> tuple[Selection, ...]:
        """Of the data's volumes those of the validation (0) or of the training (1)."""
        own = self._data.selections if isinstance(self._data, VolumeDelta) else ()
        return (*own, held_back(self._share, self._by)[side]) if self._share else own
