"""`voxelflow verify` and `voxelflow runs rebuild` on a workspace whose disk has flipped bits."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Command, Said
from volumes import etl, write_volumes

from engine.document.pipeline import write_pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]


@pytest.fixture
def ran(home: Path, process: Command) -> Path:
    """The workspace's table, filled by a run of the pipeline etl from twelve volumes."""
    write_volumes(home / "incoming", 12)
    table = home / "workspace" / "tables" / "volumes"
    (home / "workspace" / "pipelines").mkdir(parents=True)
    write_pipeline(etl(home / "incoming", table=str(table)), home / "workspace" / "pipelines" / "etl.json")
    process("run", "etl").done()
    return table


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ 16]))


def _lines(said: Said) -> list[str]:
    return said.out.strip().splitlines()


def test_damage_is_found_reported_and_repaired(ran: Path, process: Command) -> None:
    (line,) = _lines(process("verify", str(ran)).done())
    assert "nothing is damaged" in line
    assert "match their checksums" in line
    assert process("verify", str(ran), "--json").json["checked"][0]["damaged"] == []
    active = _files(ran)
    _flip(active[0], active[0].stat().st_size // 3)
    said = process("verify", str(ran))
    assert said.status == 1
    first, summary = _lines(said)
    assert first.startswith(f"{active[0]}: ")
    assert "Lost: " in first
    assert f"Repair: `voxelflow verify {ran} --set-aside`, then `voxelflow run etl`" in first
    assert "1 damaged file" in summary
    report = process("verify", "last", "--json").json
    assert any(item["damaged"] for item in report["checked"])
    assert process("verify", str(ran), "--set-aside").status == 1
    process("run", "etl").done()
    assert process("verify", str(ran)).status == 0
    assert process("verify", "last").status == 0


def test_a_folder_of_parquet_files_is_checked_by_the_list_of_its_run(ran: Path, process: Command) -> None:
    (parts,) = (ran.parents[1] / "data").glob("NumpyToParquet/*/parts")
    assert "12 volumes match their checksums" in process("verify", str(parts)).done().out
    (part, *_) = parts.glob("*.parquet")
    _flip(part, part.stat().st_size // 3)
    first, _ = _lines(process("verify", str(parts)))
    assert f"Repair: `voxelflow verify {parts} --set-aside`, then `voxelflow run etl`" in first
    assert process("verify", str(parts), "--set-aside").status == 1
    process("run", "etl").done()
    process("verify", str(parts)).done()


def _files(table: Path) -> list[Path]:
    from deltalake import DeltaTable

    return [Path(uri.removeprefix("file://")) for uri in DeltaTable(table).file_uris()]


def test_a_damaged_index_of_the_run_store_is_found(ran: Path, process: Command) -> None:
    """SQLite reads past it: a query that uses the index finds other rows than one that does not."""
    workspace = Workspace(ran.parents[1])
    with closing(sqlite3.connect(workspace.database)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, 'run_id', 'kind') WHERE name = 'events_of_run'")
        db.commit()
    said = process("verify", str(ran))
    assert said.status == 1
    assert f"{workspace.database}: " in said.out
    assert "Repair: `voxelflow runs rebuild`" in said.out
    assert process("verify", str(ran), "--json").json["checked"][-1]["damaged"][0]["kind"] == "runs"
    process("runs", "rebuild").done()
    assert process("verify", str(ran)).status == 0


def test_a_damaged_run_store_is_named_by_every_command_and_rebuilt(ran: Path, process: Command) -> None:
    workspace = Workspace(ran.parents[1])
    before = {run.run_id for run in RunStore(workspace).runs()}
    workspace.database.write_bytes(b"rot" * 5000)
    for suffix in ("-wal", "-shm"):
        workspace.database.with_name(f"{workspace.database.name}{suffix}").unlink(missing_ok=True)
    for arguments in (("runs", "list"), ("run", "etl"), ("plan", "etl"), ("clean",), ("studio", "--no-browser")):
        said = process(*arguments)
        assert said.status == 2, arguments
        assert "Traceback" not in said.err
        assert "`voxelflow runs rebuild`" in said.err
    # Data can be checked without it.
    process("verify", str(ran)).done()
    said = process("runs", "rebuild").done()
    assert "rebuilt from the workspace's files: 1 run" in said.out
    assert {run.run_id for run in RunStore(workspace).runs()} == before
    assert RunStore(workspace).run("last").state == "done"
    assert process("plan", "etl").done().out.count("cached") >= 3


def test_for_a_folder_of_another_program_what_is_not_checked_is_reported(home: Path, process: Command) -> None:
    folder = home / "theirs"
    folder.mkdir()
    pq.write_table(pa.table({"image": [b"1", b"2"]}), folder / "a.parquet")
    *remarks, summary = _lines(process("verify", str(folder)).done())
    assert [line.partition("not checked: ")[2][:28] for line in remarks] == [
        "2 rows could be decoded, and",
        "no list says which files bel",
    ]
    assert summary == f"{folder}: nothing is damaged; 1 file read, 2 not checked: no checksums"
    (report,) = process("verify", str(folder), "--json").done().json["checked"]
    assert (report["unchecked"], len(report["not_checked"]), report["damaged"]) == (2, 2, [])
