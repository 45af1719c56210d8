"""Delta's jars: fetched once from a repository on the disk, found again, or the error says how to get them by hand."""

from __future__ import annotations

import http.server
import re
import socket
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
from waiting import WAIT_S

from engine.errors import ExecutionError, UsageError
from engine.spark import jars

NAME, _, VERSION = jars.delta_artifact().rpartition("-")


def _publish(repository: Path, group: str, name: str, version: str, needs: str = "") -> None:
    folder = repository / group.replace(".", "/") / name / version
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"{name}-{version}.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    (folder / f"{name}-{version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version><dependencies>{needs}</dependencies></project>"
    )


def _need(group: str, name: str, version: str) -> str:
    what = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{what}</dependency>"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv(jars.FOLDER, raising=False)
    monkeypatch.setattr(jars, "CENTRAL", "http://127.0.0.1:9/")  # nobody listens there
    return {"spark.jars.ivy": str(tmp_path / "ivy"), "spark.jars.repositories": f"file://{tmp_path}/repository/"}


def test_the_artifact_follows_the_installed_packages() -> None:
    assert re.fullmatch(r"delta-spark_4\.\d+_2\.13-\d+\.\d+\.\d+", jars.delta_artifact())


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_they_are_fetched_once_without_what_spark_has(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    storage = _need("io.delta", "delta-storage", "4.4.0")
    # Spark has this one, in another version, and the repository does not.
    _publish(repository, "io.delta", NAME, VERSION, storage + _need("org.apache.parquet", "parquet-hadoop", "1.0"))
    _publish(repository, "io.delta", "delta-storage", "4.4.0")
    said: list[str] = []
    found = jars.delta_jars(settings, said.append)
    assert {jar.name for jar in found} == {f"{NAME}-{VERSION}.jar", "delta-storage-4.4.0.jar"}
    assert all(jar.is_relative_to(tmp_path / "ivy") for jar in found)
    assert f"downloading {NAME}-{VERSION}.jar" in said
    with monkeypatch.context() as patch:
        patch.setattr(jars, "find_java", lambda: pytest.fail("Ivy was asked again"))
        assert jars.delta_jars(settings) == found
    found[-1].unlink()
    assert jars.delta_jars(settings) == found
    assert all(jar.exists() for jar in found)
    # The end of a jar that a power cut took.
    whole = found[-1].read_bytes()
    found[-1].write_bytes(whole[:-10])
    assert jars.delta_jars(settings) == found
    assert found[-1].read_bytes() == whole


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_without_a_way_to_the_repository_the_error_says_what_to_do(settings: dict[str, str]) -> None:
    with pytest.raises(ExecutionError) as caught:
        jars.delta_jars({**settings, "spark.jars.repositories": ""})
    assert f"the repository {jars.CENTRAL} cannot be reached (ConnectException" in caught.value.message
    assert jars.delta_artifact() in caught.value.message
    assert jars.FOLDER in caught.value.hint
    assert "spark.jars.repositories" in caught.value.hint


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_a_repository_that_never_answers_is_given_up_and_named(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection, which is the kernel's doing, and says nothing."""
    monkeypatch.setattr(jars, "READ_MS", 1000)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mirror = f"http://someone:secret@127.0.0.1:{mute.getsockname()[1]}/maven"
        with pytest.raises(ExecutionError) as caught:
            jars.delta_jars({**settings, "spark.jars.repositories": mirror})
    named = mirror.replace("someone:secret@", "")
    assert f"the repository {named} cannot be reached (SocketTimeoutException: Read timed out)" in caught.value.message
    assert f"the repository {jars.CENTRAL} cannot be reached (ConnectException" in caught.value.message
    assert "secret" not in caught.value.message
    assert "spark.jars.repositories" in caught.value.hint


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_a_repository_that_falls_silent_is_named_with_the_file(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(tmp_path / "repository", "io.delta", NAME, VERSION)
    over = threading.Event()

    class Silent(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "repository"))

        def do_GET(self) -> None:
            if not self.path.endswith(".jar"):
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"PK")
            over.wait(WAIT_S)

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setattr(jars, "READ_MS", 1000)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(jars, "CENTRAL", f"http://127.0.0.1:{server.server_port}/")
        try:
            with pytest.raises(ExecutionError) as caught:
                jars.delta_jars({**settings, "spark.jars.repositories": ""})
        finally:
            over.set()
            server.shutdown()
    assert f"{NAME}.jar could not be downloaded from {jars.CENTRAL}" in caught.value.message
    assert "Read timed out" in caught.value.message


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("Server access error at url https://a.b/m/x.pom (java.net.SocketTimeoutException: Connect timed out)",
         "the repository https://a.b/m/ cannot be reached (SocketTimeoutException: Connect timed out)"),
        ("Server access error at url https://c.d:81/y/x.pom (javax.net.ssl.SSLHandshakeException: (a) no)",
         "the repository https://c.d:81/ cannot be reached (SSLHandshakeException)"),
        ("Host a.b not found. url=https://a.b/m/x.pom",
         "the repository https://a.b/m/ cannot be reached (host not found)"),
        ("Server access error at url https://u:p@a.b/z (java.net.UnknownHostException: a.b)",
         "the repository https://a.b/ cannot be reached (UnknownHostException: a.b)"),
        (":: UNRESOLVED DEPENDENCIES ::", "the repository does not have them"),
        ("[FAILED     ] g#n;1!n.jar: Read timed out (12ms)", "n.jar could not be downloaded: Read timed out"),
        ("no such thing", "Ivy failed: no such thing"),
    ],
)  # fmt: skip
def test_what_ivy_says_becomes_the_reason(log: str, why: str) -> None:
    failed = jars._failed(log, {"spark.jars.repositories": "https://a.b/m/, "})
    assert failed.message.partition("could not be fetched: ")[2] == why


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_what_is_no_jar_is_named_and_not_kept(settings: dict[str, str], tmp_path: Path) -> None:
    _publish(tmp_path / "repository", "io.delta", NAME, VERSION)
    (jar,) = (tmp_path / "repository").rglob("*.jar")
    jar.write_text("<html>Log in first.</html>")
    with pytest.raises(ExecutionError, match=re.escape(f"{jar.name} is no jar")):
        jars.delta_jars(settings)
    assert not list((tmp_path / "ivy").rglob("*.jar"))


