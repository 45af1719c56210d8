"""Datasets and previews in the few words that fit on a node. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.cli.wording import figures, plural, size
from engine.datasets import Dataset, Preview
from ui.protocol.status import OutputInfo


def previews_in_words(previews: Mapping[tuple[str, str], Preview]) -> dict[str, str]:
    """By `node.port`: what is known to come out. Ports of which nothing is known are left out."""
    words = {f"{node}.{port}": preview_in_words(preview) for (node, port), preview in previews.items()}
    return {place: text for place, text in words.items() if text}


def preview_in_words(preview: Preview) -> str:
    """`2,000 volumes, 30x30x10x10 float32, 720 MB`."""
    parts: list[str] = []
    if preview.count is not None:
        parts.append(plural(preview.count, "volumes" if preview.kind.startswith("Volume") else "rows"))
    if preview.spec is not None:
        parts.append(preview.spec.describe())
    if preview.bytes is not None:
        parts.append(size(preview.bytes))
    return ", ".join(parts)


def outputs_in_words(outputs: Mapping[str, Dataset]) -> list[OutputInfo]:
    return [
        OutputInfo(port=port, kind=dataset.kind, uri=dataset.uri, figures=figures(dataset.details()))
        for port, dataset in outputs.items()
    ]


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None
