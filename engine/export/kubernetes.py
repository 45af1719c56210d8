"""A Kubernetes Job that runs the program in a container; with Spark on Kubernetes its pod is the driver.

A Spark profile gets the arguments of spark-submit in cluster mode as well, with the templates of both kinds of pods.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from engine.errors import UsageError
from engine.export.limits import deadline_s, limit_lines
from engine.export.program import Program
from engine.export.source import one_line
from engine.export.yaml_text import to_yaml
from engine.profiles import Profile, spark_settings
from engine.spark.kubernetes import (
    CONTAINER,
    EXECUTOR_TEMPLATE,
    OF_THE_POD,
    SECRET,
    check,
    check_driver,
    driver_mounts,
    driver_template,
    driver_volumes,
    executor_template,
    is_kubernetes,
    of_the_pod,
    program_volume,
    secret_variables,
)
from engine.spark.submit import submit_arguments
from engine.storage import local_path
from engine.storage.files import read_document_text

FOLDER = "/voxelflow"
"""Where the program's files lie in the container."""
_DATA = "/data"
_EXECUTOR = "executor-pod.yaml"
_IMAGE = "spark.kubernetes.container.image"
_ACCOUNT = "spark.kubernetes.authenticate.driver.serviceAccountName"
_DRIVER_TEMPLATE = "spark.kubernetes.driver.podTemplateFile"
_NAMES = frozenset({"spark.kubernetes.namespace", _ACCOUNT, f"{_IMAGE}.pullSecrets", f"{_IMAGE}.pullPolicy"})
"""Settings that are written into the manifest, where `${NAME}` is not expanded."""


