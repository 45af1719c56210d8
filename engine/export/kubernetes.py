"""A Kubernetes Job that runs the program in a container; with Spark on Kubernetes its pod is the driver.

A Spark profile gets the arguments of spark-submit in cluster mode as well, with the templates of both kinds of pods.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

from engine.errors import UsageError
from engine.export.program import Program
from engine.export.yaml_text import to_yaml
from engine.profiles import Profile
from engine.spark.kubernetes import (
    EXECUTOR_TEMPLATE,
    OF_THE_POD,
    SECRET,
    check,
    driver_template,
    executor_template,
    is_kubernetes,
    of_the_pod,
    program_volume,
    secret_variables,
    shared_mounts,
)
from engine.spark.submit import submit_arguments

FOLDER = "/voxelflow"
"""Where the program's files lie in the container."""
_DATA = "/data"
_EXECUTOR = "executor-pod.yaml"


def on_kubernetes(profile: Profile) -> Profile:
    """The profile as the Job's container has it: its own address, and executors that go when the Job goes.

    Raises `UsageError` when a container cannot reach the profile's cluster, or the profile lacks something.
    """
    if profile.backend != "spark" or profile.master.startswith(("local", "spark://")):
        return profile
    if not is_kubernetes(profile.master):
        raise UsageError(
            f"a Kubernetes Job cannot be the driver of {profile.master}",
            hint="Choose an embedded profile, or one whose master is k8s://..., spark://... or local[*].",
        )
    check(profile)
    ours = {
        "spark.driver.host": "${POD_IP}",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.kubernetes.driver.pod.name": "${POD_NAME}",
        EXECUTOR_TEMPLATE: f"{FOLDER}/{_EXECUTOR}",
    }
    # The address in the profile is that of a machine outside.
    return profile.model_copy(update={"spark": {**profile.spark, **ours}})


def kubernetes_files(program: Program) -> dict[str, str]:
    """The manifest and what belongs to it, by their paths in the folder."""
    profile, name = program.profile, program.dns_name
    contents, paths = _program_files(program)
    objects: list[tuple[str, dict[str, Any]]] = [
        ("The program.", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": contents})
    ]
    volumes: list[dict[str, Any]] = [program_volume(name, paths)]
    volume_mounts: list[dict[str, Any]] = [{"name": "program", "mountPath": FOLDER, "readOnly": True}]
    executors = program.on_spark and is_kubernetes(profile.master)
    data: list[tuple[str, dict[str, dict[str, str]]]] = shared_mounts(profile) if executors else []
    root = str(profile.storage_root) if profile.storage_root is not None else _DATA
    if not executors:
        data = [(root, {"persistentVolumeClaim": {"claimName": f"{name}-data"}})]
        objects.append(("Results and half-done work, which a Job that is started again goes on from.", _claim(name)))
    for number, (path, source) in enumerate(data):
        volumes.append({"name": f"data-{number}", **source})
        volume_mounts.append({"name": f"data-{number}", "mountPath": path})
    if executors:
        objects += [("The driver starts and ends executors.", item) for item in _rights(name)]
    container: dict[str, Any] = {
        "name": "driver" if executors else "program",
        "image": _image(program),
        "command": ["python3", f"{FOLDER}/{program.file}", "--out", str(PurePosixPath(root, f"{program.stem}-out"))],
        "envFrom": secret_variables(),
        "resources": _resources(profile),
        "volumeMounts": volume_mounts,
    }
    if executors:
        container["env"] = of_the_pod()
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    pod |= {"serviceAccountName": name} if executors else {"automountServiceAccountToken": False}
    labels = {"app.kubernetes.io/name": "voxelflow", "app.kubernetes.io/instance": name}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": sum(step.retries for step in program.steps),
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    objects.append(("The run.", job))
    manifest = "---\n".join(to_yaml(data, comment) for comment, data in objects)
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(program))
    out = {**program.files(), f"{program.stem}.yaml": head + manifest}
    if not _own_image(profile):
        out["Dockerfile"] = _dockerfile(program)
    if executors:
        out |= _for_submit(program, name, paths)
    return out


