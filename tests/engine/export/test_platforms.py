"""Exports to platforms, by the platforms' own schemas: complete, without secrets, and nothing typed becomes code."""

from __future__ import annotations

import ast
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError
from platforms import check_databricks, check_github, check_kubernetes, lint_github

import nodes
from engine.catalog import Catalog, build_catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Edge, Node, Pipeline, read_pipeline
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.platforms import PLATFORMS, platform_files
from engine.export.write import write
from engine.export.yaml_text import to_yaml
from engine.observe.paths import allowed_places
from engine.profiles import Profile, find_profile
from engine.spark.jars import delta_artifact
from engine.workspace import Workspace, open_workspace

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
SCRATCH = {
    "spark.kubernetes.executor.volumes.hostPath.scratch.mount.path": "/scratch",
    "spark.kubernetes.executor.volumes.hostPath.scratch.options.path": "/srv",
}
HOSTILE = ["'; exit 1 #", "${{ secrets.X }}", "{{ var.value.x }}", '"""\nimport os', "a\n- b: c", "体\u2028积", "on"]


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


def fits(platform: str, profile: Profile) -> bool:
    return platform != "github" or profile in (LOCAL, SPARK_LOCAL)


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


def without(document: Pipeline, kind: str) -> Pipeline:
    return document.model_copy(update={"nodes": tuple(n for n in document.nodes if n.type != kind)})


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_shipped_pipeline_under_every_kind_of_profile(platform: str) -> None:
    catalog = build_catalog(nodes.BUILT_IN)
    for path in shipped_pipelines().values():
        pipeline = read_pipeline(path)
        if platform != "airflow":  # the others have no workspace, whose runs this node compares
            pipeline = without(pipeline, "CompareTrainings")
        values = {n: "/data" for n, p in pipeline.parameters.items() if p.value is None}
        for profile in (LOCAL, SPARK_LOCAL, CLUSTER, PODS):
            if fits(platform, profile):
                files = files_of(platform, pipeline, profile, catalog, **values)
                checked(platform, files)
                assert (f"{pipeline.name}.py" in files) is (platform != "airflow")


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("profile", [LOCAL, CLUSTER, PODS], ids=lambda p: p.name)
def test_credentials_are_named_and_never_written(
    platform: str, profile: Profile, mine: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("S3_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME")
    for name in names:
        monkeypatch.setenv(name, "the-secret-itself")
    if not fits(platform, profile):
        with pytest.raises(UsageError, match="one machine of GitHub's"):
            files_of(platform, words(), profile, mine)
        return
    makers = [Node(id="first", type="Words", params={"text": "az://box/folder"}), *words().nodes[1:]]
    files = files_of(platform, words(nodes=makers), profile, mine)
    checked(platform, files)
    text = "\n".join(files.values())
    assert "the-secret-itself" not in text
    named = text if platform != "kubernetes" else files["words.yaml"]
    assert "AZURE_STORAGE_ACCOUNT_KEY" in named
    assert ("S3_KEY" in named) is (profile is not LOCAL)


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_typed_becomes_code(platform: str, hostile: str, mine: Catalog) -> None:
    calm = checked(platform, files_of(platform, words(), LOCAL, mine))
    titled = [n.model_copy(update={"title": hostile, "params": {}}) for n in words().nodes]
    files = files_of(platform, words(name=hostile, description=hostile, nodes=titled), LOCAL, mine)
    found = checked(platform, files)
    assert all(name == os.path.normpath(name) and not name.startswith(("/", "..")) for name in files)
    if platform == "airflow":
        assert [type(n) for n in found.body] == [type(n) for n in calm.body]
        assert "{{" not in "".join(files[n] for n in files if n.endswith("_dag.py")).split('"""', 2)[2]
    elif platform == "github":
        text = next(text for name, text in files.items() if name.startswith(".github"))
        assert "secrets.X" not in "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert found.keys() == calm.keys() if isinstance(found, dict) else True


@pytest.mark.parametrize("platform", PLATFORMS)
def test_own_nodes_go_along(platform: str, mine: Catalog, workspace: Any) -> None:
    files = files_of(platform, words(), LOCAL, mine)
    own = "workspace/my_nodes/mine.py" if platform == "airflow" else "my_nodes/mine.py"
    assert files[own] == (workspace.my_nodes / "mine.py").read_text()
    assert platform == "airflow" or 'MY_NODES = beside("my_nodes")' in files["words.py"]
    assert str(workspace.root) not in "\n".join(files.values())
    if platform == "kubernetes":
        found = checked(platform, files)
        contents = found["ConfigMap"]["data"]
        volume = next(v for v in found["Job"]["spec"]["template"]["spec"]["volumes"] if v["name"] == "program")
        there = {item["path"]: contents[item["key"]] for item in volume["configMap"]["items"]}
        assert there == {name: text for name, text in files.items() if name.endswith(".py")}


def test_an_airflow_workspace_does_the_same_from_any_folder(mine: Catalog, tmp_path: Path) -> None:
    """Its document has the values that were given and no relative path; what it names, it may read."""
    document = words(
        parameters={"folder": {"value": "below"}, "side": {"value": "left"}, "times": {"value": 2}},
        nodes=[
            Node(id="first", type="Words", params={"source": "${folder}/${side}.txt", "times": "${times}"}),
            Node(id="class", type="Words", params={"source": "/data/$${x}.txt"}),
            Node(id="gone", type="Words", mode="disabled"),
            Node(id="last-one", type="Join"),
        ],
    )
    profile = CLUSTER.model_copy(update={"machine": "of-their-own@somewhere", "machine_price": 1.25})
    values = {"times": 3, "class.seed": 7}
    resolved = resolve(document, mine, values, base=Path("/base"))
    files = platform_files("airflow", resolved, profile, values, base=Path("/base"), machine=False)
    dag = checked("airflow", files)
    tasks = [n for n in ast.walk(dag) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "BashOperator"]
    assert len(tasks) == 1
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    workspace = open_workspace(tmp_path / "workspace")
    found = resolve(read_pipeline(workspace.pipelines / "words.json"), mine, base=Path("/elsewhere"))
    assert not found.problems
    assert {n.node.id: n.params for n in found.typed()} == {n.node.id: n.params for n in resolved.typed()}
    assert found.nodes["first"].params["source"] == "/base/below/left.txt"
    assert (found.nodes["class"].params["source"], found.nodes["class"].params["seed"]) == ("/data/${x}.txt", 7)
    allowed = allowed_places(workspace)
    assert all(item.params["source"] in allowed for item in found.typed() if item.type.name == "Words")
    assert "/base/other.txt" not in allowed
    taken = find_profile("cluster", workspace)
    # Their own table of prices stays behind.
    assert (taken.hourly_price, taken.machine, taken.spark, taken.master) == (1.25, "", profile.spark, profile.master)
    assert "profiles.toml" not in "".join(files_of("airflow", words(), LOCAL, mine))


def test_an_airflow_workspace_counts_by_the_same_price(mine: Catalog, workspace: Workspace) -> None:
    """It has the shipped table alone, which may say another price, or none."""
    rows = "name,region,price_per_hour,spot_per_hour,currency\nm5.2xlarge,us-east-1,0.3,0.1,EUR\ncellar,,0.9,,EUR\n"
    (workspace.root / "machines.csv").write_text(rows)
    elsewhere = open_workspace(workspace.root.parent / "elsewhere")

    def prices(table: str) -> tuple[Profile, Profile]:
        (workspace.root / "profiles.toml").write_text(f"[vm]\ncores = 2\n{table}")
        here = find_profile("vm", workspace)
        files = files_of("airflow", words(), here, mine)
        (elsewhere.root / "profiles.toml").write_text(files["workspace/profiles.toml"])
        return here, find_profile("vm", elsewhere)

    for table in (
        'machine = "m5.2xlarge"\n',
        'machine = "m5.2xlarge"\nspot = true\n',
        'machine = "cellar"\nprice_per_dbu = 0.5\ndbu_per_hour = 2\n',
        'machine = "m5.4xlarge"\n',
    ):
        here, there = prices(table)
        assert (there.hourly_price, there.currency) == (here.hourly_price, here.currency), table
    assert there.machine == "m5.4xlarge@us-east-1", "what is shipped keeps its source"


@pytest.mark.slow
def test_databricks_has_a_task_for_each_step_and_a_cluster_from_the_profile(mine: Catalog) -> None:
    job = check_databricks(files_of("databricks", words(), CLUSTER, mine)["databricks.yml"])
    tasks = {task["task_key"]: task for task in job["tasks"]}
    assert list(tasks) == ["first", "class", "last-one"]
    assert tasks["last-one"]["depends_on"] == [{"task_key": "first"}, {"task_key": "class"}]
    assert (tasks["first"]["max_retries"], tasks["first"]["timeout_seconds"]) == (2, 90)
    assert tasks["class"]["spark_python_task"]["parameters"] == ["--step", "class", "--out", "${var.out}"]
    # Databricks has PySpark and Delta; ours would hide them.
    assert not any("spark" in task["libraries"][0]["pypi"]["package"] for task in job["tasks"])
    cluster = job["job_clusters"][0]["new_cluster"]
    assert cluster["num_workers"] == 5
    assert cluster["spark_conf"] == {
        "spark.hadoop.fs.s3a.secret.key": "{{secrets/voxelflow/S3_KEY}}",
        "spark.speculation": "true",
    }
    assert cluster["spark_env_vars"] == {"S3_KEY": "{{secrets/voxelflow/S3_KEY}}"}
    elastic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "9",
    }
    job = check_databricks(
        files_of("databricks", words(), CLUSTER.model_copy(update={"spark": elastic}), mine)["databricks.yml"]
    )
    assert job["job_clusters"][0]["new_cluster"]["autoscale"] == {"min_workers": 1, "max_workers": 9}
    job = check_databricks(files_of("databricks", words(), LOCAL, mine)["databricks.yml"])
    assert job["job_clusters"][0]["new_cluster"]["spark_conf"]["spark.databricks.cluster.profile"] == "singleNode"
    with pytest.raises(UsageError, match=r"spark.x of profile cluster cannot go into a bundle"):
        files_of("databricks", words(), CLUSTER.model_copy(update={"spark": {"spark.x": "user:${S3_KEY}"}}), mine)


