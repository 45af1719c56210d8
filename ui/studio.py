"""Serve the app: Streamlit's server in this process, on a socket of our own.

The socket is bound here, so that a port that is taken is reported at once, and the URL is printed when
the server answers, not before.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import socket
import sqlite3
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket
from streamlit import config
from streamlit.starlette import App
from streamlit.url_util import make_url_path
from streamlit.web.bootstrap import load_config_options

from engine.catalog import Catalog
from engine.errors import UsageError, VoxelflowError, WorkspaceError
from engine.spark import warm_jvm
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore
from engine.viewing.process import ViewProcess
from engine.workspace import Workspace
from ui.access import AccessControl, Check, check_for, with_token
from ui.mlflow_ui import MlflowUi
from ui.protocol.link import CANVAS_PATH, VIEW_PATH
from ui.shell import fonts, theme
from ui.studio_context import Studio, install
from ui.views.route import ViewRoute

USUAL_PORT = 8501
_PORTS_TO_TRY = 100
_APP = Path(__file__).with_name("app.py")


def serve(
    workspace: Workspace,
    make_catalog: Callable[[Workspace], Catalog],
    *,
    address: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
    show_tracebacks: bool = False,
) -> int:
    """Serve the app until Ctrl-C or SIGTERM; gives the exit status.

    `port` None takes the usual one or the next that is free, 0 any free one. Raises `UsageError` when
    it cannot listen there or another app serves the workspace, `WorkspaceError` when the workspace cannot be written.
    """
    store = _run_store(workspace)
    with only_app(workspace) as publish_url, listen(address, port) as listener:
        configure(listener, address, show_tracebacks)
        url = url_of(listener)
        path = f"/{str(config.get_option('server.baseUrlPath')).strip('/')}"
        check = check_for(only_here=is_loopback(address), path=path)
        studio = Studio(workspace, store, Path.cwd(), make_catalog, only_here=check is None)
        install(studio)
        views = ViewProcess(workspace)
        studio.shown.on_first = views.start
        opened = with_token(url, check)

        def ready() -> None:
            publish_url(url)
            print(
                f"Voxelflow is at {opened}  (workspace {workspace.root}; Ctrl-C ends the app, runs go on)", flush=True
            )
            if not is_loopback(address):
                print(_for_others(listener, check), file=sys.stderr, flush=True)
            threading.Thread(target=_warm_up, daemon=True).start()
            if open_browser and _has_display():
                # Some browsers return only when they are closed.
                threading.Thread(target=webbrowser.open, args=(opened,), daemon=True).start()

        base = config.get_option("server.baseUrlPath")
        mlflow = MlflowUi(workspace, base)
        try:
            routes = own_routes(base, mlflow, ViewRoute(studio.shown, views))
            app = App(_APP, routes=routes, on_script_error=None if show_tracebacks else _show_error)
            _Server(_server_config(AccessControl(app, check)), ready).run(sockets=[listener])
        except KeyboardInterrupt:
            # uvicorn has shut down in good order and hands on the Ctrl-C.
            return 0
        finally:
            views.close()
            mlflow.close()
            warm_jvm.end_idle()
    return 0


def own_routes(base: str, mlflow: MlflowUi, pictures: ViewRoute) -> list[BaseRoute]:
    """All that the app serves below the path `base` beside Streamlit's own."""
    return [
        *mlflow.routes,
        WebSocketRoute(make_url_path(base, CANVAS_PATH), _canvas),
        Route(make_url_path(base, fonts.FONT_PATH), fonts.respond),
        Route(make_url_path(base, VIEW_PATH + "/{key}"), pictures.respond),
        Route(make_url_path(base, VIEW_PATH + "/{key}/{panel}/{what}"), pictures.respond),
    ]


@contextlib.contextmanager
def only_app(workspace: Workspace) -> Iterator[Callable[[str], None]]:
    """Lock the workspace while the app is served: two apps would overwrite each other's drafts.

    Yields a function that writes the app's URL into the lock file, where a second start finds it. The kernel releases
    the lock when the app dies, however it dies. Raises `UsageError` with the URL of the app that serves the workspace
    already.
    """
    lock = ProcessLock(workspace.locks / "studio")
    if not lock.acquire():
        where = lock.path.read_text(encoding="utf-8").strip()
        raise UsageError(
            f"the workspace {workspace.root} is open in another app{f', at {where}' if where else ''}",
            hint="Open that address, as many people as you like, or choose another directory with --workspace.",
        )

    def publish(url: str) -> None:
        lock.path.write_text(f"{url}\n", encoding="utf-8")

    try:
        publish("")
        yield publish
    finally:
        lock.release()


def listen(address: str, port: int | None) -> socket.socket:
    """A socket that listens there. Raises `UsageError` when it cannot."""
    wanted = range(USUAL_PORT, USUAL_PORT + _PORTS_TO_TRY) if port is None else (port,)
    for number in wanted:
        try:
            return _bound(address, number)
        except OSError as exc:
            if exc.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise UsageError(
                    f"cannot listen on {address}: {exc.strerror or exc}",
                    hint="Give an address of this computer with --address; 127.0.0.1 always is one.",
                ) from exc
            reason = "is in use" if exc.errno == errno.EADDRINUSE else "is not for everyone to use"
    if port is None:
        raise UsageError(
            f"no port from {wanted[0]} to {wanted[-1]} is free on {address}", hint="Choose one with --port."
        )
    raise UsageError(f"port {port} on {address} {reason}", hint="Choose another with --port, or leave it out.")


