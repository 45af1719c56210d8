"""Names of modules in strings are found: a rename would leave a list of forbidden imports that forbids nothing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("engine", "nodes", "ui", "pipelines", "tests", "examples", "benchmarks")
_STRING = re.compile(r"""(["'])((?:engine|nodes|ui|pipelines|tests|benchmarks)(?:\.[A-Za-z_]\w*)+(?::\w+)?)\1""")


@cache
def _text(module: Path) -> str:
    return module.read_text()


def _is_found(name: str) -> bool:
    """Whether it is a module, or a module and what is in it."""
    at = _ROOT
    parts = re.split(r"[.:]", name)
    for number, part in enumerate(parts):
        if (at / part).is_dir():
            at /= part
            continue
        module, rest = at / f"{part}.py", parts[number + 1 :]
        if not module.is_file():
            module, rest = at / "__init__.py", parts[number:]
        return module.is_file() and (not rest or re.search(rf"\b{rest[0]}\b", _text(module)) is not None)
    return True


@pytest.mark.slow
def test_every_dotted_name_in_a_string_is_found() -> None:
    files = (path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.py"))
    ours = [path for path in files if not {"node_modules", ".venv"} & set(path.parts[len(_ROOT.parts) :])]
    named = {(found[2], path) for path in ours for found in _STRING.finditer(_text(path))}
    assert len(named) > 100
    assert not [f"{name} in {path.relative_to(_ROOT)}" for name, path in sorted(named) if not _is_found(name)]


def test_a_lost_name_is_noticed() -> None:
    launch = "engine.run.launch"
    assert _is_found(f"{launch}:start")
    assert not _is_found(f"{launch}:no_such_function")
    assert not _is_found(f"{launch}s")
