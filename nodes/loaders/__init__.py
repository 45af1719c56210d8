"""Loaders: how the rows of a dataset become batches for training (the contract is in `interface`)."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.parameters import Needs
from engine.errors import UsageError
from engine.extras import modules, require

if TYPE_CHECKING:
    from nodes.loaders.interface import Source

LoaderName = Literal["arrow", "npy", "petastorm"]
LoaderChoice = Annotated[LoaderName, Needs("petastorm", *modules("petastorm"))]
"""The loader as a node's parameter."""


class LoaderKind(NamedTuple):
    """A loader: `open` names the function ("module:function") that opens a dataset of one of the types in `reads`.

    The function gets the dataset and `cores`, and `verify` where the loader compares checksums. `modules` are what
    `import` calls the packages that it needs.
    """

    open: str
    reads: tuple[type[Dataset], ...]
    compares_checksums: bool = False
    modules: tuple[str, ...] = ()


LOADERS: dict[LoaderName, LoaderKind] = {
    "arrow": LoaderKind("nodes.loaders.arrow_loader:open_arrow", (VolumeDelta, VolumeParquet), compares_checksums=True),
    "npy": LoaderKind("nodes.loaders.npy_loader:open_npy", (VolumeFiles,)),
    "petastorm": LoaderKind(
        "nodes.loaders.petastorm_loader:open_petastorm",
        (VolumeDelta, VolumeParquet),
        compares_checksums=True,
        modules=modules("petastorm"),
    ),
}
"""All loaders. Each is imported when it opens its first dataset."""
READS: dict[str, tuple[str, ...]] = {name: tuple(each.__name__ for each in it.reads) for name, it in LOADERS.items()}
"""Kinds of dataset that each loader reads."""


def open_source(loader: LoaderName, dataset: Dataset, *, cores: int, verify: bool = True) -> Source:
    """Open a dataset for reading: ids and labels, no volumes. `verify`: compare each volume with its checksum, where
    it has one; the loaders of tables do.

    Raises `UsageError` when there is no such loader, or it does not read this kind of dataset, `MissingPackage` when
    petastorm is not installed, `DataError` or `UnsupportedTable` when the data cannot be read rightly.
    """
    kind = LOADERS.get(loader) if isinstance(loader, str) else None
    if kind is None:  # of a script, which nothing has checked
        raise UsageError(f"there is no loader {loader!r}", hint=f"Choose {' or '.join(LOADERS)}.", parameter="loader")
    if not isinstance(dataset, kind.reads):
        raise UsageError(
            f"the {loader} loader does not read {dataset.kind}",
            hint=f"Give it {' or '.join(READS[loader])}, or choose another loader.",
            parameter="loader",
        )
    require(f"the {loader} loader", *kind.modules)
    options: dict[str, Any] = {"verify": verify} if kind.compares_checksums else {}
    opened: Source = resolve_name(kind.open)(dataset, cores=cores, **options)
    return opened