def _bound(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    out = socket.socket(family, kind, protocol)
    try:
        # Else a port stays taken for a minute after the last app.
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.bind(place)
        # At once: two sockets may be bound to one port as long as neither listens.
        out.listen(128)
    except BaseException:
        out.close()
        raise
    return out


def url_of(listener: socket.socket, host: str = "") -> str:
    """What to type into a browser on this computer, or anywhere when `host` is the name by which others know it."""
    bound, port = listener.getsockname()[:2]
    if not host:
        host = bound
        if ip_address(host.partition("%")[0]).is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
    scheme = "https" if config.get_option("server.sslCertFile") else "http"
    path = str(config.get_option("server.baseUrlPath")).strip("/")
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{f'/{path}' if path else ''}"


def is_loopback(address: str) -> bool:
    """Whether only this computer can reach it."""
    places = {found[4][0] for found in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)}
    return all(ip_address(str(place).partition("%")[0]).is_loopback for place in places)


def configure(listener: socket.socket, address: str, show_tracebacks: bool) -> None:
    """Set Streamlit's options: ours win over its configuration files and the environment.

    Raises `UsageError` when a configuration file cannot be used.
    """
    options: dict[str, Any] = {
        **theme.OPTIONS,
        # Who may talk to the app. A login and certificates come from the person's own files.
        "server.address": address,
        "server.port": listener.getsockname()[1],
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableAgentApi": False,
        "server.enableStaticServing": False,
        "browser.gatherUsageStats": False,
        # What the person sees.
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "stacktrace" if show_tracebacks else "none",
        "client.showErrorLinks": "false",
        # Tracebacks go into logs and reports of errors: as plain text.
        "logger.enableRich": False,
        # An app, not a script somebody is writing.
        "global.developmentMode": False,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.runOnSave": False,
        "runner.magicEnabled": False,
        "runner.fastReruns": True,
        # The pages of runs look every two seconds in every tab: a full collection after each takes 50 ms.
        "runner.postScriptGC": False,
        # Each message whole, however large. Else one that the browser has had is sent as a reference, and where it has
        # let go of that meanwhile, as after a lost connection, Streamlit ends the page: "Cached ForwardMsg MISS".
        "global.minCachedMessageSize": 1e15,
    }
    try:
        load_config_options(options)
        if is_loopback(address) and not config.is_manually_set("server.allowedHosts"):
            # A web site whose name is made to point at this computer must not reach the app.
            config.set_option("server.allowedHosts", ["localhost", "127.0.0.1", "::1", address])
    except Exception as exc:
        raise UsageError(
            f"Streamlit's settings cannot be used: {exc}",
            hint="Correct .streamlit/config.toml in the current directory or in your home folder.",
        ) from exc


async def _canvas(socket: WebSocket) -> None:
    from ui.build import connection

    await connection.serve(socket)


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, settings: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(settings)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _server_config(app: ASGIApp) -> uvicorn.Config:
    """As Streamlit's own server sets up uvicorn."""
    certificate, key = config.get_option("server.sslCertFile"), config.get_option("server.sslKeyFile")
    out = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=int(config.get_option("server.maxMessageSize")) * 1_000_000,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        access_log=False,
        log_level="warning",
        # A browser that never answers must not keep Ctrl-C waiting.
        timeout_graceful_shutdown=2,
    )
    try:
        out.load()
    except OSError as exc:
        raise UsageError(
            f"the certificate in Streamlit's settings cannot be used: {exc.strerror or exc}",
            hint=f"Check server.sslCertFile ({certificate}) and server.sslKeyFile ({key}).",
        ) from exc
    return out


def _show_error(error: Exception) -> bool:
    """What a page shows when it failed; Streamlit prints the traceback. True: nothing else is shown."""
    from ui.shell.blocks import show_error

    if not isinstance(error, VoxelflowError):
        error = VoxelflowError(
            f"This page met an unexpected error: {type(error).__name__}: {error}",
            hint="Reload it; nothing that was drawn is lost. The terminal with `voxelflow studio` shows where it was.",
        )
    show_error(error)
    return True


def _warm_up() -> None:
    """Import what the first pages need while the browser is still loading Streamlit: that is a second sooner."""
    # Where one cannot be imported, the page itself will say so.
    with contextlib.suppress(Exception):
        for name in (
            "ui.start.page",
            "pandas",
            "ui.runs.run_page",
            "ui.runs.overview",
            "ui.runs.history",
            "ui.runs.comparison",
        ):
            importlib.import_module(name)


def _run_store(workspace: Workspace) -> RunStore:
    try:
        return RunStore(workspace)
    except sqlite3.Error as exc:
        raise WorkspaceError(
            f"the run store {workspace.database} cannot be used: {exc}",
            hint="Check that you may write there, or choose another directory with --workspace.",
        ) from exc


def _for_others(listener: socket.socket, check: Check | None) -> str:
    """How people on other computers get in."""
    secure = bool(config.get_option("server.sslCertFile"))
    host, port = listener.getsockname()[:2]
    everywhere = ip_address(host.partition("%")[0]).is_unspecified
    there = with_token(url_of(listener, socket.gethostname() if everywhere else host), check)
    lines = [f"From other computers: {there}"]
    lines += [
        "warning: this connection is not encrypted, so others in the network can read along. Set server.sslCertFile and"
        " server.sslKeyFile in .streamlit/config.toml, or leave out --address and use an SSH tunnel"
        f" (ssh -L {port}:127.0.0.1:{port} {socket.gethostname()})."
    ] * (not secure)
    return "\n".join(lines)


def _has_display() -> bool:
    # Without one, a browser in the terminal would open over our own output.
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
