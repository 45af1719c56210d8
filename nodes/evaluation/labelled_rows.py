"""The labelled rows of a table of predictions, and a count of those that are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.datasets import Predictions, id_digests
from engine.errors import DataError
from nodes.prediction.predictions_table import read_predictions


@dataclass
class Tally:
    """What was read. `data` is a sum of hashes of ids and labels: equal for the same volumes in any order."""

    volumes: int = 0
    unlabelled: int = 0
    not_finite: int = 0
    evaluated: int = 0
    data: int = 0

    def figures(self) -> dict[str, float | int | str]:
        return {
            "evaluated": self.evaluated,
            "volumes": self.volumes,
            "unlabelled": self.unlabelled,
            "not_finite": self.not_finite,
            "data": f"{self.data:016x}",
        }


@dataclass(frozen=True)
class Labelled:
    """Some rows: ids, scores float32 (n, width), labels float64 (n,)."""

    ids: pa.Array
    scores: NDArray[np.float32]
    labels: NDArray[np.float64]


def labelled_rows(predictions: Predictions, tally: Tally) -> Iterator[Labelled]:
    """The rows that have a label and finite scores, batch by batch; the tally counts on.

    Raises `DataError` when there are none at all, or the table cannot be read.
    """
    width = len(predictions.classes) or 1
    for batch in read_predictions(predictions, ("id", "scores", "label")):
        flat = batch.column("scores").flatten().to_numpy(zero_copy_only=False)
        if len(flat) != batch.num_rows * width:
            raise DataError(f"{predictions.uri} has rows without {width} scores", hint="Run BatchPredict again.")
        scores = flat.reshape(-1, width)
        labels = batch.column("label").to_numpy(zero_copy_only=False).astype(np.float64)
        labelled, finite = ~np.isnan(labels), np.isfinite(scores).all(axis=1)
        keep = labelled & finite
        tally.volumes += len(labels)
        tally.unlabelled += int((~labelled).sum())
        tally.not_finite += int((labelled & ~finite).sum())
        tally.evaluated += int(keep.sum())
        rows = Labelled(batch.column("id").filter(pa.array(keep)), scores[keep], labels[keep])
        tally.data = (tally.data + _hash_of(rows)) % 2**64
        yield rows
    if not tally.evaluated:
        raise DataError(
            f"no volume in {predictions.uri} has a label, so there is nothing to compare with",
            hint="Predict volumes that have labels.",
        )


def _hash_of(rows: Labelled) -> int:
    pairs = zip(rows.ids.to_pylist(), rows.labels.tolist(), strict=True)
    digests = id_digests((f"{label:g} {volume}".encode() for volume, label in pairs), "evaluated")
    return int(np.frombuffer(digests, ">u8").astype(np.uint64).sum(dtype=np.uint64))
