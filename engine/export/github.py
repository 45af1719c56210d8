"""A GitHub workflow that runs the program on one of GitHub's machines, and keeps its results for the next time."""

from __future__ import annotations

import shlex
from typing import Any

from engine.errors import UsageError
from engine.export.limits import deadline_s, limit_lines
from engine.export.program import Program, letter_first
from engine.export.yaml_text import to_yaml
from engine.text import plural

GPU_RUNNER = "GPU_RUNNER"
"""The repository's variable with the label of a machine that has GPUs."""
_MOST_MINUTES = 360
"""After which GitHub ends a job on a machine of its own."""
_MOST_MINUTES_OF_A_RUNNER = 7200
"""The same on a self-hosted runner: five days."""


def github_files(program: Program) -> dict[str, str]:
    """The workflow and the program, by their paths in the repository's root.

    Raises `UsageError` for a profile whose work happens on a cluster, and for one that limits the cost of its runs when
    what they cost is unknown.
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
    seconds = deadline_s(profile, profile.hourly_price)
    most = _MOST_MINUTES_OF_A_RUNNER if profile.gpus else _MOST_MINUTES
    minutes = most if seconds is None else min(max(1, seconds // 60), most)
    job = {
        # Where the variable is not set, GitHub refuses the job before it starts.
        "runs-on": f"${{{{ vars.{GPU_RUNNER} }}}}" if profile.gpus else "ubuntu-24.04",
        "timeout-minutes": minutes,
        "steps": steps,
    }
    workflow = {
        "name": program.stem,
        "on": {"workflow_dispatch": {}},
        "permissions": {"contents": "read"},
        "concurrency": {"group": program.stem},
        "jobs": {letter_first(program.dns_name): job},
    }
    limit = limit_lines(profile, profile.hourly_price, None if seconds is None else minutes * 60)
    if seconds is not None and seconds > _MOST_MINUTES * 60:
        where = " on a machine of its own" if profile.gpus else ""
        limit.append(f"GitHub itself ends a job{where} after {_MOST_MINUTES} minutes.")
    return {**program.files(), f".github/workflows/{program.stem}.yml": to_yaml(workflow, _head(program, limit))}


def _head(program: Program, limit: list[str]) -> str:
    profile = program.profile
    lines = [
        f"The pipeline {program.title} as a GitHub workflow, written by `voxelflow export`. Copy this folder into the",
        "root of a repository, and run it under Actions. pip must find voxelflow, in a package index of yours or as",
        "the address of a wheel.",
    ]
    if profile.gpus:
        gpus = plural(profile.gpus, "GPUs")
        lines += [
            f"Profile {profile.name} has {gpus}, and GitHub's usual machines have none. Set the label of a runner",
            "that has them, your own (self-hosted) or a larger one of GitHub's:",
            f"  gh variable set {GPU_RUNNER} --body LABEL",
        ]
    lines += limit
    if program.environment:
        lines += [
            "Credentials are secrets of the repository. Remove from env what you do not use: a secret that is not",
            f"there is an empty variable. {', '.join(program.environment)}",
        ]
    return "\n".join(lines)
