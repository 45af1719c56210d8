"""What every test of the app's pages needs."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit's AppTest leaves the page it ran as ``__main__``, which later child processes would run again."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
