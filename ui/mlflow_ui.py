"""MLflow's own web pages within the app: started when somebody asks, ended with the app, opened at the exact run.

    GET voxelflow/mlflow/run/RUN_ID     starts them if need be, and goes to the run's page
    ... voxelflow/mlflow/ui/...         every request of those pages, handed on to MLflow

MLflow serves them on a Unix socket (`engine.tracking.web_ui`), so there is no other way to them than through the app:
its login or token (`ui.access`) lets people in or not, and no port is opened.
"""

from __future__ import annotations

import html
import http.client
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from streamlit.url_util import make_url_path

from engine.errors import UsageError
from engine.processes.child import Child
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.tracking import location, run_link
from engine.tracking.web_ui import Order
from engine.workspace import Workspace
from ui.access import message_page
from ui.protocol.link import MLFLOW_PATH
from ui.views.route import is_ours

LOG = "mlflow-ui.log"
"""In the workspace's folder `locks`: what the process has printed."""
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_LARGEST_REQUEST = 16 << 20
_PATIENCE_S = 120.0
_LOOK_S = 2.0
_CHUNK = 1 << 18
_NOT_HANDED_ON = frozenset(
    {"host", "origin", "referer", "cookie", "authorization", "connection", "content-length", "transfer-encoding"}
)
"""Of a request: MLflow must not see the app's cookies, and it answers requests of this computer alone."""
_OF_THIS_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "server", "date"})
_ARTIFACT = "get-artifact"
_NOT_SERVED = frozenset({"assistant", "gateway", "jobs"})
"""Parts of a path: an assistant that runs programs, and calls of language models with somebody's keys."""


def can_serve() -> bool:
    """Whether this system has what the pages are served on."""
    return hasattr(socket, "AF_UNIX")


