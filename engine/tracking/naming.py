"""MLflow's rules for names and values, so that it takes what it is given."""

from __future__ import annotations

import json
import re
from typing import Any

NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 5000
"""Servers take 8,000 characters today; older ones 5,000."""
_BAD = re.compile(r"[^\w/.\- ]")
_BAD_IN_MODEL_NAME = re.compile(r"[/:.%\"'\s]+")


def key(*parts: str) -> str:
    """A name of a metric, parameter or tag: the parts joined by dots, other characters than MLflow's replaced.

    A slash groups names in MLflow's pages; it stays, but never so that the name reads as another path.
    """
    text = _BAD.sub("_", ".".join(parts))
    pieces = [p for p in text.split("/") if p.strip(". ")]
    return "/".join(pieces)[:NAME_LENGTH].rstrip("/") or "_"


def model_name(text: str) -> str:
    return _BAD_IN_MODEL_NAME.sub("_", text).strip("_")[:NAME_LENGTH] or "model"


def file_name(name: str, suffix: str) -> str:
    """`name` as the name of one file with `suffix`: it cannot lead to another folder."""
    text = re.sub(r"[\\/\x00-\x1f]+", "_", name).strip(" .") or "file"
    return text if not suffix or text.endswith(suffix) else text + suffix


def param_text(value: Any) -> str:
    """A value as a parameter's text: text as it is, all else as JSON, as in the pipeline's document."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, PARAM_LENGTH)


def tag_text(value: str) -> str:
    return shorten(value, TAG_LENGTH)


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
