"""Exports to Kubernetes: the Job, what spark-submit gets, and the pods of executors."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports_to_platforms import LOCAL, PODS, checked, files_of, words
from platforms import check_kubernetes

from engine.catalog import Catalog
from engine.errors import UsageError
from engine.profiles import Profile

SCRATCH = {
    "spark.kubernetes.executor.volumes.hostPath.scratch.mount.path": "/scratch",
    "spark.kubernetes.executor.volumes.hostPath.scratch.options.path": "/srv",
}


def test_a_job_on_kubernetes_has_what_the_profile_says(mine: Catalog) -> None:
    profile = LOCAL.model_copy(update={"gpus": 1})
    files = files_of("kubernetes", words(), profile, mine)
    found = checked("kubernetes", files)
    assert list(found) == ["ConfigMap", "PersistentVolumeClaim", "Job"]
    pod = found["Job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "3072Mi"},
        "limits": {"memory": "3072Mi", "nvidia.com/gpu": "1"},
    }
    assert container["command"] == ["python3", "/voxelflow/words.py", "--out", "/data/words-out"]
    assert container["envFrom"] == [{"secretRef": {"name": "voxelflow", "optional": True}}]
    assert found["Job"]["spec"]["backoffLimit"] == 2
    assert "CORES = 2" in files["words.py"]  # a container sees all cores of its machine
    assert container["image"] in files["words.yaml"].split("kind:")[0]
    assert "RUN pip install" in files["Dockerfile"]


def test_the_driver_of_spark_on_kubernetes_asks_for_no_gpus_of_its_executors(mine: Catalog) -> None:
    found = checked("kubernetes", files_of("kubernetes", words(), PODS.model_copy(update={"gpus": 2}), mine))
    (container,) = found["Job"]["spec"]["template"]["spec"]["containers"]
    assert list(container["resources"]["limits"]) == ["memory"]


def test_spark_on_kubernetes_has_its_driver_in_the_job_or_by_spark_submit(mine: Catalog) -> None:
    files = files_of("kubernetes", words(), PODS, mine)
    found = checked("kubernetes", files)
    assert list(found) == ["ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Job"]
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"] == "words"
    assert {"name": "data-0", "persistentVolumeClaim": {"claimName": "shared"}} in pod["volumes"]
    assert {"name": "data-0", "mountPath": "/mnt"} in pod["containers"][0]["volumeMounts"]
    settings = settings_of(files)
    environment = {e["name"] for e in pod["containers"][0]["env"]}
    assert settings["spark.driver.host"] == "${POD_IP}"
    assert environment == {"POD_IP", "POD_NAME"}
    template = settings["spark.kubernetes.executor.podTemplateFile"]
    (executor,) = check_kubernetes(files["executor-pod.yaml"])
    assert yaml.safe_load(found["ConfigMap"]["data"][Path(template).name]) == executor
    (driver,) = check_kubernetes(files["driver-pod.yaml"])
    assert {e["name"] for e in driver["spec"]["containers"][0]["env"]} == environment

    arguments = shlex.split(files["submit.sh"].split("spark-submit ", 1)[1].replace("\\\n", ""))
    given = dict(word.split("=", 1) for word in arguments if word.startswith("spark."))
    assert arguments[:4] == ["--master", PODS.master, "--deploy-mode", "cluster"]
    assert arguments[-3:] == ["local:///voxelflow/words.py", "--out", "/mnt/shared/words-out"]
    assert given["spark.kubernetes.driver.volumes.persistentVolumeClaim.data.mount.path"] == "/mnt"
    assert (given["spark.kubernetes.driver.podTemplateFile"], given["spark.executor.memory"]) == (
        "driver-pod.yaml", "8g",
    )  # fmt: skip
    assert not any("S3_KEY" in word or "POD_" in word for word in arguments)


def settings_of(files: dict[str, str]) -> dict[str, str]:
    """The Spark settings in the program."""
    tree = ast.parse(files["words.py"])
    (found,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "SPARK")
    settings: dict[str, str] = ast.literal_eval(found)
    return settings


def pods(**spark: str | None) -> Profile:
    """The profile on Kubernetes; settings by their names without `spark.kubernetes.`, __ for a point, None for none."""
    given = {f"spark.kubernetes.{name.replace('__', '.')}": value for name, value in spark.items()}
    return PODS.model_copy(update={"spark": {n: v for n, v in (PODS.spark | given).items() if v is not None}})


TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
OWN_TEMPLATE = (
    "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec:\n  nodeSelector: {disk: fast}\n  containers: [{name: work}]\n"
)


@pytest.mark.parametrize("written", ["HERE/my pod.yaml", "file://HERE/my%20pod.yaml", "${HERE}/my pod.yaml"])
def test_the_profile_s_own_template_of_executors_goes_along(
    written: str, mine: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", str(tmp_path))
    (tmp_path / "my pod.yaml").write_text(OWN_TEMPLATE)
    path = written if "$" in written else written.replace("HERE", str(tmp_path))
    files = files_of("kubernetes", words(), pods(executor__podTemplateFile=path), mine)
    found = checked("kubernetes", files)
    assert files["executor-pod.yaml"] == OWN_TEMPLATE
    assert found["ConfigMap"]["data"]["executor-pod.yaml"] == OWN_TEMPLATE
    assert settings_of(files)[TEMPLATE] == "/voxelflow/executor-pod.yaml"
    assert f"{TEMPLATE}=executor-pod.yaml" in files["submit.sh"]
    assert str(tmp_path) not in "".join(files.values())


@pytest.mark.parametrize("there", ["https://files.example/pod.yaml", "local:///opt/pod.yaml"])
def test_a_template_elsewhere_is_taken_from_there(there: str, mine: Catalog) -> None:
    files = files_of("kubernetes", words(), pods(executor__podTemplateFile=there), mine)
    assert settings_of(files)[TEMPLATE] == there
    assert f"{TEMPLATE}={there}" in files["submit.sh"]
    assert ("on the machine on which it runs, not in the image" in files["submit.sh"]) == there.startswith("local:")
    assert "executor-pod.yaml" not in files
    assert "executor-pod.yaml" not in checked("kubernetes", files)["ConfigMap"]["data"]


def test_what_the_profile_says_of_pods_is_kept(mine: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = pods(
        namespace="team",
        container__image__pullSecrets="one, two",
        container__image__pullPolicy="Always",
        authenticate__driver__serviceAccountName="with-rights",
        executor__podTemplateContainerName="work",
        driver__podTemplateFile="/etc/driver.yaml",
    )
    files = files_of("kubernetes", words(), profile, mine)
    found = checked("kubernetes", files)
    assert list(found) == ["ConfigMap", "Job"], "that account has its rights"
    assert {item["metadata"]["namespace"] for item in found.values()} == {"team"}
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "with-rights"
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert "kubectl create secret generic voxelflow -n team" in files["words.yaml"]
    assert "spark.kubernetes.authenticate.driver.serviceAccountName=with-rights" in files["submit.sh"]
    assert "spark.kubernetes.executor.podTemplateContainerName=work" in files["submit.sh"]
    assert "It replaces the profile's /etc/driver.yaml" in files["submit.sh"]
    # Where Spark looks for its driver.
    usual = checked("kubernetes", files_of("kubernetes", words(), PODS, mine))
    assert {item["metadata"]["namespace"] for item in usual.values()} == {"default"}
    # Nothing puts the value of a variable into a manifest.
    monkeypatch.setenv("TEAM", "ours")
    profile = pods(namespace="${TEAM}", authenticate__driver__serviceAccountName="of-${TEAM}")
    found = checked("kubernetes", files_of("kubernetes", words(), profile, mine))
    assert {item["metadata"]["namespace"] for item in found.values()} == {"ours"}
    assert found["Job"]["spec"]["template"]["spec"]["serviceAccountName"] == "of-ours"


def test_spark_submit_needs_an_image_for_its_driver(mine: Catalog) -> None:
    profile = pods(container__image=None, executor__container__image="registry.example/spark:1")
    files = files_of("kubernetes", words(), profile, mine)
    assert "Dockerfile" in files
    assert "submit.sh" not in files
    assert checked("kubernetes", files)["ConfigMap"]["data"]["executor-pod.yaml"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"master": "yarn"}, "a Kubernetes Job cannot be the driver of yarn"),
        ({"spark": {}}, "profile pods names no image for the executors"),
        ({"storage_root": None}, "executors of profile pods would not see the workspace"),
        ({"storage_root": Path("/elsewhere")}, "executors of profile pods would not see /elsewhere"),
        ({"spark": {**PODS.spark, TEMPLATE: "/no/pod.yaml"}}, "/no/pod.yaml, the executors' template of profile pods"),
        ({"spark": {**PODS.spark, TEMPLATE: "https://a/b"}, "storage_root": Path("/in")}, "driver .* not see /in"),
        ({"spark": {**PODS.spark, **SCRATCH}, "storage_root": None}, "driver .* would not see the workspace"),
    ],
)
def test_what_kubernetes_cannot_run_is_refused(mine: Catalog, change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        files_of("kubernetes", words(), PODS.model_copy(update=change), mine)
