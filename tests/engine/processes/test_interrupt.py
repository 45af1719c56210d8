"""Ctrl-C in the first moments of a command, while its modules are imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.processes import interrupt

ROOT = Path(__file__).parents[3]
AT_IMPORT = """
import sys
print("importing", flush=True)
try:
    sys.stdin.read()
except KeyboardInterrupt as exc:
    raise RuntimeError("what an import makes of it") from exc
"""


@pytest.mark.parametrize("module", ["dataclasses", "click"])
def test_a_command_that_is_interrupted_amid_its_imports_says_so(tmp_path: Path, module: str) -> None:
    """Of `voxelflow` itself, and of the command."""
    (tmp_path / f"{module}.py").write_text(AT_IMPORT)
    command = subprocess.Popen(
        [sys.executable, "-S", "-m", "voxelflow", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, sys.path)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with command:
        assert command.stdin is not None
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.readline() == "importing\n"
        command.send_signal(signal.SIGINT)
        assert command.stderr.read() == "\ninterrupted\n"
    assert command.returncode == 130


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
def test_the_command_may_be_interrupted_once_it_has_begun() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.end_at_interrupt()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    interrupt.raise_at_interrupt()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda *_: None])
def test_what_others_do_about_it_stays(own: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, own)
    interrupt.end_at_interrupt()
    assert signal.getsignal(signal.SIGINT) is own
    interrupt.raise_at_interrupt()
    assert signal.getsignal(signal.SIGINT) is own


def test_a_script_that_imports_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/work/train.py"])
    assert not interrupt.is_command("voxelflow")
    monkeypatch.setattr(sys, "argv", [])
    assert not interrupt.is_command("voxelflow")
    assert interrupt.is_command("__main__")
    monkeypatch.setattr(sys, "argv", ["/env/bin/voxelflow", "run"])
    assert interrupt.is_command("voxelflow")
