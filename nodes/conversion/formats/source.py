"""What a table says of the files that a volume came from: their SHA-256, how they store values, what decoded them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

_MOST_TIMES, _MOST_MORE = 4, 64 << 20
"""Files that are larger than so many times their volume, and so many bytes more, are not hashed: what reading a volume
takes stays bounded by the volume, also where it is one small array of a large file."""
_MOST_FILES = 100_000
_LONGEST = 900
"""Characters of a column; names of channels that are longer together are left out."""


def stored(dtype: Any, *packages: str) -> dict[str, float | int | str]:
    """The columns `source_dtype`, NumPy's text for the type in the file with its order of bytes (`<i2`, `>f4`, `|u1`),
    and `source_decoder`, the packages that read it with their versions."""
    return {
        "source_dtype": dtype if isinstance(dtype, str) else np.dtype(dtype).str,
        "source_decoder": named(*packages),
    }


def scaled(slope: float, intercept: float) -> dict[str, float | int | str]:
    """The columns `source_slope` and `source_intercept`: a voxel is the stored value times the one plus the other."""
    return {"source_slope": float(slope), "source_intercept": float(intercept)}


def unit(text: Any) -> dict[str, float | int | str]:
    """The column `source_unit`, the unit of the values as the file writes it; nothing where it says none."""
    found = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    found = " ".join(found.split()) if isinstance(found, str) else ""
    return {"source_unit": found[:_LONGEST]} if found else {}


def channels(names: Sequence[Any], count: int) -> dict[str, float | int | str]:
    """The column `source_channels`, a JSON list of the names of all channels; nothing where one has none."""
    given = [name.strip() for name in names if isinstance(name, str) and name.strip()]
    text = json.dumps(given, ensure_ascii=False)
    return {"source_channels": text} if count and len(given) == len(names) == count and len(text) <= _LONGEST else {}


@lru_cache(maxsize=64)
def named(*packages: str) -> str:
    """`pydicom 3.0.2, python-gdcm 3.0.24`, of those that are installed."""
    found = []
    for name in packages:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def sha256_of(place: Path, files: Sequence[Path], volume_bytes: int | None = None) -> str | None:
    """SHA-256 of what a volume at `place` was read from, in hexadecimal: it is read once more, from memory mostly.

    `files` are those that it is made of, () for `place` itself. Of several files, or of all below a folder, it is that
    of the lines that `sha256sum` prints of them, sorted by their paths below the folder. None for files that are much
    larger than the volume, where its `volume_bytes` are given, and for very many. Raises `OSError`.
    """
    left = math.inf if volume_bytes is None else _MOST_TIMES * volume_bytes + _MOST_MORE
    folder = place if place.is_dir() else place.parent
    found: list[tuple[str, Path]] = []
    for path in chain.from_iterable(_below(each) if each.is_dir() else (each,) for each in files or (place,)):
        left -= path.stat().st_size
        if left < 0 or len(found) >= _MOST_FILES:
            return None
        found.append((path.relative_to(folder).as_posix(), path))
    if len(found) == 1 and not place.is_dir():
        return _hash(found[0][1])
    lines = "".join(f"{_hash(path)}  {name}\n" for name, path in sorted(found))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(parent, name)).is_file())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
