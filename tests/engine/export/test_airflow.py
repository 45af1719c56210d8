"""An exported DAG, run by Airflow itself in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from exported_runs import made, rows, run, run_file, save
from outside_parts import AIRFLOW

from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.workspace import Workspace

# Voxelflow's commands are forked. What Airflow starts has a Python of its own.
pytestmark = [pytest.mark.slow, pytest.mark.needs(part="airflow"), pytest.mark.usefixtures("forked_runs")]


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
            # Five minutes, of which the second try would be nothing but later.
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **environment,
        },
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


FAILS_ONCE = '''
from pathlib import Path

from voxelflow import Report, TaskContext, VolumeDelta, node


@node("FailsOnce", version=1, category="Mine")
def fails_once(table: VolumeDelta, *, marker: str, ctx: TaskContext) -> Report:
    """Fail, the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        raise RuntimeError("the first time")
    path = ctx.out / "report.txt"
    path.write_text(table.uri)
    return Report(uri=str(path))
'''


def test_a_second_try_of_the_one_task_skips_what_is_done(tmp_path: Path, workspace: Workspace) -> None:
    document = json.loads(save(tmp_path).read_text())
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, folder=tmp_path)
    run_file("etl.py", folder=tmp_path)
    wanted = rows(made(tmp_path / "etl-out", "optimize").uri)

    marker = tmp_path / "failed"
    document["nodes"].append({"id": "late", "type": "FailsOnce", "params": {"marker": str(marker)}})
    document["edges"].append({"from": "optimize.out", "to": "late.table"})
    (tmp_path / "etl.json").write_text(json.dumps(document))
    (workspace.my_nodes / "fails_once.py").write_text(FAILS_ONCE)
    home = tmp_path / "home"
    theirs = home / "dags" / "etl" / "workspace"
    run(*PROGRAM, "nodes", "--trust", "--workspace", workspace.root, folder=tmp_path)
    run(
        *PROGRAM, "export", "etl.json", "--workspace", workspace.root, "--to", "airflow", "-o", "home/dags/etl",
        folder=tmp_path,
    )  # fmt: skip
    # As the head of the DAG says: by the user that Airflow's worker runs as.
    run(*PROGRAM, "nodes", "--trust", "--workspace", theirs, folder=tmp_path, HOME=str(home), XDG_CONFIG_HOME="")

    airflow(home, "db", "migrate")
    said = airflow(home, "dags", "test", "etl", VOXELFLOW_PYTHON=sys.executable, VOXELFLOW_TRACKING="off")
    assert "state=success" in said
    assert marker.exists()
    store = RunStore(Workspace(theirs))
    second, first = store.runs()
    assert (first.state, second.state) == ("failed", "done")
    states = [{task.node: task.state for task in store.tasks(one.run_id)} for one in (first, second)]
    done = ["make", "convert", "table", "optimize", "split", "look"]
    assert {node: state for node, state in states[0].items() if node != "look"} == (
        dict.fromkeys(done[:-1], "done") | {"late": "failed"}
    )
    assert states[1] == dict.fromkeys(done, "cached") | {"late": "done", "look": states[1]["look"]}
    (table,) = (task for task in store.tasks(second.run_id) if task.node == "optimize")
    assert rows(table.outputs["out"].uri) == wanted
    assert len(wanted) == 60
