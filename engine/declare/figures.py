"""The usual figures of a model by name: which say most, which judge it, and of which less is better."""

from __future__ import annotations

import re

HEADLINES = tuple(
    f"{of}{name}" for of in ("test_", "val_", "") for name in ("auc", "accuracy", "f1", "mae", "rmse", "loss")
)
"""What says most of a model: on volumes that it never saw before those that it was judged by, these before its own."""

JUDGING = frozenset(HEADLINES) | {
    f"{of}{name}" for of in ("test_", "val_", "") for name in ("precision", "recall", "r2", "mse", "log_loss", "brier")
}
"""Figures of a report that say how good a model is; its others are counts, deviations and names."""

_LOWER = re.compile(r"loss(?!less)|error|brier|mae|mse|seconds", re.IGNORECASE)


def lower_is_better(name: str) -> bool:
    """Whether a figure with this name is an error or a time: `val_loss`, `errors`, `epoch_seconds`."""
    return bool(_LOWER.search(name))
