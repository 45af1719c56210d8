"""Every row of the table of object stores: it opens, it is spelled one way, and the documentation names it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import voxelflow
from engine.cli import probe
from engine.errors import UsageError
from engine.storage.objects import RemotePath
from engine.storage.schemes import PREFIXES, SCHEMES, Scheme, open_store, scheme
from engine.storage.urls import is_url, parse_url

ROOT = Path(__file__).parents[3]
rows = pytest.mark.parametrize("row", SCHEMES.values(), ids=lambda row: row.name)
STORES = {"az": "azure_server", "s3": "s3_stand_in", "gs": "gcs_stand_in"}
"""The fixture of a server for each row: a new row needs one, or a line that says why there is none."""


def test_no_spelling_means_two_stores() -> None:
    spellings = [spelling for row in SCHEMES.values() for spelling in (row.name, *row.aliases)]
    assert len(spellings) == len(set(spellings))


@rows
def test_a_row_has_one_spelling(row: Scheme) -> None:
    for spelling in (row.name, *row.aliases, row.name.upper()):
        assert scheme(spelling) is row
        url = parse_url(f"{spelling}://box//a/b/")
        assert (str(url), url.scheme) == (f"{row.name}://box/a/b", row.name)
        assert is_url(f"{spelling}://box/a")
    assert str(parse_url(row.example)) == row.example


@rows
def test_an_address_with_an_account_keeps_it(row: Scheme) -> None:
    if not row.with_account:
        with pytest.raises(UsageError, match="holds a user"):
            parse_url(f"{row.name}://box@account.dfs.core.windows.net/a")
        return
    wanted = row.with_account.format(container="box", account="account") + "/a"
    for spelling in (row.name, *row.aliases):
        for host in row.hosts:
            url = parse_url(f"{spelling}://box@account.{host}/a/")
            assert (str(url), url.container, url.account) == (wanted, "box", "account")
    assert str(parse_url(wanted) / "b") == f"{wanted}/b"
    # The account of another program's environment may be another one.
    assert not parse_url(f"{row.name}://box").holds(parse_url(wanted))
    assert parse_url(wanted.removesuffix("/a")).holds(parse_url(wanted))


@rows
def test_a_row_opens_without_asking_anybody(row: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(PREFIXES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    account = "someaccount" if row.with_account else ""
    key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    assert type(open_store(row, "box", account, client={}, retry={})).__name__ == row.store


@rows
def test_a_row_is_documented(row: Scheme) -> None:
    text = (ROOT / "nodes" / "README.md").read_text()
    assert f"`{row.name}://" in text
    assert all(f"`{name}`" in text for name in row.variables)
    assert all(f"`{alias}`" in text for alias in row.aliases)
    assert all(name.startswith(row.prefixes) for name in row.variables)
    assert row.variables[0] in row.hint
    assert f"`{row.name}://`" in (ROOT / "README.md").read_text()


@rows
@pytest.mark.parametrize("node_type", ["VolumeFolder", "ParquetToDelta", "ProbeStorage"])
def test_the_help_of_a_place_gives_an_example(row: Scheme, node_type: str) -> None:
    declared = voxelflow.catalog().find(node_type)
    assert declared is not None
    assert any(row.example in parameter.help for parameter in declared.parameters)


@rows
def test_the_help_of_the_probe_gives_an_example(row: Scheme) -> None:
    assert row.example in (probe.command.help or "")


@pytest.mark.slow
@rows
def test_a_row_reads_and_writes(row: Scheme, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    store = request.getfixturevalue(STORES[row.name])
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    place = RemotePath.at(store.make_container(f"row-{row.name}")) / "a b/é"
    place.write_bytes(b"data")
    assert place.read_bytes() == b"data"
    for alias in row.aliases:
        assert RemotePath.at(f"{alias}{str(place).removeprefix(row.name)}").read_bytes() == b"data"
    with pytest.raises(FileNotFoundError):
        (place / "not there").read_bytes()


@pytest.mark.slow
def test_both_spellings_of_an_azure_account_are_the_same_objects(azure: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    container = azure.removeprefix("az://")
    spelled = f"abfss://{container}@devstoreaccount1.dfs.core.windows.net"
    (RemotePath.at(spelled) / "x/one").write_bytes(b"one")
    assert (RemotePath.at(azure) / "x/one").read_bytes() == b"one"
    assert [found.path for found in RemotePath.at(f"{spelled}/x").walk()] == ["one"]
    write_deltalake(f"{spelled}/table", pa.table({"a": [1, 2]}))
    assert DeltaTable(f"{azure}/table").version() == 0
    assert DeltaTable(str(parse_url(f"{spelled}/table"))).to_pyarrow_table().num_rows == 2
