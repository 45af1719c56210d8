"""The Java that Spark runs on: found as Spark's own scripts find it, and tried before a session needs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError

OLDEST = 17
INSTALL = "Install Java 17 or 21 (Debian, Ubuntu: `apt install openjdk-17-jre-headless`; Fedora: `dnf install \
java-21-openjdk-headless`; macOS: `brew install openjdk@21`; conda: `conda install -c conda-forge openjdk=21`)."
_TIMEOUT_S = 60.0
_VECTOR = "jdk.incubator.vector"


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark: its program, and the version as it prints it (`17.0.15`)."""

    program: Path
    version: str


def find_java() -> Java:
    """`$JAVA_HOME/bin/java`, else the `java` on PATH.

    Raises `UsageError` saying what to install when there is none, it is too old, or it lacks a module that Spark needs.
    """
    program = _program()
    # Both questions at once: a good Java answers the first, and starting one takes a fifth of a second.
    answer = _ask(program, "--add-modules", _VECTOR, "-version")
    version = _version(answer.stderr)
    if answer.returncode != 0:
        version = _version(_ask(program, "-version").stderr)
    if version is None:
        raise UsageError(f"{program} does not print its version: {_first_line(answer.stderr)}", hint=INSTALL)
    if _major(version) < OLDEST:
        raise UsageError(f"{program} is Java {version}, and Spark needs Java {OLDEST} or newer", hint=_hint())
    if answer.returncode != 0:
        raise UsageError(f"{program} (Java {version}) lacks the module {_VECTOR}, which Spark needs", hint=_hint())
    return Java(program, version)


def _program() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise UsageError(
                f"JAVA_HOME is {home}, and there is no {program}", hint="Set JAVA_HOME to a Java, or unset it."
            )
        return program
    found = shutil.which("java")
    if found is None:
        raise UsageError("Spark needs Java, and there is none on this machine", hint=INSTALL)
    return Path(found)


def _hint() -> str:
    named = (
        "Then set JAVA_HOME to it." if os.environ.get("JAVA_HOME") else "If it is there already, set JAVA_HOME to it."
    )
    return f"{INSTALL} {named}"


def _ask(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(program), *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise UsageError(f"{program} does not run: {exc}", hint=INSTALL) from exc


def _version(text: str) -> str | None:
    found = re.search(r'version "([^"]+)"', text)
    return found[1] if found else None


def _major(version: str) -> int:
    parts = re.findall(r"\d+", version)
    # "1.8.0_402" is Java 8.
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing")
