"""Spark on Kubernetes: what a profile must say, the pods that executors and a driver get, and spark-submit's arguments.

Credentials reach the pods by reference alone: every key of the Secret `voxelflow` in the pods' namespace is an
environment variable there, if there is such a Secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from engine.errors import UsageError
from engine.profiles import Profile

SCHEME = "k8s://"
SECRET = "voxelflow"
EXECUTOR_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
OF_THE_POD = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
"""Environment variables of a driver's container, and what they say."""
_CONTAINER = "spark.kubernetes.executor.podTemplateContainerName"
_VOLUME = re.compile(
    r"spark\.kubernetes\.executor\.volumes\.(?P<kind>\w+)\.(?P<name>[\w-]+)\.(mount\.path|options\.(?P<option>[\w.]+))"
)
_SOURCES = {"persistentVolumeClaim": ("claimName",), "nfs": ("server", "path"), "hostPath": ("path", "type")}
"""Kinds of volumes that several pods see, and the options that Spark and a pod's own volume both know."""
_OF_EACH = ("OnDemand", "SPARK_EXECUTOR_ID")
"""What in the name of a claim Spark replaces, so that each pod has another one."""


def is_kubernetes(master: str) -> bool:
    """Whether a master is a Kubernetes API server."""
    return master.startswith(SCHEME)


def check(profile: Profile) -> None:
    """Raise `UsageError` when a profile for Kubernetes does not say what Spark cannot guess."""
    names = profile.spark
    if "spark.kubernetes.container.image" not in names and "spark.kubernetes.executor.container.image" not in names:
        raise UsageError(
            f"profile {profile.name} names no image for the executors",
            hint="Set spark.kubernetes.container.image: Spark's own image with Python of our version and our packages.",
        )
    shared = shared_mounts(profile)
    if EXECUTOR_TEMPLATE in names or any("hostPath" in source for _, source in shared):
        return
    root = profile.storage_root
    if root is None or not any(root.is_relative_to(path) for path, _ in shared):
        raise UsageError(
            f"the executors of profile {profile.name} would not see {root or 'the workspace'}",
            hint="Set storage_root to a folder of a volume that this machine and the executors mount, and name its"
            " claim: spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName and .mount.path.",
        )


def settings(profile: Profile, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a session of ours adds for Kubernetes; the profile's own settings win. Without the pods' template.

    In a pod, the executors belong to it and go when it goes.
    """
    known = os.environ if environ is None else environ
    out = {
        "spark.kubernetes.executor.label.app.kubernetes.io/name": "voxelflow",
        _CONTAINER: "executor",
        # A path of this machine means nothing in the executors' image.
        "spark.pyspark.python": "python3",
    }
    if "KUBERNETES_SERVICE_HOST" in known and (pod := known.get("HOSTNAME")):
        out["spark.kubernetes.driver.pod.name"] = pod
    return out


def mounts(profile: Profile) -> list[tuple[str, str, dict[str, str]]]:
    """The volumes of the executors: kind, path in the pod, and options, as the claim's name or the server of NFS.

    Without claims that each executor has alone.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in profile.spark.items():
        if match := _VOLUME.fullmatch(name):
            # Not by "path": NFS and a folder of the machine have an option of that name.
            found.setdefault((match["kind"], match["name"]), {})[match["option"] or ""] = value
    return [
        (kind, str(PurePath(volume.pop(""))), volume)
        for (kind, _), volume in found.items()
        if "" in volume and not any(word in volume.get("claimName", "") for word in _OF_EACH)
    ]


def shared_mounts(profile: Profile) -> list[tuple[str, dict[str, dict[str, str]]]]:
    """Those that a driver's pod mounts too: the path, and the source as a pod's volume has it."""
    return [
        (path, {kind: {name: options[name] for name in _SOURCES[kind] if name in options}})
        for kind, path, options in mounts(profile)
        if kind in _SOURCES and options.get(_SOURCES[kind][0])
    ]


def executor_template() -> dict[str, Any]:
    """The Pod that Spark starts executors from: it adds image, command, resources and volumes itself."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"app.kubernetes.io/name": "voxelflow", "app.kubernetes.io/component": "executor"}},
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "containers": [{"name": "executor", "envFrom": secret_variables()}],
        },
    }


def driver_template(config_map: str, keys: Mapping[str, str], folder: str) -> dict[str, Any]:
    """The Pod of a driver in cluster mode, which finds the files of a ConfigMap in `folder`.

    `keys` are the ConfigMap's, with the path of each below the folder.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"app.kubernetes.io/name": "voxelflow", "app.kubernetes.io/component": "driver"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "driver",
                    "env": of_the_pod(),
                    "envFrom": secret_variables(),
                    "volumeMounts": [{"name": "program", "mountPath": folder, "readOnly": True}],
                }
            ],
            "volumes": [program_volume(config_map, keys)],
        },
    }


def program_volume(config_map: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """The files of a ConfigMap as a volume called `program`."""
    items = [{"key": key, "path": path} for key, path in keys.items()]
    return {"name": "program", "configMap": {"name": config_map, "items": items}}


def of_the_pod() -> list[dict[str, Any]]:
    """A container's `env` with which a driver in it learns its pod's name and address."""
    return [
        {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}} for variable, field in OF_THE_POD.items()
    ]


def secret_variables() -> list[dict[str, Any]]:
    """A container's `envFrom`: the Secret with the credentials, if it is there."""
    return [{"secretRef": {"name": SECRET, "optional": True}}]
