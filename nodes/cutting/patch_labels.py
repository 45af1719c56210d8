"""The labels of a volume's patches, by a rule: from a volume of labels, a horizon or polygons; and which are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import DataError
from engine.storage.files import write_whole
from engine.text import label_text
from nodes.conversion.formats.interface import Box, VolumeHeader
from nodes.cutting import surfaces
from nodes.cutting.cubes import CubeFile
from nodes.cutting.cut_parameters import UNLABELLED, CutParameters, keep_rates
from nodes.cutting.grid import PatchGrid
from nodes.cutting.tiles import TiledVolume
from nodes.table.selection import fractions

_MOST_CLASSES = 1 << 16
"""Labels up to this are counted in an array of so many places."""
_LARGEST = 1 << 24
"""Up to this a float32, as labels are stored, has every whole number."""
_STORED_AS = "labels 1"
"""Another text, and labels that an earlier release has stored are read anew."""
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class LabelRule:
    """How patches get labels. `classes` name the labels 0, 1, 2 ..., where they have names.

    `points` are those of the label file.
    """

    parameters: CutParameters
    classes: tuple[str, ...] = ()
    points: tuple[NDArray[np.float64], ...] = ()

    @classmethod
    def of(cls, parameters: CutParameters) -> LabelRule:
        """Reads the label file, where there is one. Raises `DataError`."""
        kind = parameters.labels
        if kind in ("none", "volume"):
            rule = cls(parameters, parameters.names_of_classes if kind == "volume" else ())
        else:
            if not parameters.label_file:
                raise DataError(
                    f"labels come from a {kind}, and no file is given", hint="Name it.", parameter="label_file"
                )
            path = Path(parameters.label_file)
            points = surfaces.read_points(path)
            rule = cls(parameters, class_names(parameters), tuple(points))
            if kind == "polygon":
                surfaces.check_polygons(points, path.name)
            elif points and points[0].shape[1] != 3:
                raise DataError(
                    f"the horizon {path.name} has no depths: its lines have two numbers",
                    hint="Give x y z in each line.",
                    parameter="label_file",
                )
        keep_rates(parameters.keep, rule.classes)
        return rule

    def label(
        self, grid: PatchGrid, positions: NDArray[np.int32], header: VolumeHeader, name: str
    ) -> NDArray[np.float32]:
        """The label of each patch by the horizon or the polygons, NaN for none. `header` is that of the volume `name`.

        Raises `DataError` when the volume does not say where it lies.
        """
        if self.parameters.labels not in ("horizon", "polygon"):
            return np.full(len(positions), np.nan, np.float32)
        blocks = []
        for block in self.points:
            # A polygon without a depth: any that can be turned.
            depth = block[:, 2:] if block.shape[1] == 3 else np.zeros((len(block), 1))
            turned = surfaces.to_voxels(np.hstack([block[:, :2], depth]), self.parameters.positions, header, name)
            if block.shape[1] == 2:
                turned[:, 2] = np.nan
            blocks.append(turned)
        centres, within = grid.centres(positions), self.parameters.within
        if self.parameters.labels == "polygon":
            return surfaces.by_polygons(centres, blocks, within, self.classes)
        points = np.concatenate(blocks) if blocks else np.empty((0, 3))
        return surfaces.by_horizon(centres, surfaces.horizon_depths(points, grid.shape), within, self.classes)

    def label_by_volume(
        self, labels: TiledVolume, grid: PatchGrid, positions: NDArray[np.int32], step: Callable[[int], None]
    ) -> NDArray[np.float32]:
        """The label of each patch by the voxels of a volume of labels; NaN for a patch without a label.

        `step` hears how many more patches were looked at. Raises `DataError` for a value that cannot be a class,
        `Refused` for a file that cannot be read.
        """
        out = np.full(len(positions), np.nan, np.float32)
        if self.parameters.label_rule == "centre":
            boxes = grid.centres(positions)
            lengths = (1, 1, 1)
        else:
            boxes, lengths = positions, grid.steps.size
        ends = np.minimum(boxes + np.array(lengths, np.int32), np.array(grid.shape, np.int32))
        for number, (first, last) in enumerate(zip(boxes.tolist(), ends.tolist(), strict=True)):
            box = Box((first[0], first[1], first[2]), (last[0], last[1], last[2]))
            values = np.empty((*box.shape, 1), labels.dtype)
            labels.read(box, values)
            out[number] = self._of_voxels(values.reshape(-1))
            if number % 1000 == 999:
                step(1000)
        step(len(positions) % 1000)
        self._refuse_unnamed(out)
        return out

    def _of_voxels(self, values: NDArray[np.generic]) -> float:
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if not len(values):
            return float("nan")
        if self.parameters.label_rule == "centre":
            return float(values[0])
        found, counts = _counts(values)
        if self.parameters.label_rule == "majority":
            return float(found[int(counts.argmax())])
        shares = np.where(found == 0, -1.0, counts / len(values))
        best = int(shares.argmax())
        return float(found[best]) if shares[best] >= max(self.parameters.label_share, 1 / len(values)) else 0.0

    def _refuse_unnamed(self, labels: NDArray[np.float32]) -> None:
        known = labels[~np.isnan(labels)]
        odd = known[(known != np.rint(known)) | (np.abs(known) > _LARGEST)]
        if len(odd):
            raise DataError(
                f"a volume of labels has the value {label_text(odd[0])}, and a class is a whole number",
                hint="Which files have labels? See label_volume.",
                parameter="label_volume",
            )
        unnamed = known[(known < 0) | (known >= len(self.classes))] if self.classes else known[:0]
        if len(unnamed):
            raise DataError(
                f"a volume of labels has the value {int(unnamed[0])}, and there are {len(self.classes)} names"
                f" for 0 to {len(self.classes) - 1}",
                hint="Name all classes, or none.",
                parameter="class_names",
            )

    def keep(self, labels: NDArray[np.float32], ids: pa.Array) -> NDArray[np.bool_]:
        """Which patches to keep. A patch's place and the seed decide, so that others never change it."""
        rates = keep_rates(self.parameters.keep, self.classes)
        if not rates:
            return np.ones(len(labels), bool)
        share = np.ones(len(labels))
        values = {name: number for number, name in enumerate(self.classes)}
        for name, rate in rates.items():
            if name == UNLABELLED:
                share[np.isnan(labels)] = rate
            else:
                share[labels == np.float32(values[name] if name in values else _number(name))] = rate
        kept: NDArray[np.bool_] = fractions(ids, f"voxelflow.keep.{self.parameters.seed}") < share
        return kept

    def names(self, labels: NDArray[np.float32]) -> Mapping[str, int]:
        """How many patches have each label, by its name; unlabelled ones last."""
        found, counts = np.unique(labels[~np.isnan(labels)], return_counts=True)
        names = [self.classes[int(label)] if self.classes else label_text(label) for label in found]
        out = dict(zip(names, counts.tolist(), strict=True))
        if without := int(np.count_nonzero(np.isnan(labels))):
            out[UNLABELLED] = without
        return out


