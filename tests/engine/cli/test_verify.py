"""`voxelflow verify` and `voxelflow runs rebuild` on a workspace whose disk has flipped bits."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Command, Said
from deltalake import DeltaTable
from stored_results import stored_result
from volumes import etl, write_volumes

from engine.cli.verify import _report_left_out
from engine.declare.datasets import Predictions, Report, TrainedModel, VolumeSpec
from engine.document.pipeline import write_pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]


@pytest.fixture
def ran(home: Path, process: Command) -> Path:
    """The workspace's table, filled by a run of the pipeline etl from twelve volumes."""
    write_volumes(home / "incoming", 12)
    table = home / "workspace" / "tables" / "my volumes"
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
    assert f"Repair: `voxelflow verify '{ran}' --set-aside`, then `voxelflow run etl`" in first
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


def test_of_a_run_each_version_of_a_table_is_read_that_it_made(home: Path, process: Command) -> None:
    write_volumes(home / "incoming", 24, shape=(32, 32, 16, 4))
    write_pipeline(etl(home / "incoming", table=str(home / "t")), home / "compacted.json")
    process("run", "compacted.json").done()
    process("verify", "last").done()
    newest = DeltaTable(home / "t")
    filled = DeltaTable(home / "t", version=newest.version() - 1)
    (small, *_) = sorted({unquote(uri) for uri in filled.file_uris()} - {unquote(uri) for uri in newest.file_uris()})
    _flip(Path(small), Path(small).stat().st_size // 3)
    assert "nothing is damaged" in process("verify", str(home / "t")).done().out
    assert f"{small}: " in process("verify", "last").out


def test_of_a_run_what_is_not_read_is_named(ran: Path, home: Path, process: Command) -> None:
    """Files of volumes, predictions and reports; JSON has the same, a report each."""
    workspace = Workspace(ran.parents[1])
    (task,) = (t for t in RunStore(workspace).tasks(RunStore(workspace).run("last").run_id) if t.node == "folder")
    (files,) = task.outputs.values()
    said = f"VolumeFiles of the node folder at {files.uri}: no checksums of it are kept"
    lines = _lines(process("verify", "last").done())
    assert [line for line in lines if line.startswith("not checked: ")] == [f"not checked: {said}"]
    (report,) = (r for r in process("verify", "last", "--json").done().json["checked"] if r["data"] == files.uri)
    assert (report["not_checked"], report["files"], report["damaged"]) == ([said], 0, [])
    assert "not checked" not in process("verify", "last", "--node", "table").done().out


def test_what_of_a_kind_is_not_read_says_why(tmp_path: Path) -> None:
    predictions = Predictions(uri=str(tmp_path / "a b"), count=1, bytes=1, version=0, model="")
    (said,) = _report_left_out(predictions, "predict")["not_checked"]
    assert said == (
        f"Predictions of the node predict at {tmp_path}/a b: `voxelflow verify '{tmp_path}/a b'` reads the newest"
        " version of its table"
    )
    (said,) = _report_left_out(Report(uri="r.html"), "evaluate")["not_checked"]
    assert said == "Report of the node evaluate at r.html: no checksums of it are kept"


def _repair(process: Command, data: Path, damaged: Path) -> str:
    """What the line of a damaged file says that repairs it."""
    said = process("verify", str(data))
    assert said.status == 1
    (line,) = (line for line in _lines(said) if line.startswith(f"{damaged}: "))
    return line.partition(" Repair: ")[2]


def test_what_is_named_as_the_repair_repairs(ran: Path, home: Path, process: Command) -> None:
    log = ran / "_delta_log"

    def run(command: str) -> None:
        first, *rest = shlex.split(command)
        if first == "voxelflow":
            process(*rest).done()
        else:
            subprocess.run([first, *rest], check=True)

    # A commit: the table is filled anew from the parts, which this time are two.
    write_volumes(home / "incoming", 12, first=12)
    commit = log / f"{1:020}.json"
    commit.write_bytes(commit.read_bytes()[:40])
    repair = _repair(process, ran, commit)
    assert repair == "bring the file back from a copy, or remove the table's folder and `voxelflow run etl`"
    shutil.rmtree(ran)
    run(repair.split("`")[1])
    assert "24 volumes match" in process("verify", str(ran)).done().out
    # Rows that two compactions of the same files doubled.
    version = DeltaTable(ran).version()
    DeltaTable(ran, version=version - 1).optimize.compact()
    assert DeltaTable(ran).to_pyarrow_table().num_rows == 48
    repair = _repair(process, ran, log / f"{version + 1:020}.json")
    assert repair == f"in Python deltalake.DeltaTable({str(ran)!r}).restore({version}), then `voxelflow run etl`"
    exec(repair.removeprefix("in Python ").partition(", then ")[0], {"deltalake": deltalake})
    run(repair.split("`")[1])
    assert "24 volumes match" in process("verify", str(ran)).done().out
    # What only makes the log shorter to read.
    newest = log / "_last_checkpoint"
    for damage_newest in (False, True):
        DeltaTable(ran).create_checkpoint()
        (checkpoint,) = log.glob("*.checkpoint.parquet")
        damaged = newest if damage_newest else checkpoint
        damaged.write_bytes(damaged.read_bytes()[:40])
        repair = _repair(process, ran, damaged)
        if damage_newest:
            assert repair == f"delete it: `rm '{newest}'`"
        else:
            assert repair.startswith("with all commits there, delete it and _last_checkpoint: `rm ")
            assert repair.endswith("; else bring it back from a copy")
        run(repair.split("`")[1])
        assert "24 volumes match" in process("verify", str(ran)).done().out
    # The list of a run's parts.
    (parts,) = (ran.parents[1] / "data").glob("NumpyToParquet/*/parts")
    manifest = max(parts.parent.glob("*/parts.json"), key=os.path.getmtime)
    manifest.write_bytes(manifest.read_bytes()[:40])
    repair = _repair(process, parts, manifest)
    assert repair == "`voxelflow run etl` makes the list again"
    run(repair.split("`")[1])
    assert "24 volumes match" in process("verify", str(parts)).done().out


def test_without_a_run_that_made_it_a_copy_repairs(ran: Path, home: Path, process: Command) -> None:
    """Of a model the run that trained it does, with the node's name."""
    theirs = home / "theirs"
    shutil.copytree(ran, theirs)
    (file,) = theirs.glob("*.parquet")
    _flip(file, file.stat().st_size // 3)
    older = "or go back to an older version (DeltaTable.restore of deltalake)"
    assert _repair(process, theirs, file) == f"bring the file back from a copy, {older}"
    commit = theirs / "_delta_log" / f"{0:020}.json"
    commit.write_bytes(b"")
    assert _repair(process, theirs, commit) == "bring the file back from a copy"
    model = home / "model"
    model.mkdir()
    (model / "model.json").write_text("{}")
    np.savez(model / "training_state.npz", weights=np.arange(1000.0))
    process("verify", str(model)).done()
    _flip(model / "training_state.npz", 500)
    assert _repair(process, model, model / "training_state.npz") == "bring the file back from a copy"
    made = TrainedModel(uri=str(model), spec=VolumeSpec(shape=(2, 2), dtype="float32"))
    result = stored_result("a", pipeline="resnet", node="train", outputs={"out": made})
    RunStore(Workspace(ran.parents[1])).results.put(result)
    assert _repair(process, model, model / "training_state.npz") == "`voxelflow run resnet --from train`"


def _files(table: Path) -> list[Path]:
    return [Path(unquote(uri.removeprefix("file://"))) for uri in DeltaTable(table).file_uris()]


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
