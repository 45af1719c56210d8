"""Makes `schema.json`: the part of Kubernetes' API that our exports use, from the package kubernetes-validate.

    python tests/support/kubernetes/trim.py FOLDER_OF_kubernetes_validate VERSION

Left out are descriptions, states that only the cluster writes, and fields of pods that nothing of ours, or of Spark's,
sets: a manifest that uses one is refused, and the field is then to be added to `POD_FIELDS`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KINDS = {
    "Job": "io.k8s.api.batch.v1.Job",
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "Pod": "io.k8s.api.core.v1.Pod",
    "Service": "io.k8s.api.core.v1.Service",
    "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "Role": "io.k8s.api.rbac.v1.Role",
    "RoleBinding": "io.k8s.api.rbac.v1.RoleBinding",
}
POD_FIELDS = {
    "io.k8s.api.core.v1.PodSpec": (
        "activeDeadlineSeconds", "automountServiceAccountToken", "containers", "hostname", "imagePullSecrets",
        "nodeSelector", "restartPolicy", "schedulerName", "securityContext", "serviceAccount", "serviceAccountName",
        "subdomain", "terminationGracePeriodSeconds", "tolerations", "volumes",
    ),
    "io.k8s.api.core.v1.Container": (
        "args", "command", "env", "envFrom", "image", "imagePullPolicy", "name", "ports", "resizePolicy", "resources",
        "securityContext", "volumeMounts", "workingDir",
    ),
    "io.k8s.api.core.v1.Volume": ("configMap", "emptyDir", "hostPath", "name", "persistentVolumeClaim", "secret"),
    "io.k8s.api.core.v1.EnvVarSource": ("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"),
    "io.k8s.api.batch.v1.JobSpec": (
        "activeDeadlineSeconds", "backoffLimit", "completions", "parallelism", "template", "ttlSecondsAfterFinished",
    ),
}  # fmt: skip


def main(package: Path, version: str) -> None:
    path = package / "kubernetes-json-schema" / f"v{version}-local-strict" / "_definitions.json"
    everything = json.loads(path.read_text())["$defs"]
    kept: dict[str, Any] = {}
    wanted = list(KINDS.values())
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = _trimmed(name, everything[name])
            wanted += [part.rpartition("/")[2] for part in _references(kept[name])]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Kubernetes {version}, Apache-2.0, trimmed by trim.py from PyPI's kubernetes-validate.",
        "kinds": KINDS,
        "$defs": dict(sorted(kept.items())),
    }
    lines = json.dumps(schema, indent=1, sort_keys=False)
    (Path(__file__).parent / "schema.json").write_text(lines + "\n")


def _trimmed(name: str, definition: Any) -> Any:
    out = _without_words(definition)
    properties = out.get("properties", {})
    properties.pop("status", None)
    properties.pop("managedFields", None)
    for field in set(properties) - set(POD_FIELDS.get(name, properties)):
        del properties[field]
    return out


def _without_words(value: Any, names: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_words(part, key == "properties")
            for key, part in value.items()
            if names or (key != "description" and not key.startswith("x-"))
        }
    return [_without_words(part) for part in value] if isinstance(value, list) else value


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [r for part in value.values() for r in _references(part)]
    return [r for part in value for r in _references(part)] if isinstance(value, list) else []


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