ELASTIC = "spark.dynamicAllocation."


def workers(mine: Catalog, **spark: str) -> Any:
    """The size of the cluster on Databricks; settings of dynamic allocation are named by their last part."""
    elastic = {f"{ELASTIC}{name}": value for name, value in spark.items() if name != "instances"}
    fixed = {"spark.executor.instances": spark["instances"]} if "instances" in spark else {}
    files = files_of("databricks", words(), CLUSTER.model_copy(update={"spark": elastic | fixed}), mine)
    jobs = yaml.safe_load(files["databricks.yml"])["resources"]["jobs"]
    cluster = jobs["words"]["job_clusters"][0]["new_cluster"]
    return cluster.get("autoscale", cluster.get("num_workers"))


@pytest.mark.parametrize("value", ["infinity", "${NODES}", "-3", "1.5", "", "٣"])
def test_a_size_that_is_no_number_is_refused_by_its_setting(mine: Catalog, value: str) -> None:
    with pytest.raises(UsageError, match=r"spark.executor.instances of profile cluster is .*needs a number"):
        workers(mine, instances=value)
    with pytest.raises(UsageError, match=r"dynamicAllocation.minExecutors of profile cluster is") as caught:
        workers(mine, enabled="true", minExecutors=value)
    assert "at least" in caught.value.hint
    with pytest.raises(UsageError, match=r"dynamicAllocation.maxExecutors of profile cluster is") as caught:
        workers(mine, enabled="true", maxExecutors=value)
    assert "at most" in caught.value.hint


