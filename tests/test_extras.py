"""The optional packages: the base runs the storage nodes without them, and says what is missing and what to do."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import base_install
import pytest
from building import box, pipeline

from engine.document.pipeline import write_pipeline
from engine.errors import MissingPackage
from engine.extras import EXTRAS, missing, missing_package, missing_text, require

_INSTALL = re.compile(r"pip install '([^']+)'")
_SMALL = {"count": 60, "shape": [8, 8, 4, 1]}
_STORAGE = pipeline(
    box("make", "SyntheticVolumes", **_SMALL), box("convert", "NumpyToParquet"), box("table", "ParquetToDelta"),
    box("optimize", "OptimizeDelta"), box("split", "SplitDataset"), box("look", "InspectDataset"),
    wires="make.out>convert.files convert.out>table.parquet table.out>optimize.table optimize.out>split.table "
    "split.train>look.dataset",
    name="storage",
)  # fmt: skip


def _all_nodes(loader: str = "arrow") -> object:
    return pipeline(
        box("make", "SyntheticVolumes", **_SMALL), box("convert", "NumpyToParquet"), box("table", "ParquetToDelta"),
        box("train", "TrainResNet3D", loader=loader), box("profile", "ProfileTraining"),
        box("predict", "BatchPredict"), box("evaluate", "EvaluateModel"), box("register", "RegisterModel"),
        wires="make.out>convert.files convert.out>table.parquet table.out>train.data table.out>profile.data "
        "train.out>predict.model table.out>predict.data predict.out>evaluate.predictions train.out>register.model",
        name="all",
    )  # fmt: skip


# --- the table ---------------------------------------------------------------------------------


def test_the_table_and_pyproject_name_the_same_packages() -> None:
    assert {*EXTRAS, "all"} == set(base_install.EXTRAS)
    for extra, packages in EXTRAS.items():
        assert {package.project for package in packages} == base_install.projects(extra), extra
    assert base_install.projects("all") == set().union(*map(base_install.projects, EXTRAS.keys() - {"gpu"}))
    assert not base_install.projects("all") & set(map(base_install.project, base_install.BASE))


@pytest.mark.slow
def test_each_package_of_the_table_is_imported_by_that_name() -> None:
    found = importlib.metadata.packages_distributions()
    for package in {package for extra, packages in EXTRAS.items() if extra != "gpu" for package in packages}:
        assert package.project in map(base_install.project, found[package.module])
        assert missing([package.module]) == []


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["tensorflow"], "pip install 'voxelflow[train]'"),
        (["mlflow"], "pip install 'voxelflow[mlflow]'"),
        (["tensorflow", "matplotlib", "mlflow"], "pip install 'voxelflow[train]'"),
        (["pyspark", "tensorflow"], "pip install 'voxelflow[spark,train]'"),
        (["torch"], "pip install torch"),
        (["torch", "mlflow"], "pip install 'voxelflow[mlflow]' torch"),
    ],
)
def test_the_hint_is_the_shortest_command_that_brings_all(names: list[str], command: str) -> None:
    assert missing_text("it", names)[1].endswith(f": {command}")


def test_a_sentence_names_each_package_as_people_do() -> None:
    assert missing_text("TrainResNet3D", ["tensorflow"]) == (
        "TrainResNet3D needs TensorFlow, which is not installed",
        "Install it: pip install 'voxelflow[train]'",
    )
    assert missing_text("x", ["pyspark", "delta", "filelock"])[0] == (
        "x needs PySpark, delta-spark and filelock, which are not installed"
    )


def test_what_is_missing_is_raised_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    require("a test", "pyarrow", "json")
    with pytest.raises(MissingPackage, match="a test needs no_such_package, which is not installed"):
        require("a test", "pyarrow", "no_such_package")
    monkeypatch.setitem(sys.modules, "petastorm", None)  # what an import that failed leaves behind
    assert missing(["petastorm", "petastorm"]) == ["petastorm"]


def test_only_an_import_of_an_absent_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_package(ValueError("no")) is None
    assert missing_package(ModuleNotFoundError("No module named 'x'", name="x")) is None
    # Installed, and broken inside: the traceback says more.
    assert missing_package(ModuleNotFoundError("No module named 'mlflow.gone'", name="mlflow.gone")) is None
    monkeypatch.setitem(sys.modules, "mlflow", None)
    message = missing_package(ModuleNotFoundError("No module named 'mlflow.tracking'", name="mlflow.tracking"))
    assert message is not None
    assert message.line() == "MLflow is not installed. Install it: pip install 'voxelflow[mlflow]'"


# --- the base alone ----------------------------------------------------------------------------

_COMMANDS = """
import contextlib, io, json, sys
import engine.cli, voxelflow
assert voxelflow.node and voxelflow.load
found = []
for arguments in json.loads(sys.stdin.read()):
    sys.argv = ["voxelflow", *arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            voxelflow.main()
        except SystemExit as exc:
            found.append([exc.code, out.getvalue()])
from engine.extras import EXTRAS, missing, modules
optional = [name for extra in EXTRAS for name in modules(extra)]
print(json.dumps({"said": found, "missing": missing(optional), "optional": sorted(set(optional))}))
"""


def _base(*command: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    env = base_install.environment() | {"VOXELFLOW_TRACKING": "", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-P", *command], capture_output=True, text=True, cwd=cwd, env=env, input=given, timeout=120
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What commands say in the base, by their arguments; one process gives them all."""
    home = tmp_path_factory.mktemp("base")
    write_pipeline(_all_nodes(), home / "all.json")
    write_pipeline(_all_nodes("petastorm"), home / "petastorm.json")
    write_pipeline(_STORAGE, home / "storage.json")
    (home / "model").mkdir()
    commands = [
        "nodes", "nodes TrainResNet3D", "validate all.json", "plan all.json", "validate petastorm.json",
        "validate storage.json", "plan storage.json", "plan storage.json --profile spark-local",
        "profiles list", "profiles test spark-local", "predict model x.npy", "predict models:/a@b x.npy", "studio",
        "runs list", "clean", "export all.json -o -", "run all.json",
    ]  # fmt: skip
    # Folders that are called as packages are: Python would take them for namespace packages.
    for name in ("mlflow", "delta"):
        (home / name).mkdir()
    found = _base("-c", f"import sys; sys.path.insert(0, '')\n{_COMMANDS}", cwd=home,
                  given=json.dumps([c.split() for c in commands]))  # fmt: skip
    assert found.returncode == 0, found.stderr
    printed = json.loads(found.stdout)
    assert sorted(printed["missing"]) == printed["optional"]
    return dict(zip(commands, map(tuple, printed["said"]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["nodes", "nodes TrainResNet3D", "validate storage.json", "plan storage.json", "profiles list", "runs list",
     "clean", "export all.json -o -"],
)  # fmt: skip
def test_the_base_does_all_that_needs_no_extra(said: dict[str, tuple[int, str]], command: str) -> None:
    status, text = said[command]
    assert status == 0, text
    assert "could not be loaded" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "extras", "words"),
    [
        ("validate all.json", {"train", "mlflow"}, "error VF311 train: TrainResNet3D needs TensorFlow,"),
        ("plan all.json", {"train", "mlflow"}, "error VF311 predict: BatchPredict needs TensorFlow,"),
        ("run all.json", {"train", "mlflow"}, "error VF311 register: RegisterModel needs MLflow, which"),
        ("run all.json", {"train", "mlflow"}, "error VF311 evaluate: EvaluateModel needs Matplotlib, which"),
        ("run all.json", {"train", "mlflow"}, "error VF311 profile: ProfileTraining needs TensorFlow and Matplotlib,"),
        ("validate petastorm.json", {"train", "mlflow", "petastorm"}, "VF311 train.loader: the loader petastorm needs"),
        ("plan storage.json --profile spark-local", {"spark"}, "VF311: the profile spark-local needs PySpark,"),
        ("profiles test spark-local", {"spark"}, "failed packages: the profile spark-local needs PySpark"),
        ("predict model x.npy", {"train"}, "voxelflow predict needs TensorFlow, which is not installed"),
        ("predict models:/a@b x.npy", {"mlflow"}, "mlflow.db needs MLflow, which is not installed"),
        ("studio", {"studio"}, "the editor needs Streamlit,"),
    ],
)
def test_the_base_says_what_is_missing_and_how_to_install_it(
    said: dict[str, tuple[int, str]], command: str, extras: set[str], words: str
) -> None:
    status, text = said[command]
    assert status == (1 if command.startswith("profiles") else 2)
    assert words in text
    assert set(_INSTALL.findall(text)) == {f"voxelflow[{extra}]" for extra in extras}
    assert "Traceback" not in text
    assert "ModuleNotFoundError" not in text


_LOAD = """
import sys, voxelflow
from engine.errors import MissingPackage
with voxelflow.load(sys.argv[1], batch_size=8) as batches:
    print(sum(len(batch.labels) for batch in batches))
    for ask in (batches.tf_dataset, lambda: voxelflow.load(sys.argv[1], 8, loader="petastorm")):
        try:
            ask()
        except MissingPackage as exc:
            print(exc.hint)
"""


@pytest.mark.slow
def test_the_base_runs_the_storage_nodes_and_reads_their_table(tmp_path: Path) -> None:
    write_pipeline(_STORAGE, tmp_path / "storage.json")
    ran = _base("-m", "voxelflow", "run", "storage.json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for node in ("make", "convert", "table", "optimize", "split", "look"):
        assert f"{node}: done" in ran.stdout
    warnings = [line for line in ran.stdout.splitlines() if "warning" in line or "MLflow" in line]
    assert len(warnings) == 1
    assert "tracking needs MLflow, which is not installed; the run goes on" in warnings[0]
    assert "pip install 'voxelflow[mlflow]'" in warnings[0]
    table = next((tmp_path / "workspace" / "data" / "ParquetToDelta").glob("*/table"))
    read = _base("-c", _LOAD, str(table), cwd=tmp_path)
    assert read.stdout.splitlines() == [
        "56",  # 7 whole batches
        "Install it: pip install 'voxelflow[train]'",
        "Install them: pip install 'voxelflow[petastorm]'",
    ], read.stderr


# --- from any directory ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "command"])
def test_a_folder_called_voxelflow_beside_a_script_hides_nothing(how: str, tmp_path: Path) -> None:
    """A clone is called so, and a script may lie beside it."""
    (tmp_path / "voxelflow" / "engine").mkdir(parents=True)
    code = "import voxelflow\nprint(voxelflow.__file__, voxelflow.node.__name__)"
    (tmp_path / "script.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = ["script.py"] if how == "script" else ["-c", code]
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert ran.stdout.split() == [str(base_install.ROOT / "voxelflow.py"), "node"], (
        f"{ran.stderr}\nIf the editable installation is older than pyproject.toml, repeat it: uv pip install -e ."
    )
