"""Tests of profiles: `voxelflow profiles test` in a process of its own, for it may start a Spark session."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import UsageError
from engine.processes.system import kill_tree
from engine.profiles import Check
from engine.profiles.edit import read_written
from engine.run.worker_process import PROGRAM
from engine.workspace import Workspace

_TAIL = 20
"""Lines kept of what the process says, which is of interest when it fails."""


@dataclass
class ProfileTest:
    """One test: the checks so far, what is done now, and how it ended. Changed by a thread."""

    profile: str
    checks: list[Check] = field(default_factory=list)
    doing: str = ""
    exit_status: int | None = None
    said: list[str] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.exit_status is None

    @property
    def passed(self) -> bool:
        """Whether it ended and everything was there."""
        return self.exit_status == 0

    @property
    def problem(self) -> str:
        """Why it ended without saying what is missing; "" when it did say."""
        if self.running or self.passed or any(not c.ok for c in self.checks):
            return ""
        return self.said[-1] if self.said else f"the test ended with exit status {self.exit_status}"

    def stop(self) -> None:
        """End the process, and Spark with it."""
        if self._process is not None and self.exit_status is None:
            kill_tree(self._process.pid)


def start_test(profile: str, workspace: Workspace) -> ProfileTest:
    """Start testing the profile; what it finds comes into the object that is given at once."""
    test = ProfileTest(profile)
    process = subprocess.Popen(
        [*PROGRAM, "profiles", "test", profile, "--json-lines", "--workspace", str(workspace.root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    test._process = process
    threading.Thread(target=_read_checks, args=(test, process), name=f"test of {profile}", daemon=True).start()
    return test


class ProfileTests:
    """The newest test of each profile of a workspace, while the profile is written as it was when the test began."""

    def __init__(self) -> None:
        self._newest: dict[tuple[Path, str], tuple[str, ProfileTest]] = {}

    def newest(self, profile: str, workspace: Workspace) -> ProfileTest | None:
        """The test of the profile as it is written now; one of other settings is ended and forgotten."""
        began_with, test = self._newest.get((workspace.root, profile), ("", None))
        # Of a file that cannot be read now, perhaps because somebody is writing it, nothing is known.
        if test is None or (settings := _settings(profile, workspace)) is None:
            return None
        if settings != began_with:
            self.forget(profile, workspace)
            return None
        return test

    def start(self, profile: str, workspace: Workspace) -> None:
        """Test the profile as it is written now; nothing where the file cannot be read."""
        settings = _settings(profile, workspace)
        if settings is not None:
            self.forget(profile, workspace)
            self._newest[workspace.root, profile] = settings, start_test(profile, workspace)

    def forget(self, profile: str, workspace: Workspace) -> None:
        """Forget the profile's test, and end it if it still runs."""
        _, test = self._newest.pop((workspace.root, profile), ("", None))
        if test is not None:
            test.stop()


def _settings(profile: str, workspace: Workspace) -> str | None:
    """What the file says of the profile, as one text; None where it cannot be read."""
    try:
        written = read_written(profile, workspace)
    except UsageError:
        return None
    return repr((written.fields, written.spark))


def _read_checks(test: ProfileTest, process: subprocess.Popen[str]) -> None:
    beside = threading.Thread(target=_read_steps, args=(test, process), daemon=True)
    beside.start()
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            try:
                test.checks.append(Check(**json.loads(line)))
            except (ValueError, TypeError):
                test.said = [*test.said, line.rstrip()][-_TAIL:]
    status = process.wait()
    beside.join()
    test.doing = ""
    test.exit_status = status


def _read_steps(test: ProfileTest, process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            text = line.strip()
            if text:
                test.doing = text
                test.said = [*test.said, text][-_TAIL:]
