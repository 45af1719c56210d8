"""Whether TensorFlow sees the GPUs of a profile: asked of a TensorFlow of the test's own, in a process of its own."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import voxelflow
from engine.profiles import Check, Profile, checks
from engine.workspace import Workspace

INSTALL = "pip install 'voxelflow[gpu]'"


def profile(gpus: int, **more: object) -> Profile:
    return Profile.model_validate({"name": "lab", "cores": 1, "memory_bytes": 1 << 28, "gpus": gpus, **more})


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two NVIDIA devices, and nothing that hides them."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (folder / name).touch()
    monkeypatch.setattr(checks, "DEVICES", folder)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return folder


def tensorflow(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, seen: int = 0, cuda: bool = True, more: str = ""
) -> None:
    """What `import tensorflow` gives in the process that is asked."""
    (folder / "tensorflow.py").write_text(
        dedent(f"""
            import sys
            print("what others print on either side", flush=True)
            print("W0000 something of CUDA", file=sys.stderr)
            {more}
            class config:
                list_physical_devices = lambda kind: ["gpu"] * {seen}
            class test:
                is_built_with_cuda = lambda: {cuda}
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))


def found(profile: Profile, workspace: Workspace) -> dict[str, Check]:
    return {check.name: check for check in checks.local_checks(profile, workspace)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "seen", "cuda", "hidden", "ok", "said", "hint"),
    [
        (1, 1, True, None, True, "it sees 1 GPU", ""),
        (1, 2, True, None, True, "it sees 2 GPUs", ""),
        (2, 2, True, "0,1", True, "it sees 2 GPUs", ""),
        (1, 0, True, None, False, "it sees 0 of the profile's 1 GPU", INSTALL),
        (1, 0, False, None, False, "built without CUDA", INSTALL),
        (2, 1, True, None, False, "it sees 1 of the profile's 2 GPUs", "fewer gpus"),
        (1, 0, True, "-1", False, "it sees 0 of the profile's 1 GPU", "CUDA_VISIBLE_DEVICES"),
        (1, 0, True, "", False, "it sees 0 of the profile's 1 GPU", "CUDA_VISIBLE_DEVICES"),
        (2, 0, True, "0, -1, 1", False, "it sees 0 of the profile's 2 GPUs", "CUDA_VISIBLE_DEVICES"),
        (1, 0, True, "5", False, "it sees 0 of the profile's 1 GPU", "CUDA_VISIBLE_DEVICES is '5'"),
        # As schedulers set it: not what keeps TensorFlow from seeing it.
        (1, 0, True, "0", False, "it sees 0 of the profile's 1 GPU", INSTALL),
        (1, 0, True, "GPU-8932f937-d72c", False, "it sees 0 of the profile's 1 GPU", INSTALL),
        (2, 1, True, "1", False, "it sees 1 of the profile's 2 GPUs", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_tensorflow_is_asked_what_it_sees(
    workspace: Workspace, devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    gpus: int, seen: int, cuda: bool, hidden: str | None, ok: bool, said: str, hint: str,
) -> None:  # fmt: skip
    tensorflow(monkeypatch, tmp_path, seen=seen, cuda=cuda)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    before = "tensorflow" in sys.modules
    check = found(profile(gpus), workspace)["TensorFlow"]
    assert ("tensorflow" in sys.modules) is before
    assert check.ok is ok
    assert said in check.said
    assert hint in check.hint
    assert bool(check.hint) is not ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "limit_s", "said"),
    [
        ("import time; time.sleep(60)", 0.5, "did not answer within"),
        ("raise ImportError('libcudart.so.12: cannot open')", 30.0, "libcudart.so.12: cannot open"),
        ("import os; os._exit(9)", 30.0, "exit status 9"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 30.0, "SIGSEGV"),
    ],
)
def test_a_tensorflow_that_does_not_answer_fails_the_check(
    workspace: Workspace, devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    more: str, limit_s: float, said: str,
) -> None:  # fmt: skip
    tensorflow(monkeypatch, tmp_path, seen=1, more=more)
    monkeypatch.setattr(checks, "_TENSORFLOW_S", limit_s)
    check = found(profile(1), workspace)["TensorFlow"]
    assert not check.ok
    assert said in check.said
    assert check.hint


def test_without_tensorflow_the_hint_brings_it_with_cuda(
    workspace: Workspace, devices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    check = found(profile(1), workspace)["TensorFlow"]
    assert (check.ok, check.said) == (False, "it is not installed")
    assert INSTALL in check.hint


@pytest.mark.parametrize(
    "asked",
    [
        profile(0),
        profile(3),  # more than there are devices: that is said, and what to do
        profile(1, backend="spark", master="spark://host:7077"),  # the executors train, and are asked
        profile(3, backend="spark", master="yarn"),
    ],
)
def test_it_is_asked_only_where_the_answer_counts(
    workspace: Workspace, devices: Path, monkeypatch: pytest.MonkeyPatch, asked: Profile
) -> None:
    monkeypatch.setattr(checks, "_sees_gpus", lambda profile: pytest.fail("asked"))
    made = found(asked, workspace)
    assert "TensorFlow" not in made
    # What this machine has says nothing of the executors.
    assert ("GPUs" in made) is (bool(asked.gpus) and asked.is_here)
    if "GPUs" in made:
        assert made["GPUs"].ok is (asked.gpus <= 2)


def test_the_extra_brings_cuda_for_the_tensorflow_of_trainings() -> None:
    extras = tomllib.loads((Path(voxelflow.__file__).parent / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    (trained,) = [r.removeprefix("tensorflow") for r in extras["train"] if r.startswith("tensorflow")]
    assert {f"tensorflow[and-cuda]{trained}", "voxelflow[train]"} < set(extras["gpu"])
    assert [r for r in extras["gpu"] if r.startswith("nvidia-ml-py")], "without it no page sees the GPUs"
    assert "gpu" not in extras["all"][0], "gigabytes, of no use without a GPU"
