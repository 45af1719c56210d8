"""Exports to platforms, by the platforms' own schemas: complete, without secrets, and nothing typed becomes code."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports_to_platforms import CLUSTER, LOCAL, PODS, SPARK_LOCAL, checked, files_of, words
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
from engine.export.platforms import PLATFORMS, platform_files, problems
from engine.export.write import write
from engine.export.yaml_text import to_yaml
from engine.observe.paths import allowed_places
from engine.prices import machine_table
from engine.prices.dbu import dbu_table
from engine.profiles import Profile, find_profile
from engine.spark.jars import delta_artifact
from engine.workspace import Workspace, open_workspace

HOSTILE = ["'; exit 1 #", "${{ secrets.X }}", "{{ var.value.x }}", '"""\nimport os', "a\n- b: c", "体\u2028积", "on"]


def fits(platform: str, profile: Profile) -> bool:
    return platform != "github" or profile in (LOCAL, SPARK_LOCAL)


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
    # Five executors.
    spark = CLUSTER.spark | {"spark.cores.max": "20", "spark.executor.cores": "4"}
    profile = CLUSTER.model_copy(update={"machine": "of-their-own@somewhere", "machine_price": 1.25, "spark": spark})
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
    assert (taken.hourly_price, taken.machine, taken.spark, taken.master) == (
        6 * 1.25,
        "",
        profile.spark,
        profile.master,
    )
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
        'machine = "m5.4xlarge"\nbackend = "spark"\nmaster = "yarn"\nexecutor_machine = "g5.xlarge"\n',
        'machine = "cellar"\nbackend = "spark"\nmaster = "yarn"\nprice_per_dbu = 0.5\ndbu_per_hour = 2\n',
        'machine = "cellar"\nexecutor_machine = "m5.2xlarge"\nbackend = "spark"\nmaster = "yarn"\n'
        "price_per_dbu = 0.5\ndbu_per_hour = 2\nexecutor_dbu_per_hour = 3\n",
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
    # As Spark takes it.
    assert workers(mine, enabled=" True", maxExecutors="9", instances="7") == {"min_workers": 1, "max_workers": 9}
    assert workers(mine, instances="7") == 7
    # What dynamic allocation would be limited to says nothing while it is off.
    assert workers(mine, enabled="false", maxExecutors="infinity") == 2


def test_executors_that_come_and_go_are_the_size_of_a_cluster_on_databricks() -> None:
    pipeline = Pipeline(
        name="train",
        nodes=[
            Node(id="table", type="DeltaTable", params={"table": "/t"}),
            Node(id="train", type="TrainResNet3D"),
        ],
        edges=[Edge.model_validate({"from": "table.out", "to": "train.data"})],
    )
    resolved = resolve(pipeline, build_catalog(nodes.BUILT_IN), {}, base=Path("/base"))
    elastic = CLUSTER.model_copy(update={"spark": {**CLUSTER.spark, "spark.dynamicAllocation.enabled": "true"}})
    codes = {target: [each.code for each in problems(target, resolved, elastic)] for target in ("python", *PLATFORMS)}
    assert [target for target, found in codes.items() if "VF314" not in found] == ["databricks"]


def test_a_cluster_on_databricks_has_the_machines_of_driver_and_executors(mine: Catalog) -> None:
    machines = {"machine": "Standard_D4s_v5@eastus", "executor_machine": "Standard_D16s_v5@eastus"}
    profile = CLUSTER.model_copy(update=machines)
    text = files_of("databricks", words(), profile, mine)["databricks.yml"]
    bundle, cluster = yaml.safe_load(text), check_databricks(text)["job_clusters"][0]["new_cluster"]
    assert bundle["variables"]["node_type"]["default"] == "Standard_D16s_v5"
    assert bundle["variables"]["driver_node_type"]["default"] == "Standard_D4s_v5"
    wanted = {"node_type_id": "${var.node_type}", "driver_node_type_id": "${var.driver_node_type}"}
    assert wanted.items() <= cluster.items()
    said = {name: bundle["variables"][name]["description"] for name in ("node_type", "driver_node_type")}
    assert said == {
        "node_type": "Machine type of the executors: at least 4 cores and 8g for an executor.",
        "driver_node_type": "Machine type of the driver: at least 4 cores and 2 GB.",
    }
    # Without one of its own, the driver is of the executors' type.
    files = files_of("databricks", words(), profile.model_copy(update={"machine": ""}), mine)
    bundle = yaml.safe_load(files["databricks.yml"])
    assert bundle["variables"]["node_type"]["default"] == "Standard_D16s_v5"
    assert "driver_node_type" not in bundle["variables"]
    assert "node_type=TYPE" not in files["databricks.yml"]
    # A cluster of one machine has no executors.
    alone = profile.model_copy(update={"master": "local[*]"})
    bundle = yaml.safe_load(files_of("databricks", words(), alone, mine)["databricks.yml"])
    assert bundle["variables"]["node_type"]["default"] == "Standard_D4s_v5"
    assert "driver_node_type" not in bundle["variables"]


