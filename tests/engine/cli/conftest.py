"""The command in this process with the probes as its catalogue, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import NO_WORK, Command, Said, Save

from engine.catalog import Catalog, build_catalog
from engine.cli import main
from engine.document.pipeline import Pipeline, write_pipeline
from engine.run.worker_process import PROGRAM
from engine.workspace import Workspace


def _no_studio(workspace: Workspace, **_: object) -> int:
    raise AssertionError("the app was started")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of the commands; `workspace` lies in it where commands look for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process, with no built-in nodes."""

    def run(*arguments: str) -> Said:
        status = main(lambda workspace: build_catalog((), workspace), _no_studio, NO_WORK, list(arguments))
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return run


@pytest.fixture
def process(home: Path, forked_runs: None) -> Command:
    """Run the real command as a process, its output in pipes; it is forked, and so are its runs."""

    def run(*arguments: str, env: Mapping[str, str] | None = None) -> Said:
        done = subprocess.run(
            [*PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=120
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def save(home: Path, workspace: Workspace, probes: Catalog) -> Save:
    """Write a document into the current directory; gives its file name. The probes are installed and trusted."""

    def write(document: Pipeline) -> str:
        write_pipeline(document, home / f"{document.name}.json")
        return f"{document.name}.json"

    return write
