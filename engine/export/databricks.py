"""A Databricks asset bundle: a job with a task for each step, on a cluster made from the compute profile.

Not one task for the whole run, as Airflow gets: a workspace's run store is SQLite, which writes at random places, as a
volume of Databricks does not allow. Each task goes on from the half-done work of its last try in the results' folder.

Databricks brings Spark and Delta, so `voxelflow` is installed there without them, and what a profile says of executors
becomes the size of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.errors import UsageError
from engine.export.limits import deadline_s, limit_lines
from engine.export.program import Program, letter_first
from engine.export.yaml_text import to_yaml
from engine.profiles import Profile
from engine.profiles.cluster import PROVIDERS
from engine.profiles.dynamic_allocation import allocates_dynamically
from engine.text import plural

SECRET = "voxelflow"
"""The scope of the credentials."""
RUNTIME = "17.3.x-scala2.13"
GPU_RUNTIME = "17.3.x-gpu-ml-scala2.13"
_WORKERS = 2
"""Where the profile does not say how many executors there are."""
_FEWEST = "spark.dynamicAllocation.minExecutors"
_MOST = "spark.dynamicAllocation.maxExecutors"
_THEIRS = re.compile(
    r"spark\.(master|submit\..*|jars(\..*)?|driver\.(host|bindAddress|port|cores|memory.*|extra.*)|executor\..*"
    r"|dynamicAllocation\..*|kubernetes\..*|yarn\..*|pyspark\..*|local\.dir|ui\..*|sql\.(extensions|catalog\..*)"
    r"|authenticate.*|voxelflow\..*)"
)
"""Settings that Databricks has its own answer to: addresses, jars, sizes, the session's extensions."""
_CLOUDS: Mapping[str, tuple[str, str, str]] = {
    "aws": ("aws_attributes", "ON_DEMAND", "SPOT_WITH_FALLBACK"),
    "azure": ("azure_attributes", "ON_DEMAND_AZURE", "SPOT_WITH_FALLBACK_AZURE"),
    "gcp": ("gcp_attributes", "ON_DEMAND_GCP", "PREEMPTIBLE_WITH_FALLBACK_GCP"),
}
"""By the provider of machines: the part of a cluster's description, and the words for both markets."""
_WITHOUT_DISK = re.compile(r"([cmr]([4-9]|\d\d)[a-ce-z]*|t\d[a-z]*|p[23])\.", re.IGNORECASE)
"""AWS's types that have no disk of their own: Databricks makes no cluster of them without a volume (EBS)."""
_DISK = {"ebs_volume_type": "GENERAL_PURPOSE_SSD", "ebs_volume_count": 1, "ebs_volume_size": 100}
"""One volume for each machine, as small as Databricks lets it be (GB)."""
_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def databricks_files(program: Program) -> dict[str, str]:
    """The files of the bundle by their paths in its folder.

    Raises `UsageError` for a Spark setting that a bundle cannot hold, or that gives the cluster no size, and for a
    profile that limits the cost of its runs when what the cluster costs is unknown.
    """
    profile = program.profile
    cluster = _cluster(program)
    machines = _machines(cluster)
    # The limit holds too where Databricks gets no machines on the spot market, and takes others.
    price = None if profile.limit.cost is None else _price(profile.on_demand(), machines, spot=profile.spot)
    seconds = deadline_s(profile, price)
    tasks = []
    for step in program.steps:
        task: dict[str, Any] = {"task_key": step.name}
        if step.before:
            task["depends_on"] = [{"task_key": name} for name in step.before]
        task |= {
            "job_cluster_key": "main",
            "spark_python_task": {
                "python_file": f"./{program.file}",
                "parameters": ["--step", step.name, "--out", "${var.out}"],
            },
            "libraries": [{"pypi": {"package": name}} for name in program.requirements("spark")],
            "max_retries": step.retries,
        }
        if step.timeout_s is not None:
            task["timeout_seconds"] = max(1, round(step.timeout_s))
        tasks.append(task)
    out = program.out if profile.storage_root is not None else f"/Volumes/main/default/voxelflow/{program.out}"
    limit = limit_lines(profile, price, seconds, _counted(profile.on_demand(), machines, spot=profile.spot))
    whose = "executors" if "driver_node_type_id" in cluster else "cluster"
    bundle = {
        "bundle": {"name": program.stem},
        "variables": {
            "out": {"description": "Folder for results; the cluster's machines must all see it.", "default": out},
            "node_type": {"description": f"Machine type of the {whose}: {_as_text(_machine(profile))}."}
            | _node_type(_type_of_all(profile, machines)),
            **_driver_variable(profile, cluster),
            "runtime": {"description": "Databricks runtime.", "default": GPU_RUNTIME if profile.gpus else RUNTIME},
        },
        "targets": {"dev": {"mode": "development", "default": True}},
        "resources": {
            "jobs": {
                letter_first(program.stem): {
                    "name": _as_text(program.title),
                    "max_concurrent_runs": 1,
                    "queue": {"enabled": True},
                    # Of a run with all its tasks and their retries.
                    **({} if seconds is None else {"timeout_seconds": seconds}),
                    "job_clusters": [{"job_cluster_key": "main", "new_cluster": cluster}],
                    "tasks": tasks,
                }
            }
        },
    }
    return {**program.files(), "databricks.yml": to_yaml(bundle, _head(program, limit, machines))}


