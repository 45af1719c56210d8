"""Numbers that a table writes with a comma: 0,5 for a half, or 1,234 for a thousand."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBER = (
    r"^\s*[+-]?([0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?|[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?|[0-9]+([.,][0-9]+)?|[.,][0-9]+)"
    r"([eE][+-]?[0-9]+)?\s*$"
)
"""A number with a point or a comma, also one that sets thousands apart. Python and RE2 read it alike."""
WITH_POINT = "Write them with a point, as 0.5, and nothing between thousands"


def number_with_comma(texts: Iterable[str]) -> str:
    """The first of the texts with a comma, where all of them are numbers; "" where they are not, or none has one."""
    found = ""
    for text in texts:
        if not re.match(NUMBER, text):
            return ""
        if not found and "," in text:
            found = text.strip()
    return found