def test_a_folder_that_cannot_be_written_is_named(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ivy").touch()
    with pytest.raises(ExecutionError) as caught:
        jars.delta_jars(settings)
    assert f"could not be put into {tmp_path}/ivy" in caught.value.message
    assert "spark.jars.ivy" in caught.value.hint
    assert jars.FOLDER in caught.value.hint


def test_an_own_folder_is_taken_or_what_it_lacks_is_named(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jars"
    monkeypatch.setenv(jars.FOLDER, str(folder))
    with pytest.raises(UsageError, match=re.escape(f"{jars.delta_artifact()}.jar is not there")):
        jars.delta_jars(settings)
    folder.mkdir()
    (folder / "delta-storage-4.4.0.jar").touch()
    with pytest.raises(UsageError, match="is not there"):
        jars.delta_jars(settings)
    # As Spark's own cache names it.
    (folder / f"io.delta_{jars.delta_artifact()}.jar").touch()
    assert len(jars.delta_jars(settings)) == 2


@pytest.mark.parametrize(
    "own",
    [
        {"spark.jars": f"/opt/a.jar,/opt/{jars.delta_artifact()}.jar"},
        {"spark.jars.packages": f"io.delta:{NAME}:{VERSION}"},
    ],
)
def test_jars_of_delta_that_the_profile_names_are_left_alone(settings: dict[str, str], own: dict[str, str]) -> None:
    assert jars.delta_jars(settings | own) == []
