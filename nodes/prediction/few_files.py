"""A model asked about a few `.npy` files, as `voxelflow predict` does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.datasets import VolumeSpec
from engine.errors import DataError
from nodes.conversion.npy_files import VolumeReader, header_of
from nodes.prediction.model_card import ModelCard, read_card
from nodes.prediction.opened_rows import refuse_other_shape

if TYPE_CHECKING:
    from nodes.prediction.predictor import Predictor

BATCH = 16
"""Volumes at once, where there are many files."""


@dataclass(frozen=True)
class Answer:
    """See `engine.cli.session.Answer`."""

    file: Path
    name: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


def ask(folder: Path, files: Sequence[Path]) -> list[Answer]:
    """What the model in `folder` says of each file; a file that cannot be a volume of it has an error instead.

    Raises `DataError` when there is no model that can be loaded. TensorFlow is imported for good files only.
    """
    card = read_card(folder)
    answers: dict[int, Answer] = {}
    good: list[int] = []
    for place, file in enumerate(files):
        try:
            refuse_other_shape(_header(file), card, str(file))
            good.append(place)
        except DataError as exc:
            answers[place] = Answer(file, error=exc.message)
    if good:
        predictor = _predictor(card, min(BATCH, len(good)))
        for start in range(0, len(good), BATCH):
            answers |= _ask(predictor, card, {place: files[place] for place in good[start : start + BATCH]})
    return [answers[place] for place in range(len(files))]


def _predictor(card: ModelCard, batch: int) -> Predictor:
    from nodes.prediction.predictor import Predictor
    from nodes.training.tensorflow_setup import configure

    configure(cores=len(os.sched_getaffinity(0)), deterministic=True, seed=0)
    return Predictor(card, batch)


def _ask(predictor: Predictor, card: ModelCard, files: Mapping[int, Path]) -> Iterator[tuple[int, Answer]]:
    volumes: list[NDArray[Any]] = []
    read: list[tuple[int, Path]] = []
    for place, file in files.items():
        try:
            volumes.append(_volume(file))
            read.append((place, file))
        except DataError as exc:
            yield place, Answer(file, error=exc.message)
    if read:
        scores = predictor.scores(np.stack(volumes))
        for (place, file), row in zip(read, scores.tolist(), strict=True):
            name = card.classes[int(np.argmax(row))] if card.classes else None
            yield place, Answer(file, name, dict(zip(card.classes or ("",), row, strict=True)))


def _header(file: Path) -> tuple[int, ...]:
    if not file.exists():
        raise DataError("there is no such file")
    return header_of(str(file.parent), file.name).shape


def _volume(file: Path) -> NDArray[np.float32]:
    """The volume in the file, float32. Raises `DataError` when it cannot be read whole, or is not finite."""
    header = header_of(str(file.parent), file.name)
    spec = VolumeSpec(shape=header.shape, dtype=header.dtype.name)
    row, found = np.empty(spec.volume_bytes, np.uint8), file.stat()
    VolumeReader(str(file.parent), spec, finite=True).read(file.name, found.st_size, found.st_mtime_ns, row)
    with np.errstate(over="ignore"):
        return row.view(np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape).astype(np.float32)