def on_kubernetes(profile: Profile) -> Profile:
    """The profile as the Job's container has it: its own address, and executors that go when the Job goes.

    Raises `UsageError` when a container cannot reach the profile's cluster, the profile lacks something, or a variable
    is not set.
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
    }
    named = {name: value for name, value in profile.spark.items() if name in _NAMES}
    ours |= spark_settings(profile.model_copy(update={"spark": named}))
    if _template_file(profile) is not None or EXECUTOR_TEMPLATE not in profile.spark:
        ours[EXECUTOR_TEMPLATE] = f"{FOLDER}/{_EXECUTOR}"
    # The address in the profile is that of a machine outside.
    return profile.model_copy(update={"spark": {**profile.spark, **ours}})


def own_template(profile: Profile) -> str:
    """The profile's own template of executors, where it is a file of this machine; else "".

    Raises `UsageError` when it cannot be read, or a variable in its path is not set.
    """
    file = _template_file(profile)
    if file is None:
        return ""
    try:
        return read_document_text(file)
    except (OSError, ValueError) as exc:
        raise UsageError(
            f"{file}, the executors' template of profile {profile.name}, cannot be read:"
            f" {getattr(exc, 'strerror', None) or exc}",
            hint=f"Correct {EXECUTOR_TEMPLATE} in the profile, or the file. One that is in the image: local:///PATH.",
        ) from exc


def _template_file(profile: Profile) -> Path | None:
    if profile.backend != "spark" or not is_kubernetes(profile.master):
        return None
    given = {name: value for name, value in profile.spark.items() if name == EXECUTOR_TEMPLATE}
    path = spark_settings(profile.model_copy(update={"spark": given})).get(EXECUTOR_TEMPLATE, "")
    # What has another scheme, Spark takes from there wherever it runs.
    return Path(path) if (path := local_path(path)) else None


def kubernetes_files(program: Program, template: str = "") -> dict[str, str]:
    """The manifest and what belongs to it, by their paths in the folder. `template` is that of `own_template`.

    Raises `UsageError` when the driver of a Spark on Kubernetes would not see the profile's storage root, and when the
    profile limits the cost of its runs and what they cost is unknown.
    """
    profile, name = program.profile, program.dns_name
    seconds = deadline_s(profile, profile.hourly_price)
    template = template or to_yaml(executor_template())
    contents, paths = _program_files(program, template)
    objects: list[tuple[str, dict[str, Any]]] = [
        ("The program.", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": contents})
    ]
    volumes: list[dict[str, Any]] = [program_volume(name, paths)]
    volume_mounts: list[dict[str, Any]] = [{"name": "program", "mountPath": FOLDER, "readOnly": True}]
    executors = program.on_spark and is_kubernetes(profile.master)
    if executors:
        check_driver(profile)
    data = driver_mounts(profile) if executors else []
    root = str(profile.storage_root) if profile.storage_root is not None else _DATA
    if not executors:
        data = [({"mountPath": root}, {"persistentVolumeClaim": {"claimName": f"{name}-data"}})]
        objects.append(("Results and half-done work, which a Job that is started again goes on from.", _claim(name)))
    for number, (mount, source) in enumerate(data):
        volumes.append({"name": f"data-{number}", **source})
        volume_mounts.append({"name": f"data-{number}", **mount})
    account = profile.spark.get(_ACCOUNT)
    if executors and account is None:
        objects += [("The driver starts and ends executors.", item) for item in _rights(name)]
    container: dict[str, Any] = {
        "name": "driver" if executors else "program",
        "image": _image(program),
        "command": ["python3", f"{FOLDER}/{program.file}", "--out", str(PurePosixPath(root, f"{program.stem}-out"))],
        "envFrom": secret_variables(),
        # With Spark the executors train: a driver that asked for their GPUs would wait for a machine that has them.
        "resources": _resources(profile, gpus=0 if executors else profile.gpus),
        "volumeMounts": volume_mounts,
    }
    if executors:
        container["env"] = of_the_pod()
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    if _own_image(profile):
        pod |= _pull(profile, container)
    pod |= {"serviceAccountName": account or name} if executors else {"automountServiceAccountToken": False}
    labels = {"app.kubernetes.io/name": "voxelflow", "app.kubernetes.io/instance": name}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": sum(step.retries for step in program.steps),
            # Of the Job, which counts from its start to its end, whatever pods it has had.
            **({} if seconds is None else {"activeDeadlineSeconds": seconds}),
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    objects.append(("The run.", job))
    if executors:
        for _, item in objects:
            item["metadata"] = {**item["metadata"], "namespace": _namespace(profile)}
    manifest = "---\n".join(to_yaml(data, comment) for comment, data in objects)
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(program, seconds))
    out = {**program.files(), f"{program.stem}.yaml": head + manifest}
    if not _own_image(profile):
        out["Dockerfile"] = _dockerfile(program)
    if executors and _own_image(profile):  # without, spark-submit starts no driver
        out |= _for_submit(program, name, paths, template, seconds)
    return out


def _head(program: Program, seconds: int | None) -> list[str]:
    lines = [f"The pipeline {program.title} as a Kubernetes Job, written by `voxelflow export`. In this folder:", ""]
    if not _own_image(program.profile):
        lines.append(f"  docker build -t {_image(program)} .      # and push it where the cluster finds it")
    variables = [v for v in program.environment if v not in OF_THE_POD]
    where = f" -n {_namespace(program.profile)}" if program.on_spark and is_kubernetes(program.profile.master) else ""
    if variables:
        given = " ".join(f"--from-literal={v}=..." for v in variables)
        lines.append(f"  kubectl create secret generic {SECRET}{where} {given}")
    lines += [f"  kubectl apply -f {program.stem}.yaml", f"  kubectl logs -f{where} job/{program.dns_name}", ""]
    if limit := limit_lines(program.profile, program.profile.hourly_price, seconds, _counted(program)):
        lines += [*limit, ""]
    return lines


def _counted(program: Program) -> str:
    """What the price of an hour is made of, where that is more than one machine."""
    profile = program.profile
    return "" if profile.price_per_hour is not None or profile.is_here else profile.counted_text


def _namespace(profile: Profile) -> str:
    """Where Spark starts executors and looks for its driver: the Job must be there, too."""
    return profile.spark.get("spark.kubernetes.namespace") or "default"


def _pull(profile: Profile, container: dict[str, Any]) -> dict[str, Any]:
    """What a pod needs to get the profile's image, as the executors have it; the policy goes into the container."""
    if policy := profile.spark.get(f"{_IMAGE}.pullPolicy"):
        container["imagePullPolicy"] = policy
    secrets = [name.strip() for name in profile.spark.get(f"{_IMAGE}.pullSecrets", "").split(",") if name.strip()]
    return {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}