def test_a_cluster_on_databricks_grows_from_fewest_to_most(mine: Catalog) -> None:
    with pytest.raises(UsageError, match=r"has \S+minExecutors 8 and \S+maxExecutors 4, less than that"):
        workers(mine, enabled="true", minExecutors="8", maxExecutors="4")
    assert workers(mine, enabled="true", minExecutors="8") == {"min_workers": 8, "max_workers": 8}
    assert workers(mine, enabled="true", minExecutors="0") == {"min_workers": 1, "max_workers": 2}
    assert workers(mine, enabled="true", maxExecutors=" 9 ") == {"min_workers": 1, "max_workers": 9}
    assert workers(mine, instances="7") == 7
    # What dynamic allocation would be limited to says nothing while it is off.
    assert workers(mine, enabled="false", maxExecutors="infinity") == 2


def test_a_databricks_profile_names_the_machines_and_goes_nowhere_else(mine: Catalog) -> None:
    profile = CLUSTER.model_copy(update={"master": "databricks", "machine": "Standard_D8s_v5@eastus"})
    files = files_of("databricks", words(), profile, mine)
    bundle = yaml.safe_load(files["databricks.yml"])
    assert bundle["variables"]["node_type"]["default"] == "Standard_D8s_v5"
    assert "node_type=TYPE" not in files["databricks.yml"]
    assert check_databricks(files["databricks.yml"])["job_clusters"][0]["new_cluster"]["num_workers"] == 5
    for platform in PLATFORMS.keys() - {"databricks"}:
        with pytest.raises(UsageError, match="profile cluster is on Databricks, which takes jobs"):
            files_of(platform, words(), profile, mine)


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


