"""Trying a Spark profile: the judgement on what executors saw, and once for real."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from engine.profiles import Profile
from engine.spark.checks import PACKAGES, _Found, _gpus, _judged, _look, _wanted_gpus
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
        ({"python": "3.8.1"}, "Python 3.8.1", "/opt/vf/bin/pip install deltalake"),
        ({"ours": False}, "another Voxelflow", "`pip uninstall voxelflow`"),
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


def _profile(master: str, gpus: int = 0, **spark: str) -> Profile:
    return Profile(name="p", backend="spark", cores=1, memory_bytes=1 << 30, master=master, gpus=gpus, spark=spark)


def test_executors_are_asked_about_gpus_where_the_profile_has_some() -> None:
    amount = {"spark.executor.resource.gpu.amount": "2"}
    wanted = [_profile("yarn"), _profile("yarn", 1), _profile("yarn", 1, **amount), _profile("local[*]", 1, **amount)]
    assert [_wanted_gpus(profile) for profile in wanted] == [0, 1, 2, 0]


def test_executors_without_gpus_are_named_with_what_to_do(place: Path) -> None:
    two, none = _found(place, "two", gpus=2), _found(place, "none")
    few = _gpus([two, none, none], 2)
    assert (few.ok, few.said) == (False, "none has 0 of 2")
    assert '"spark.executor.resource.gpu.amount" = 2' in few.hint
    assert _gpus([two], 1).said == "each has 2 NVIDIA devices or more"
    plain = _gpus([dataclasses.replace(two, versions={})], 2)
    assert (plain.ok, plain.said) == (False, "no tensorflow on two to use them")


@pytest.mark.parametrize(
    ("master", "command"),
    [
        ("yarn", "`yarn node -list"),
        ("k8s://https://host:6443", "`kubectl get pods -n default`"),
        ("spark://10.0.0.5:7077,10.0.0.6:7077", "`curl http://10.0.0.5:8080/json/`"),
    ],
)
def test_a_cluster_that_gives_no_executor_can_be_looked_at(master: str, command: str) -> None:
    assert command in _look(_profile(master))


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
