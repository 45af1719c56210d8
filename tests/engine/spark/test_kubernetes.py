"""What Spark itself asks of Kubernetes with our settings and templates, by the API's schema. No pod runs here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from kubernetes_api import KubernetesApi
from spark_sessions import end_local_session

import nodes
from engine.catalog import build_catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import read_pipeline
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.platforms import platform_files
from engine.profiles import Profile
from engine.spark import kubernetes
from engine.spark.session import open_session

VOLUME = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"


def profile(master: str = "k8s://https://10.0.0.1:6443", **fields: Any) -> Profile:
    given = {
        "name": "pods",
        "backend": "spark",
        "cores": 1,
        "memory_bytes": 1 << 30,
        "master": master,
        "storage_root": Path("/mnt/shared/voxelflow"),
        "spark": {
            "spark.kubernetes.container.image": "registry.example/spark:1",
            "spark.executor.instances": "2",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.hadoop.fs.s3a.secret.key": "${S3_KEY}",
            f"{VOLUME}.options.claimName": "shared",
            f"{VOLUME}.mount.path": "/mnt/shared",
        },
    }
    return Profile(**(given | fields))


def check_executor(pod: dict[str, Any]) -> None:
    """The pod has what our template says, and what Spark adds to it."""
    (container,) = pod["spec"]["containers"]
    assert container["name"] == "executor"
    assert container["image"] == "registry.example/spark:1"
    assert container["envFrom"] == [{"secretRef": {"name": "voxelflow", "optional": True}}]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "voxelflow"
    assert {"name": "data", "mountPath": "/mnt/shared"} in [
        {k: m[k] for k in ("name", "mountPath")} for m in container["volumeMounts"]
    ]
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == ["shared"]


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_executors_come_from_our_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_KEY", "the-secret-itself")
    end_local_session()
    with KubernetesApi() as api:
        given = profile(f"k8s://{api.url}")
        settings = given.spark | {"spark.scheduler.maxRegisteredResourcesWaitingTime": "1s"}
        session = open_session(given.model_copy(update={"spark": settings}), name="test", folder=tmp_path)
        try:
            pods = api.wait_for("Pod", 2)
        finally:
            session.stop()
    for pod in pods:
        check_executor(pod)
    assert "the-secret-itself" not in str(api.created)


@pytest.mark.slow
@pytest.mark.needs(part="java")
def test_spark_submit_takes_our_arguments_and_makes_the_driver_s_pod(tmp_path: Path) -> None:
    catalog = build_catalog(nodes.BUILT_IN)
    document = resolve(read_pipeline(shipped_pipelines()["quickstart"]), catalog, {}, base=tmp_path)
    with KubernetesApi() as api:
        files = platform_files("kubernetes", document, profile(f"k8s://{api.url}"), {}, base=tmp_path, machine=False)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        conf = tmp_path / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text("spark.kubernetes.submission.waitAppCompletion false\n")
        done = subprocess.run(
            ["sh", tmp_path / "submit.sh"],
            capture_output=True,
            text=True,
            timeout=280,
            env={
                **os.environ,
                "PATH": f"{Path(pyspark.__file__).parent / 'bin'}:{os.environ['PATH']}",
                "SPARK_CONF_DIR": str(conf),
            },
        )
        assert done.returncode == 0, f"{done.stderr}\n{api.refused}"
        (pod,) = api.wait_for("Pod")
    assert api.refused == []
    (container,) = pod["spec"]["containers"]
    assert container["args"][0] == "driver"
    assert "local:///voxelflow/quickstart.py" in container["args"]
    assert container["args"][-2:] == ["--out", "/mnt/shared/voxelflow/quickstart-out"]
    assert {"POD_IP", "POD_NAME"} <= {e["name"] for e in container["env"]}
    assert {"/voxelflow", "/mnt/shared"} <= {m["mountPath"] for m in container["volumeMounts"]}
    assert pod["spec"]["serviceAccountName"] == "quickstart"
    # The executors' template goes along in a ConfigMap of Spark's.
    maps = [item for item in api.created if item["kind"] == "ConfigMap"]
    assert any("automountServiceAccountToken" in text for item in maps for text in item["data"].values())
    assert "S3_KEY" not in str(api.created)


def test_in_a_pod_the_executors_belong_to_it() -> None:
    inside = kubernetes.settings(profile(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "driver-7"})
    assert inside["spark.kubernetes.driver.pod.name"] == "driver-7"
    assert "spark.kubernetes.driver.pod.name" not in kubernetes.settings(profile(), {"HOSTNAME": "laptop"})


def test_the_line_for_the_image_is_given() -> None:
    with pytest.raises(UsageError) as caught:
        kubernetes.check(profile(name="my pods", spark={}))
    line = '"spark.kubernetes.container.image" = "REGISTRY/IMAGE:TAG"'
    assert f'add the line `{line}` below ["my pods".spark] of profiles.toml' in caught.value.hint


@pytest.mark.parametrize("fields", [{"spark": {}}, {"storage_root": None}, {"storage_root": Path("/mnt/other")}])
def test_what_spark_cannot_guess_is_asked_for_before_anything_starts(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3_KEY", "x")
    with pytest.raises(UsageError) as caught:
        open_session(profile(**fields), name="test")
    assert "spark.kubernetes." in caught.value.hint
    mounted = profile().spark | {kubernetes.EXECUTOR_TEMPLATE: "mine.yaml"}
    kubernetes.check(profile(spark=mounted, storage_root=None))


@pytest.mark.parametrize(
    ("kind", "options", "source"),
    [
        ("nfs", {"server": "nas", "path": "/exports"}, {"nfs": {"server": "nas", "path": "/exports"}}),
        ("hostPath", {"path": "/srv", "type": "Directory"}, {"hostPath": {"path": "/srv", "type": "Directory"}}),
        (
            "persistentVolumeClaim",
            {"claimName": "c", "sizeLimit": "1Gi"},
            {"persistentVolumeClaim": {"claimName": "c"}},
        ),
    ],
)
def test_the_job_mounts_what_the_executors_mount(kind: str, options: dict[str, str], source: dict[str, Any]) -> None:
    volume = f"spark.kubernetes.executor.volumes.{kind}.data"
    spark = {"spark.kubernetes.container.image": "i:1", f"{volume}.mount.path": "/mnt/shared"}
    spark |= {f"{volume}.options.{name}": value for name, value in options.items()}
    pods = profile(spark=spark)
    assert kubernetes.driver_mounts(pods) == [({"mountPath": "/mnt/shared"}, source)]
    kubernetes.check(pods)
    resolved = resolve(read_pipeline(shipped_pipelines()["quickstart"]), build_catalog(nodes.BUILT_IN), {})
    files = platform_files("kubernetes", resolved, pods, {}, base=Path.cwd(), machine=False)
    (job,) = (d for d in yaml.safe_load_all(files["quickstart.yaml"]) if d["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    assert [v for v in pod["volumes"] if v["name"] != "program"] == [{"name": "data-0", **source}]
    mounted = [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] != "program"]
    assert mounted == ["/mnt/shared"]


def test_the_driver_mounts_the_same_part_of_a_volume() -> None:
    """Else its results would lie in another folder than the executors'."""
    other = "spark.kubernetes.executor.volumes.persistentVolumeClaim.inputs"
    more = {
        f"{VOLUME}.mount.subPath": "team/a",
        f"{VOLUME}.mount.readOnly": "false",
        f"{other}.mount.path": "/inputs",
        f"{other}.mount.subPathExpr": "of/$(TEAM)",
        f"{other}.mount.readOnly": "true",
        f"{other}.options.claimName": "shared",
    }
    claim = {"persistentVolumeClaim": {"claimName": "shared"}}
    assert kubernetes.driver_mounts(profile(spark=profile().spark | more)) == [
        ({"mountPath": "/mnt/shared", "subPath": "team/a"}, claim),
        ({"mountPath": "/inputs", "subPathExpr": "of/$(TEAM)", "readOnly": True}, claim),
    ]


