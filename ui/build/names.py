"""Names of pipelines and the names of their files. Pure.

A pipeline may be called anything; its file is called by a short, safe form of that name, which is
also the document's id and what `voxelflow run` takes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

MAX_STEM_BYTES = 80
MAX_NAME = 300


def document_id(name: str, taken: Collection[str]) -> str:
    """A file stem for `name`, unlike every one in `taken` also where case does not count."""
    known = {t.casefold() for t in taken}
    stem = slug(name)
    number = 1
    while (candidate := _numbered(stem, number)).casefold() in known:
        number += 1
    return candidate


def slug(name: str) -> str:
    """Letters, marks and digits of any script in lower case, all else as single hyphens; never empty."""
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" else "-" for c in unicodedata.normalize("NFC", name))
    words = [w for w in kept.lower().split("-") if w]
    return _cut("-".join(words), MAX_STEM_BYTES).strip("-") or "pipeline"


def is_document_id(text: str) -> bool:
    """Whether `text` can be the stem of a file in the pipelines' folder, and only there."""
    return (
        0 < len(text.encode("utf-8", "surrogatepass")) <= 250
        and not text.startswith(".")
        and not text.endswith(".schema")
        and not any(c in "/\\\0" or "\ud800" <= c <= "\udfff" for c in text)
    )


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or `name 2`, `name 3` when there is one called so."""
    number = 1
    while (candidate := name if number == 1 else f"{name[: MAX_NAME - 6]} {number}") in taken:
        number += 1
    return candidate


def _numbered(stem: str, number: int) -> str:
    if number == 1:
        return stem
    end = f"-{number}"
    return _cut(stem, MAX_STEM_BYTES - len(end)).rstrip("-") + end


def _cut(text: str, limit: int) -> str:
    # By whole characters: half of one is no text.
    return text.encode()[:limit].decode(errors="ignore")
