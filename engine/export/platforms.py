"""The platforms that a pipeline can be exported to, each with the files that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from engine.diagnostics.rule import Diagnostic
from engine.diagnostics.rules import ExecutorsChange
from engine.document.checks import check
from engine.document.resolve import Resolved
from engine.errors import UsageError
from engine.export.airflow import airflow_files
from engine.export.databricks import databricks_files
from engine.export.github import github_files
from engine.export.kubernetes import kubernetes_files, on_kubernetes, own_template
from engine.export.program import Program, program
from engine.export.source import file_stem
from engine.export.write import write
from engine.profiles import Profile
from engine.profiles.file import read_profiles_file
from engine.profiles.find import FILE, READY

PLATFORMS: Mapping[str, Callable[[Program], dict[str, str]]] = {
    "airflow": airflow_files,
    "databricks": databricks_files,
    "github": github_files,
    "kubernetes": kubernetes_files,
}


def problems(target: str, resolved: Resolved, profile: Profile) -> list[Diagnostic]:
    """What is wrong with the pipeline there, without a look at the disks: it may be another machine.

    On Databricks a profile's dynamic allocation is the size of the job's cluster, whatever its master is here.
    """
    found = check(resolved, None, profile).diagnostics
    return [each for each in found if target != "databricks" or each.code != ExecutorsChange.code]


def export_files(
    target: str, resolved: Resolved, profile: Profile, given: Mapping[str, JsonValue], *, base: Path, workspace: Path
) -> dict[str, str]:
    """What `voxelflow export --to TARGET` writes, by path: one file for "python". Raises as `platform_files`."""
    machine = profile.name in READY and profile.name not in read_profiles_file(workspace / FILE).tables
    if target != "python":
        return platform_files(target, resolved, profile, given, base=base, machine=machine)
    _check_profile(target, profile)
    _check_nodes(target, resolved)
    text = write(resolved, profile, given, base=base, machine=machine)
    return {f"{file_stem(resolved.pipeline.name)}.py": text}


def platform_files(
    platform: str, resolved: Resolved, profile: Profile, given: Mapping[str, JsonValue], *, base: Path, machine: bool
) -> dict[str, str]:
    """Everything that lies in the folder of an export, by path: texts, the program or the document among them.

    `machine` says whether the profile means the machine that it finds itself on; a container's limits are the
    profile's in any case. The other arguments are those of `write`. Raises `UsageError` for what the platform cannot
    run, `OSError` when a file of the workspace's own nodes cannot be read.
    """
    _check_profile(platform, profile)
    _check_nodes(platform, resolved)
    if platform == "kubernetes":
        inside, template = on_kubernetes(profile), own_template(profile)
        return kubernetes_files(program(resolved, inside, given, base=base, machine=False), template)
    if platform == "databricks":
        machine = True
    return PLATFORMS[platform](program(resolved, profile, given, base=base, machine=machine))


def _check_profile(platform: str, profile: Profile) -> None:
    if profile.on_databricks and platform != "databricks":
        raise UsageError(
            f"the profile {profile.name} is on Databricks, which takes jobs",
            hint="Export with --to databricks, or choose another profile.",
        )


def _check_nodes(platform: str, resolved: Resolved) -> None:
    """Refuse what can only fail where there is no workspace, perhaps after a training that was paid for."""
    if platform == "airflow":  # its task is `voxelflow run`, in a workspace
        return
    for item in resolved.typed():
        if item.type.taken_from_workspace(item.params) == "runs":
            raise UsageError(
                f"{item.type.name} needs what the runs of a workspace have recorded, and an exported program has none",
                hint=f"Export with --to airflow, which takes a workspace along; else disable {item.node.id}, or give it"
                " a folder in place of a run where it takes one.",
                node=item.node.id,
            )
