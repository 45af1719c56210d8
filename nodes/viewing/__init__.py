"""How the built-in dataset types are looked at (`engine.declare.view`)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.declare.dataset_type import Dataset
    from engine.declare.view import DatasetView

_VIEWS = {
    "VolumeFiles": "volumes:files_view",
    "VolumeParquet": "volumes:parquet_view",
    "VolumeDelta": "volumes:delta_view",
    "TrainedModel": "models:model_view",
    "Predictions": "predictions:predictions_view",
    "Report": "documents:report_view",
}
"""By kind, `module:function` in this folder: the function takes the dataset, and what it was made from by port."""


def prepare() -> None:
    """Import what it takes to open a table."""
    import deltalake  # noqa: F401

    import nodes.viewing.volumes  # noqa: F401


def open_view(dataset: Dataset, made_from: Mapping[str, Dataset]) -> DatasetView | None:
    """Open a dataset of a built-in type, or of one derived from it; None for any other.

    Raises `DataError` when its data is not there or cannot be read.
    """
    for kind in (each.__name__ for each in type(dataset).__mro__):
        if place := _VIEWS.get(kind):
            module, _, name = place.partition(":")
            function: Any = getattr(importlib.import_module(f"nodes.viewing.{module}"), name)
            view: DatasetView = function(dataset, made_from)
            return view
    return None
