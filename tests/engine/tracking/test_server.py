"""A real MLflow server that is away at first, dies in the middle and comes back."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import forked_programs
import pytest
from ports import free_port
from tracked_runs import QUICK, FakeRun, Reader, TrackerProcess
from waiting import WAIT_S, wait_until

from engine.declare.events import Artifact, Facts, Metrics, TaskStateChanged
from engine.tracking import run_link, send_pending, track_run
from engine.tracking.models import Candidate, fetched, pinned, register
from engine.workspace import Workspace

pytestmark = pytest.mark.slow
Read = Callable[[Workspace], Reader]

_SERVE = """
from mlflow import cli, server
from mlflow.utils import process

def serve(command, extra_env, **_):
    import os, sys
    import uvicorn.main
    os.environ.update(extra_env)
    uvicorn.main.main([str(word) for word in command[command.index("uvicorn") + 1 :]])

server._exec_cmd = serve
cli.cli(["server", "--host", "127.0.0.1", "--port", "{port}", "--workers", "1", "--backend-store-uri",
    "sqlite:///{folder}/server.db", "--artifacts-destination", "{folder}/artifacts"])
"""
"""`mlflow server`, with its only worker in the same process."""


class Server:
    """`mlflow server` on this machine, with its own database and artifacts."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.folder = folder
        shutil.copy(database, folder / "server.db")
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = forked_programs.start(
                _SERVE.format(port=self.port, folder=str(self.folder)),
                {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                training=True, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_until(self.is_there, "the start of the MLflow server")

    def is_there(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "server.log").read_text()
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
            return True
        return False

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=WAIT_S)
            self.process = None


@pytest.fixture
def server(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    out = Server(tmp_path / "server", empty_database)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", out.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    yield out
    out.kill()


def test_the_server_comes_dies_and_comes_back(
    workspace: Workspace, reader: Read, server: Server, tracker: Callable[..., TrackerProcess]
) -> None:
    run = FakeRun(workspace).begin()
    run.emit(TaskStateChanged(node="train", state="running"), Facts(node="train", values={"device": "CPU"}))
    run.step(*range(20))
    process = tracker(run)
    log = workspace.run_folder(run.id) / "tracker.log"
    # The file is there before its first line.
    wait_until(lambda: log.exists() and str(server.port) in log.read_text(), "a word about the missing server")
    assert run.store.tracking.find(run.id)[0] == 0

    server.start()
    wait_until(lambda: run.store.tracking.find(run.id)[0] > 0, "sending to the server")
    # Steps flow while it is killed, so that a request may be cut in two.
    stop, written = threading.Event(), [20]

    def write() -> None:
        writer = FakeRun.opened(run)
        while not stop.wait(0.005):
            writer.step(written[0])
            written[0] += 1
        writer.store.close()
        run.clock = writer.clock

    thread = threading.Thread(target=write)
    thread.start()
    try:
        before = run.store.tracking.find(run.id)[0]
        wait_until(lambda: run.store.tracking.find(run.id)[0] > before, "sending while the run goes on")
        server.kill()
        logged = log.stat().st_size
        wait_until(lambda: log.stat().st_size > logged, "noticing that the server died")
    finally:
        stop.set()
        thread.join()
    server.start()
    run.finish()
    assert process.wait() == 0

    read = reader(workspace)
    found = read.runs(run.id)
    assert found[""].status == found["train"].status == "FINISHED"
    steps = list(range(written[0]))
    assert found["train"].steps("loss") == found["train"].steps("accuracy") == steps
    assert found[""].steps("system/cpu_utilization_percentage") == steps
    assert found["train"].params == {"epochs": "2", "note": "", "device": "CPU"}
    assert read.artifacts(found[""].id) == ["pipeline.json"]
    link = run_link(workspace, run.id)
    assert link["url"] == f"{server.uri}/#/experiments/{link['experiment_id']}/runs/{found[''].id}"


def test_a_program_without_a_workspace_registers_and_fetches_there(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "MLmodel").write_text("flavors: {}\nutc_time_created: '2026-01-01 00:00:00'\nmodel_uuid: x\n")
    (folder / "weights.bin").write_bytes(bytes(1000))
    server.start()
    candidate = Candidate("brains", "champion", folder, "d", "accuracy", 0.5, True, {})
    registered, place = register(None, candidate, lambda _: None)
    assert (registered.version, registered.aliased, place) == ("1", True, server.uri)
    assert pinned(None, "models:/brains@champion") == "models:/brains/1"
    with fetched(None, "models:/brains/1") as found:
        assert (found / "weights.bin").stat().st_size == 1000


def test_what_the_tracker_gave_up_is_sent_when_the_server_is_back(
    workspace: Workspace, reader: Read, server: Server, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "MLmodel").write_text("flavors: {}\nutc_time_created: '2026-01-01 00:00:00'\nmodel_uuid: x\n")
    (model / "weights.bin").write_bytes(bytes(1000))
    (tmp_path / "loss.png").write_bytes(b"png")
    run = FakeRun(workspace).begin()
    run.upstream()
    run.emit(TaskStateChanged(node="train", state="running"))
    run.emit(Metrics(node="train", step=0, values={"loss": math.nan}))
    run.step(1, 2)
    run.emit(
        Artifact(node="train", role="plot", name="loss.png", path=str(tmp_path / "loss.png")),
        Artifact(node="train", role="model", name="model", path=str(model)),
        TaskStateChanged(node="train", state="done"),
    )
    run.end("done")
    assert not track_run(workspace, run.id, patience=QUICK)
    assert send_pending(workspace) == 0
    assert run.store.tracking.unfinished() == [run.id]

    server.start()
    assert send_pending(workspace) == 1
    assert run.store.tracking.unfinished() == []
    read = reader(workspace)
    child = read.runs(run.id)["train"]
    assert child.steps("loss") == [0, 1, 2]
    assert math.isnan(child.points["loss"][0][2])
    assert child.models == run_link(workspace, run.id)["models"]["train"]
    assert read.artifacts(child.id) == ["plots/loss.png"]
    assert {i.tags[0].value for i in child.inputs} == {"table", "validation"}
    (sent,) = read.client.search_logged_models([run_link(workspace, run.id)["experiment_id"]])
    assert str(sent.status) == "READY"
    assert {m.key for m in sent.metrics} == {"loss", "accuracy"}
    stored = server.folder / "artifacts"
    assert {p.name for p in stored.rglob("*") if p.is_file()} >= {"MLmodel", "weights.bin", "pipeline.json"}
    assert f"model_id: {sent.model_id}" in next(stored.rglob("MLmodel")).read_text()
