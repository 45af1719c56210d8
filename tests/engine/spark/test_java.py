"""Finding Java, with programs that only pretend to be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.spark.java import find_java


def _pretend(home: Path, version: str, *, vector: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lacks = "" if vector else 'case "$1" in --add-modules) echo "Module not found" >&2; exit 1;; esac\n'
    program.write_text(f"#!/bin/sh\n{lacks}echo 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return tmp_path / "jdk"


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25"])
def test_java_home_counts_before_the_path(home: Path, version: str) -> None:
    program = _pretend(home, version)
    found = find_java()
    assert (found.program, found.version) == (program, version)


def test_the_path_counts_without_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _pretend(tmp_path, "21.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    assert find_java().program == program


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_one_that_is_too_old_is_named_with_its_version(home: Path, version: str) -> None:
    program = _pretend(home, version, vector=False)
    with pytest.raises(UsageError) as caught:
        find_java()
    assert caught.value.message == f"{program} is Java {version}, and Spark needs Java 17 or newer"
    assert "openjdk-17-jre-headless" in caught.value.hint
    assert "JAVA_HOME" in caught.value.hint


def test_one_without_sparks_module_is_named(home: Path) -> None:
    _pretend(home, "17.0.15", vector=False)
    with pytest.raises(UsageError, match=r"\(Java 17.0.15\) lacks the module jdk.incubator.vector"):
        find_java()


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        find_java()
    assert caught.value.message == "Spark needs Java, and there is none on this machine"
    assert "apt install openjdk-17-jre-headless" in caught.value.hint


def test_a_java_home_that_leads_nowhere_is_reported_and_not_ignored(home: Path) -> None:
    with pytest.raises(UsageError, match="JAVA_HOME is "):
        find_java()


def test_a_program_that_is_no_java_is_reported(home: Path) -> None:
    program = _pretend(home, "17")
    program.write_text("#!/bin/sh\necho 'a toaster' >&2\nexit 3\n")
    with pytest.raises(UsageError, match="does not print its version: a toaster"):
        find_java()
