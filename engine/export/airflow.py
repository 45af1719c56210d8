"""An Airflow DAG: a task for each step, which runs the program in a Python of its own."""

from __future__ import annotations

import textwrap
from datetime import timedelta

from engine.export.program import Program
from engine.export.source import Names, in_docstring, literal
from engine.export.write import WIDTH


def airflow_files(program: Program) -> dict[str, str]:
    """The DAG's file, by its path in the folder. It needs Airflow 3 with its standard provider."""
    names = Names()
    for name in ("BashOperator", "DAG", "ENVIRONMENT", "Path", "command", "dag", "os", "shlex", "timedelta"):
        names.take(name)
    variables = {step.name: names.take(step.name) for step in program.steps}
    lines = [
        '"""' + in_docstring(f"The pipeline {program.title} as an Airflow DAG, written by `voxelflow export`."),
        "",
        *textwrap.wrap(
            f"Put this folder below Airflow's DAGs folder. Each task runs one step of {program.file} with the Python"
            " that VOXELFLOW_PYTHON names where Airflow's worker runs: an environment of its own, since Airflow and"
            f" Voxelflow need different packages (pip install {_quoted(program.requirement())}). Results go to the"
            " folder that VOXELFLOW_OUT names; every worker must see it. A task that failed goes on from what is there"
            " when it is cleared.",
            WIDTH,
            break_on_hyphens=False,
        ),
    ]
    if program.variables:
        lines += ["", "Credentials come from the worker's environment:", ""]
        lines += [f"    {name}" for name in program.variables]
    lines += [
        '"""',
        "",
        *(["from datetime import timedelta"] if any(s.timeout_s is not None for s in program.steps) else []),
        "from pathlib import Path",
        "",
        "from airflow.providers.standard.operators.bash import BashOperator",
        "from airflow.sdk import DAG",
        "",
        "# What the tasks find where nothing is set.",
        "ENVIRONMENT = {",
        f'    "PROGRAM": str(Path(__file__).absolute().parent / {literal(program.file)}),',
        f'    "DEFAULT_OUT": str(Path(__file__).absolute().parent / {literal(program.out)}),',
        "}",
        "",
        "",
        "def command(step: str) -> str:",
        '    python, out = "${VOXELFLOW_PYTHON:-python3}", "${VOXELFLOW_OUT:-$DEFAULT_OUT}"',
        '    return f\'exec "{python}" "$PROGRAM" --step {step} --out "{out}"\'',
        "",
        "",
        "with DAG(",
        f"    dag_id={literal(program.stem)},",
        f"    description={literal(_no_template(program.title))},",
        "    schedule=None,",
        "    catchup=False,",
        "    max_active_runs=1,",
        "    # The steps work in one folder, one after another.",
        "    max_active_tasks=1,",
        ") as dag:",
    ]
    for step in program.steps:
        more = f", retries={step.retries}" if step.retries else ""
        if step.timeout_s is not None:
            seconds = timedelta(seconds=step.timeout_s).total_seconds()
            more += f", execution_timeout=timedelta(seconds={seconds:g})"
        name = literal(step.name)
        lines += [
            f"    {variables[step.name]} = BashOperator(",
            f"        task_id={name}, bash_command=command({name}), env=ENVIRONMENT, append_env=True{more}",
            "    )",
        ]
    wires = [(before, step.name) for step in program.steps for before in step.before]
    lines += ["", *(f"    {variables[before]} >> {variables[name]}" for before, name in wires)] if wires else []
    return {f"{program.stem}_dag.py": "\n".join(lines) + "\n"}


def _quoted(requirement: str) -> str:
    return f"'{requirement}'"


def _no_template(text: str) -> str:
    return text.replace("{{", "{ {").replace("{%", "{ %")
