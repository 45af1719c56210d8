"""The archive of Java's classes: when it is used, and that a session maps it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.spark import class_data
from engine.spark.class_data import archive_path, settings_with
from engine.spark.jars import delta_artifact, delta_jars
from engine.spark.java import Java, find_java

JAVA = Java(Path("/opt/java/bin/java"), "17.0.1")


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.delenv(class_data.SWITCH, raising=False)
    monkeypatch.setattr(class_data, "spark_jars_folder", lambda: tmp_path / "spark")
    out = [tmp_path / "delta.jar", tmp_path / "storage.jar"]
    for jar in out:
        jar.write_bytes(b"classes")
    return out


def ivy(tmp_path: Path) -> dict[str, str]:
    return {"spark.jars.ivy": str(tmp_path / "my ivy")}


def test_an_archive_is_used_from_the_moment_it_is_there(tmp_path: Path, jars: list[Path]) -> None:
    own = ivy(tmp_path)
    assert settings_with(own, jars, JAVA) == {}
    archive = archive_path(own, jars, JAVA)
    archive.parent.mkdir(parents=True)
    archive.touch()  # the sign that this Java makes none
    assert settings_with(own, jars, JAVA) == {}
    archive.write_bytes(b"archive")
    found = settings_with(own, jars, JAVA)
    assert found == {
        "spark.driver.extraClassPath": f"{jars[0]}:{jars[1]}",
        "spark.driver.extraJavaOptions": f'"-XX:SharedArchiveFile={archive}"',
    }


def test_a_person_s_own_class_path_and_the_switch_go_before(
    tmp_path: Path, jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ivy(tmp_path)
    archive = archive_path(own, jars, JAVA)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"archive")
    assert settings_with(own, jars, JAVA)
    assert settings_with(own | {"spark.driver.extraClassPath": "/opt/own.jar"}, jars, JAVA) == {}
    assert settings_with(own, [], JAVA) == {}
    monkeypatch.setenv(class_data.SWITCH, "off")
    assert settings_with(own, jars, JAVA) == {}


def test_none_is_made_where_the_profile_names_its_own_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(class_data.SWITCH, raising=False)
    monkeypatch.setattr(class_data.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    class_data.make_later({"spark.jars": f"/opt/{delta_artifact()}.jar"})


def test_another_java_or_another_jar_has_another_archive(tmp_path: Path, jars: list[Path]) -> None:
    own = ivy(tmp_path)
    first = archive_path(own, jars, JAVA)
    assert archive_path(own, jars, Java(JAVA.program, "21.0.1")) != first
    jars[0].write_bytes(b"newer classes")
    assert archive_path(own, jars, JAVA) != first


SESSION = """
from pathlib import Path
import psutil
from engine.profiles import find_profile
from engine.spark.session import open_session
from engine.workspace import open_workspace
session = open_session(find_profile("spark-local", open_workspace(Path("workspace"))), name="class data")
for process in psutil.Process().children(recursive=True):
    if process.name() == "java":
        print(*(mapped.path for mapped in process.memory_maps() if mapped.path.endswith(".jsa")), sep="\\n")
session.stop()
"""


@pytest.mark.slow
@pytest.mark.needs(part="class data")
def test_a_session_maps_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert str(archive_path({}, delta_jars({}), find_java())) in done.stdout.splitlines()
