"""The model that nodes/README.md gives as an example."""

from __future__ import annotations

import re
from pathlib import Path

import nodes


def readme_model() -> str:
    readme = (Path(nodes.__file__).parent / "README.md").read_text()
    found = re.search(r"```python\n(import keras\n.*?)```", readme, re.DOTALL)
    assert found is not None
    return found[1]
