"""The process beside the app: answers, a death, the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from waiting import WAIT_S

from engine.declare.datasets import Report
from engine.viewing.process import ViewProcess
from engine.workspace import open_workspace

pytestmark = pytest.mark.slow


def test_it_answers_comes_back_after_a_death_and_ends(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<p>hello")
    report, process = Report(uri=str(page)), ViewProcess(open_workspace(tmp_path / "w"))
    try:
        first = process.ask(report, {}, "document", "file", {}).result(WAIT_S)
        assert (first.status, first.body) == (200, b"<p>hello")
        child = process._child
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
        waiting = process.ask(report, {}, "document", "file", {})
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="died"):
            waiting.result(WAIT_S)
        assert process.ask(report, {}, "document", "file", {}).result(WAIT_S).body == b"<p>hello"
    finally:
        last = process._child
        process.close()
    assert last is not None
    assert last.exit_status is not None
    with pytest.raises(OSError, match="ending"):
        process.ask(report, {}, "document", "file", {})