def _node_type(machine: str) -> dict[str, str]:
    # `NAME@REGION` in the table of prices; a cluster's region is that of the Databricks workspace.
    return {"default": machine.partition("@")[0]} if machine else {}


def _type_of_all(profile: Profile, machines: int) -> str:
    """The machine type of the cluster's machines, but of a driver that has its own; "" where none is named."""
    return (profile.executor_machine if machines > 1 else "") or profile.machine


def _driver_variable(profile: Profile, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The driver's machine type, where it is another one than that of the executors."""
    if "driver_node_type_id" not in cluster:
        return {}
    wanted = f"at least {plural(profile.cores, 'cores')} and {profile.memory_bytes / 1e9:.0f} GB"
    return {"driver_node_type": {"description": f"Machine type of the driver: {wanted}."} | _node_type(profile.machine)}


def _head(program: Program, limit: list[str], machines: int) -> str:
    profile = program.profile
    wanted = "" if _type_of_all(profile, machines) else " --var node_type=TYPE"
    lines = [
        f"The pipeline {program.title} as a Databricks job, written by `voxelflow export`. In this folder:",
        "",
        f"  databricks bundle deploy{wanted}" + ("   # databricks clusters list-node-types" if wanted else ""),
        f"  databricks bundle run {letter_first(program.stem)}{wanted}",
        "",
        "A package index of yours must have voxelflow; else build a wheel and name it under libraries as whl:.",
    ]
    if profile.spot and machines > 1:
        lines += [
            "The executors' machines are of the spot market and may be taken back; where there are none, Databricks",
            "takes them on demand, at that price. The driver's is on demand.",
        ]
    elif profile.spot:
        lines += ["The cluster is one machine, which is on demand: only executors are taken from the spot market."]
    lines += [_as_text(line) for line in limit]
    if program.environment:
        lines += [
            f"Credentials come from the secret scope {SECRET}; remove the variables that you do not use:",
            *(f"  databricks secrets put-secret {SECRET} {name}" for name in program.environment),
        ]
    return "\n".join(lines)


def _machine(profile: Profile) -> str:
    wanted = f"at least {plural(profile.cores, 'cores')} and {profile.memory_bytes / 1e9:.0f} GB"
    executor = [profile.spark.get(f"spark.executor.{name}", "") for name in ("cores", "memory")]
    if any(executor):
        cores, memory = executor
        wanted = f"at least {cores or profile.cores} cores" + (f" and {memory} for an executor" if memory else "")
    return wanted + (f", {profile.gpus} GPUs" if profile.gpus else "")


def _cluster(program: Program) -> dict[str, Any]:
    profile = program.profile
    cluster: dict[str, Any] = {
        "spark_version": "${var.runtime}",
        "node_type_id": "${var.node_type}",
        "data_security_mode": "SINGLE_USER",
    }
    settings = _settings(profile) if program.on_spark else {}
    if not program.on_spark or profile.master.startswith("local"):
        cluster |= {"num_workers": 0, "custom_tags": {"ResourceClass": "SingleNode"}}
        settings = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"} | settings
    elif allocates_dynamically(profile.master, profile.spark):
        cluster["autoscale"] = _autoscale(profile)
    else:
        cluster["num_workers"] = _workers(profile, "spark.executor.instances", _WORKERS)
    if profile.machine and profile.executor_machine not in ("", profile.machine) and _machines(cluster) > 1:
        cluster["driver_node_type_id"] = "${var.driver_node_type}"
    cluster |= _of_provider(profile, _machines(cluster))
    if settings:
        cluster["spark_conf"] = settings
    if program.environment:
        cluster["spark_env_vars"] = {name: _secret(name) for name in program.environment}
    return cluster


def _of_provider(profile: Profile, machines: int) -> dict[str, Any]:
    """What the cluster's machines need of their provider; nothing where that is not known.

    The driver, the first machine, is always on demand. Of executors it is said, too: else Databricks takes them from
    AWS's spot market. Raises `UsageError` where they should be of the spot market, and the provider is not known.
    """
    known = _CLOUDS.get(profile.provider.strip().casefold())
    if known is not None:
        part, on_demand, spot = known
        said: dict[str, Any] = {}
        if machines > 1:
            said = {"first_on_demand": 1, "availability": spot if profile.spot else on_demand}
        types = {profile.machine, _type_of_all(profile, machines)}
        if part == "aws_attributes" and any(map(_WITHOUT_DISK.match, types)):
            said |= _DISK
        return {part: said} if said else {}
    if not profile.spot or machines == 1:
        return {}
    machine = profile.executor_machine or profile.machine
    raise UsageError(
        f"a bundle cannot ask for {machine.partition('@')[0]} on the spot market, as profile {profile.name} says: its"
        f" provider is {profile.provider or 'not known'}",
        hint=f"Write {', '.join(PROVIDERS)} as its provider into machines.csv of the workspace, or take spot out of the"
        " profile.",
    )


def _machines(cluster: Mapping[str, Any]) -> int:
    """How many machines the cluster has at most, the driver's among them."""
    workers: int = cluster["autoscale"]["max_workers"] if "autoscale" in cluster else cluster["num_workers"]
    return workers + 1


def _price(profile: Profile, machines: int, *, spot: bool) -> float | None:
    """What an hour of the whole cluster costs at most; None where it is unknown. `profile` has the prices on demand,
    `spot` says that the job may take cheaper machines.

    A price of the profile's own (`price_per_hour`) is that of all its machines, as runs count it. That of a machine
    type, and Databricks' units, are of each machine. Raises `UsageError` where less than all is known.
    """
    if profile.price_per_hour is None and profile.machine:
        instead = 'price_per_hour = ... of the whole cluster, or stop_after = "3h" in place of stop_at_cost.'
        cannot = f"the run cannot be stopped at a cost on the profile {profile.name}:"
        if spot and profile.hour_of(machines - 1) is None:
            raise UsageError(
                f"{cannot} what its machines cost on demand is not known, and Databricks takes such where there are"
                " none on the spot market",
                hint=f"Write their price_per_hour into machines.csv of the workspace, or set {instead}",
            )
        if profile.machine_price is not None and profile.price_per_dbu is None:
            raise UsageError(
                f"{cannot} what Databricks' units cost beside {profile.machine.partition('@')[0]} is not known",
                hint=f"Set price_per_dbu = ..., or {instead}",
            )
    return profile.hour_of(machines - 1)


def _counted(profile: Profile, machines: int, *, spot: bool) -> str:
    """What that price is made of; see `_price`."""
    unit = f"at {profile.price_per_dbu or 0:g}"
    units, whose = f"{profile.dbu_per_hour or 0:g} units {unit}", f"for each of {machines}"
    if profile.executor_dbu_per_hour is not None:
        units, whose = f"{profile.units_of(machines - 1) or 0:g} units {unit}", "for all"
    if profile.price_per_hour is None:
        of = f"{plural(machines, 'machines')} at {profile.machine_price or 0:g}"
        if machines > 1 and profile.executor_machine not in ("", profile.machine):
            of = f"the driver at {profile.machine_price or 0:g}, {plural(machines - 1, 'executors')}"
            of += f" at {profile.executor_price or 0:g}"
        said = f"{of} and {units} {'each' if profile.executor_dbu_per_hour is None else whose}"
        return f"{said}, all on demand: less with machines of the spot market" if spot and machines > 1 else said
    whole = f"{profile.price_per_hour:g} for all machines"
    return whole if profile.price_per_dbu is None else f"{whole}, and {units} {whose}"


def _autoscale(profile: Profile) -> dict[str, int]:
    fewest = _workers(profile, _FEWEST, 1)
    most = _workers(profile, _MOST, max(fewest, _WORKERS))
    if fewest > most:
        raise UsageError(
            f"profile {profile.name} has {_FEWEST} {fewest} and {_MOST} {most}, less than that",
            hint="Correct one of them: the cluster has at least so many machines, and at most so many.",
        )
    return {"min_workers": fewest, "max_workers": most}


def _workers(profile: Profile, name: str, default: int) -> int:
    """How many executors the setting says, at least one. Raises `UsageError` when it says no number."""
    value = profile.spark.get(name, str(default)).strip()
    if value.isascii() and value.isdigit():
        return max(1, int(value))
    limit = {_FEWEST: " at least", _MOST: " at most"}.get(name, "")
    raise UsageError(
        f"{name} of profile {profile.name} is {value or 'empty'}, and a cluster on Databricks needs a number there",
        hint=f"Write how many machines the cluster has{limit}, such as 8.",
    )


def _settings(profile: Profile) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in profile.spark.items():
        if _THEIRS.fullmatch(name):
            continue
        if match := _SECRET.fullmatch(value):
            value = _secret(match[1])
        elif "${" in value:
            raise UsageError(
                f"the setting {name} of profile {profile.name} cannot go into a bundle, which reads ${{...}} itself",
                hint="Let the credential be the whole value there: put the rest of it into the variable, too.",
            )
        out[name] = value
    return out


def _as_text(text: str) -> str:
    # A bundle reads ${...} itself, and knows no way to write it otherwise.
    return text.replace("${", "$ {")


def _secret(name: str) -> str:
    return f"{{{{secrets/{SECRET}/{name}}}}}"
