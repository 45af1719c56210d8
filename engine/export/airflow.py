"""An Airflow DAG: one task for the whole run, in a workspace of its own that every try finds again.

Not a task for each node: each of them would plan the pipeline anew, and what a retry of ours does (go on amid a node,
give back what waited for a table, keep a node's own retries and time limit) Airflow would have to do by halves.
"""

from __future__ import annotations

import json
import shlex
import textwrap

from engine.document.pipeline import dump
from engine.export.limits import deadline_s
from engine.export.program import Program
from engine.export.source import in_docstring, literal
from engine.export.write import WIDTH
from engine.prices import machine_table
from engine.profiles import Profile
from engine.profiles.file import to_toml
from engine.profiles.find import FILE
from engine.workspace import FORMAT

FOLDER = "workspace"
"""The workspace's name in the folder of the export."""
_RETRIES = 1
_AFTER = "# After a run that failed or was cut short, such as by the end of its worker's machine."


def airflow_files(program: Program) -> dict[str, str]:
    """The DAG's file and its workspace, by their paths in the folder. It needs Airflow 3 with its standard provider.

    Raises `UsageError` when the profile limits the cost of its runs and what they cost is unknown.
    """
    deadline_s(program.profile, program.profile.hourly_price)
    marks = {"format": FORMAT, "data_roots": list(program.places)}
    files = {
        f"{program.stem}_dag.py": _dag(program),
        f"{FOLDER}/workspace.json": json.dumps(marks, indent=1, ensure_ascii=False) + "\n",
        f"{FOLDER}/pipelines/{program.stem}.json": dump(program.document),
        **{f"{FOLDER}/{place}": text for place, text in program.own_files.items()},
    }
    if not program.machine:
        files[f"{FOLDER}/{FILE}"] = to_toml(_elsewhere(program.profile))
    return files


def _dag(program: Program) -> str:
    limit = in_docstring(program.profile.limit.text(program.profile.currency))
    lines = [
        '"""' + in_docstring(f"The pipeline {program.title} as an Airflow DAG, written by `voxelflow export`."),
        "",
        *_wrapped(
            "Put this folder below Airflow's DAGs folder. Its one task runs the pipeline with the Python that"
            " VOXELFLOW_PYTHON names where Airflow's worker runs: an environment of its own, since Airflow and"
            f" Voxelflow need different packages (pip install {shlex.join(program.requirements())}). Results go to the"
            f" workspace, which every worker must see and write: the folder {FOLDER} beside this file, or a copy of it"
            " that VOXELFLOW_WORKSPACE names."
        ),
        "",
        *_wrapped(
            f"A second try, by {'you' if limit else 'Airflow or by you'}, finds what is done in the workspace and goes"
            " on from there. Retries and time limits of single nodes are those of the pipeline, within the task."
        ),
    ]
    if limit:
        said = f"Each try is stopped at {limit}, the limit of profile {program.profile.name}: Airflow makes one alone."
        lines += ["", *_wrapped(said)]
    if program.own_files:
        folders = ", ".join(f"{name}/" for name in sorted({place.partition("/")[0] for place in program.own_files}))
        lines += ["", f"The code in its {folders} runs once the worker's user has said that it may:", ""]
        lines += [f"    voxelflow nodes --trust --workspace {FOLDER}"]
    if program.variables:
        lines += ["", "Credentials come from the worker's environment:", ""]
        lines += [f"    {name}" for name in program.variables]
    lines += [
        '"""',
        "",
        "from pathlib import Path",
        "",
        "from airflow.providers.standard.operators.bash import BashOperator",
        "from airflow.sdk import DAG",
        "",
        "# A second try would have the whole limit again." if limit else _AFTER,
        f"RETRIES = {0 if limit else _RETRIES}",
        "# What the task finds where nothing is set.",
        f'ENVIRONMENT = {{"DEFAULT_WORKSPACE": str(Path(__file__).absolute().parent / {literal(FOLDER)})}}',
        'COMMAND = """',
        'workspace="${VOXELFLOW_WORKSPACE:-$DEFAULT_WORKSPACE}"',
        # Where the pipeline's own files lie.
        'cd "$workspace" || exit 1',
        # The shell makes way, so that what ends the task reaches the run.
        'exec "${VOXELFLOW_PYTHON:-python3}" -P -m voxelflow run \\\\',
        f"    pipelines/{program.stem}.json --workspace . --profile {program.profile.name}",
        '"""',
        "",
        "with DAG(",
        f"    dag_id={literal(program.stem)},",
        f"    description={literal(_no_template(program.title))},",
        "    schedule=None,",
        "    catchup=False,",
        "    # Two runs would wait for each other's tables.",
        "    max_active_runs=1,",
        ") as dag:",
        '    BashOperator(task_id="run", bash_command=COMMAND, env=ENVIRONMENT, append_env=True, retries=RETRIES)',
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _elsewhere(profile: Profile) -> Profile:
    """The profile for another workspace, which knows the shipped prices alone."""
    shipped = {
        name: (machine.price_per_hour, machine.currency)
        for machine in machine_table(None).machines
        if (name := machine.key) in (profile.machine, profile.executor_machine)
    }
    wanted = {profile.machine: (profile.machine_price, profile.currency)}
    if profile.executor_machine:
        wanted[profile.executor_machine] = (profile.executor_price, profile.currency)
    own = profile.price_per_hour
    if own is None and not profile.spot and shipped == wanted:
        return profile
    # Without Databricks' units, which the profile names itself.
    alone = profile.model_copy(update={"price_per_dbu": None})
    changed = {"machine": "", "executor_machine": "", "spot": False, "price_per_hour": alone.hourly_price}
    return profile.model_copy(update=changed)


def _no_template(text: str) -> str:
    return text.replace("{{", "{ {").replace("{%", "{ %")
