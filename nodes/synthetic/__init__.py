"""The signal behind SyntheticVolumes; here its classes, without NumPy, which checks do not need."""

from __future__ import annotations

import itertools

FEATURES = ("bright-spot", "channel", "fault", "salt")
BACKGROUND = "background"
MAX_CLASSES: int = 2 ** len(FEATURES)


def class_features(classes: int) -> list[tuple[str, ...]]:
    """What the classes show: nothing, then each feature alone, then pairs, and so on."""
    sets = itertools.chain.from_iterable(itertools.combinations(FEATURES, n) for n in range(len(FEATURES) + 1))
    return list(itertools.islice(sets, classes))


def class_names(classes: int) -> list[str]:
    """Names in the order of `class_features`: background, bright-spot, ..., bright-spot+channel, ..."""
    return ["+".join(features) or BACKGROUND for features in class_features(classes)]
