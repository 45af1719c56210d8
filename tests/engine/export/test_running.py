"""Exported files as people run them: the tables of `voxelflow run`, and again from what is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable
from exported_runs import NODES, made, rows, run, run_file, save

from engine.run.worker_process import PROGRAM
from engine.spark import class_data
from engine.spark.jars import delta_jars
from engine.spark.java import find_java
from engine.storage.process_lock import ProcessLock

# Voxelflow's commands are forked. The files that it writes are run by a Python of their own, where it matters what they
# import.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]

FORBIDDEN = ("ui", "streamlit", "engine.store.runs", "engine.run.execute", "engine.run.supervisor", "engine.run.launch")


def test_the_same_tables_as_a_run_and_again_from_what_is_there(tmp_path: Path, workspace: Any) -> None:
    save(tmp_path)
    run(*PROGRAM, "run", "etl.json", "--workspace", workspace.root, folder=tmp_path)
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, folder=tmp_path)
    path = tmp_path / "etl.py"
    text = path.read_text()
    # Printed by the very process that made the tables.
    path.write_text(text + '    import sys\n    print("MODULES", *sorted(sys.modules))\n')
    first = run(sys.executable, "etl.py", folder=tmp_path)
    loaded = first.split("MODULES", 1)[1].split()
    assert not [m for m in loaded if m in FORBIDDEN or m.startswith("ui.")]
    tables = {str(p.parent) for p in (workspace.data).rglob("_delta_log")}
    assert len(tables) == 1
    wanted = rows(tables.pop())
    assert len(wanted) == 60
    assert rows(made(tmp_path / "etl-out", "optimize").uri) == wanted
    report = json.loads((Path(made(tmp_path / "etl-out", "look").uri).parent / "figures.json").read_text())
    theirs = json.loads(next(workspace.data.rglob("figures.json")).read_text())
    assert report["labels"] == theirs["labels"] if "labels" in report else report.keys() == theirs.keys()

    again = run_file("etl.py", folder=tmp_path)
    assert again.count("there already") == len(NODES)

    # More volumes, as a person edits the file: what is there stays.
    path.write_text(text.replace("COUNT = 60", "COUNT = 70"))
    kept = (Path(made(tmp_path / "etl-out", "make").uri) / "0000005.npy").stat().st_ino
    more = run_file("etl.py", folder=tmp_path)
    assert "10 files converted now" in more
    grown = rows(made(tmp_path / "etl-out", "optimize").uri)
    assert len(grown) == 70
    assert {i: grown[i] for i in wanted} == wanted
    assert (Path(made(tmp_path / "etl-out", "make").uri) / "0000005.npy").stat().st_ino == kept


def test_a_function_of_ones_own_runs_where_its_workspace_is_not(tmp_path: Path, workspace: Any) -> None:
    document = json.loads(save(tmp_path, until="table").read_text())
    workspace.my_transforms.mkdir()
    (workspace.my_transforms / "ten.py").write_text("def transform(volume, row):\n    return volume * 0 + 10\n")
    params = {"function": str(workspace.my_transforms / "ten.py")}
    document["nodes"].append({"id": "ten", "type": "TransformVolumes", "params": params})
    document["edges"][0] = {"from": "make.out", "to": "ten.volumes"}
    document["edges"].append({"from": "ten.out", "to": "convert.files"})
    (tmp_path / "etl.json").write_text(json.dumps(document))
    run(*PROGRAM, "nodes", "--trust", "--workspace", workspace.root, folder=tmp_path)
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, "--to", "github", folder=tmp_path)
    moved = (tmp_path / "etl-github").rename(tmp_path / "moved")
    shutil.rmtree(workspace.root)
    run(sys.executable, "etl.py", folder=moved, XDG_CONFIG_HOME=str(tmp_path / "another"))
    table = DeltaTable(made(moved / "etl-out", "table").uri)
    assert table.to_pyarrow_table().num_rows == 60
    # Each value of each volume is the function's.
    volumes = table.to_pyarrow_table()["volume"].to_pylist()
    assert {value for volume in volumes for value in np.frombuffer(volume, np.float32)} == {10.0}


def test_errors_are_for_the_person(tmp_path: Path, workspace: Any) -> None:
    save(tmp_path, until="convert")
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, "-o", "mine.py", folder=tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(path.read_text().replace("target_file_mb=1", "target_file_mb=0"))
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: convert: target_file_mb must be at least 1 MB, not 0" in done.stderr
    assert "Traceback" not in done.stderr
    lock = ProcessLock(tmp_path / "etl-out" / ".lock")
    assert lock.acquire()
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    lock.release()
    assert done.returncode == 2
    assert "another process works in" in done.stderr


@pytest.mark.needs(part="java")
def test_spark_submit_makes_the_same_table(tmp_path: Path, workspace: Any) -> None:
    save(tmp_path, until="optimize")
    for profile in ("local", "spark-local"):
        run(
            *PROGRAM, "export", "etl.json", "--workspace", workspace.root, "--profile", profile, "-o", f"{profile}.py",
            folder=tmp_path,
        )  # fmt: skip
    run_file("local.py", "--out", "here", folder=tmp_path)
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    # Of the settings, spark-submit's go first. Those of the archive of classes are what our own sessions start with.
    settings = {"spark.ui.enabled": "false", **class_data.settings_with({}, delta_jars({}), find_java())}
    output = run(
        submit, "--master", "local[2]", *(word for each in settings.items() for word in ("--conf", "=".join(each))),
        "spark-local.py", "--out", "there",
        folder=tmp_path, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
    )  # fmt: skip
    assert "starting Spark" in output
    wanted = rows(made(tmp_path / "here", "optimize").uri)
    assert len(wanted) == 60
    assert rows(made(tmp_path / "there", "optimize").uri) == wanted
