"""The pages as tests draw them, without a server."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import forked_programs
import pytest
from streamlit.testing.v1 import AppTest


@pytest.mark.slow
def test_keras_forgets_nothing_after_a_drawing(app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it would have all of the process's garbage looked for."""
    forgot: list[str] = []
    backend = types.SimpleNamespace(clear_session=lambda: forgot.append("keras"))
    monkeypatch.setitem(sys.modules, "keras", types.SimpleNamespace(backend=backend))
    assert not app("compute").exception
    assert forgot == []


@pytest.mark.slow
def test_nor_in_the_app_of_browser_tests() -> None:
    code = (
        "import keras; from streamlit.runtime.scriptrunner import script_runner\n"
        "keras.backend.clear_session = lambda: print('forgot')\n"
        "script_runner._clean_problem_modules()\n"
    )
    done = forked_programs.run(code, training=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
