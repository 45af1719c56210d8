"""The app's server: where it listens, what it says, whom it lets in, how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from studio import StudioServer
from waiting import WAIT_S, wait_for_line, wait_until

from engine.errors import UsageError
from engine.run.worker_process import PROGRAM


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_taken_is_reported(taken: int) -> None:
    from ui.studio import listen

    with pytest.raises(UsageError, match=f"port {taken} on 127.0.0.1 is in use") as caught:
        listen("127.0.0.1", taken)
    assert "--port" in caught.value.hint


def test_without_a_port_it_takes_the_next_that_is_free() -> None:
    from ui.studio import listen

    with closing(listen("127.0.0.1", None)) as first, closing(listen("127.0.0.1", None)) as second:
        assert second.getsockname()[1] > first.getsockname()[1]


@pytest.mark.parametrize("address", ["no such host", "192.0.2.1"])
def test_an_address_of_another_computer_is_reported(address: str) -> None:
    from ui.studio import listen

    with pytest.raises(UsageError, match=f"cannot listen on {address}"):
        listen(address, 0)


@pytest.mark.parametrize(
    ("address", "only_here"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_what_only_this_computer_can_reach(address: str, only_here: bool) -> None:
    from ui.studio import is_loopback

    assert is_loopback(address) is only_here


@pytest.mark.slow
class TestServing:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[StudioServer]:
        with StudioServer(tmp_path) as server:
            yield server

    def test_it_answers_when_it_says_so_and_ctrl_c_ends_it_quietly(self, server: StudioServer) -> None:
        server.start()
        assert server.url.startswith("http://127.0.0.1:")
        assert server.get("/_stcore/health") == (200, "ok")
        assert server.get("/runs")[0] == 200
        assert server.stop() == 0
        assert server.output == (
            f"Voxelflow is at {server.url}  (workspace {server.workspace.root}; Ctrl-C ends the app, runs go on)\n"
        )

    def test_sigterm_ends_it_too(self, server: StudioServer) -> None:
        server.start()
        assert server._process is not None
        server._process.terminate()
        assert server._process.wait(WAIT_S) == -signal.SIGTERM

    def test_a_script_that_hangs_does_not_keep_ctrl_c_waiting(self, server: StudioServer) -> None:
        server.start()
        with closing(socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\n")
            assert server.stop() == 0  # though this connection stays open

    def test_our_settings_win_where_they_keep_others_out(self, tmp_path: Path) -> None:
        hostile = (
            "[server]\naddress = '0.0.0.0'\nenableCORS = false\nenableXsrfProtection = false\n"
            "fileWatcherType = 'poll'\nenableAgentApi = true\nbaseUrlPath = 'lab'\n[browser]\ngatherUsageStats = true\n"
            "[client]\nshowErrorDetails = 'full'\n"
        )
        for place in (tmp_path, tmp_path / "home"):
            (place / ".streamlit").mkdir(parents=True)
            (place / ".streamlit" / "config.toml").write_text(hostile)
        program = (
            "import json, sys\n"
            "from ui.studio import configure, listen, url_of\n"
            "from streamlit import config\n"
            "with listen('127.0.0.1', 0) as listener:\n"
            "    configure(listener, '127.0.0.1', False)\n"
            "    names = sys.argv[1:]\n"
            "    print(json.dumps([url_of(listener), *(config.get_option(n) for n in names)]))\n"
        )
        names = [
            "server.address", "server.enableCORS", "server.enableXsrfProtection", "server.enableAgentApi",
            "browser.gatherUsageStats", "client.showErrorDetails", "server.fileWatcherType", "client.toolbarMode",
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *names],
            capture_output=True, text=True, check=True, cwd=tmp_path, timeout=WAIT_S,
            env={**os.environ, "HOME": str(tmp_path / "home"), "STREAMLIT_SERVER_ADDRESS": "0.0.0.0"},
        )  # fmt: skip
        url, *found = json.loads(done.stdout)
        assert found == ["127.0.0.1", True, True, False, False, "none", "none", "minimal"]
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/lab")  # where it is served below is the person's choice

    def test_no_message_to_the_browser_refers_to_an_earlier_one(self) -> None:
        program = (
            "from ui.studio import configure, listen\n"
            "from streamlit.proto.ForwardMsg_pb2 import ForwardMsg\n"
            "from streamlit.runtime.forward_msg_cache import populate_hash_if_needed\n"
            "with listen('127.0.0.1', 0) as listener:\n"
            "    configure(listener, '127.0.0.1', False)\n"
            "message = ForwardMsg()\n"
            "message.delta.new_element.markdown.body = 'x' * 1_000_000\n"
            "populate_hash_if_needed(message)\n"
            "print(bool(message.hash), message.metadata.cacheable)\n"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, timeout=WAIT_S
        )
        assert done.stdout == "True False\n"

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ("[theme]\nbase = 'missing.toml'\n", "error: Streamlit's settings cannot be used: .*missing.toml"),
            ("[server]\nsslCertFile = 'c'\nsslKeyFile = 'k'\n", r"error: the certificate .*server.sslCertFile \(c\)"),
        ],
    )
    def test_settings_that_cannot_be_used_are_reported(self, server: StudioServer, settings: str, message: str) -> None:
        (server.home / ".streamlit").mkdir()
        (server.home / ".streamlit" / "config.toml").write_text(settings)
        with pytest.raises(AssertionError, match=message):
            server.start()
        assert "Traceback" not in server.output

    def test_a_web_site_that_points_its_name_here_is_refused(self, server: StudioServer) -> None:
        port = int(server.start().url.rpartition(":")[2])
        for host, status in {"127.0.0.1": 101, "localhost": 101, "evil.example": 403}.items():
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)) as connection:
                connection.putrequest("GET", "/_stcore/stream", skip_host=True)
                for name, value in (
                    ("Host", f"{host}:{port}"), ("Origin", f"http://{host}:{port}"), ("Upgrade", "websocket"),
                    ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
                    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ):  # fmt: skip
                    connection.putheader(name, value)
                connection.endheaders()
                assert connection.getresponse().status == status, host

    def test_a_second_app_on_one_workspace_is_shown_to_the_first(self, server: StudioServer, tmp_path: Path) -> None:
        server.start()
        with StudioServer(tmp_path) as second:
            with pytest.raises(AssertionError, match=f"is open in another app, at {server.url}"):
                second.start()
            assert "Traceback" not in second.output
            server.kill()
            second.start()  # the lock dies with its holder

    def test_it_opens_the_persons_browser(self, server: StudioServer, tmp_path: Path) -> None:
        opened, program = tmp_path / "opened", tmp_path / "browser"
        program.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        process = subprocess.Popen(
            [*PROGRAM, "studio", "--port", "0", "--workspace", str(server.workspace.root)],
            env={**os.environ, "BROWSER": f"{program} %s", "DISPLAY": ":0"}, cwd=tmp_path,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            address = wait_for_line(process, r"^Voxelflow is at (\S+)")[1]
            wait_until(opened.exists, "the browser")
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
        assert opened.read_text().strip() == address