def _program_files(program: Program, template: str) -> tuple[dict[str, str], dict[str, str]]:
    """The ConfigMap's texts by key, and the path of each key in the container."""
    contents, paths = {program.file: program.text}, {program.file: program.file}
    for number, (place, text) in enumerate(program.own_files.items()):
        key = f"own-file-{number}.py"
        contents[key], paths[key] = text, place
    if _carries_template(program):
        contents[_EXECUTOR], paths[_EXECUTOR] = template, _EXECUTOR
    return contents, paths


def _carries_template(program: Program) -> bool:
    return program.on_spark and program.profile.spark.get(EXECUTOR_TEMPLATE) == f"{FOLDER}/{_EXECUTOR}"


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


def _resources(profile: Profile, *, gpus: int) -> dict[str, Any]:
    memory = f"{-(-profile.memory_bytes // (1 << 20))}Mi"
    requests: dict[str, Any] = {"cpu": str(profile.cores), "memory": memory}
    # A container above its memory is ended; one above its cores only waits.
    limits: dict[str, Any] = {"memory": memory}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    return {"requests": requests, "limits": limits}


def _own_image(profile: Profile) -> str:
    names = ("spark.kubernetes.driver.container.image", _IMAGE)
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


def _for_submit(
    program: Program, name: str, paths: Mapping[str, str], template: str, seconds: int | None
) -> dict[str, str]:
    """spark-submit in cluster mode: its arguments, and the pods that it starts."""
    note, driver = [], program.profile.spark.get(_DRIVER_TEMPLATE)
    if driver is not None:
        note = [f"# driver-pod.yaml mounts the program. It replaces the profile's {one_line(driver)}:"]
        note += ["# add to it what the driver needs of that."]
    template_of_executors = program.profile.spark.get(EXECUTOR_TEMPLATE, "")
    if template_of_executors.startswith("local:"):
        note.append(f"# It reads {one_line(template_of_executors)} on the machine on which it runs, not in the image.")
    given = {
        # What only the Job's own pod has.
        key: value
        for key, value in program.profile.spark.items()
        if value not in ("${POD_IP}", "${POD_NAME}")
    }
    ours = {
        "spark.app.name": name,
        _ACCOUNT: given.get(_ACCOUNT, name),
        _DRIVER_TEMPLATE: "driver-pod.yaml",
        "spark.kubernetes.driver.podTemplateContainerName": "driver",
        CONTAINER: given.get(CONTAINER, "executor"),
        **driver_volumes(program.profile),
    }
    pod = driver_template(name, paths, FOLDER)
    if seconds is not None:
        # There is no Job around it, and it is tried once.
        pod["spec"]["activeDeadlineSeconds"] = seconds
    files = {"driver-pod.yaml": to_yaml(pod)}
    if _carries_template(program):
        ours[EXECUTOR_TEMPLATE] = _EXECUTOR
        files[_EXECUTOR] = template
    profile = program.profile.model_copy(update={"spark": given})
    command = submit_arguments(profile, f"local://{FOLDER}/{program.file}", ours)
    arguments = [*command, "--out", str(PurePosixPath(str(profile.storage_root), f"{program.stem}-out"))]
    script = [
        "#!/bin/sh",
        f"# Instead of the Job in {program.stem}.yaml (delete that one, keep the rest of the file): spark-submit",
        "# starts the driver in the cluster.",
        *note,
        "set -e",
        'cd "$(dirname "$0")"',
        " ".join(shlex.quote(word) for word in arguments[:1]) + " \\",
        *(f"    {' '.join(shlex.quote(w) for w in words)} \\" for words in _pairs(arguments[1:-3])),
        f"    {' '.join(shlex.quote(w) for w in arguments[-3:])}",
    ]
    return {"submit.sh": "\n".join(script) + "\n", **files}


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[i : i + 2] for i in range(0, len(words), 2)]
