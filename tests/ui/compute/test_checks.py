"""The test of a profile, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from waiting import wait_until

from engine.workspace import Workspace
from ui.compute.checks import start_test


@pytest.mark.slow
def test_a_file_called_voxelflow_in_the_current_folder_is_not_what_is_started(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "voxelflow.py").write_text("raise SystemExit('another program')")
    monkeypatch.chdir(tmp_path)
    test = start_test("local", workspace)
    wait_until(lambda: not test.running, "the test's end")
    assert not test.problem
    assert {"cores", "memory", "folder"} <= {check.name for check in test.checks}