class MlflowUi:
    """The process with MLflow's pages, and the routes to it. May be used by any thread."""

    def __init__(self, workspace: Workspace, base: str) -> None:
        self._workspace = workspace
        self._prefix = make_url_path(base, f"{MLFLOW_PATH}/ui")
        self._base = base
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._child: Child | None = None
        self._closed = False

    @property
    def routes(self) -> list[Route]:
        """To be served by the app."""
        return [
            Route(make_url_path(self._base, MLFLOW_PATH + "/run/{run_id}"), self.open_run),
            Route(make_url_path(self._base, MLFLOW_PATH + "/model/{name}/{version:int}"), self.open_version),
            Route(self._prefix + "{rest:path}", self.hand_on, methods=_METHODS),
        ]

    def start(self) -> None:
        """Start the process unless it lives. Raises `OSError` when it cannot be."""
        with self._lock:
            if self._closed:
                raise OSError("the app is ending")
            if self._child is not None and self._child.exit_status is None:
                return
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="voxelflow-")  # for this user alone
            Path(self._socket).unlink(missing_ok=True)
            self._workspace.locks.mkdir(parents=True, exist_ok=True)
            log = self._workspace.locks / LOG
            log.unlink(missing_ok=True)
            self._child = Child([*PROGRAM[1:], "_mlflow", str(self._workspace.root)], log)
            self._child.send(Order(socket=self._socket, prefix=self._prefix).model_dump_json())

    def state(self) -> Literal["absent", "starting", "ready", "ended"]:
        """Whether the pages answer."""
        child = self._child
        if child is None:
            return "absent"
        if child.exit_status is not None:
            return "ended"
        connection = _Connection(self._socket, _LOOK_S)
        try:
            connection.request("GET", f"{self._prefix}/health", headers={"Host": "localhost"})
            return "ready" if connection.getresponse().status == 200 else "starting"
        except (OSError, http.client.HTTPException):
            return "starting"
        finally:
            connection.close()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            child, self._child, self._closed = self._child, None, True
        if child is not None:
            child.end()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def _socket(self) -> str:
        assert self._folder is not None
        return f"{self._folder.name}/mlflow"

    # --- the routes -------------------------------------------------------------------------

    async def open_run(self, request: Request) -> Response:
        """Go to a run's page in MLflow; until that answers, a page that says so."""
        if not is_ours(request):
            return message_page("This request came from another web site.", "", 403)
        return await run_in_threadpool(self._open, request.path_params["run_id"])

    def _open(self, run_id: str) -> Response:
        try:
            self._known(run_id)
            link = run_link(self._workspace, run_id)
        except UsageError as error:
            return message_page(html.escape(error.message), _hint(error.hint), 404)
        if not link:
            hint = "Wait: it is sent while the run is at work and after it. This page looks again."
            return message_page("Nothing of this run is in MLflow yet.", _hint(hint), 200, again_s=3)
        if url := link.get("url"):
            return RedirectResponse(str(url), 303)
        here = location(self._workspace)
        if link["location"] != here:
            hint = f"The app now keeps runs at {here}. Start it with MLFLOW_TRACKING_URI={link['location']}."
            return message_page("This run was sent to another MLflow.", _hint(hint), 409)
        return self._shown(f"experiments/{link['experiment_id']}/runs/{link['run_id']}")

    async def open_version(self, request: Request) -> Response:
        """Go to the page of a registered model's version in MLflow; until that answers, a page that says so."""
        if not is_ours(request):
            return message_page("This request came from another web site.", "", 403)
        name, version = request.path_params["name"], request.path_params["version"]
        return await run_in_threadpool(self._shown, version_page(name, version))

    def _shown(self, page: str) -> Response:
        """MLflow's own page, or one that says what it waits for."""
        before = self.state()
        if before == "ready":
            return RedirectResponse(f"{self._prefix}/#/{page}", 303, {"Cache-Control": "no-store"})
        if before == "ended":
            with self._lock:
                self._child = None  # the next visit starts another
            return message_page("MLflow's pages have ended.", _hint(f"{self._last_words()} Reload to try again."), 502)
        try:
            self.start()
        except OSError as exc:
            return message_page("MLflow's pages cannot be started.", _hint(str(exc)), 503)
        return message_page("Starting MLflow…", _hint("This takes some seconds the first time."), 200, again_s=1)

    def _known(self, run_id: str) -> None:
        """Raises `UsageError` for a run that is not there."""
        store = RunStore(self._workspace)
        try:
            store.run(run_id)
        finally:
            store.close()

    def _last_words(self) -> str:
        try:
            lines = (self._workspace.locks / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    async def hand_on(self, request: Request) -> Response:
        """Ask MLflow, and give its answer."""
        if not is_ours(request):
            return Response("This request came from another web site.", 403)
        if _NOT_SERVED & set(request.path_params["rest"].split("/")):
            return Response("The app serves MLflow's records, and nothing that acts on this computer.", 404)
        if self._child is None:
            return message_page(
                "MLflow's pages are not started.", _hint("Open a run's page, then Open in MLflow."), 503
            )
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LARGEST_REQUEST:
                return Response("The request is too large.", 413)
        try:
            return await run_in_threadpool(self._ask, request, body)
        except (OSError, http.client.HTTPException) as exc:
            return Response(f"MLflow does not answer: {exc}", 502)

    def _ask(self, request: Request, body: bytes) -> Response:
        # As it came: what is quoted in a path must reach MLflow quoted.
        target = request.scope["raw_path"].decode("ascii") if request.scope.get("raw_path") else request.url.path
        if request.url.query:
            target += f"?{request.url.query}"
        sent = {k: v for k, v in request.headers.items() if k not in _NOT_HANDED_ON and not k.startswith("sec-")}
        connection = _Connection(self._socket, _PATIENCE_S)
        try:
            connection.request(request.method, target, body or None, {**sent, "Host": "localhost"})
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        return StreamingResponse(_pieces(connection, answer), answer.status, _headers(answer, target))


def version_page(name: str, version: int | str) -> str:
    """Of a registered model's version, below `#/` of MLflow's pages."""
    return f"models/{quote(name, safe='')}/versions/{version}"


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, patience_s: float) -> None:
        super().__init__("localhost", timeout=patience_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _pieces(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while piece := answer.read(_CHUNK):
            yield piece
    finally:
        connection.close()


def _headers(answer: http.client.HTTPResponse, target: str) -> Mapping[str, str]:
    out = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_THIS_HOP}
    out["Referrer-Policy"] = "same-origin"
    out["X-Content-Type-Options"] = "nosniff"
    if _ARTIFACT in target:
        # Somebody's file: as a page of this app it must run nothing.
        out["Content-Security-Policy"] = "sandbox"
    return out


def _hint(text: str) -> str:
    return f'<p class="hint">{html.escape(text)}</p>'
