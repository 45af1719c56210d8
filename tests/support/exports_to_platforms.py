"""Exports of a small pipeline under profiles of each kind, and what the platforms make of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from platforms import check_databricks, check_github, check_kubernetes

from engine.catalog import Catalog
from engine.document.pipeline import Edge, Node, Pipeline
from engine.document.resolve import resolve
from engine.export.platforms import platform_files
from engine.profiles import Profile

CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"
LOCAL = Profile(name="local", cores=2, memory_bytes=3 << 30)
SPARK_LOCAL = Profile(name="spark-local", backend="spark", cores=2, memory_bytes=3 << 30)
CLUSTER = Profile(
    name="cluster",
    backend="spark",
    cores=4,
    memory_bytes=2 << 30,
    master="spark://10.0.0.5:7077",
    spark={
        "spark.executor.memory": "8g",
        "spark.executor.instances": "5",
        "spark.hadoop.fs.s3a.secret.key": "${S3_KEY}",
        "spark.speculation": "true",
    },
    storage_root=Path("/mnt/shared"),
)
PODS = CLUSTER.model_copy(
    update={
        "name": "pods",
        "master": "k8s://https://10.0.0.1:6443",
        "spark": {
            **CLUSTER.spark,
            "spark.kubernetes.container.image": "registry.example/spark:1",
            f"{CLAIM}.options.claimName": "shared",
            f"{CLAIM}.mount.path": "/mnt",
        },
    }
)


def files_of(platform: str, document: Pipeline, profile: Profile, catalog: Catalog, **values: Any) -> dict[str, str]:
    resolved = resolve(document, catalog, values, base=Path("/base"))
    return platform_files(platform, resolved, profile, values, base=Path("/base"), machine=profile is LOCAL)


def checked(platform: str, files: dict[str, str]) -> Any:
    """What the platform makes of the files: its job, DAG, objects or workflow."""
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
        # A document is as the editor saves it.
        assert name.endswith(".json") or all(line.isprintable() for line in text.split("\n")), name
    match platform:
        case "databricks":
            return check_databricks(files["databricks.yml"])
        case "github":
            (name,) = (n for n in files if n.startswith(".github/workflows/"))
            return check_github(files[name])
        case "kubernetes":
            found = [item for name, text in files.items() if name.endswith(".yaml") for item in check_kubernetes(text)]
            return {item["kind"]: item for item in found if item["kind"] != "Pod"}
    (name,) = (n for n in files if n.endswith("_dag.py"))
    return ast.parse(files[name])


def words(**changes: Any) -> Pipeline:
    """Two makers and a joiner that runs on Spark where there is one; one maker may fail and has a limit."""
    given = {
        "name": "words",
        "nodes": [
            Node(id="first", type="Words", retries=2, timeout_s=90),
            Node(id="class", type="Words"),
            Node(id="last-one", type="Join"),
        ],
        "edges": [
            Edge.model_validate({"from": "first.left", "to": "last-one.one"}),
            Edge.model_validate({"from": "class.right", "to": "last-one.other"}),
        ],
    }
    return Pipeline(**(given | changes))