def _head(program: Program) -> list[str]:
    lines = [f"The pipeline {program.title} as a Kubernetes Job, written by `voxelflow export`. In this folder:", ""]
    if not _own_image(program.profile):
        lines.append(f"  docker build -t {_image(program)} .      # and push it where the cluster finds it")
    variables = [v for v in program.environment if v not in OF_THE_POD]
    if variables:
        given = " ".join(f"--from-literal={v}=..." for v in variables)
        lines.append(f"  kubectl create secret generic {SECRET} {given}")
    return [*lines, f"  kubectl apply -f {program.stem}.yaml", f"  kubectl logs -f job/{program.dns_name}", ""]


def _program_files(program: Program) -> tuple[dict[str, str], dict[str, str]]:
    """The ConfigMap's texts by key, and the path of each key in the container."""
    contents, paths = {program.file: program.text}, {program.file: program.file}
    for number, (place, text) in enumerate(program.own_files.items()):
        key = f"own-file-{number}.py"
        contents[key], paths[key] = text, place
    if is_kubernetes(program.profile.master) and program.on_spark:
        contents[_EXECUTOR], paths[_EXECUTOR] = to_yaml(executor_template()), _EXECUTOR
    return contents, paths


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}},
    }


def _rights(name: str) -> list[dict[str, Any]]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    resources = ["pods", "configmaps", "services", "persistentvolumeclaims"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": reference,
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
    ]


def _resources(profile: Profile) -> dict[str, Any]:
    memory = f"{-(-profile.memory_bytes // (1 << 20))}Mi"
    requests: dict[str, Any] = {"cpu": str(profile.cores), "memory": memory}
    # A container above its memory is ended; one above its cores only waits.
    limits: dict[str, Any] = {"memory": memory}
    if profile.gpus:
        limits["nvidia.com/gpu"] = str(profile.gpus)
    return {"requests": requests, "limits": limits}


def _own_image(profile: Profile) -> str:
    names = ("spark.kubernetes.driver.container.image", "spark.kubernetes.container.image")
    return next((profile.spark[name] for name in names if name in profile.spark), "")


def _image(program: Program) -> str:
    return _own_image(program.profile) or f"voxelflow:{metadata.version('voxelflow')}"


def _dockerfile(program: Program) -> str:
    java = ["RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps"]
    lines = [
        "# The image of the Job. pip must find voxelflow: in a package index of yours, or as a wheel copied in.",
        "FROM python:3.11-slim-bookworm",
        *(java if program.on_spark else []),
        f"RUN pip install --no-cache-dir {shlex.join(program.requirements())}",
    ]
    return "\n".join(lines) + "\n"


def _for_submit(program: Program, name: str, paths: Mapping[str, str]) -> dict[str, str]:
    """spark-submit in cluster mode: its arguments, and the pods that it starts."""
    given = {
        # What only the Job's own pod has.
        key: value
        for key, value in program.profile.spark.items()
        if value not in ("${POD_IP}", "${POD_NAME}")
    }
    ours = {
        "spark.app.name": name,
        "spark.kubernetes.authenticate.driver.serviceAccountName": name,
        "spark.kubernetes.driver.podTemplateFile": "driver-pod.yaml",
        "spark.kubernetes.driver.podTemplateContainerName": "driver",
        EXECUTOR_TEMPLATE: _EXECUTOR,
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
    }
    for setting, value in given.items():
        if setting.startswith("spark.kubernetes.executor.volumes."):
            ours.setdefault(setting.replace(".executor.", ".driver.", 1), value)
    profile = program.profile.model_copy(update={"spark": given})
    command = submit_arguments(profile, f"local://{FOLDER}/{program.file}", ours)
    arguments = [*command, "--out", str(PurePosixPath(str(profile.storage_root), f"{program.stem}-out"))]
    script = [
        "#!/bin/sh",
        f"# Instead of the Job in {program.stem}.yaml (delete that one, keep the rest of the file): spark-submit",
        "# starts the driver in the cluster.",
        "set -e",
        'cd "$(dirname "$0")"',
        " ".join(shlex.quote(word) for word in arguments[:1]) + " \\",
        *(f"    {' '.join(shlex.quote(w) for w in words)} \\" for words in _pairs(arguments[1:-3])),
        f"    {' '.join(shlex.quote(w) for w in arguments[-3:])}",
    ]
    return {
        "submit.sh": "\n".join(script) + "\n",
        "driver-pod.yaml": to_yaml(driver_template(name, paths, FOLDER)),
        _EXECUTOR: to_yaml(executor_template()),
    }


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[i : i + 2] for i in range(0, len(words), 2)]
