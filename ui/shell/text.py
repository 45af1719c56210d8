"""Text of any origin, where Streamlit would read it as Markdown.

Labels of widgets, captions and tooltips are Markdown to Streamlit. Whatever a person, a file or a
library wrote goes through `plain` on its way there.
"""

from __future__ import annotations

import re

from engine.cli.wording import safe

_SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: object, limit: int = 0) -> str:
    """`text` as Markdown that shows exactly it, on one line; with `limit`, at most so many characters."""
    return _SPECIAL.sub(r"\\\1", shortened(text, limit))


def shortened(text: object, limit: int = 0) -> str:
    """`text` on one line, control characters spelled out, cut to `limit` characters if it is longer."""
    out = safe(str(text))
    return out if not limit or len(out) <= limit else out[: limit - 1].rstrip() + "…"
