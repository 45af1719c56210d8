"""Loaders: how the rows of a dataset become batches for training (the contract is in `interface`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.parameters import Needs
from engine.errors import UsageError
from engine.extras import modules, require

if TYPE_CHECKING:
    from nodes.loaders.interface import Source

LoaderName = Literal["arrow", "npy", "petastorm"]
LoaderChoice = Annotated[LoaderName, Needs("petastorm", *modules("petastorm"))]
"""The loader as a node's parameter."""
READS: dict[str, tuple[str, ...]] = {
    "arrow": ("VolumeDelta", "VolumeParquet"),
    "npy": ("VolumeFiles",),
    "petastorm": ("VolumeDelta", "VolumeParquet"),
}
"""Kinds of dataset that each loader reads."""


def open_source(loader: LoaderName, dataset: Dataset, *, cores: int, verify: bool = True) -> Source:
    """Open a dataset for reading: ids and labels, no volumes. `verify`: compare each volume with its checksum, where
    it has one; the arrow loader does.

    Raises `UsageError` when the loader does not read this kind of dataset, `MissingPackage` when petastorm is not
    installed, `DataError` or `UnsupportedTable` when the data cannot be read rightly.
    """
    if isinstance(dataset, VolumeDelta | VolumeParquet):
        if loader == "arrow":
            from nodes.loaders.arrow_loader import open_arrow

            return open_arrow(dataset, cores=cores, verify=verify)
        if loader == "petastorm":
            require("the petastorm loader", *modules("petastorm"))
            from nodes.loaders.petastorm_loader import open_petastorm

            return open_petastorm(dataset, cores=cores)
    if isinstance(dataset, VolumeFiles) and loader == "npy":
        from nodes.loaders.npy_loader import open_npy

        return open_npy(dataset, cores=cores)
    raise UsageError(
        f"the {loader} loader does not read {dataset.kind}",
        hint=f"Give it {' or '.join(READS[loader])}, or choose another loader.",
        parameter="loader",
    )
