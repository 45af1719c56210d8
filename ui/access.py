"""Who may use the app: beyond this computer, only who has the token or has logged in.

Every request passes here before Streamlit sees it: pages, files, uploads, and the WebSocket. None of another web site
goes on: neither one under a name that was made to point at this computer, nor one that another site's page makes.
Beyond this computer it needs a key as well. Without a login in
Streamlit's `secrets.toml` the app has an access token, as Jupyter has: the printed URL holds it, a cookie keeps it, and
scripts send it as `Authorization: Bearer TOKEN`. With one, Streamlit's OpenID Connect login is required, and the
person must be on the list of users.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import os
import secrets as random_secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.errors import UsageError
from engine.extras import modules, require

TOKEN_VARIABLE = "VOXELFLOW_TOKEN"
_SHORTEST_TOKEN = 16
_COOKIE_SECONDS = 30 * 24 * 3600
_LARGEST_FORM = 4096
_UNKNOWN_NAME = (
    "This app is not served under that name. Open it at the address that `voxelflow studio` printed, or add the name "
    "to server.allowedHosts in .streamlit/config.toml."
)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Check(Protocol):
    """How a visitor proves who they are."""

    def knows(self, visitor: HTTPConnection) -> bool:
        """Whether the request may go on to the app."""

    async def answer(self, request: Request) -> Response:
        """What a visitor who is not known gets instead of a page."""


class AccessControl:
    """ASGI middleware: what `check` does not know never reaches `app`, and neither does another site's request.

    `check` None: who can reach the app may use it.
    """

    def __init__(self, app: ASGIApp, check: Check | None) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            visitor = HTTPConnection(scope)
            # Without a check the app's own routes compare the origin, by Streamlit's settings for proxies.
            if _known_name(visitor) and (self._check is None or (_same_origin(visitor) and self._check.knows(visitor))):
                await self._app(scope, receive, send)
            else:
                await receive()
                # Before it is accepted, this is an answer with status 403.
                await send({"type": "websocket.close", "code": 1008})
        else:
            request = Request(scope, receive)
            if not _known_name(request):
                response: Response = PlainTextResponse(_UNKNOWN_NAME, 403)
            elif _of_another_site(request):
                response = PlainTextResponse("This request came from another web site.", 403)
            elif self._check is not None and not self._check.knows(request):
                response = await self._check.answer(request)
            elif self._check is not None and "token" in request.query_params and request.method == "GET":
                # The token must not stay in the address bar, the history or a bookmark.
                response = _without_token(request)
                if isinstance(self._check, Token):
                    self._check.remember(request, response)
            else:
                await self._app(scope, receive, send)
                return
            await response(scope, receive, send)


@dataclass(frozen=True)
class Token:
    """One secret for everybody. `path` is where the app is served, for the cookie."""

    value: str
    path: str = "/"

    def knows(self, visitor: HTTPConnection) -> bool:
        scheme, _, sent = visitor.headers.get("authorization", "").partition(" ")
        return (
            _equal(visitor.cookies.get(_cookie_name(visitor), ""), self._proof)
            or (scheme.lower() == "bearer" and _equal(sent.strip(), self.value))
            or (visitor.scope["type"] == "http" and _equal(visitor.query_params.get("token", ""), self.value))
        )

    async def answer(self, request: Request) -> Response:
        if request.method == "POST" and (form := await _short_form(request)) is not None:
            if _equal(form.get("token", ""), self.value):
                # 303: the browser gets the page that it wanted, with GET.
                response: Response = RedirectResponse(_address(request, request.url.query), 303)
                self.remember(request, response)
                return response
            return message_page("That is not this app's token.", _FORM, 403)
        if _wants_page(request):
            return message_page("This app is open only to those who have its token.", _FORM, 403)
        return PlainTextResponse("The access token is missing or wrong.", 403)

    def remember(self, request: Request, response: Response) -> None:
        """Have the browser keep a proof of the token, out of reach of scripts and of requests from other sites."""
        response.set_cookie(
            _cookie_name(request), self._proof, max_age=_COOKIE_SECONDS, path=self.path, httponly=True,
            samesite="lax", secure=request.url.scheme == "https",
        )  # fmt: skip

    @property
    def _proof(self) -> str:
        """What the cookie holds: a reader of it cannot learn the token, which may be somebody's own."""
        return hmac.new(self.value.encode(), b"voxelflow cookie", hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Login:
    """OpenID Connect login: `providers` of secrets.toml's `[auth]`, patterns of the `users`' e-mail addresses."""

    providers: tuple[str, ...]
    users: tuple[str, ...]
    path: str = "/"

    def knows(self, visitor: HTTPConnection) -> bool:
        # What Streamlit serves itself to log in and out.
        at = visitor.url.path.removeprefix(self.path.rstrip("/"))
        return at in ("/auth/login", "/auth/logout", "/oauth2callback") or self._may_enter(_logged_in(visitor))

    async def answer(self, request: Request) -> Response:
        from streamlit.auth_util import encode_provider_token

        if not _wants_page(request):
            return PlainTextResponse("You are not logged in.", 403)
        base = self.path.rstrip("/")
        if user := _logged_in(request):
            name = html.escape(str(user.get("email") or user.get("name") or "This account"))
            return message_page(
                f"{name} may not use this app.", f'<a class="button" href="{base}/auth/logout">Log out</a>', 403
            )
        links = [
            f'<a class="button" href="{base}/auth/login?{urlencode({"provider": encode_provider_token(name)})}">'
            f"Log in{'' if name == 'default' else ' with ' + html.escape(name.title())}</a>"
            for name in self.providers
        ]
        return message_page("Log in to use this app.", "".join(links), 403)

    def _may_enter(self, user: Mapping[str, Any]) -> bool:
        address = str(user.get("email", "")).lower()
        if user.get("email_verified") is False:
            return False
        return bool(user) and any(p == "*" or (address and fnmatchcase(address, p.lower())) for p in self.users)


def check_for(*, only_here: bool, path: str) -> Check | None:
    """What a visitor needs, from Streamlit's `secrets.toml` and the environment; None: nothing.

    `only_here`: the app listens on a loopback address. `path`: the URL path below which it is served. Raises
    `UsageError` when a login is set up halfway or the token is too short, `MissingPackage` when a login's packages are
    not installed.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token and len(token) < _SHORTEST_TOKEN:
        raise UsageError(
            f"{TOKEN_VARIABLE} is too short for an access token: {len(token)} characters",
            hint=f"Set at least {_SHORTEST_TOKEN}, or unset it: the app then makes a token at each start.",
        )
    if token:
        return Token(token, path)
    if login := _login(path):
        return login
    return None if only_here else Token(random_secrets.token_urlsafe(24), path)


def with_token(url: str, check: Check | None) -> str:
    """The URL that opens the app: with the token, where there is one."""
    return f"{url}/?token={quote(check.value)}" if isinstance(check, Token) else url


def _login(path: str) -> Login | None:
    from streamlit import config
    from streamlit.runtime.secrets import secrets_singleton

    if not secrets_singleton.load_if_toml_exists() or "auth" not in secrets_singleton:
        return None
    from streamlit.auth_util import validate_auth_credentials
    from streamlit.errors import StreamlitAuthError

    section = secrets_singleton["auth"]
    named = sorted(name for name, value in section.items() if isinstance(value, Mapping) and name != "client_kwargs")
    providers = (["default"] if "client_id" in section else []) + named
    require("the login that secrets.toml sets up", *modules("login"))
    try:
        for name in providers:
            validate_auth_credentials(name)
    except StreamlitAuthError as exc:
        raise UsageError(
            f"the login in Streamlit's secrets.toml cannot be used: {exc}",
            hint="See https://docs.streamlit.io/develop/concepts/connections/authentication.",
        ) from exc
    users = section.get("users", ())
    if not providers or isinstance(users, str) or not users or not all(isinstance(one, str) for one in users):
        raise UsageError(
            "secrets.toml sets up a login, but not who may use the app",
            hint='Add to [auth] the e-mail addresses, as in users = ["ann@example.org", "*@lab.example.org"];'
            ' "*" stands for everyone who can log in.',
        )
    if not config.get_option("server.cookieSecret") and not section.get("cookie_secret"):
        raise UsageError("the login has no cookie_secret", hint="Add a long random cookie_secret to [auth].")
    return Login(tuple(providers), tuple(users), path)


def _logged_in(visitor: HTTPConnection) -> dict[str, Any]:
    """The person as Streamlit's signed cookie names them; empty when nobody has logged in."""
    from streamlit.auth_util import get_cookie_with_chunks, get_origin_from_redirect_uri
    from streamlit.web.server.server_util import get_cookie_secret
    from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
    from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

    def signed(name: str) -> bytes | None:
        value = visitor.cookies.get(name)
        return None if value is None else decode_signed_value(get_cookie_secret(), name, value.encode("latin-1"))

    try:
        user = json.loads(get_cookie_with_chunks(signed, USER_COOKIE_NAME) or b"{}")
    except (UnicodeError, ValueError):
        return {}
    if not isinstance(user, dict) or not user.get("is_logged_in"):
        return {}
    return user if user.get("origin") == get_origin_from_redirect_uri() else {}


def _known_name(visitor: HTTPConnection) -> bool:
    """Whether the app is asked for by a name of its own (`server.allowedHosts`)."""
    from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

    return is_host_allowed(visitor.headers.get("host"))


def _of_another_site(request: Request) -> bool:
    """Whether another site's page asks: to change something, or for a file of ours. It may link to our pages."""
    if request.method not in _SAFE_METHODS and not _same_origin(request):
        return True
    # Browsers say it with every request. Another port of this computer is the "same-site".
    return (
        request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        and request.headers.get("sec-fetch-mode") != "navigate"
    )


def _same_origin(visitor: HTTPConnection) -> bool:
    """Whether a browser's request comes from a page of this app; programs that are no browsers send no origin."""
    origin = visitor.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == visitor.headers.get("host")


def _equal(sent: str, wanted: str) -> bool:
    """In constant time: how long it takes must not say how much was right."""
    return hmac.compare_digest(sent.encode(), wanted.encode())


def _cookie_name(visitor: HTTPConnection) -> str:
    """Cookies are shared by all ports of a computer, and two apps must not take each other's."""
    return f"voxelflow-{visitor.scope['server'][1]}"


def _wants_page(request: Request) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _without_token(request: Request) -> RedirectResponse:
    rest = parse_qs(request.url.query, keep_blank_values=True)
    del rest["token"]
    return RedirectResponse(_address(request, urlencode(rest, doseq=True)), 303)


def _address(request: Request, query: str) -> str:
    """Where the request went, as a path: never a host that the visitor names."""
    path = quote(request.scope["path"].lstrip("/"))
    return f"/{path}{'?' if query else ''}{query}"


async def _short_form(request: Request) -> dict[str, str] | None:
    """The fields of a small form; None when it is something else. A large body is not read."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST_FORM:
            return None
    return {name: values[-1] for name, values in parse_qs(body.decode("latin-1")).items()}


_FORM = """<form method="post"><input name="token" type="password" aria-label="Access token" placeholder="Access token"
 autocomplete="current-password" autofocus required><button class="button">Open</button></form>
<p class="hint">The URL that <code>voxelflow studio</code> printed when it was started ends with it.</p>"""

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Voxelflow</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="same-origin"><style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; place-items: center; min-height: 100vh; margin: 0; background: light-dark(#f5f6f8, #101418);
  color: light-dark(#1b2430, #e4e9f0); }
main { width: min(26rem, 88vw); padding: 2rem; border-radius: 12px; background: light-dark(#fff, #1a2028);
  border: 1px solid light-dark(#dfe3e8, #2c343f); }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; } p { margin: 0 0 1rem; } .hint { margin: 1rem 0 0; font-size: .875rem;
  color: light-dark(#5a6675, #9aa6b5); }
form { display: flex; gap: .5rem; }
input { flex: 1; min-width: 0; font: inherit; padding: .5rem .75rem; border-radius: 8px;
  border: 1px solid light-dark(#b9c1cb, #465160); background: transparent; color: inherit; }
.button { font: inherit; font-weight: 600; padding: .5rem 1rem; border: 0; border-radius: 8px; background: #2563c9;
  color: #fff; cursor: pointer; text-decoration: none; display: inline-block; margin-right: .5rem; }
</style></head><body><main><h1>Voxelflow</h1><p>%s</p>%s</main></body></html>"""


def message_page(what: str, action: str, status: int, *, again_s: int = 0) -> HTMLResponse:
    """A page that says `what`, with the markup `action` below it; after `again_s` seconds the browser asks again."""
    # Of its own alone: nothing from elsewhere is loaded, and no other site shows it in a frame.
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    if again_s:
        headers["Refresh"] = str(again_s)
    return HTMLResponse(_PAGE % (what, action), status, headers)
