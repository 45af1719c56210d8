"""How an exported file is given to spark-submit for a profile's cluster, as the arguments of a command line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from engine.profiles import Profile
from engine.spark import yarn
from engine.spark.jars import GROUP, delta_artifact
from engine.spark.kubernetes import is_kubernetes

_FOR_THE_CLUSTER = ("spark.kubernetes.", "spark.yarn.", "spark.driver.", "spark.executor.", "spark.dynamicAllocation.")
"""What counts before the program runs, so that it cannot say it itself."""
OF_THE_CLIENT = ("spark.driver.host", "spark.driver.bindAddress")
"""What means the machine that starts the session: another one runs a driver in the cluster."""


def submit_arguments(profile: Profile, file: str, more: Mapping[str, str] | None = None) -> list[str]:
    """`spark-submit` and what follows it, with the driver in the cluster where there is a cluster mode.

    `file` as the driver sees it. Settings that name a secret stay out: all can read a command line, and the program
    takes them from its own environment. `more` are further settings.
    """
    # A standalone cluster runs no driver of a Python program.
    mode = ["--deploy-mode", "cluster"] if profile.master == yarn.MASTER or is_kubernetes(profile.master) else []
    own = {
        name: value
        for name, value in profile.spark.items()
        if name.startswith(_FOR_THE_CLUSTER) and "${" not in value and name not in OF_THE_CLIENT
    }
    packages = _delta() if profile.master == yarn.MASTER else []
    if profile.master == yarn.MASTER and (python := profile.spark.get("spark.pyspark.python")):
        own.setdefault("spark.yarn.appMasterEnv.PYSPARK_PYTHON", python)
    conf = [word for name, value in {**own, **(more or {})}.items() for word in ("--conf", f"{name}={value}")]
    return ["spark-submit", "--master", profile.master, *mode, *packages, *conf, file]


def _delta() -> list[str]:
    """Delta's jars for a driver elsewhere, which has neither Spark's folder of jars nor what we have fetched."""
    try:
        name, _, version = delta_artifact().rpartition("-")
    except metadata.PackageNotFoundError:
        return []  # a file may be written where PySpark is not installed
    return ["--packages", f"{GROUP}:{name}:{version}"]
