"""What is tried once more when it fails, and what holds for the second attempt: another pytest with our settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import WAIT_S

_ROOT = Path(__file__).parents[1]
_ONCE = """
def test_{}(request):
    assert request.node.execution_count > 1
"""
"""A test that passes at its second attempt."""
_HANGS = """
import time, pytest

@pytest.mark.timeout(3)
def test_hangs_then(request):
    assert request.node.execution_count > 1
    time.sleep(30)
"""
_CHANCE_IS_A_DEFECT = {
    "tests/test_kills.py": "kill",
    "tests/test_power_cuts.py": "power_cut",
    "tests/torture/test_short.py": "short",
    "tests/nodes/test_conformance.py": "conformance",
    "tests/nodes/test_conformance_of_models.py": "it_loses_nothing_when_killed",
    "tests/nodes/table/test_kills.py": "kill_of_a_commit",
    "tests/nodes/transforms/test_killed_measuring.py": "measuring",
    "tests/nodes/training/test_reproduced.py": "reproduced",
    "tests/nodes/training/test_session.py": "the_same_bit_for_bit",
}
"""Files of ours, with a test that is made up for each."""


@pytest.mark.slow
def test_a_bad_moment_is_tried_again_within_its_time_limit_but_nothing_whose_chance_is_a_defect(tmp_path: Path) -> None:
    made = {file: _ONCE.format(name) for file, name in _CHANCE_IS_A_DEFECT.items()}
    made["tests/test_waiting.py"] = _ONCE.format("moment") + _HANGS
    for file, text in made.items():
        assert (_ROOT / file).is_file(), "it has another name now"
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    # Ours are the settings, and the conftest.py; else this pytest has nothing from the one that it is started by.
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = os.pathsep.join(map(str, (_ROOT / "tests", _ROOT / "tests" / "support")))
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", _ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "conftest",
            "-p", "no:cacheprovider", "--basetemp", tmp_path / "t", "--reruns-delay=0", "-rA", "tests",
        ],
        cwd=tmp_path, env={**given, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    ended = set(re.findall(r"^(PASSED|FAILED|RERUN|ERROR) (\S+)", done.stdout, re.MULTILINE))
    moment, hangs = "tests/test_waiting.py::test_moment", "tests/test_waiting.py::test_hangs_then"
    failed = {("FAILED", f"{file}::test_{name}") for file, name in _CHANCE_IS_A_DEFECT.items()}
    again = {("RERUN", moment), ("PASSED", moment), ("RERUN", hangs), ("FAILED", hangs)}
    assert ended == failed | again, done.stdout + done.stderr
    assert "Timeout (>3.0s)" in done.stdout
