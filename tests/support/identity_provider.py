"""A small OpenID Connect provider: whoever is sent there is logged in at once, as `email`."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

CLIENT = "voxelflow-tests"


class IdentityProvider:
    """Use it in a `with`; `url` is its issuer."""

    def __init__(self, email: str, **claims: Any) -> None:
        self.claims = {"email": email, **claims}
        self._key = jwk.RSAKey.generate_key(2048, parameters={"kid": "1"})
        self._nonces: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> IdentityProvider:
        # It looks for its end that often: the default is half a second.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def secrets(self, app: str, users: str) -> str:
        """Streamlit's secrets.toml for an app at the URL `app`."""
        return (
            f'[auth]\nredirect_uri = "{app}/oauth2callback"\ncookie_secret = "{"s" * 40}"\nclient_id = "{CLIENT}"\n'
            f'client_secret = "unused"\nserver_metadata_url = "{self.url}/.well-known/openid-configuration"\n'
            f"users = {users}\n"
        )

    def _answer(self, path: str, sent: dict[str, str]) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token", "id_token_signing_alg_values_supported": ["RS256"],
            }  # fmt: skip
        if path == "/keys":
            return 200, {"keys": [self._key.as_dict(private=False)]}
        if path == "/authorize":
            self._nonces["code"] = sent.get("nonce", "")
            return 302, f"{sent['redirect_uri']}?{urlencode({'code': 'code', 'state': sent['state']})}"
        now = int(time.time())
        claims = {"iss": self.url, "sub": "1", "aud": CLIENT, "iat": now, "exp": now + 600, **self.claims}
        token = jwt.encode(
            {"alg": "RS256", "kid": "1"}, {**claims, "nonce": self._nonces[sent["code"]]}, self._key, ["RS256"]
        )
        return 200, {"access_token": "a", "token_type": "Bearer", "id_token": token, "expires_in": 600}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("content-length", 0))
                query = parts.query or self.rfile.read(length).decode()
                status, answer = provider._answer(parts.path, {k: v[0] for k, v in parse_qs(query).items()})
                body = b"" if status == 302 else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header(
                    "Location" if status == 302 else "Content-Type", answer if status == 302 else "application/json"
                )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name that the server looks for

            def log_message(self, *_: object) -> None:
                pass

        return Handler
