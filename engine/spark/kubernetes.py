"""Spark on Kubernetes: what a profile must say, the pods that executors and a driver get, and spark-submit's arguments.

Credentials reach the pods by reference alone: every key of the Secret `voxelflow` in the pods' namespace is an
environment variable there, if there is such a Secret.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, TypeAlias

from engine.errors import UsageError
from engine.profiles import Profile
from engine.profiles.file import toml_key

SCHEME = "k8s://"
SECRET = "voxelflow"
EXECUTOR_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
OF_THE_POD = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
"""Environment variables of a driver's container, and what they say."""
CONTAINER = "spark.kubernetes.executor.podTemplateContainerName"
_VOLUME = re.compile(
    r"spark\.kubernetes\.(?P<pod>executor|driver)\.volumes\.(?P<kind>\w+)\.(?P<name>[\w-]+)\.(?P<what>.+)"
)
_OF_THE_POD_ALONE = "emptyDir"
_SOURCES = {
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "hostPath": ("path", "type"),
    _OF_THE_POD_ALONE: ("medium", "sizeLimit"),
}
"""The kinds of volumes, and the options that Spark and a pod's own volume both know: without the first, no volume
that several pods see can be found."""
_PARTS = ("subPath", "subPathExpr")
"""What says which part of a volume is mounted."""
_OF_EACH = ("OnDemand", "SPARK_EXECUTOR_")
"""What in the name of a claim, or in the part of a volume, Spark or the pod replaces, so that each has another one."""
Mounts: TypeAlias = list[tuple[dict[str, Any], dict[str, dict[str, str]]]]
"""For each volume of a pod the mount and the source, as the pod's description has them, without the volume's name."""
_Volumes: TypeAlias = dict[tuple[str, str], dict[str, str]]
_CLAIM = (
    "Set storage_root to a folder of a volume that this machine and the executors mount, and name its claim:"
    " spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName and .mount.path."
)


def is_kubernetes(master: str) -> bool:
    """Whether a master is a Kubernetes API server."""
    return master.startswith(SCHEME)


def check(profile: Profile) -> None:
    """Raise `UsageError` when a profile for Kubernetes does not say what Spark cannot guess."""
    names = profile.spark
    if "spark.kubernetes.container.image" not in names and "spark.kubernetes.executor.container.image" not in names:
        raise UsageError(
            f"profile {profile.name} names no image for the executors",
            hint='Set spark.kubernetes.container.image: add the line `"spark.kubernetes.container.image" ='
            f' "REGISTRY/IMAGE:TAG"` below [{toml_key(profile.name)}.spark] of profiles.toml, for Spark\'s own image'
            f" with Python {sys.version_info.major}.{sys.version_info.minor} and our packages.",
        )
    shared = _mounts(_volumes(profile, "executor"))
    if EXECUTOR_TEMPLATE in names or any("hostPath" in source for _, source in shared):
        return
    if not _has_root(profile, shared):
        raise UsageError(
            f"the executors of profile {profile.name} would not see {profile.storage_root or 'the workspace'}",
            hint=_CLAIM,
        )


def check_driver(profile: Profile) -> None:
    """Raise `UsageError` when a driver's pod, which mounts `driver_mounts` alone, would not see the storage root."""
    if not _has_root(profile, driver_mounts(profile)):
        raise UsageError(
            f"a driver on Kubernetes would not see {profile.storage_root or 'the workspace'}: the settings of profile"
            f" {profile.name} name no volume for it",
            hint=f"{_CLAIM} A template of the executors' pods alone does not give it to the driver.",
        )


def _has_root(profile: Profile, mounts: Mounts) -> bool:
    root = profile.storage_root
    shared = [mount["mountPath"] for mount, source in mounts if _OF_THE_POD_ALONE not in source]
    return root is not None and any(root.is_relative_to(path) for path in shared)


def settings(profile: Profile, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a session of ours adds for Kubernetes; the profile's own settings win. Without the pods' template.

    In a pod, the executors belong to it and go when it goes.
    """
    known = os.environ if environ is None else environ
    out = {
        "spark.kubernetes.executor.label.app.kubernetes.io/name": "voxelflow",
        CONTAINER: "executor",
        # A path of this machine means nothing in the executors' image.
        "spark.pyspark.python": "python3",
    }
    if "KUBERNETES_SERVICE_HOST" in known and (pod := known.get("HOSTNAME")):
        out["spark.kubernetes.driver.pod.name"] = pod
    return out


def driver_mounts(profile: Profile) -> Mounts:
    """The volumes of a driver's pod that no Spark starts: its own, and those of the executors that it sees as well."""
    return _mounts(_volumes(profile, "driver") | _for_driver(profile))


def driver_volumes(profile: Profile) -> dict[str, str]:
    """The executors' volumes that a driver sees as well, as Spark's settings for its pod."""
    return {
        f"spark.kubernetes.driver.volumes.{kind}.{name}.{what}": value
        for (kind, name), volume in _for_driver(profile).items()
        for what, value in volume.items()
    }


def _for_driver(profile: Profile) -> _Volumes:
    """The executors' volumes without those that each executor has alone.

    A volume that the profile gives to the driver itself, under the same name or at the same path, goes before.
    """
    own = _volumes(profile, "driver")
    taken = {PurePath(volume.get("mount.path", "")) for volume in own.values()}
    return {
        (kind, name): volume
        for (kind, name), volume in _volumes(profile, "executor").items()
        if (kind, name) not in own
        and PurePath(volume.get("mount.path", "")) not in taken
        and kind != _OF_THE_POD_ALONE
        and not _of_each(volume)
    }


def _mounts(volumes: _Volumes) -> Mounts:
    out = []
    for (kind, _), volume in volumes.items():
        names = _SOURCES.get(kind)
        if names is None or not volume.get("mount.path") or _of_each(volume):
            continue
        if kind != _OF_THE_POD_ALONE and not volume.get(f"options.{names[0]}"):
            continue
        mount: dict[str, Any] = {"mountPath": str(PurePath(volume["mount.path"]))}
        mount |= {name: volume[f"mount.{name}"] for name in _PARTS if volume.get(f"mount.{name}")}
        if volume.get("mount.readOnly", "").strip().lower() == "true":
            mount["readOnly"] = True
        out.append((mount, {kind: {name: volume[f"options.{name}"] for name in names if f"options.{name}" in volume}}))
    return out


def _volumes(profile: Profile, pod: str) -> _Volumes:
    """What the settings say of each volume of that kind of pod: `mount.path`, `options.claimName` and so on."""
    found: _Volumes = {}
    for setting, value in profile.spark.items():
        if (match := _VOLUME.fullmatch(setting)) and match["pod"] == pod:
            found.setdefault((match["kind"], match["name"]), {})[match["what"]] = value
    return found


def _of_each(volume: Mapping[str, str]) -> bool:
    named = volume.get("options.claimName", "") + volume.get("mount.subPathExpr", "")
    return any(word in named for word in _OF_EACH)


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
