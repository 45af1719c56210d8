"""Storage URLs as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.storage.urls import StorageUrl, expanded, is_url, parse_url, place_from


def test_a_url_has_one_spelling() -> None:
    assert str(parse_url("AZ://box//a///b/")) == "az://box/a/b"
    assert str(parse_url("s3://box/")) == "s3://box"
    assert parse_url("s3://box") / "a/b" == StorageUrl("s3", "box", "a/b")


@pytest.mark.parametrize(
    "text",
    ["hdfs://box/a", "https://a/b", "az://", "az:///a", "az://box/../a", "gs://box/./a", "abfss:///a"],
)
def test_what_is_no_storage_url_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "az://me:geheim@box/a",
        "s3://geheim@box/a",
        "gs://geheim@box/a",
        "s3a://key:geheim@box/a",
        "s3://box/a?sig=geheim",
        "az://box/a#geheim",
        "abfss://box:geheim@account.dfs.core.windows.net/a",
        "abfss://box@account.dfs.core.windows.net/a?sig=geheim",
        "abfss://box@geheim@account.dfs.core.windows.net/a",
        "abfss://box@account.geheim.example/a",
        "abfss://geheim@account.dfs.core.windows.net:443/a",
        "https://me:geheim@account.dfs.core.windows.net/a",
    ],
)
def test_a_url_with_a_secret_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_url(text)
    assert "geheim" not in refused.value.line()


def test_paths_and_urls_beside_each_other(tmp_path: Path) -> None:
    assert place_from(tmp_path, "a/../b") == str(tmp_path / "b")
    assert place_from(tmp_path, "az://box/a/") == "az://box/a"
    assert place_from(tmp_path, "hdfs://box/a/") == "hdfs://box/a/"
    assert not is_url("file:///a/b")
    assert not is_url("C:/a")


def test_a_tilde_of_a_user_who_is_not_there_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/volumes") == tmp_path / "volumes"
    assert expanded("~no such user/volumes") == Path("~no such user/volumes")
    assert place_from(tmp_path, "~no such user/volumes") == str(tmp_path / "~no such user/volumes")


keys = st.lists(st.text("ab/", min_size=1, max_size=4), max_size=4).map("/".join)


@given(keys, keys)
def test_a_place_holds_what_lies_below_it_and_nothing_beside(outer: str, inner: str) -> None:
    place = parse_url(f"az://box/{outer}")
    below = place / inner
    assert place.holds(below)
    assert not below.holds(place) or below == place
    assert not StorageUrl("s3", "box").holds(below)
    if place.key:
        assert not place.holds(StorageUrl("az", "box", place.key + "x"))
