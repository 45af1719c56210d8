"""A model asked about files, `.npy` or another format of VolumeFolder's, as `voxelflow predict` does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.declare.datasets import VolumeSpec
from engine.errors import DataError
from engine.extras import require
from engine.storage import links, manifest
from nodes.conversion.formats import NPY, Reading, formats
from nodes.conversion.npy_files import finite_mask, refuse_not_finite
from nodes.conversion.whole_volumes import TransformedVolumes, whole_volumes
from nodes.prediction.inputs import ModelCard, read_card
from nodes.training.learner import Predictor, framework_named
from nodes.transforms.function_file import refuse_untrusted
from nodes.transforms.remaining import refuse_whole_nodes
from nodes.volume_folder import VOLUME_FILES

BATCH = 16
"""Volumes at once."""


@dataclass(frozen=True)
class Answer:
    """See `engine.cli.session.Answer`."""

    file: Path
    name: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Asked:
    """See `engine.cli.session.Asked`."""

    classes: tuple[str, ...]
    answers: Iterator[Answer]


def ask(folder: Path, files: Sequence[Path]) -> Asked:
    """What the model in `folder` says of each file, and of each volume in a folder, one batch after the other.

    An unreadable file, or one of another shape, has an error instead. Raises `DataError` when there is no model that
    can be loaded, or its volumes went through a node that files did not go through, `MissingPackage` without
    TensorFlow, which is imported for good files only.
    """
    require("voxelflow predict", "tensorflow")
    card = read_card(folder)
    refuse_whole_nodes(card.transforms, f"the model in {folder}", "files as they are")
    refuse_untrusted(card.transforms, f"the model in {folder}")
    return Asked(tuple(card.classes), _answers(card, _each_file(files)))


def _each_file(files: Sequence[Path]) -> Iterator[Path | Answer]:
    """The files, with those of folders in the order of their names; an answer where there is none to be asked about."""
    for file in files:
        if not file.is_dir() or _reading(file) != NPY:
            yield file
            continue
        yield from _in_folder(file)


def _in_folder(folder: Path) -> Iterator[Path | Answer]:
    left_out = _left_out()
    names = manifest.list_folder(folder, VOLUME_FILES, left_out=left_out)["path"]
    if not len(names):
        # Those of a series are no volumes by themselves.
        kinds = [each.kind for each in formats().values() if not each.collect]
        patterns, folders = ([e for kind in kinds for e in getattr(kind, name)] for name in ("patterns", "folders"))
        left_out = _left_out()
        names = manifest.list_folder(folder, tuple(patterns), tuple(folders), left_out)["path"]
    if not len(names):
        yield Answer(folder, error="there are no volumes in this folder")
    for name in names:
        yield folder / name.as_py()
    for link, unfollowed in sorted(left_out.links.items()):
        (remark,) = links.remarks(str(folder), {link: unfollowed})
        yield Answer(folder / link, error=f"is a link that is not followed: {unfollowed.reason}. {remark.hint}")
    if len(names) and left_out.files:
        counts = ", ".join(f"{count:,} {ending}" for ending, count in left_out.files.most_common())
        yield Answer(folder, error=f"files of other formats are left out: {counts}; name them to predict them, too")


def _left_out() -> manifest.LeftOut:
    """Counts files of all formats that a listing does not take."""
    known = formats().values()
    endings = {".npy"}.union(*(each.endings for each in known))
    return manifest.LeftOut(tuple(endings), tuple(e for each in known for e in each.folder_endings))


def _answers(card: ModelCard, files: Iterator[Path | Answer]) -> Iterator[Answer]:
    predictor: Predictor | None = None
    while batch := list(islice(files, BATCH)):
        answers: dict[int, Answer] = {}
        good: dict[int, Path] = {}
        for place, file in enumerate(batch):
            if isinstance(file, Answer):
                answers[place] = file
                continue
            try:
                _check(file, card)
                good[place] = file
            except DataError as exc:
                answers[place] = Answer(file, error=exc.message)
        if good:
            predictor = predictor or _predictor(card, BATCH if len(batch) == BATCH else len(good))
            answers |= _ask(predictor, card, good)
        yield from (answers[place] for place in range(len(batch)))


def _predictor(card: ModelCard, batch_size: int) -> Predictor:
    framework = framework_named(card.framework)
    framework.set_up(cores=len(os.sched_getaffinity(0)), deterministic=True, seed=0)
    return framework.predictor(card.file, card.shape, card.scores, batch_size)


def _ask(predictor: Predictor, card: ModelCard, files: Mapping[int, Path]) -> Iterator[tuple[int, Answer]]:
    volumes: list[NDArray[Any]] = []
    read: list[tuple[int, Path]] = []
    for place, file in files.items():
        try:
            volumes.append(_volume(file, card))
            read.append((place, file))
        except DataError as exc:
            yield place, Answer(file, error=exc.message)
    if read:
        scores = predictor.scores(np.stack(volumes))
        for (place, file), row in zip(read, scores.tolist(), strict=True):
            name = card.classes[int(np.argmax(row))] if card.classes else None
            yield place, Answer(file, name, dict(zip(card.classes or ("",), row, strict=True)))


def _check(file: Path, card: ModelCard) -> None:
    """Raise `DataError` for a file whose header says that it does not fit the model."""
    if not os.path.lexists(file):
        raise DataError("there is no such file", hint="Check the path.")
    form, _, _ = _volumes(file, card).form(file.name)
    card.check_shape(form[0], str(file))


def _reading(file: Path) -> Reading:
    """How a file is read, by its ending."""
    name = file.name.lower()
    return next((Reading(each.name) for each in formats().values() if name.endswith(each.all_endings)), NPY)


def _volumes(file: Path, card: ModelCard) -> TransformedVolumes:
    """The volumes in the file's folder as the model's were: files are raw, so all of its transforms are to be done."""
    return TransformedVolumes(whole_volumes(str(file.parent), _reading(file)), card.transforms)


def _volume(file: Path, card: ModelCard) -> NDArray[np.float32]:
    """The volume in the file as the model takes it, float32. Raises `DataError` when it cannot be read whole, or is
    not finite."""
    array, _ = _volumes(file, card).read(file.name, None)
    card.check_shape(array.shape, str(file))
    mask = finite_mask(VolumeSpec(shape=array.shape, dtype=array.dtype.name))
    if mask is not None:
        refuse_not_finite(array, mask.reshape(array.shape))
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
