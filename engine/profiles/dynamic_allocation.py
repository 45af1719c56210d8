"""Spark's dynamic allocation: executors that come with the work and go; and the nodes that cannot work on such ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

SETTING = "spark.dynamicAllocation.enabled"
_MARK = "_on_fixed_executors"
_Variant = TypeVar("_Variant", bound=Callable[..., Any])


def allocates_dynamically(master: str, settings: Mapping[str, str]) -> bool:
    """Whether Spark adds and removes executors by itself. In a `local[...]` session there is one, whatever is set."""
    # Spark too takes capitals and blanks.
    return settings.get(SETTING, "").strip().lower() == "true" and not re.fullmatch(r"local(\[.*\])?", master)


def on_fixed_executors(variant: _Variant) -> _Variant:
    """Mark a node's variant for Spark, below its `@my_node.on("spark")`: it starts a barrier stage.

    Spark starts none while it allocates executors dynamically, so a plan for such a profile is refused (VF314).
    """
    setattr(variant, _MARK, True)
    return variant


def is_for_fixed_executors(variant: Callable[..., Any]) -> bool:
    """Whether a node's variant is marked so."""
    return getattr(variant, _MARK, False) is True
