"""A profile as the TOML that gives it, and the example that a new one begins with."""

from __future__ import annotations

import json

from engine.profiles.profile import Profile


def to_toml(profile: Profile) -> str:
    """The table that gives this profile, to copy into `profiles.toml`."""
    spark = profile.backend == "spark"
    fields: list[tuple[str, object]] = [("backend", profile.backend)]
    if spark:
        fields.append(("master", profile.master))
    fields += [("cores", profile.cores), ("memory", profile.memory_bytes), ("gpus", profile.gpus)]
    fields.append(("parallel_tasks", profile.parallel_tasks))
    if profile.price_per_hour is not None:
        fields.append(("price_per_hour", profile.price_per_hour))
    if profile.storage_root is not None:
        fields.append(("storage_root", str(profile.storage_root)))
    lines = [f"[{_key(profile.name)}]", *(f"{name} = {_value(value)}" for name, value in fields)]
    if profile.spark:
        lines += ["", f"[{_key(profile.name)}.spark]"]
        lines += [f"{_value(name)} = {_value(value)}" for name, value in sorted(profile.spark.items())]
    return "\n".join(lines) + "\n"


def example(name: str) -> str:
    """A table to begin with: Spark on this machine, and everything else that may stand there, commented out."""
    key = _key(name)
    return f"""\
[{key}]
backend = "spark"                  # "embedded": worker processes on this machine; "spark": Spark and Delta Lake
master = "local[*]"                # as spark-submit takes it: "spark://host:7077", "yarn", "k8s://https://host:443"
# cores = 8                        # of this machine (a cluster's driver) for tasks that run here; default: all
# memory = "16 GB"                 # likewise; "16 GiB", "16g" or bytes too; default: 3/4 of what is free
# gpus = 0
# parallel_tasks = 2               # tasks side by side
# price_per_hour = 3.20            # shows what runs have cost
# storage_root = "/mnt/shared"     # a folder that this machine and all executors see; default: the workspace

[{key}.spark]                    # settings as spark-submit takes them, names in quotes
# "spark.executor.memory" = "8g"
# "spark.executor.cores" = 4
# "spark.authenticate.secret" = "${{CLUSTER_SECRET}}"   # secrets only as names of environment variables
"""


def _key(name: str) -> str:
    # A bare key may hold no point: [a.b] would be a table b in a table a.
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: object) -> str:
    # JSON's strings and numbers are TOML's too.
    return json.dumps(value, ensure_ascii=False)
