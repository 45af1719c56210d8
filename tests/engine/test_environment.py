"""What is recorded of a run's environment: packages, machine, git, nodes; and two of them beside each other."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.catalog import Catalog
from engine.document.identity import Identity
from engine.document.plan import Plan, PlannedTask
from engine.environment import (
    differences,
    environment_of,
    git_state,
    installed_packages,
    keep_environment,
    kept_environment,
    read_environment,
    this_machine,
)
from engine.profiles import Profile
from engine.workspace import Workspace

_URL = "https://somebody:hunter2secret@example.org/project.git"


def _plan(**params: object) -> Plan:
    identity = Identity(fingerprint="0000000a" + "f" * 24, lineage="l" * 32, base="b" * 32, parts={})
    task = PlannedTask(
        node="a", node_type="Make", version=1, title="a", backend="embedded", params=params, inputs={},
        identity=identity, action="run", reason="never ran before", shared="s", out="o",
    )  # fmt: skip
    return Plan(pipeline="demo", profile=Profile(name="local", cores=2, memory_bytes=1 << 30), tasks=(task,))


def _git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    _git(folder, "init", "-b", "trunk")
    _git(folder, "remote", "add", "origin", _URL)
    (folder / "code.py").write_text("one = 1\n")
    _git(folder, "add", ".")
    _git(folder, "commit", "-m", "one")
    return folder


def test_packages_are_those_that_can_be_imported() -> None:
    found = installed_packages()
    for name in ("pytest", "pydantic", "click"):
        assert found[name] == version(name)
    assert list(found) == sorted(found)


_DEVICES = {"GPU-aa1": "H200", "GPU-ab2": "A100", "MIG-c3": "A100 MIG 1g.5gb"}
_NVML = SimpleNamespace(
    nvmlInit=lambda: None,
    nvmlShutdown=lambda: None,
    nvmlDeviceGetCount=lambda: 2,
    nvmlDeviceGetHandleByIndex=lambda index: list(_DEVICES)[index],
    nvmlDeviceGetUUID=lambda handle: handle,
    nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
    nvmlDeviceGetName=lambda handle: _DEVICES[handle].encode(),
    nvmlSystemGetDriverVersion=lambda: "575.1",
)
"""NVIDIA's library with two devices, the second of which has a part."""


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ("H200", "A100")),
        ("1,0", ("A100", "H200")),
        ("GPU-ab", ("A100",)),
        ("MIG-c3", ("A100 MIG 1g.5gb",)),
        ("0, 7, 1", ("H200",)),
        ("GPU-a", ()),
        ("-1", ()),
        ("", ()),
    ],
)
def test_a_gpu_that_is_hidden_from_the_process_is_none_of_its_machine(
    visible: str | None, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _NVML)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = this_machine()
    assert (found.gpus, found.gpu_driver) == (names, "575.1")


def test_git_reports_commit_branch_and_changes(checkout: Path) -> None:
    clean = git_state(checkout)
    assert (len(clean.commit), clean.branch, clean.dirty, clean.problem) == (40, "trunk", False, "")
    (checkout / "code.py").write_text("one = 2\n")
    (checkout / "unknown.txt").write_text("data")
    changed = git_state(checkout)
    assert (changed.commit, changed.changed) == (clean.commit, ("code.py",))
    (checkout / "code.py").write_text("one = 3\n")
    assert git_state(checkout).changes not in ("", changed.changes)
    _git(checkout, "checkout", "--detach")
    assert git_state(checkout).branch == ""


def test_a_missing_checkout_or_git_is_reported(tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path).problem == "not in a git checkout"
    (tmp_path / "new").mkdir()
    _git(tmp_path / "new", "init")
    assert git_state(tmp_path / "new").problem.startswith("git: ")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(checkout).problem == "git is not installed"


def test_a_run_keeps_its_first_environment_and_no_secrets(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2secret")
    workspace = Workspace(checkout)
    folder = workspace.run_folder("r")
    folder.mkdir(parents=True)
    assert kept_environment(workspace, "r") is None
    keep_environment(workspace, "r", _plan(text="x", shape=(1, 2)), Catalog())
    kept = kept_environment(workspace, "r")
    assert kept.nodes["a"].params == {"text": "x", "shape": [1, 2]}
    assert kept.nodes["a"].seed == 10
    assert kept.git.branch == "trunk"
    assert kept.machine.cores > 0
    assert kept.machine.memory_bytes > 0
    assert f"pytest=={version('pytest')}\n" in kept.requirements
    assert "hunter2" not in (folder / "environment.json").read_text()
    assert sorted(p.name for p in folder.iterdir()) == ["environment.json"]
    keep_environment(workspace, "r", _plan(text="y"), Catalog())
    assert kept_environment(workspace, "r") == kept
    assert read_environment("{") is None


def test_differences_say_what_was_and_what_is(checkout: Path) -> None:
    workspace = Workspace(checkout)
    before = environment_of(workspace, _plan(text="x", shape=(1, 2)), Catalog())
    assert differences(before, before, ["a"]) == []
    assert differences(before, before.model_validate_json(before.model_dump_json()), ["a"]) == []
    packages = {name: "0.1" if name == "pytest" else number for name, number in before.packages.items()}
    packages["another"] = packages.pop("click")
    code = before.nodes["a"].model_copy(update={"version": 2, "params": {"text": "y", "shape": [1, 2], "more": 1}})
    now = before.model_copy(update={"packages": packages, "nodes": {"a": code}})
    assert [d.line() for d in differences(before, now, ["a", "b"])] == [
        "node a: Make version 1 -> Make version 2",
        "a.more: not there -> 1",
        "a.text: x -> y",
        f"package another: not there -> {version('click')}",
        f"package click: {version('click')} -> not there",
        f"package pytest: {version('pytest')} -> 0.1",
    ]
