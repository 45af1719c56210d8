"""The batches that `write_volumes` hands out. Importing this imports neither NumPy nor Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Volumes:
    """A batch of n volumes: what `write_volumes` gives to a function, and may get back.

    Attributes:
        volumes: array of n volumes, (n, *shape), axes X, Y, Z, then channels, of the dataset's own dtype. Of rows
            that come from `ids` alone it is empty, (n, 0). It is the function's own: it may be changed.
        ids: the n ids.
        labels: float32 (n,), NaN for a volume without one; of classes their numbers.
        columns: what else is known of each volume: n Python values for each name, None where there is none.
    """

    volumes: NDArray[Any]
    ids: tuple[str, ...]
    labels: NDArray[np.float32]
    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.ids)


MakeVolumes = Callable[[Volumes], Union["NDArray[Any]", Volumes]]
"""Makes volumes of a batch: an array of as many, in their order, or a batch with labels and columns of its own."""
