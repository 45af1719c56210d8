"""What an exported program needs where it runs: variables, packages, MLflow; and what only a workspace has."""

from __future__ import annotations

import ast
import importlib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from building import box, pipeline
from platforms import check_databricks, check_github, check_kubernetes

import nodes
from engine.catalog import Catalog, build_catalog
from engine.document.pipeline import Pipeline
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.platforms import PLATFORMS, export_files
from engine.extras import extras_for, missing_text, projects_beyond
from engine.profiles import Profile
from engine.workspace import Workspace, trust

LOCAL = Profile(name="local", cores=2, memory_bytes=3 << 30)
KEYED = '''
from typing import Annotated

from voxelflow import Report, Secret, TaskContext, node


@node("Keyed", version=1, category="Mine", needs=("yaml", "json", "not_there_at_all"))
def keyed(*, token: Annotated[str, Secret()] = "MY_TOKEN", spare: Annotated[str, Secret()] = "", ctx: TaskContext) -> Report:
    """Needs a key."""
    path = ctx.out / "report.txt"
    path.write_text("made")
    return Report(uri=str(path))
'''  # noqa: E501


@pytest.fixture
def keyed(workspace: Workspace) -> Catalog:
    (workspace.my_nodes / "keyed.py").write_text(KEYED)
    trust(workspace)
    return build_catalog((), workspace)


def exported(target: str, document: Pipeline, catalog: Catalog, folder: Path, **values: Any) -> dict[str, str]:
    resolved = resolve(document, catalog, values, base=Path("/base"))
    return export_files(target, resolved, LOCAL, values, base=Path("/base"), workspace=folder)


def variables_in(target: str, files: dict[str, str], stem: str = "test") -> set[str]:
    """The variables of the place where the program runs, as the platform reads them."""
    match target:
        case "github":
            job = check_github(files[f".github/workflows/{stem}.yml"])["jobs"][stem]
            return {name for step in job["steps"] for name in step.get("env", {})}
        case "databricks":
            job = check_databricks(files["databricks.yml"])
            return set(job["job_clusters"][0]["new_cluster"].get("spark_env_vars", {}))
        case "kubernetes":
            check_kubernetes(files[f"{stem}.yaml"])
            words = files[f"{stem}.yaml"].partition("\n\n")[0].split()
            return {word.split("=")[1] for word in words if word.startswith("--from-literal=")}
    return {line.strip() for line in ast.get_docstring(ast.parse(files[f"{stem}_dag.py"])).split("\n")}  # type: ignore[union-attr]


@pytest.mark.parametrize("target", PLATFORMS)
def test_the_variable_of_a_secret_is_named(target: str, keyed: Catalog, tmp_path: Path) -> None:
    files = exported(target, pipeline(box("a", "Keyed"), box("b", "Keyed", token="OTHER")), keyed, tmp_path)
    assert {"MY_TOKEN", "OTHER"} <= variables_in(target, files)
    with pytest.raises(UsageError, match="token names the environment variable x; reboot, and platforms take no such"):
        exported(target, pipeline(box("a", "Keyed", token="x; reboot")), keyed, tmp_path)


def test_a_program_asks_for_its_variables_before_it_starts(keyed: Catalog, tmp_path: Path) -> None:
    document = pipeline(box("a", "Keyed", token="${key}"), box("b", "Keyed"), key="FIRST")
    assert 'start(main, OUT, variables=[KEY, "MY_TOKEN"])' in exported("python", document, keyed, tmp_path)["test.py"]
    assert "start(main, OUT)" in exported("python", pipeline(box("a", "Keyed", token="")), keyed, tmp_path)["test.py"]


def test_packages_that_no_extra_brings_are_installed(keyed: Catalog, tmp_path: Path) -> None:
    """By the names of their projects; what comes with Python is there."""
    document = pipeline(box("a", "Keyed", token=""))
    job = check_databricks(exported("databricks", document, keyed, tmp_path)["databricks.yml"])
    names = [library["pypi"]["package"] for library in job["tasks"][0]["libraries"]]
    assert names[0].startswith("voxelflow==")
    pinned = f"PyYAML=={metadata.version('PyYAML')}"
    assert names[1:] == [pinned, "not_there_at_all"]
    for target, place in (
        ("github", ".github/workflows/test.yml"),
        ("kubernetes", "Dockerfile"),
        ("airflow", "test_dag.py"),
    ):
        text = " ".join(exported(target, document, keyed, tmp_path)[place].split())
        assert f"{names[0]} {pinned} not_there_at_all" in text, target


TRAINS = KEYED.replace('"yaml", "json", "not_there_at_all"', '"tensorflow", "matplotlib"').replace("Keyed", "Trains")
PLOTS = KEYED.replace('"yaml", "json", "not_there_at_all"', '"matplotlib",').replace("Keyed", "Plots")


