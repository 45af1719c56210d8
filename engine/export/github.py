"""A GitHub workflow that runs the program on one of GitHub's machines, and keeps its results for the next time."""

from __future__ import annotations

import shlex
from typing import Any

from engine.errors import UsageError
from engine.export.program import Program, letter_first
from engine.export.yaml_text import to_yaml


def github_files(program: Program) -> dict[str, str]:
    """The workflow and the program, by their paths in the repository's root.

    Raises `UsageError` for a profile whose work happens on a cluster.
    """
    profile = program.profile
    if program.on_spark and not profile.master.startswith("local"):
        raise UsageError(
            f"a workflow runs on one machine of GitHub's, and profile {profile.name} on {profile.master}",
            hint="Choose an embedded profile, or one whose master is local[*].",
        )
    folder = f"{program.stem}-out"
    key = f"{program.stem}-${{{{ github.ref_name }}}}-"
    steps: list[dict[str, Any]] = [
        {"uses": "actions/checkout@v4"},
        {"uses": "actions/setup-python@v5", "with": {"python-version": "3.11"}},
    ]
    if program.on_spark:
        steps.append({"uses": "actions/setup-java@v4", "with": {"distribution": "temurin", "java-version": "17"}})
    run: dict[str, Any] = {"run": f"python {shlex.quote(program.file)} --out {folder}"}
    if program.environment:
        run["env"] = {name: f"${{{{ secrets.{name} }}}}" for name in program.environment}
    steps += [
        {"run": f"pip install {shlex.join(program.requirements())}"},
        {
            "uses": "actions/cache/restore@v4",
            "with": {"path": folder, "key": f"{key}${{{{ github.run_id }}}}", "restore-keys": key},
        },
        run,
        {
            # After a failure too: the next run goes on from what is there.
            "if": "always()",
            "uses": "actions/cache/save@v4",
            "with": {"path": folder, "key": f"{key}${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}"},
        },
    ]
    workflow = {
        "name": program.stem,
        "on": {"workflow_dispatch": {}},
        "permissions": {"contents": "read"},
        "concurrency": {"group": program.stem},
        "jobs": {letter_first(program.dns_name): {"runs-on": "ubuntu-24.04", "timeout-minutes": 360, "steps": steps}},
    }
    return {**program.files(), f".github/workflows/{program.stem}.yml": to_yaml(workflow, _head(program))}


def _head(program: Program) -> str:
    lines = [
        f"The pipeline {program.title} as a GitHub workflow, written by `voxelflow export`. Copy this folder into the",
        "root of a repository, and run it under Actions. pip must find voxelflow, in a package index of yours or as",
        "the address of a wheel.",
    ]
    if program.environment:
        lines += [
            "Credentials are secrets of the repository. Remove from env what you do not use: a secret that is not",
            f"there is an empty variable. {', '.join(program.environment)}",
        ]
    return "\n".join(lines)