def test_a_profile_of_a_file_asks_databricks_for_both_types_and_counts_both(
    mine: Catalog, workspace: Workspace
) -> None:
    (workspace.root / "profiles.toml").write_text(
        '[cloud]\nbackend = "spark"\nmaster = "databricks"\nmachine = "Standard_D4s_v5@eastus"\n'
        'executor_machine = "Standard_D16s_v5@eastus"\nprice_per_dbu = 0.3\nstop_at_cost = 10\n'
        '[cloud.spark]\n"spark.executor.instances" = 4\n'
    )
    profile = find_profile("cloud", workspace)
    text = files_of("databricks", words(), profile, mine)["databricks.yml"]
    cluster = check_databricks(text)["job_clusters"][0]["new_cluster"]
    assert (cluster["num_workers"], cluster["driver_node_type_id"]) == (4, "${var.driver_node_type}")
    bundle = yaml.safe_load(text)
    types = [bundle["variables"][name]["default"] for name in ("driver_node_type", "node_type")]
    assert types == ["Standard_D4s_v5", "Standard_D16s_v5"]
    prices, units = machine_table(None), dbu_table()
    hour = sum(
        (prices.find(f"{name}@eastus").price_per_hour or 0.0) + units[name.casefold()].dbu_per_hour * 0.3
        for name in (types[0], *4 * [types[1]])
    )
    assert bundle["resources"]["jobs"]["words"]["timeout_seconds"] == pytest.approx(10 / hour * 3600, abs=1)


def test_the_limit_of_a_job_on_databricks_counts_both_types_of_machines(mine: Catalog) -> None:
    prices = {"machine_price": 1.0, "executor_price": 4.0, "price_per_dbu": 0.5, "dbu_per_hour": 2.0, "currency": "USD"}
    machines = {"machine": "Standard_D4s_v5@eastus", "executor_machine": "Standard_D16s_v5@eastus"}
    profile = CLUSTER.model_copy(
        update={**prices, **machines, "stop_at_cost": 13.5, "spark": {"spark.executor.instances": "2"}}
    )
    text = files_of("databricks", words(), profile, mine)["databricks.yml"]
    # 1 + 2 x 4 for the machines, 3 x 2 units at 0.5: 12 an hour.
    assert yaml.safe_load(text)["resources"]["jobs"]["words"]["timeout_seconds"] == 4050
    head = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
    assert "the driver at 1, 2 executors at 4 and 2 units at 0.5 each" in head
    own = profile.model_copy(update={"executor_dbu_per_hour": 8.0})
    text = files_of("databricks", words(), own, mine)["databricks.yml"]
    # 1 + 2 x 4 for the machines, 2 + 2 x 8 units at 0.5: 18 an hour.
    assert yaml.safe_load(text)["resources"]["jobs"]["words"]["timeout_seconds"] == 2700
    head = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
    assert "the driver at 1, 2 executors at 4 and 18 units at 0.5 for all" in head


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
    with pytest.raises(ValueError, match="there is no node_kind"):
        check_databricks(bundle.replace("${var.node_type}", "${var.node_kind}"))
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
    costly = LOCAL.model_copy(update={"gpus": 1, "stop_after_s": 5400})
    lint_github(workflow_of(files_of("github", words(), costly, mine)))
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
