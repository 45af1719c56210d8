"""Volumes whose values are unlike those that a model was trained on: of another unit or scale, or nearly all alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.text import plural
from nodes.conversion.npy_files import spread
from nodes.loaders.interface import Reading
from nodes.prediction.inputs import ModelCard, OpenedRows

FAR = 10.0
"""So many deviations a volume's mean may be from that of the training: at most one in a hundred volumes of the training
itself is as far (Chebyshev), whatever its values are."""
_FLAT = 0.01
"""Of the deviation in the training: a volume in 0 to 1 has 1/255 of it where the training had 0 to 255."""
_SAMPLED = 16
"""Volumes of a dataset that are looked at."""


@dataclass(frozen=True)
class UnlikeRows:
    """How many of the sampled volumes of a dataset are unlike, and what is said of the first, whose id is `example`."""

    count: int
    sampled: int
    example: str
    said: str

    def line(self) -> str:
        are = "is" if self.count == 1 else "are"
        return (
            f"{self.count} of {plural(self.sampled, 'sampled volumes')} {are} unlike those that the model was trained"
            f" on. {self.example}: {self.said}."
        )


def unlike(volume: NDArray[np.float32], card: ModelCard) -> str:
    """What is unlike in the values of a volume (of the model's shape) as the model gets it; "" for nothing.

    Values that are not finite, and models that say nothing of their training, are passed over.
    """
    channels = len(card.means)
    if channels == 0 or volume.size % channels:
        return ""
    voxels = volume.reshape(-1, channels)
    with np.errstate(over="ignore", invalid="ignore"):
        means, deviations = voxels.mean(axis=0, dtype=np.float64), voxels.std(axis=0, dtype=np.float64)
    if not np.isfinite(means).all() or not np.isfinite(deviations).all():
        return ""
    trained = np.array(card.means), np.array(card.deviations)
    odd = np.abs(means - trained[0]) > FAR * trained[1]
    odd |= deviations < _FLAT * trained[1]
    if not odd.any():
        return ""
    at = int(np.argmax(odd))
    where = f" in channel {at}" if channels > 1 else ""
    if deviations[at] == 0:
        return f"its values{where} are all {means[at]:.3g}, so the answer may be wrong. Look at it"
    ours, theirs = (f"mean {m[at]:.3g}, deviation {d[at]:.3g}" for m, d in ((means, deviations), trained))
    return (
        f"its values{where} ({ours}) are unlike those that the model was trained on ({theirs}), so the answer may be"
        " wrong. Give it in the unit and scale of the training"
    )


def unlike_rows(opened: OpenedRows, card: ModelCard) -> UnlikeRows | None:
    """Look at a few volumes of a dataset, from all of it where any can be read alone; None when none is unlike."""
    source, rows = opened.source, opened.rows
    if not card.means:
        return None
    sample = rows[:_SAMPLED] if source.read_path == "streamed" else rows[spread(len(rows), _SAMPLED)]
    found: list[tuple[int, str]] = []
    for batch in source.loader(np.sort(sample), Reading(len(sample), training=False)).batches():
        for row, volume in zip(batch.rows.tolist(), batch.volumes, strict=True):
            if said := unlike(volume, card):
                found.append((row, said))
    if not found:
        return None
    row, said = found[0]
    return UnlikeRows(len(found), len(sample), source.ids([row])[0], said)
