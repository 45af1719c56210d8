"""What the settings of an app's access mean: a token, a login, who is on the list."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from identity_provider import IdentityProvider
from starlette.requests import HTTPConnection

from engine.errors import UsageError
from ui.access import Login, Token, check_for, with_token


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty secrets.toml's place, which Streamlit reads."""
    from streamlit.runtime.secrets import secrets_singleton

    path = tmp_path / "secrets.toml"
    monkeypatch.setattr(secrets_singleton, "load_if_toml_exists", lambda: path.exists() and _load(path))
    monkeypatch.setattr(secrets_singleton, "_secrets", None)

    def _load(path: Path) -> bool:
        secrets_singleton._secrets = tomllib.loads(path.read_text())
        return True

    return path


def test_on_this_computer_nothing_is_asked(settings: Path) -> None:
    assert check_for(only_here=True, path="/") is None


def test_a_token_of_ones_own_is_asked_for_here_too(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXELFLOW_TOKEN", "a b&c" * 5)
    check = check_for(only_here=True, path="/")
    assert check == Token("a b&c" * 5, "/")
    assert with_token("http://x", check) == f"http://x/?token={'a%20b%26c' * 5}"


def test_each_start_has_a_token_of_its_own(settings: Path) -> None:
    first, second = (check_for(only_here=False, path="/") for _ in range(2))
    assert isinstance(first, Token)
    assert first != second
    assert len(first.value) >= 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("token", "auth", "message"),
    [
        ("short", "", "VOXELFLOW_TOKEN is too short"),
        ("", "[auth]\nclient_id = 'x'\n", "cannot be used"),
        ("", "FULL", "not who may use the app"),
        ("", "FULL\nusers = 'ann@example.org'\n", "not who may use the app"),
    ],
)
def test_a_door_that_is_set_up_halfway_stays_shut(
    settings: Path, monkeypatch: pytest.MonkeyPatch, token: str, auth: str, message: str
) -> None:
    with IdentityProvider("x") as provider:
        full = provider.secrets("http://x", "[]").partition("users")[0]
    settings.write_text(auth.replace("FULL", full))
    monkeypatch.setenv("VOXELFLOW_TOKEN", token)
    with pytest.raises(UsageError, match=message):
        check_for(only_here=False, path="/")


@pytest.mark.parametrize(
    ("claims", "enters"),
    [
        ({}, True),
        ({"email": "ann@lab.example.org.evil.example"}, False),
        ({"email": ""}, False),
        ({"email_verified": False}, False),
        ({"is_logged_in": False}, False),
        ({"origin": "http://elsewhere"}, False),
        ({"secret": "another"}, False),
    ],
)
def test_a_login_counts_by_its_signed_cookie(settings: Path, claims: Mapping[str, object], enters: bool) -> None:
    from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

    settings.write_text('[auth]\nredirect_uri = "http://here/oauth2callback"\ncookie_secret = "right"\n')
    user = {"email": "ann@lab.example.org", "is_logged_in": True, "origin": "http://here", **claims}
    signed = create_signed_value(str(user.pop("secret", "right")), "_streamlit_user", json.dumps(user)).decode()
    scope = {"type": "http", "path": "/", "headers": [(b"cookie", f"_streamlit_user={signed}".encode())]}
    for users, known in (("*@LAB.example.org",), enters), (("eve@lab.example.org",), False):
        assert Login(("default",), users).knows(HTTPConnection(scope)) is known
