"""The order in which rows come: one permutation for each (seed, epoch), the same on every machine.

It is the sorting order of a bit generator's raw stream. NumPy keeps raw streams fixed for good, but
not what its `permutation` makes of them (NEP 19), so a run that goes on after an upgrade still meets
the order it began with.
"""

from __future__ import annotations

import numpy as np

from nodes.loaders.rows import RowNumbers


def shuffled(count: int, *key: int) -> RowNumbers:
    """A permutation of 0 ... count - 1 that depends on `key` alone, e.g. (seed, epoch)."""
    # Seeds may be negative in a document; entropy may not.
    generator = np.random.Philox(np.random.SeedSequence([part % 2**64 for part in key]))
    # A 64-bit draw repeats once in 10^8 epochs of 650,000 rows; the stable sort settles that too.
    return np.argsort(generator.random_raw(count), kind="stable")