def test_a_driver_in_cluster_mode_keeps_the_volumes_that_are_its_own() -> None:
    volumes = "spark.kubernetes.{}.volumes.persistentVolumeClaim.{}"
    given = {
        f"{volumes.format('driver', 'data')}.mount.path": "/mnt/shared",
        f"{volumes.format('driver', 'data')}.options.claimName": "of-the-driver",
        f"{volumes.format('driver', 'models')}.mount.path": "/models",
        f"{volumes.format('executor', 'other')}.mount.path": "/models",
        f"{volumes.format('executor', 'other')}.options.claimName": "models",
        f"{volumes.format('executor', 'scratch')}.mount.path": "/scratch",
        f"{volumes.format('executor', 'scratch')}.options.claimName": "scratch-SPARK_EXECUTOR_ID",
        f"{volumes.format('executor', 'inputs')}.mount.path": "/inputs",
        f"{volumes.format('executor', 'inputs')}.mount.readOnly": "true",
        f"{volumes.format('executor', 'inputs')}.options.claimName": "inputs",
    }
    assert kubernetes.driver_volumes(profile(spark=profile().spark | given)) == {
        f"{volumes.format('driver', 'inputs')}.mount.path": "/inputs",
        f"{volumes.format('driver', 'inputs')}.mount.readOnly": "true",
        f"{volumes.format('driver', 'inputs')}.options.claimName": "inputs",
    }


