"""An exported DAG, run by Airflow itself in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from exported_runs import made, rows, run, save
from outside_parts import AIRFLOW

from engine.run.worker_process import PROGRAM
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.needs(part="airflow")]


def airflow(home: Path, *arguments: str, **environment: str) -> str:
    """What `airflow` prints. Its database and everything else lie in `home`."""
    done = subprocess.run(
        [AIRFLOW / ".venv" / "bin" / "airflow", *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **environment,
        },
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_airflow_runs_a_task_for_each_node_and_makes_the_same_table(tmp_path: Path, workspace: Workspace) -> None:
    save(tmp_path)
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, folder=tmp_path)
    run(sys.executable, "etl.py", folder=tmp_path)
    wanted = rows(made(tmp_path / "etl-out", "optimize").uri)
    run(
        *PROGRAM, "export", "etl.json", "--workspace", workspace.root, "--to", "airflow", "-o", "home/dags/etl",
        folder=tmp_path,
    )  # fmt: skip
    home, out = tmp_path / "home", tmp_path / "from-airflow"
    airflow(home, "db", "migrate")
    said = airflow(home, "dags", "test", "etl", VOXELFLOW_PYTHON=sys.executable, VOXELFLOW_OUT=str(out))
    assert "state=success" in said
    assert rows(made(out, "optimize").uri) == wanted
    assert len(wanted) == 60
    steps = [entry["step"] for entry in json.loads((out / "done.json").read_text())]
    assert steps == ["make", "convert", "table", "optimize", "split", "look"]
    # A task each, and none does another's work.
    for step in steps:
        assert said.count(f"end task task_id={step} ") == 1
        assert said.count(f"{step}: done in") == 1
    assert "stands already" not in said
