"""Who gets into an app that other computers can reach: a studio on every address of this one, asked over 127.0.0.2."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import forked_programs
import pytest
from browser import FLAGS, SIZE, TIMEOUT_MS, chromium
from identity_provider import IdentityProvider
from outside_parts import require
from playwright.sync_api import Page, expect, sync_playwright
from ports import held_port
from starlette.routing import Route, WebSocketRoute
from studio import StudioServer
from waiting import WAIT_S

from engine.viewing.process import ViewProcess
from engine.workspace import open_workspace
from ui.mlflow_ui import MlflowUi
from ui.views.route import ViewRoute
from ui.views.shown import ShownDatasets

_ELSEWHERE = "127.0.0.2"
_WEBSOCKET = {
    "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip
_PAGE = {"Accept": "text/html"}
_BY_NAME = f"--host-resolver-rules=MAP {socket.gethostname()} {_ELSEWHERE}"
"""For Chromium: the name that is printed for other computers leads here."""

pytestmark = pytest.mark.slow


class Answer(NamedTuple):
    status: int
    headers: Message
    text: str


def ask(
    port: int, path: str, *, method: str = "GET", body: bytes | None = None, to: str = _ELSEWHERE, **headers: str
) -> Answer:
    """What the app answers over another address; names of headers with `_` for `-`."""
    with closing(http.client.HTTPConnection(to, port, timeout=WAIT_S)) as connection:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host="Host" in sent)
        for name, value in sent.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        found = connection.getresponse()
        # One that has become a WebSocket never ends.
        return Answer(found.status, found.headers, "" if found.status == 101 else found.read().decode(errors="replace"))


class Door:
    """A studio that listens everywhere."""

    def __init__(self, server: StudioServer) -> None:
        server.start("--address", "0.0.0.0")
        self.server = server
        url, _, self.token = server.url.partition("/?token=")
        self.port = int(url.rpartition(":")[2])
        self.url = f"http://{_ELSEWHERE}:{self.port}"
        found = ask(self.port, f"/?token={self.token}", **_PAGE)
        self.cookie = found.headers["Set-Cookie"].partition(";")[0]
        self.flags = found.headers["Set-Cookie"]
        self.location = found.headers["Location"]
        found_url = re.search(r"^From other computers: (\S+)$", server.output, re.MULTILINE)
        assert found_url is not None
        self.for_others = found_url[1]


@pytest.fixture(scope="module", autouse=True)
def _forked() -> Iterator[None]:
    """The app starts a dozen times."""
    assert forked_programs.shared is not None
    with forked_programs.shared()["import_training"].used():
        yield


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with StudioServer(tmp_path_factory.mktemp("door")) as server:
        yield Door(server)


WAYS_IN = {
    "page": ("GET", "/", _PAGE),
    "run": ("GET", "/runs?run=x", _PAGE),
    "health": ("GET", "/_stcore/health", {}),
    "websocket": ("GET", "/_stcore/stream", _WEBSOCKET),
    "upload": ("PUT", "/_stcore/upload_file/session/file", {}),
    "removal": ("DELETE", "/_stcore/upload_file/session/file", {}),
    "download": ("GET", "/media/0123.bin", {}),
    "component": ("GET", "/_stcore/bidi-components/voxelflow.canvas/index.js", {}),
    "script": ("GET", "/static/js/index.js", {}),
    "login": ("GET", "/auth/login", {}),
    "unknown": ("GET", "/no/such/thing", {}),
    # Of our own:
    "canvas": ("GET", "/voxelflow/canvas", _WEBSOCKET),
    "font": ("GET", "/voxelflow/fonts/inter.woff2", {}),
    "views": ("GET", "/voxelflow/view/0123", {}),
    "view": ("GET", "/voxelflow/view/0123/volumes/volume", {}),
    "MLflow's run": ("GET", "/voxelflow/mlflow/run/20260101-000000-abcdef", _PAGE),
    "MLflow's model": ("GET", "/voxelflow/mlflow/model/net/1", _PAGE),
    "MLflow's pages": ("GET", "/voxelflow/mlflow/ui/", _PAGE),
    "change in MLflow": ("POST", "/voxelflow/mlflow/ui/ajax-api/2.0/mlflow/runs/delete", {}),
    "removal in MLflow": ("DELETE", "/voxelflow/mlflow/ui/ajax-api/2.0/mlflow-artifacts/artifacts/0123", {}),
}
WEBSOCKETS = ("websocket", "canvas")
CHANGES = ("upload", "removal", "change in MLflow", "removal in MLflow")


def test_every_route_of_our_own_is_among_the_ways_in(tmp_path: Path) -> None:
    from ui.studio import own_routes

    workspace = open_workspace(tmp_path)
    routes = own_routes("", MlflowUi(workspace, ""), ViewRoute(ShownDatasets(), ViewProcess(workspace)))
    assert len(routes) > 5
    for route in routes:
        assert isinstance(route, Route | WebSocketRoute)
        tried = {WAYS_IN[way][0] for way in WAYS_IN if route.path_regex.match(WAYS_IN[way][1])}
        changes = isinstance(route, Route) and "POST" in (route.methods or ())
        assert tried >= ({"GET", "POST"} if changes else {"GET"}), f"{route.path} is no way in of these tests"


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("key", ["none", "wrong token", "wrong cookie", "wrong bearer", "token in the cookie"])
def test_nobody_gets_in_without_the_token(door: Door, way: str, key: str) -> None:
    method, path, headers = WAYS_IN[way]
    name = door.cookie.partition("=")[0]
    cookies = {"wrong cookie": f"{name}={'0' * 64}", "token in the cookie": f"{name}={door.token}"}
    sent = {
        **headers,
        **({"Authorization": f"Bearer {door.token[:-1]}"} if key == "wrong bearer" else {}),
        **({"Cookie": cookies[key]} if key in cookies else {}),
    }
    wrong = f"{'&' if '?' in path else '?'}token={door.token[::-1]}" if key == "wrong token" else ""
    found = ask(door.port, path + wrong, method=method, **sent)
    assert found.status == 403
    assert door.token not in found.text


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioServer]:
    """A studio for this computer alone, as it is by default."""
    with StudioServer(tmp_path_factory.mktemp("here")) as server:
        yield server.start()


@pytest.mark.parametrize("way", WAYS_IN)
def test_on_this_computer_too_no_way_is_open_under_a_foreign_name(here: StudioServer, way: str) -> None:
    method, path, headers = WAYS_IN[way]
    port = int(here.url.rpartition(":")[2])

    def status(host: str, **also: str) -> int:
        return ask(port, path, method=method, to="127.0.0.1", Host=f"{host}:{port}", **headers, **also).status

    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "a@b"):
        assert status(host) == 403, host
        assert status(host, Origin=f"http://{host}:{port}", Sec_Fetch_Site="same-origin") == 403, host
    # These need Streamlit's own token, too, or the ticket of a page; this one starts MLflow.
    if way not in ("upload", "removal", "canvas", "MLflow's model"):
        for host in ("127.0.0.1", "LOCALHOST", "[::1]"):
            assert status(host) != 403, host


@pytest.mark.parametrize("way", [way for way in WAYS_IN if way not in WEBSOCKETS])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_sites_page_gets_no_file_and_changes_nothing(here: StudioServer, way: str, site: str) -> None:
    method, path, headers = WAYS_IN[way]
    port = int(here.url.rpartition(":")[2])

    def found(**sent: str) -> Answer:
        return ask(port, path, method=method, to="127.0.0.1", Host=f"localhost:{port}", **headers, **sent)

    answer = found(Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")
    assert (answer.status, answer.text) == (403, "This request came from another web site.")
    if way in ("page", "run"):  # a link in a mail or on another page
        assert found(Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 200
        assert found(Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200


@pytest.mark.parametrize("key", ["cookie", "bearer"])
def test_who_has_the_token_gets_in(door: Door, key: str) -> None:
    sent = {"Cookie": door.cookie} if key == "cookie" else {"Authorization": f"Bearer {door.token}"}
    assert ask(door.port, "/_stcore/health", **sent).text == "ok"
    assert ask(door.port, "/runs", **_PAGE, **sent).status == 200
    assert ask(door.port, "/_stcore/stream", **_WEBSOCKET, **sent, Origin=door.url).status == 101


def test_the_token_leaves_the_address_bar_and_stays_as_a_cookie_that_scripts_cannot_read(door: Door) -> None:
    assert door.location == "/"
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in door.flags.split(";")}
    assert door.token not in door.flags
    found = ask(door.port, f"/runs?run=a%26b&token={door.token}", **_PAGE)
    assert (found.status, found.headers["Location"]) == (303, "/runs?run=a%26b")


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "/%5Cevil.example", "/%0d%0aSet-Cookie:x=1"])
def test_a_link_with_the_token_leads_nowhere_else(door: Door, path: str) -> None:
    found = ask(door.port, f"{path}?token={door.token}", **_PAGE)
    assert re.fullmatch(r"/(?![/\\])[^\r\n]*", found.headers.get("Location", "/"))
    assert "x=1" not in found.headers.get("Set-Cookie", "")


@pytest.mark.parametrize("way", [*WEBSOCKETS, *CHANGES])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"http://{_ELSEWHERE}:1"])
def test_another_sites_page_cannot_use_the_cookie(door: Door, way: str, origin: str) -> None:
    method, path, headers = WAYS_IN[way]
    assert ask(door.port, path, method=method, **headers, Cookie=door.cookie, Origin=origin).status == 403


def test_a_name_that_is_made_to_point_here_gets_no_cookie_and_no_page(door: Door) -> None:
    forged = {"Host": f"evil.example:{door.port}", "Origin": f"http://evil.example:{door.port}"}
    assert ask(door.port, "/", **_PAGE, **forged).status == 403
    assert ask(door.port, "/_stcore/stream", **_WEBSOCKET, **forged).status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/media/../../../../etc/passwd", "/media/..%2f..%2f..%2fetc%2fpasswd", "/media/%2e%2e/%2e%2e/etc/passwd",
        "/_stcore/bidi-components/voxelflow.canvas/../../../../etc/passwd", "/app/static/../../../etc/passwd",
        "/_stcore/bidi-components/voxelflow.canvas/..%2f..%2f..%2f..%2fetc%2fpasswd", "/static/..%5c..%5cetc%5cpasswd",
        "/component/streamlit_agraph.agraph/..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "//etc/passwd",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(door: Door, path: str) -> None:
    found = ask(door.port, path, Cookie=door.cookie)
    assert "root:" not in found.text


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("length", ["stated", "unstated"])
def test_an_upload_of_2_gb_is_refused_before_it_is_read(door: Door, known: bool, length: str) -> None:
    """Nobody uploads anything to this app. The body is sent until the app answers; it must not take 2 GB."""
    piece, sent, total = b"\0" * 1_000_000, 0, 2_000_000_000
    with socket.create_connection((_ELSEWHERE, door.port), timeout=WAIT_S) as raw:
        head = [
            "PUT /_stcore/upload_file/session/file HTTP/1.1", f"Host: {_ELSEWHERE}:{door.port}",
            f"Content-Length: {total}" if length == "stated" else "Transfer-Encoding: chunked",
            *([f"Cookie: {door.cookie}"] if known else []), "", "",
        ]  # fmt: skip
        raw.sendall("\r\n".join(head).encode())
        raw.settimeout(0.5)
        answer = b""
        while sent < total and not answer:
            try:
                raw.sendall(piece if length == "stated" else b"%x\r\n%s\r\n" % (len(piece), piece))
                sent += len(piece)
            except TimeoutError:
                pass  # it does not read on
            except OSError:
                break  # it has hung up
            raw.setblocking(False)
            try:
                answer = raw.recv(4096)
            except BlockingIOError:
                pass
            except OSError:
                break
            finally:
                raw.settimeout(0.5)
    assert sent < total / 4
    assert not answer or int(answer.split()[1]) in (400, 403, 413)


def test_the_form_takes_the_token_and_nothing_else(door: Door) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": door.url}
    right = ask(door.port, "/runs?run=1", method="POST", body=urlencode({"token": door.token}).encode(), **form)
    assert (right.status, right.headers["Location"]) == (303, "/runs?run=1")
    assert right.headers["Set-Cookie"].startswith(door.cookie)
    wrong = ask(door.port, "/", method="POST", body=b"token=guess", **form)
    assert wrong.status == 403
    assert "That is not this app" in wrong.text
    assert ask(door.port, "/", method="POST", body=b"token=" + b"x" * 10_000, **form).status == 403


def test_it_says_how_others_get_in_and_that_the_connection_is_open(door: Door) -> None:
    output = door.server.output
    assert f"From other computers: http://{socket.gethostname()}:{door.port}/?token={door.token}" in output
    assert "warning: this connection is not encrypted" in output
    # The address that a second start on this workspace shows to everyone must not hold it.
    assert door.token not in (door.server.workspace.locks / "studio").read_text()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    require("chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, _BY_NAME]) as one,
    ):
        yield one.new_page(viewport=SIZE)


def test_a_browser_is_asked_for_the_token_once(door: Door, page: Page) -> None:
    page.goto(f"{door.url}/")
    expect(page.get_by_text("open only to those who have its token")).to_be_visible()
    page.get_by_label("Access token").fill("a guess")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("That is not this app's token.")).to_be_visible()
    page.get_by_label("Access token").fill(door.token)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()
    assert "token" not in page.url
    page.reload()
    expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()


def test_a_browser_follows_the_printed_address_once(door: Door, page: Page) -> None:
    page.context.clear_cookies()
    page.goto(door.for_others)
    expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()
    assert page.url.startswith(f"http://{socket.gethostname()}:{door.port}/")
    assert "token" not in page.url
    page.reload()  # from now on the address without the token is enough in this browser
    expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()
    page.context.clear_cookies()
    page.reload()
    expect(page.get_by_text("open only to those who have its token")).to_be_visible()


def test_curl_gets_in_with_the_printed_address_and_not_without(door: Door, tmp_path: Path) -> None:
    if (curl := shutil.which("curl")) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no curl: install it")
    name = f"{socket.gethostname()}:{door.port}"

    def get(url: str, *options: str) -> tuple[str, ...]:
        """Status, number of redirections, and where they led."""
        answer = ["-o", str(tmp_path / "answer"), "-w", "%{http_code} %{num_redirects} %{url_effective}"]
        done = subprocess.run(
            [curl, "-sS", "--noproxy", "*", "--resolve", f"{name}:{_ELSEWHERE}", *answer, *options, url],
            capture_output=True, text=True, check=True, timeout=WAIT_S,
        )  # fmt: skip
        return tuple(done.stdout.split())

    jar = ("-L", "-b", str(tmp_path / "jar"), "-c", str(tmp_path / "jar"))
    for url in (f"{door.url}/", f"http://{name}/", door.for_others[:-1]):
        assert get(url, *jar) == ("403", "0", url)
        assert (tmp_path / "answer").read_text() == "The access token is missing or wrong."
    assert get(door.for_others, *jar) == ("200", "1", f"http://{name}/")
    assert "<title>" in (tmp_path / "answer").read_text()
    assert get(f"http://{name}/", *jar)[0] == "200"  # the jar has the cookie
    assert get(f"http://{name}/")[0] == "403"


@pytest.mark.parametrize(
    ("claims", "enters"),
    [({}, True), ({"email": "eve@evil.example"}, False)],
    ids=["on the list", "not on it"],
)
def test_a_login_lets_in_who_is_on_the_list(
    tmp_path: Path, page: Page, claims: Mapping[str, object], enters: bool
) -> None:
    with (
        held_port("0.0.0.0") as port,
        IdentityProvider(**{"email": "Ann@Lab.example.org", **claims}) as provider,
        StudioServer(tmp_path, port=port) as server,
    ):
        url = f"http://{_ELSEWHERE}:{port}"
        (tmp_path / ".streamlit").mkdir()
        (tmp_path / ".streamlit" / "secrets.toml").write_text(provider.secrets(url, '["*@lab.example.org"]'))
        server.start("--address", "0.0.0.0")
        assert "token" not in server.output
        for method, path, headers in WAYS_IN.values():
            if path != "/auth/login":
                assert ask(port, path, method=method, **headers).status == 403
        page.goto(f"{url}/")
        page.get_by_role("link", name="Log in").click()
        if enters:
            expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()
        else:
            expect(page.get_by_text("may not use this app")).to_be_visible()
            cookies = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies(url))
            assert ask(port, "/_stcore/stream", **_WEBSOCKET, Cookie=cookies).status == 403
        page.context.clear_cookies()
        assert urlsplit(page.url).netloc == urlsplit(url).netloc