def test_the_job_mounts_the_volumes_that_are_the_driver_s_own() -> None:
    """The storage root may come to the executors by their template, and to the driver by a volume of its own."""
    volumes = "spark.kubernetes.driver.volumes.{}.{}"
    given = {
        "spark.kubernetes.container.image": "i:1",
        kubernetes.EXECUTOR_TEMPLATE: "local:///opt/pod.yaml",
        f"{volumes.format('nfs', 'data')}.mount.path": "/mnt/shared/",
        f"{volumes.format('nfs', 'data')}.options.server": "nas",
        f"{volumes.format('nfs', 'data')}.options.path": "/exports",
        f"{volumes.format('emptyDir', 'tmp')}.mount.path": "/scratch",
        f"{volumes.format('emptyDir', 'tmp')}.options.sizeLimit": "9Gi",
        f"{volumes.format('persistentVolumeClaim', 'each')}.mount.path": "/each",
        f"{volumes.format('persistentVolumeClaim', 'each')}.options.claimName": "OnDemand",
        "spark.kubernetes.executor.volumes.hostPath.data.mount.path": "/mnt/shared",
        "spark.kubernetes.executor.volumes.hostPath.data.options.path": "/srv",
    }
    pods = profile(spark=given)
    kubernetes.check(pods)
    kubernetes.check_driver(pods)
    assert kubernetes.driver_mounts(pods) == [
        ({"mountPath": "/mnt/shared"}, {"nfs": {"server": "nas", "path": "/exports"}}),
        ({"mountPath": "/scratch"}, {"emptyDir": {"sizeLimit": "9Gi"}}),
    ]
    with pytest.raises(UsageError, match="driver on Kubernetes would not see /scratch"):
        kubernetes.check_driver(profile(spark=given, storage_root=Path("/scratch")))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("persistentVolumeClaim", {"claimName": "OnDemand"}),
        ("persistentVolumeClaim", {"claimName": "scratch-SPARK_EXECUTOR_ID"}),
        ("persistentVolumeClaim", {"claimName": "shared", "": "$(SPARK_EXECUTOR_POD_NAME)"}),
        ("emptyDir", {"medium": "Memory"}),
    ],
)
def test_a_volume_that_each_executor_has_alone_is_not_shared(kind: str, options: dict[str, str]) -> None:
    scratch = f"spark.kubernetes.executor.volumes.{kind}.spark-local-dir-1"
    each = {f"{scratch}.mount.path": "/scratch"}
    each |= {f"{scratch}.options.{name}" if name else f"{scratch}.mount.subPathExpr": v for name, v in options.items()}
    pods = profile(spark=profile().spark | each)
    mounted = {"mountPath": "/mnt/shared"}
    assert kubernetes.driver_mounts(pods) == [(mounted, {"persistentVolumeClaim": {"claimName": "shared"}})]
    with pytest.raises(UsageError, match="would not see /scratch"):
        kubernetes.check(profile(spark=pods.spark, storage_root=Path("/scratch")))
