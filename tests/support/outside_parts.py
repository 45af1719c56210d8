"""What some tests need that pip does not install with ours: packages of npm, a browser, Java, a C compiler, Airflow,
actionlint.

On a person's machine a test skips and gives the reason; in CI (the environment variable `CI`) it fails.

    pytestmark = pytest.mark.needs(part="java")     # or, within a fixture or helper:
    require("chromium")
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import chromium

_ROOT = Path(__file__).parents[2]
CANVAS = _ROOT / "ui" / "canvas"
AZURITE = Path(__file__).parent / "azurite"
AIRFLOW = Path(__file__).parent / "airflow"
ACTIONLINT = Path(__file__).parent / "actionlint" / "bin" / "actionlint"


def _java() -> bool:
    from engine.errors import UsageError
    from engine.spark.java import find_java

    try:
        find_java()
    except UsageError:
        return False
    return True


def _class_data() -> bool:
    from engine.spark.class_data import archive_path
    from engine.spark.jars import delta_jars
    from engine.spark.java import find_java

    return _java() and archive_path({}, delta_jars({}), find_java()).is_file()


def _has_packages(folder: Path) -> bool:
    """Whether `npm ci` came to its end in this folder: it writes this list last."""
    return (folder / "node_modules" / ".package-lock.json").is_file()


_PARTS: dict[str, tuple[Callable[[], bool], str]] = {
    "canvas": (
        lambda: shutil.which("node") is not None and _has_packages(CANVAS),
        "the canvas's tools are not installed: install node.js 20.19 or newer, then run `npm ci` in ui/canvas",
    ),
    "actionlint": (
        ACTIONLINT.is_file,
        "actionlint is not installed: install Go 1.25 or newer, then run"
        ' `GOBIN="$PWD/bin" go install github.com/rhysd/actionlint/cmd/actionlint` in tests/support/actionlint',
    ),
    "airflow": (
        lambda: (AIRFLOW / ".venv" / "bin" / "airflow").exists(),
        "Airflow is not installed: run `uv venv .venv && uv pip install -p .venv -r requirements.lock` in"
        " tests/support/airflow",
    ),
    "azurite": (
        lambda: shutil.which("node") is not None and _has_packages(AZURITE),
        "Azurite is not installed: install node.js 20.19 or newer, then run `npm ci` in tests/support/azurite",
    ),
    "chromium": (
        lambda: chromium() is not None,
        "there is no Chromium: install it, or name it with VOXELFLOW_CHROMIUM",
    ),
    "java": (_java, "there is no Java that Spark can use: install Java 17 or 21, or set JAVA_HOME"),
    "class data": (
        _class_data,
        "Java's classes of Spark are not kept on this machine: run `python -m engine.spark.class_data`",
    ),
    "compiler": (
        lambda: sys.platform == "linux" and shutil.which("cc") is not None,
        "a full disk is simulated by a library for Linux: install gcc or clang there",
    ),
}
_found: dict[str, bool] = {}


def missing_part(part: str) -> str:
    """What to install for `part`; "" when it is there. Raises `KeyError` for an unknown part."""
    find, reason = _PARTS[part]
    if part not in _found:
        _found[part] = find()
    return "" if _found[part] else reason


def require(part: str) -> None:
    """Skip the test that runs now if `part` is missing; in CI, fail it. Raises `KeyError` for an unknown part."""
    if reason := missing_part(part):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
