"""The regular expression that finds a label in a file's name; apart, so that checks need no Arrow."""

from __future__ import annotations

import re

from engine.errors import DataError


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The expression, or `DataError` when it is wrong or has no group named `label`."""
    try:
        compiled = re.compile(pattern)
    except re.error as exc:
        raise DataError(
            f"the pattern {pattern!r} is not a regular expression: {exc}", parameter="label_pattern"
        ) from exc
    if "label" not in compiled.groupindex:
        raise DataError(
            f"the pattern {pattern!r} has no group named label",
            hint=r"Write the label's place as (?P<label>...), for example _(?P<label>\d+)\.npy$.",
            parameter="label_pattern",
        )
    return compiled
