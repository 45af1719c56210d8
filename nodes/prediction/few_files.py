"""A model asked about volumes in files, `.npy` or another format of VolumeFolder's, as `voxelflow predict` does."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.cgroups import usable_cores
from engine.declare.datasets import VolumeSpec
from engine.errors import DataError
from engine.extras import missing, require
from engine.storage import links, manifest
from nodes.conversion.formats import NPY, Reading, format_named, formats
from nodes.conversion.npy_files import finite_mask, refuse_not_finite
from nodes.conversion.quarantine import Refused
from nodes.conversion.volume_sources import is_volume, volumes_of
from nodes.conversion.whole_volumes import TransformedVolumes, whole_volumes
from nodes.prediction.inputs import ModelCard, read_card
from nodes.prediction.unlike import unlike
from nodes.training.learner import Predictor, framework_named
from nodes.training.usable_values import LARGEST, usable
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
    doubt: str = ""


@dataclass(frozen=True)
class Asked:
    """See `engine.cli.session.Asked`."""

    classes: tuple[str, ...]
    answers: Iterator[Answer]


def ask(folder: Path, files: Sequence[Path], *, dataset: str = "") -> Asked:
    """What the model in `folder` says of each file, and of each volume in a folder, one batch after the other.

    `dataset` is the array that is the volume in files which hold several, as VolumeFolder's parameter. Files that are
    one volume together, the slices of a DICOM series, get one answer.

    An unreadable file, or one of another shape, has an error instead; one whose values are unlike those of the training
    has a doubt beside its scores. Raises `DataError` when there is no model that
    can be loaded, or its volumes went through a node that files did not go through, `MissingPackage` without
    TensorFlow, which is imported for good files only.
    """
    require("voxelflow predict", "tensorflow")
    card = read_card(folder)
    refuse_whole_nodes(card.transforms, f"the model in {folder}", "files as they are")
    refuse_untrusted(card.transforms, f"the model in {folder}")
    return Asked(tuple(card.classes), _answers(card, _each_volume(files, dataset)))


@dataclass(frozen=True)
class _Volume:
    """A volume to be asked about: `name` is its path below `root` as the format has it, `file` as people see it."""

    root: Path
    name: str
    reading: Reading
    file: Path


def _each_volume(files: Sequence[Path], dataset: str) -> Iterator[_Volume | Answer]:
    """The files, with those of folders in the order of their names; an answer where there is none to be asked about."""
    parts: dict[tuple[Path, Reading], set[str]] = {}
    readings = {file: _reading(file, dataset) for file in files}
    for file, reading in readings.items():
        if _may_be_a_part(file, reading):
            parts.setdefault((file.parent, reading), set()).add(file.name)
    for file in files:
        reading = readings[file]
        if not os.path.lexists(file):
            yield Answer(file, error="there is no such file")
        elif file.is_dir() and reading == NPY:
            yield from _in_folder(file, dataset)
        elif not _may_be_a_part(file, reading):
            yield _Volume(file.parent, file.name, reading, file)
        elif names := parts.pop((file.parent, reading), None):
            yield from _given_whole(file.parent, names, reading)


def _may_be_a_part(file: Path, reading: Reading) -> bool:
    """Whether the file is of a format that may have several for a volume, and can be one of them."""
    if reading == NPY or not format_named(reading.format).collect or file.name.startswith("."):
        return False
    return file.is_file() and _is_text(file.name)


def _is_text(name: str) -> bool:
    """Whether the name is UTF-8, as those of a listing are."""
    return not any("\udc80" <= letter <= "\udcff" for letter in name)


def _given_whole(folder: Path, names: set[str], reading: Reading) -> Iterator[_Volume | Answer]:
    """The volumes that these files of a folder are, of a format that may have several for one (a series of slices).

    What is given in part only is no volume: its answer would be one to something else.
    """
    found = format_named(reading.format)
    collect = found.collector()
    assert collect is not None
    there = [
        _entry(file)
        for file in folder.iterdir()
        if (found.any_name or file.name.lower().endswith(found.endings)) and _may_be_a_part(file, reading)
    ]
    whole = set(manifest.entries(collect(folder, manifest.table_of(there))))
    given = collect(folder, manifest.table_of(each for each in there if each.path in names))
    shown = _shown(folder, {each.path for each in whole}.union(given["path"].to_pylist()))
    for each in manifest.entries(given):
        if each in whole:
            yield _Volume(folder, each.path, reading, shown[each.path])
        else:
            said = f"is a part of a volume of several files ({found.title}): give all of them, or their folder {folder}"
            yield Answer(shown[each.path], error=said)


def _in_folder(folder: Path, dataset: str) -> Iterator[_Volume | Answer]:
    left_out = _left_out()
    volumes = manifest.list_folder(folder, VOLUME_FILES, left_out=left_out)
    found = dict.fromkeys(volumes["path"].to_pylist(), NPY)
    if not found:
        kinds = [each.kind for each in formats().values()]
        patterns, folders = ([e for kind in kinds for e in getattr(kind, name)] for name in ("patterns", "folders"))
        left_out = _left_out()
        listing = manifest.list_folder(folder, tuple(patterns), tuple(folders), left_out)
        for reading in (Reading(name, dataset) for name in formats()):
            # Without a file of the format its package is not needed.
            if pc.any(is_volume(listing["path"], reading)).as_py():
                found |= dict.fromkeys(volumes_of(listing, str(folder), reading)["path"].to_pylist(), reading)
    for reading in () if found else _of_any_name():
        listing = manifest.list_folder(folder, ("**/*",))
        found |= dict.fromkeys(volumes_of(listing, str(folder), reading)["path"].to_pylist(), reading)
    if not found:
        yield Answer(folder, error="there are no volumes in this folder")
    shown = _shown(folder, found)
    for name, reading in sorted(found.items()):
        yield _Volume(folder, name, reading, shown[name])
    for link, unfollowed in sorted(left_out.links.items()):
        (remark,) = links.remarks(str(folder), {link: unfollowed})
        yield Answer(folder / link, error=f"is a link that is not followed: {unfollowed.reason}. {remark.hint}")
    if found and left_out.files:
        counts = ", ".join(f"{count:,} {ending}" for ending, count in left_out.files.most_common())
        yield Answer(folder, error=f"files of other formats are left out: {counts}; name them to predict them, too")


def _shown(folder: Path, names: Collection[str]) -> dict[str, Path]:
    """What people see of each volume: its path. The only series of a folder is the folder, and not its UID."""
    series = [name for name in names if "/" not in name and not os.path.lexists(folder / name)]
    return {name: folder if series == [name] else folder / name for name in names}


def _left_out() -> manifest.LeftOut:
    """Counts files of all formats that a listing does not take."""
    known = formats().values()
    endings = {".npy"}.union(*(each.endings for each in known))
    return manifest.LeftOut(tuple(endings), tuple(e for each in known for e in each.folder_endings))


def _answers(card: ModelCard, files: Iterator[_Volume | Answer]) -> Iterator[Answer]:
    predictor: Predictor | None = None
    while batch := list(islice(files, BATCH)):
        answers: dict[int, Answer] = {}
        good: dict[int, _Volume] = {}
        for place, file in enumerate(batch):
            if isinstance(file, Answer):
                answers[place] = file
                continue
            try:
                _check(file, card)
                good[place] = file
            except DataError as exc:
                answers[place] = Answer(file.file, error=exc.message)
        if good:
            predictor = predictor or _predictor(card, BATCH if len(batch) == BATCH else len(good))
            answers |= _ask(predictor, card, good)
        yield from (answers[place] for place in range(len(batch)))


def _predictor(card: ModelCard, batch_size: int) -> Predictor:
    framework = framework_named(card.framework)
    framework.set_up(cores=usable_cores(), deterministic=True, seed=0)
    return framework.predictor(card.file, card.shape, card.scores, batch_size)


def _ask(predictor: Predictor, card: ModelCard, files: Mapping[int, _Volume]) -> Iterator[tuple[int, Answer]]:
    volumes: list[NDArray[Any]] = []
    read: list[tuple[int, Path]] = []
    for place, file in files.items():
        try:
            volumes.append(_volume(file, card))
            read.append((place, file.file))
        except DataError as exc:
            yield place, Answer(file.file, error=exc.message)
    if read:
        scores = predictor.scores(np.stack(volumes))
        for (place, shown), volume, row in zip(read, volumes, scores.tolist(), strict=True):
            if not np.isfinite(row).all():
                said = "its values are too far from those that the model was trained on: the scores are not finite"
                yield place, Answer(shown, error=said)
                continue
            name = card.classes[int(np.argmax(row))] if card.classes else None
            by_class = dict(zip(card.classes or ("",), row, strict=True))
            yield place, Answer(shown, name, by_class, doubt=unlike(volume, card))


def _check(volume: _Volume, card: ModelCard) -> None:
    """Raise `DataError` for a volume whose header says that it does not fit the model."""
    form, _, _ = _volumes(volume, card).form(volume.name)
    card.check_shape(form[0], "is")


def _reading(file: Path, dataset: str) -> Reading:
    """How a file is read, by its ending; one with another ending by its content, where a format has any name."""
    name = file.name.lower()
    for each in formats().values():
        if name.endswith(each.all_endings):
            return Reading(each.name, dataset)
    if not name.endswith(".npy") and file.is_file() and _is_text(file.name):
        listing = manifest.table_of([_entry(file)])
        for reading in _of_any_name():
            if len(volumes_of(listing, str(file.parent), reading)):
                return reading
    return NPY


def _of_any_name() -> Iterator[Reading]:
    """The formats whose files have any name, so that they are looked into; those whose reader is installed."""
    for each in formats().values():
        if each.any_name and not missing(each.modules):
            yield Reading(each.name)


def _entry(file: Path) -> manifest.FileEntry:
    status = file.stat()
    return manifest.FileEntry(file.name, status.st_size, status.st_mtime_ns)


def _volumes(volume: _Volume, card: ModelCard) -> TransformedVolumes:
    """Reads the volume as the model's were: files are raw, so all of its transforms are to be done."""
    return TransformedVolumes(whole_volumes(str(volume.root), volume.reading), card.transforms)


def _volume(volume: _Volume, card: ModelCard) -> NDArray[np.float32]:
    """The volume as the model takes it, float32. Raises `DataError` when it cannot be read whole, or is not usable."""
    array, _ = _volumes(volume, card).read(volume.name, None)
    card.check_shape(array.shape, "is")
    mask = finite_mask(VolumeSpec(shape=array.shape, dtype=array.dtype.name))
    if mask is not None:
        refuse_not_finite(array, mask.reshape(array.shape))
    with np.errstate(over="ignore"):
        values = array.astype(np.float32)
    if not usable(values[None])[0]:
        raise Refused("not-finite", f"holds values beyond {LARGEST:g}, which no model can compute with")
    return values
