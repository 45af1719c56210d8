"""Trying a Spark profile: the judgement on what executors saw, and once for real."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from engine.spark.checks import PACKAGES, _Found, _judged
from engine.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    out = tmp_path / ".voxelflow-test-1"
    out.mkdir()
    return out


def _found(place: Path, name: str, **changes) -> _Found:
    """An executor where all is well; `changes` is what is not."""
    (place / name).write_text(place.name)
    versions = dict.fromkeys((*PACKAGES, "tensorflow"), "1.0")
    good = _Found(f"/work/{name}", name, platform.python_version(), versions, True, True, name, "")
    return dataclasses.replace(good, **changes)


def test_executors_that_have_all_are_counted(place: Path) -> None:
    found = [_found(place, "h1"), _found(place, "h2"), _found(place, "h2")]
    executors, storage = _judged(found, place)
    assert (executors.ok, storage.ok) == (True, True)
    assert executors.said == f"2 on 2 hosts, Python {platform.python_version()}, all packages"


@pytest.mark.parametrize(
    ("changes", "said", "hint"),
    [
        ({"python": "3.8.1"}, "Python 3.8.1, and here it is", "spark.pyspark.python"),
        ({"versions": {p: "1" for p in PACKAGES if p != "pyarrow"}}, "without pyarrow on bad", "third-party packages"),
        ({"ours": False}, "another Voxelflow", "installed voxelflow"),
    ],
)
def test_what_an_executor_lacks_is_named(place: Path, changes: dict, said: str, hint: str) -> None:
    executors, storage = _judged([_found(place, "good"), _found(place, "bad", **changes)], place)
    assert not executors.ok
    assert said in executors.said
    assert hint in executors.hint
    assert storage.ok


def test_without_tensorflow_all_but_training_works(place: Path) -> None:
    found = _found(place, "h", versions=dict.fromkeys(PACKAGES, "1"))
    executors, _ = _judged([found], place)
    assert executors.ok
    assert "no training there" in executors.said


def test_a_storage_that_an_executor_cannot_use_is_reported_with_the_host(place: Path) -> None:
    found = [_found(place, "good"), _found(place, "blind", reads=False, trouble="No such file or directory")]
    _, storage = _judged(found, place)
    assert not storage.ok
    assert storage.said == f"{place.parent} cannot be used from blind (No such file or directory)"
    assert "storage_root" in storage.hint


def test_a_storage_that_only_looks_the_same_is_reported(place: Path) -> None:
    """The executor wrote, and here nothing came."""
    found = _found(place, "other")
    (place / "other").unlink()
    _, storage = _judged([found], place)
    assert not storage.ok
    assert "is another folder on other than here" in storage.said


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_a_profile_is_tried_for_real_and_nothing_is_left(workspace: Workspace, tmp_path: Path) -> None:
    # Another package called engine, where it would be found first.
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").touch()
    profiles = workspace.root / "profiles.toml"
    profiles.write_text('[small]\nbackend = "spark"\nmaster = "local[1]"\n')
    before = sorted(workspace.root.rglob("*"))
    command = [sys.executable, "-P", "-m", "voxelflow", "profiles", "test", "small", "--workspace", workspace.root]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("Java", "jars", "session", "executors", "storage"):
        assert f"{name}: " in done.stdout
    assert "1 on 1 host" in done.stdout
    assert sorted(workspace.root.rglob("*")) == before
