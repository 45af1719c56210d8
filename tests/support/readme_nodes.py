"""Nodes whose source stands in nodes/README.md."""

from __future__ import annotations

import re
from pathlib import Path

import nodes


def readme_blur() -> str:
    """The example of `write_volumes`."""
    readme = (Path(nodes.__file__ or "").parent / "README.md").read_text(encoding="utf-8")
    return next(c for c in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if '@node("Blur"' in c)
