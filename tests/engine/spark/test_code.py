"""What the executors get of our code: all of it, what Python has compiled of that, and nothing that is out of date."""

from __future__ import annotations

import marshal
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import engine
import nodes
import voxelflow
from engine.catalog import user_module
from engine.spark import code as sent
from engine.spark import spread
from engine.spark.code import code_zip
from engine.workspace import Workspace, trust


@pytest.mark.slow
def test_the_zip_has_our_code_and_the_trusted_nodes_and_can_be_imported(workspace: Workspace, tmp_path: Path) -> None:
    own = workspace.my_nodes / "mine.py"
    own.write_text("from voxelflow import track\nVALUE = 7\n")
    assert not any("my_nodes" in name for name in zipfile.ZipFile(code_zip(tmp_path, workspace)).namelist())
    trust(workspace)
    for module in (engine, nodes, voxelflow, spread):
        py_compile.compile(str(module.__file__), doraise=True)
    archive = code_zip(tmp_path, workspace)
    assert archive == code_zip(tmp_path, workspace)
    (tmp_path / "copy").mkdir()
    assert archive.read_bytes() == code_zip(tmp_path / "copy", workspace).read_bytes()
    # As an executor's Python has it: third-party packages, and nothing of ours but the zip.
    code = (
        f"import sys; sys.path[:0] = [{str(archive)!r}, *{[p for p in sys.path if 'site-packages' in p]!r}]\n"
        f"import engine, nodes, voxelflow, engine.spark.spread, {user_module(own)} as mine\n"
        "for m in (engine, nodes, voxelflow, mine): assert m.__file__.startswith(sys.path[0]), m\n"
        "for m in (engine, nodes, voxelflow, engine.spark.spread): assert m.__file__.endswith('.pyc'), m\n"
        "assert mine.VALUE == 7 and mine.track\n"
    )
    subprocess.run([sys.executable, "-S", "-I", "-c", code], check=True, cwd=tmp_path)
    own.write_text("VALUE = 8\n")
    assert code_zip(tmp_path, workspace) != archive


def test_what_python_keeps_of_a_module_s_earlier_text_is_not_sent(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("VALUE = 7\n")
    assert sent._compiled(module) == b""
    py_compile.compile(str(module), doraise=True)
    kept = sent._compiled(module)
    assert marshal.loads(kept[sent._HEAD :]).co_names == ("VALUE",)
    module.write_text("VALUE = 77\n")
    assert sent._compiled(module) == b""
    module.write_text("VALUE = 8\n")
    os.utime(module, (1_000_000_000, 1_000_000_000))
    assert sent._compiled(module) == b""


@pytest.mark.slow
def test_an_editor_s_lock_beside_own_nodes_does_not_keep_a_session_from_starting(
    workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.my_nodes / "mine.py").write_text("VALUE = 7\n")
    (workspace.my_nodes / ".#mine.py").symlink_to("me@this-machine.12:34")
    trust(workspace)
    own = [name for name in zipfile.ZipFile(code_zip(tmp_path, workspace)).namelist() if "my_nodes" in name]
    assert own == [f"{user_module(workspace.my_nodes / 'mine.py')}.py"]


def test_a_python_that_keeps_nothing_of_what_it_compiles_sends_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "module.py"
    module.write_text("VALUE = 7\n")
    py_compile.compile(str(module), doraise=True)
    monkeypatch.setattr(sys.implementation, "cache_tag", None)
    assert sent._compiled(module) == b""


def test_executors_run_the_asserts_that_a_driver_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `python -O` or PYTHONOPTIMIZE=1."""
    module = tmp_path / "module.py"
    module.write_text("assert False\n")
    for optimize in (0, 1):
        py_compile.compile(str(module), doraise=True, optimize=optimize)
    flags: dict[str, Any] = {name: getattr(sys.flags, name) for name in dir(sys.flags) if not name.startswith("_")}
    monkeypatch.setattr(sys, "flags", SimpleNamespace(**flags | {"optimize": 1}))
    code = marshal.loads(sent._compiled(module)[sent._HEAD :])
    with pytest.raises(AssertionError):
        exec(code, {})


def test_equal_sources_give_one_zip_whatever_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module.py"
    module.write_text("VALUE = 7\n")
    monkeypatch.setattr(sent, "_packages", lambda: iter([("module.py", module)]))
    first = code_zip(tmp_path)
    assert zipfile.ZipFile(first).namelist() == ["module.py"]
    py_compile.compile(str(module), doraise=True)
    assert code_zip(tmp_path) == first
    assert zipfile.ZipFile(first).namelist() == ["module.py", "module.pyc"]
    module.write_text("VALUE = 8\n")
    assert code_zip(tmp_path) != first
