"""The page that InspectDataset writes: plain HTML in one file, and its figures as JSON."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.storage.files import write_whole
from engine.text import size
from engine.viewing.pictures import axes_of, four_axes
from nodes.inspection.dataset_statistics import Found
from nodes.reporting.page import Html, figure_text, first_of, html_page, html_picture, html_table

CHANNELS_SHOWN = 64
LABELS_SHOWN = 200

_COLUMN_HEAD = ("column", "type", "volumes with a value", "different values", "least", "greatest")
_STYLE = "img { height: 10rem; image-rendering: pixelated; }"


def write_report(found: Found, folder: Path) -> Path:
    """Write `dataset.html` and `figures.json` into the folder; gives the page's path."""
    details = found.figures() | {
        "labels": {found.label_name(label): n for label, n in found.labels.items()},
        "channels": [dict(zip(("minimum", "mean", "maximum", "std"), row, strict=True)) for row in _channels(found)],
    }
    if found.columns:
        details |= {"columns": [dict(zip(_COLUMN_HEAD, column.row(), strict=True)) for column in found.columns]}
    # JSON has no infinity: a channel without a finite value has no figures.
    text = json.dumps(_without_infinities(details), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "figures.json", text + "\n", durable=True)
    page = folder / "dataset.html"
    write_whole(page, _page(found), durable=True)
    return page


def _page(found: Found) -> str:
    figures = found.figures()
    where = found.uri if found.version is None else f"{found.uri}, version {found.version}"
    plain = [(k.replace("_", " "), figure_text(v)) for k, v in figures.items() if not k.startswith("label ")]
    most = max(found.labels.values(), default=1)
    labels = [
        (found.label_name(label), f"{n:,}", Html(f'<span class="bar" style="width:{20 * n / most:.2f}rem"></span>'))
        for label, n in list(found.labels.items())[:LABELS_SHOWN]
    ]
    channels = [
        (str(i), *(figure_text(v) if np.isfinite(v) else "" for v in row))
        for i, row in enumerate(_channels(found)[:CHANNELS_SHOWN])
    ]
    sizes = sorted(f.bytes for f in found.files)
    shares = [(f"{share:.0%}", size(sizes[round(share * (len(sizes) - 1))])) for share in (0, 0.25, 0.5, 0.75, 1)]
    sampled = f"over {found.values.volumes:,} sampled volumes"
    damages = [(damage.file, damage.problem, damage.lost) for damage in found.damages]
    parts = [
        html_table(("figure", "value"), plain),
        *(["<h2>Damaged files, left out of all figures</h2>"] if damages else []),
        *([html_table(("file", "what is wrong", "what is lost"), damages)] if damages else []),
        _heading("Labels", first_of(LABELS_SHOWN, len(found.labels), "labels")),
        html_table(("label", "volumes", ""), labels),
        *(["<h2>Columns</h2>"] if found.columns else []),
        *([html_table(_COLUMN_HEAD, [column.row() for column in found.columns])] if found.columns else []),
        _heading(f"Values by channel, {sampled}", first_of(CHANNELS_SHOWN, len(_channels(found)), "channels")),
        html_table(("channel", "minimum", "mean", "maximum", "standard deviation"), channels),
        "<h2>Size of files</h2>",
        html_table(("files up to", "size"), shares),
    ]
    pictures = [
        f"<figure>{picture}<figcaption>{escape(name)}</figcaption></figure>" for name, picture in _pictures(found)
    ]
    if pictures:
        parts += ["<h2>Middle slices, first channel</h2>", *pictures]
    return html_page(where, parts, _STYLE)


def _heading(title: str, part: str) -> str:
    """`part` says of what the page has no room for all; `figures.json` has it."""
    return f"<h2>{escape(title)}{f', {part}; all are in figures.json' if part else ''}</h2>"


def _channels(found: Found) -> list[tuple[float, float, float, float]]:
    values = found.values
    columns = (values.least, values.mean, values.most, values.std)
    return [tuple(float(c[i]) for c in columns) for i in range(len(values.least))]  # type: ignore[misc]


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_infinities(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_infinities(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _pictures(found: Found) -> Iterable[tuple[str, str]]:
    for name, volume in found.pictures:
        plane = middle_plane(volume)
        if plane is not None:
            yield name, html_picture(png(plane))


def middle_plane(volume: NDArray[Any]) -> NDArray[Any] | None:
    """The axes X and Y of a volume's first channel, in the middle of Z; None where it has fewer axes."""
    if volume.ndim < 2:
        return None
    plane: NDArray[Any] = four_axes(volume)[:, :, axes_of(volume.shape)[2] // 2, 0]
    return plane


def png(plane: NDArray[Any]) -> bytes:
    """A grey PNG of a (height, width) plane, from its least finite value (black) to its greatest (white)."""
    values = plane.astype(np.float64)
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    # What is no number is black, too. As a 0 it would leave one grey for values far from 0.
    values = np.where(finite, values, low)
    grey = ((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
    height, width = grey.shape
    # Each row begins with its filter type, 0. Source: the PNG specification, sections 5 and 9.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), grey], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
