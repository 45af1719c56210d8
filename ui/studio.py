"""Serve the app: Streamlit's server in this process, on a socket of our own.

The socket is bound here, so that a port that is taken is told at once, and the URL is printed when
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
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from streamlit import config
from streamlit.starlette import App
from streamlit.web.bootstrap import load_config_options

from engine.catalog import Catalog
from engine.errors import UsageError, VoxelflowError, WorkspaceError
from engine.runs import RunStore
from engine.workspace import Workspace
from ui.serving import only_app
from ui.shell import theme
from ui.studio_context import Studio, install

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
    with only_app(workspace) as tell_url, listen(address, port) as listener:
        configure(listener, address, show_tracebacks)
        install(Studio(workspace, store, Path.cwd(), make_catalog))
        url = url_of(listener)
        if not is_loopback(address):
            _warn(address)

        def ready() -> None:
            tell_url(url)
            print(f"Voxelflow is at {url}  (workspace {workspace.root}; Ctrl-C ends the app, runs go on)", flush=True)
            threading.Thread(target=_warm_up, daemon=True).start()
            if open_browser and _has_display():
                # Some browsers return only when they are closed.
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

        try:
            app = App(_APP, on_script_error=None if show_tracebacks else _show_error)
            _Server(_server_config(app), ready).run(sockets=[listener])
        except KeyboardInterrupt:
            # uvicorn has shut down in good order and hands on the Ctrl-C.
            return 0
    return 0


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


def url_of(listener: socket.socket) -> str:
    """What to type into a browser on this computer."""
    host, port = listener.getsockname()[:2]
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
    """Set Streamlit's options: ours win over its configuration files and the environment."""
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
        # The canvas's fragment runs twice a second in every tab: a full collection after each is a tenth of a core.
        "runner.postScriptGC": False,
    }
    try:
        load_config_options(options)
        if is_loopback(address) and not config.is_manually_set("server.allowedHosts"):
            # A web site whose name is made to point at this computer must not reach the app.
            config.set_option("server.allowedHosts", ["localhost", "127.0.0.1", "::1", address])
    except Exception as exc:
        raise UsageError(
            f"Streamlit's settings cannot be used: {exc}",
            hint="Mend .streamlit/config.toml in the current directory or in your home folder.",
        ) from exc


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, settings: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(settings)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _server_config(app: App) -> uvicorn.Config:
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
    from ui.shell.telling import show_error

    if not isinstance(error, VoxelflowError):
        error = VoxelflowError(
            f"This page met an unexpected error: {type(error).__name__}: {error}",
            hint="Reload it; nothing that was drawn is lost. The terminal with `voxelflow studio` shows where it was.",
        )
    show_error(error)
    return True


def _warm_up() -> None:
    """Import what the first page needs while the browser is still loading Streamlit: that is a second sooner."""
    # Where one cannot be imported, the page itself will tell.
    with contextlib.suppress(Exception):
        for name in ("ui.build.page", "pandas"):
            importlib.import_module(name)


def _run_store(workspace: Workspace) -> RunStore:
    try:
        return RunStore(workspace)
    except sqlite3.Error as exc:
        raise WorkspaceError(
            f"the run store {workspace.database} cannot be used: {exc}",
            hint="Check that you may write there, or choose another directory with --workspace.",
        ) from exc


def _warn(address: str) -> None:
    print(
        f"warning: the app listens on {address}: everyone who can reach this computer there can run pipelines and see"
        " your data. Set up a login (https://docs.streamlit.io/develop/concepts/connections/authentication), or leave"
        " out --address.",
        file=sys.stderr,
        flush=True,
    )


def _has_display() -> bool:
    # Without one, a browser in the terminal would open over our own output.
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
