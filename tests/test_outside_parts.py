"""A part that is missing skips a test on a person's machine, with its reason, and fails it in CI."""

from __future__ import annotations

from pathlib import Path

import outside_parts
import pytest
from outside_parts import require


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_parts, "_found", {})


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
@pytest.mark.parametrize("part", ["canvas", "azurite", "java", "compiler", "actionlint"])
def test_a_missing_part_skips_a_test_but_not_in_ci(
    part: str, ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    _, reason = outside_parts._PARTS["actionlint"]
    monkeypatch.setitem(outside_parts._PARTS, "actionlint", ((tmp_path / "actionlint").is_file, reason))
    with pytest.raises(outcome, match="install"):
        require(part)


@pytest.mark.parametrize(("part", "folder"), [("canvas", "CANVAS"), ("azurite", "AZURITE")])
def test_node_without_the_packages_is_not_enough(
    part: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(outside_parts, folder, tmp_path)
    with pytest.raises(pytest.skip.Exception, match="npm ci"):
        require(part)
    # What an `npm ci` leaves that broke off.
    packages = tmp_path / "node_modules"
    (packages / "vite").mkdir(parents=True)
    outside_parts._found.clear()
    with pytest.raises(pytest.skip.Exception, match="npm ci"):
        require(part)
    (packages / ".package-lock.json").touch()
    outside_parts._found.clear()
    require(part)