def test_a_template_elsewhere_is_taken_from_there(mine: Catalog) -> None:
    there = "https://files.example/pod.yaml"
    files = files_of("kubernetes", words(), pods(executor__podTemplateFile=there), mine)
    assert settings_of(files)[TEMPLATE] == there
    assert f"{TEMPLATE}={there}" in files["submit.sh"]
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


def test_yarn_s_cluster_mode_stands_in_the_file_s_head(mine: Catalog) -> None:
    profile = CLUSTER.model_copy(
        update={"master": "yarn", "spark": {**CLUSTER.spark, "spark.pyspark.python": "/opt/py/bin/python"}}
    )
    resolved = resolve(words(), mine, {}, base=Path("/base"))
    head = write(resolved, profile, {}, base=Path("/base"), own_files_beside=True).split('"""')[1]
    (command,) = (line for line in head.splitlines() if "--deploy-mode cluster" in line)
    name, _, version = delta_artifact().rpartition("-")
    packages = f"io.delta:{name}:{version}"
    assert command.split("   #")[0].split() == [
        "spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--packages", packages,
        "--conf", "spark.executor.memory=8g",
        "--conf", "spark.executor.instances=5",
        "--conf", "spark.yarn.appMasterEnv.PYSPARK_PYTHON=/opt/py/bin/python", "words.py",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_schemas_refuse_what_is_wrong(mine: Catalog) -> None:
    manifest = files_of("kubernetes", words(), LOCAL, mine)["words.yaml"]
    with pytest.raises(ValidationError):
        check_kubernetes(manifest.replace("backoffLimit", "backOffLimit"))
    workflow = files_of("github", words(), LOCAL, mine)[".github/workflows/words.yml"]
    with pytest.raises(ValidationError):
        check_github(workflow.replace("runs-on", "runs-at"))
    bundle = files_of("databricks", words(), LOCAL, mine)["databricks.yml"]
    with pytest.raises(ValueError):
        check_databricks(bundle.replace("max_retries", "maximal_retries"))


def test_what_the_schemas_pass_over_is_refused_too(mine: Catalog) -> None:
    manifest = files_of("kubernetes", words(), LOCAL, mine)["words.yaml"]
    for right, wrong in (("restartPolicy: Never", "restartPolicy: Always"), ("name: words", "name: Some_Words")):
        assert right in manifest
        with pytest.raises(ValueError, match=r"restart|no name"):
            check_kubernetes(manifest.replace(right, wrong))
    bundle = files_of("databricks", words(), LOCAL, mine)["databricks.yml"]
    with pytest.raises(ValueError, match="there is no nobody"):
        check_databricks(re.sub(r"(depends_on:\s+- task_key: )\S+", r"\1nobody", bundle, count=1))
    with pytest.raises(ValueError, match="there is no nowhere"):
        check_databricks(bundle[::-1].replace("job_cluster_key: main"[::-1], "job_cluster_key: nowhere"[::-1], 1)[::-1])
    workflow = files_of("github", words(), LOCAL, mine)[".github/workflows/words.yml"]
    for right, wrong in (("github.run_id }}", "github.run_id }"), ("github.run_id", "githib.run_id")):
        assert right in workflow
        with pytest.raises(ValueError, match="expression"):
            check_github(workflow.replace(right, wrong))


def workflow_of(files: dict[str, str]) -> str:
    (name,) = (name for name in files if name.startswith(".github/workflows/"))
    return files[name]


@pytest.mark.needs(part="actionlint")
def test_actionlint_has_nothing_to_say_of_workflows(mine: Catalog) -> None:
    for path in (Path(__file__).parents[3] / ".github" / "workflows").iterdir():
        lint_github(path.read_text())
    catalog = build_catalog(nodes.BUILT_IN)
    for path in shipped_pipelines().values():
        pipeline = without(read_pipeline(path), "CompareTrainings")
        values = {n: "/data" for n, p in pipeline.parameters.items() if p.value is None}
        lint_github(workflow_of(files_of("github", pipeline, SPARK_LOCAL, catalog, **values)))
    makers = [Node(id="first", type="Words", params={"text": "az://box/folder"}), *words().nodes[1:]]
    lint_github(workflow_of(files_of("github", words(nodes=makers), LOCAL, mine)))
    for hostile in HOSTILE:
        lint_github(workflow_of(files_of("github", words(name=hostile, description=hostile), LOCAL, mine)))


@pytest.mark.needs(part="actionlint")
@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("github.run_id }}", "github.run_id", "expression"),
        ("github.run_id", "github.run_idd", "run_idd"),
        ("actions/cache/save@v4", "actions/cache/save", "actions/cache/save"),
        ("python-version:", "python-verzion:", "python-verzion"),
        ("workflow_dispatch: {}", "schedule: [{cron: 61 * * * *}]", "61"),
    ],
)
def test_actionlint_finds_what_the_schema_passes_over(mine: Catalog, right: str, wrong: str, found: str) -> None:
    workflow = workflow_of(files_of("github", words(), LOCAL, mine))
    assert right in workflow
    with pytest.raises(ValueError, match=found):
        lint_github(workflow.replace(right, wrong))


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([*HOSTILE, "yes", "1e3", "a:b", "- a"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@pytest.mark.slow
@given(DATA, st.sampled_from(["", "A comment.\nOf two lines."]))
def test_yaml_says_what_it_was_given(data: Any, comment: str) -> None:
    assert yaml.safe_load(to_yaml(data, comment)) == data


@pytest.mark.slow
@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]))))
def test_a_script_in_yaml_is_the_script(lines: list[str]) -> None:
    text = "\n".join(["#!/bin/sh", *lines, ""])
    data = {"outer": [{"script": text}]}
    assert yaml.safe_load(to_yaml(data)) == data