class StoredLabels:
    """The labels by volumes of labels that earlier runs of the same work have read: a file for each volume.

    Reading them takes up to 0.05 ms a patch, half a minute for 650,000. So it is done once: not again after a kill, nor
    for volumes that were there before a folder grew. A damaged or missing file counts for nothing: its labels are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._used = folder, set[str]()

    def recall(self, key: str, count: int) -> NDArray[np.float32] | None:
        """The labels that were stored under `key`, if they are whole and as many as `count`."""
        self._used.add(key)
        try:
            data = (self._folder / key).read_bytes()
        except OSError:
            return None
        kept, values = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if len(values) != 4 * count or _digest(values) != kept:
            return None
        return np.frombuffer(values, "<f4")

    def remember(self, key: str, labels: NDArray[np.float32]) -> None:
        """Store them. Not flushed: one that a power cut has cut short is noticed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        values = labels.astype("<f4").tobytes()
        write_whole(self._folder / key, _digest(values) + values, durable=False)

    def forget_others(self) -> None:
        """Remove what nobody has asked for: labels of files that have changed or are gone."""
        for path in self._folder.glob("*"):
            if path.name not in self._used:
                path.unlink(missing_ok=True)

    @staticmethod
    def key(file: CubeFile, rule: LabelRule, positions: NDArray[np.int32]) -> str:
        """What decides the labels of the patches at these positions, hashed."""
        given = rule.parameters
        asked = (given.size, given.edges, given.label_rule, given.label_share, rule.classes)
        return _digest(repr((_STORED_AS, *file, asked)).encode() + positions.tobytes()).hex()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def class_names(parameters: CutParameters) -> tuple[str, ...]:
    """The classes by a horizon or polygons, in the order of their numbers."""
    if parameters.labels == "polygon":
        return (surfaces.INSIDE, surfaces.OUTSIDE)
    within = (surfaces.WITHIN,) if parameters.within else ()
    return (surfaces.ABOVE, surfaces.BELOW, *within)


def _number(name: str) -> float:
    try:
        return float(name)
    except ValueError:
        raise DataError(
            f"keep names the class {name!r}, and the labels are numbers",
            hint="Write 0=0.1, or give class_names.",
            parameter="keep",
        ) from None


def _counts(values: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The different values, growing, and how often each is there."""
    whole = values.astype(np.int64)
    low, high = int(whole.min()), int(whole.max())
    # Counting in an array takes a tenth of the time of sorting.
    if low >= 0 and high < _MOST_CLASSES and (values.dtype.kind != "f" or bool((whole == values).all())):
        counts = np.bincount(whole)
        found = np.flatnonzero(counts)
        return found.astype(np.float64), counts[found]
    different, often = np.unique(values, return_counts=True)
    return different.astype(np.float64), often