@pytest.mark.slow
@pytest.mark.parametrize("target", PLATFORMS)
@pytest.mark.parametrize(
    ("node", "gpus", "extra"), [("Trains", 0, "train"), ("Trains", 1, "gpu"), ("Plots", 1, "train")]
)
def test_tensorflow_brings_cuda_where_the_profile_has_gpus(
    target: str, node: str, gpus: int, extra: str, workspace: Workspace
) -> None:
    (workspace.my_nodes / "trains.py").write_text(TRAINS)
    (workspace.my_nodes / "plots.py").write_text(PLOTS)
    trust(workspace)
    resolved = resolve(pipeline(box("a", node, token="")), build_catalog((), workspace), {}, base=Path("/base"))
    profile = LOCAL.model_copy(update={"gpus": gpus})
    files = export_files(target, resolved, profile, {}, base=Path("/base"), workspace=workspace.root)
    assert f"voxelflow[{extra}]==" in "".join(files.values())


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1, 4])
def test_a_workflow_with_gpus_runs_where_a_variable_says(gpus: int, keyed: Catalog) -> None:
    """GitHub's usual machines have none; without the variable it refuses the job."""
    resolved = resolve(pipeline(box("a", "Keyed")), keyed, {}, base=Path("/base"))
    profile = LOCAL.model_copy(update={"gpus": gpus})
    files = export_files("github", resolved, profile, {}, base=Path("/base"), workspace=Path("/base"))
    text = files[".github/workflows/test.yml"]
    assert check_github(text)["jobs"]["test"]["runs-on"] == ("${{ vars.GPU_RUNNER }}" if gpus else "ubuntu-24.04")
    assert ("gh variable set GPU_RUNNER" in text) is (gpus > 0)
    assert (f"has {gpus} GPU" in text) is (gpus > 0)


def test_what_is_no_project_or_may_be_several_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_mine.py").touch()
    projects = {"google": ["google-auth", "protobuf"], "my_tool": ["My-Tool", "other", "other"], "built": ["built"]}
    monkeypatch.setattr(metadata, "packages_distributions", lambda: projects)
    monkeypatch.setattr(metadata, "version", lambda _: "1.2+cu121")
    names = ["helper_of_mine", "google", "my_tool", "built", "json", "tensorflow", "not_there_at_all"]
    assert projects_beyond(names) == ("My-Tool==1.2", "built==1.2", "not_there_at_all")


def test_a_module_within_a_package_is_its_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several projects share the package, as those of Google do, or the module has no file."""
    for name in ("shared/one/__init__", "shared/oneself", "shared/two"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "single.py").write_text("import sys\nsys.modules['single.made'] = sys\n__path__ = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "Shared.one": ["shared/one/__init__.py"], "other": ["shared/oneself.py", "shared/two.so"],
        "single": ["single.py"],
    }  # fmt: skip
    monkeypatch.setattr(metadata, "files", lambda project: [metadata.PackagePath(file) for file in files[project]])
    monkeypatch.setattr(
        metadata, "packages_distributions", lambda: {"shared": ["Shared.one", "other"], "single": ["single"]}
    )
    monkeypatch.setattr(metadata, "version", lambda _: "1")
    importlib.import_module("single")
    names = ["shared.one", "shared.two", "single.made", "shared.three", "xml.etree", "mlflow.keras", "a.b"]
    assert projects_beyond(names) == ("Shared.one==1", "other==1", "single==1", "shared.three", "a.b")
    assert extras_for(names) == ("mlflow",)
    assert missing_text("it", ["optuna.samplers", "a.b"]) == (
        "it needs Optuna and a.b, which are not installed", "Install them: pip install 'voxelflow[sweep]' a.b",
    )  # fmt: skip


def loading(**params: Any) -> Pipeline:
    return pipeline(
        box("model", "LoadModel", **params), box("register", "RegisterModel"), wires="model.out>register.model"
    )


@pytest.mark.parametrize("target", ["python", *PLATFORMS])
def test_what_needs_recorded_runs_goes_where_a_workspace_is(target: str, tmp_path: Path) -> None:
    catalog = build_catalog(nodes.BUILT_IN)
    of_a_run = loading(run="20260101-000000-abcdef")
    compared = pipeline(
        box("a", "LoadModel", folder="/a"), box("b", "LoadModel", folder="/b"), box("compare", "CompareTrainings"),
        wires="a.out>compare.files b.out>compare.table",
    )  # fmt: skip
    for document, node in ((of_a_run, "model"), (compared, "compare")):
        if target == "airflow":
            assert exported(target, document, catalog, tmp_path)
            continue
        with pytest.raises(UsageError, match="needs what the runs of a workspace have recorded") as caught:
            exported(target, document, catalog, tmp_path)
        assert (caught.value.node, f"disable {node}," in caught.value.hint) == (node, True)
    assert exported(target, loading(folder="/a"), catalog, tmp_path)


@pytest.mark.parametrize("target", PLATFORMS)
def test_a_model_is_registered_where_a_variable_says(target: str, tmp_path: Path) -> None:
    catalog = build_catalog(nodes.BUILT_IN)
    files = exported(target, loading(registered="models:/brains@champion"), catalog, tmp_path)
    # A workspace has an MLflow of its own.
    assert ("MLFLOW_TRACKING_URI" in variables_in(target, files)) is (target != "airflow")
    if target != "airflow":
        assert 'variables=["MLFLOW_TRACKING_URI"]' in files["test.py"]
    only = pipeline(box("model", "LoadModel", folder="/a"))
    assert "MLFLOW" not in "".join(exported(target, only, catalog, tmp_path).values())


def test_a_name_that_begins_with_a_digit(keyed: Catalog, tmp_path: Path) -> None:
    """GitHub's ids of jobs and Databricks' of resources begin with a letter or an underscore."""
    document = pipeline(box("a", "Keyed"), name="3D sci")
    workflow = check_github(exported("github", document, keyed, tmp_path)[".github/workflows/3D-sci.yml"])
    assert list(workflow["jobs"]) == ["_3d-sci"]
    text = exported("databricks", document, keyed, tmp_path)["databricks.yml"]
    assert list(yaml.safe_load(text)["resources"]["jobs"]) == ["_3D-sci"]
    assert "databricks bundle run _3D-sci" in text


def test_databricks_reads_nothing_in_a_name(keyed: Catalog, tmp_path: Path) -> None:
    text = exported("databricks", pipeline(box("a", "Keyed"), name="cost ${x}"), keyed, tmp_path)["databricks.yml"]
    assert check_databricks(text)["name"] == "cost $ {x}"
