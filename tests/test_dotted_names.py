"""Names of modules in strings are found: a rename would leave a list of forbidden imports that forbids nothing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("engine", "nodes", "ui", "pipelines", "tests", "examples", "benchmarks")
_STRING = re.compile(r"""(["'])((?:engine|nodes|ui|pipelines|tests|benchmarks)(?:\.[A-Za-z_]\w*)+(?::\w+)?)\1""")
_OF_CONSTANT = re.compile(r"""\bf(["'])\{(\w+)\}((?:\.[A-Za-z_]\w*)+(?::\w+)?)\1""")
"""An f-string that begins with a name: where that is a constant of the file, it is put in."""


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


def _dotted_names(text: str) -> set[str]:
    names = {found[2] for found in _STRING.finditer(text)}
    for found in _OF_CONSTANT.finditer(text):
        if constant := re.search(rf"""^{found[2]} = (["'])([\w.]+)\1$""", text, re.MULTILINE):
            names |= {whole[2] for whole in _STRING.finditer(f'"{constant[2]}{found[3]}"')}
    return names


@pytest.mark.slow
def test_every_dotted_name_in_a_string_is_found() -> None:
    files = (path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.py"))
    ours = [path for path in files if not {"node_modules", ".venv"} & set(path.parts[len(_ROOT.parts) :])]
    named = {(name, path) for path in [*ours, _ROOT / "voxelflow.py"] for name in _dotted_names(_text(path))}
    assert len(named) > 100
    assert not [f"{name} in {path.relative_to(_ROOT)}" for name, path in sorted(named) if not _is_found(name)]


def test_a_lost_name_is_noticed() -> None:
    launch = "engine.run.launch"
    assert _is_found(f"{launch}:start")
    assert not _is_found(f"{launch}:no_such_function")
    assert not _is_found(f"{launch}s")


def test_a_name_after_a_constant_is_read() -> None:
    text = '_HOME = "engine.run"\nstart = f"{_HOME}.launch:start"\nother = f"{folder}.launch"\n'
    assert _dotted_names(text) == {"engine.run", "engine.run.launch:start"}
