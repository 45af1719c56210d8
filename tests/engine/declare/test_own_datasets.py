"""A dataset type that is not Voxelflow's: declared by a package or a workspace's file, and used like a built-in one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import own_datasets
import pytest
from building import box, pipeline
from command_line import NO_WORK
from pydantic import ValidationError
from running import Runner
from waiting import WAIT_S

import voxelflow
from engine.catalog import build_catalog
from engine.cli import main
from engine.declare.dataset_type import (
    Dataset,
    UnknownDataset,
    dataset_from_json,
    dataset_type,
    details_of,
    protected_places,
)
from engine.declare.datasets import Report
from engine.declare.events import Outputs, event_from_json
from engine.errors import DeclarationError
from engine.observe.results import problem_with
from engine.store.runs import RunStore
from engine.tracking.destination import without_userinfo
from engine.viewing.process import ViewProcess
from engine.wording import counted
from engine.workspace import Workspace, trust
from ui.build.catalogue import Catalogue
from ui.build.status import outputs_in_words

DOCUMENT = pipeline(
    box("pick", "PickHorizon", traces=4), box("describe", "DescribeHorizon"), wires="pick.out>describe.horizon"
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, installed for this process and those that it starts."""
    site = own_datasets.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    yield site
    sys.modules.pop("horizons", None)


def _voxelflow(*arguments: str) -> str:
    command = [sys.executable, "-m", "voxelflow", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_a_package_brings_a_dataset_type(package: Path, workspace: Workspace, store: RunStore, monkeypatch) -> None:
    catalog = voxelflow.catalog(workspace)
    assert catalog.problems == []
    welcome = Catalogue(workspace, lambda _: catalog).welcome()
    horizon = next(d for d in welcome.datasets if d.kind == "Horizon")
    assert (horizon.title, horizon.light, horizon.dark) == ("Seismic horizon", "#a4512c", "#f0a27e")
    assert horizon.summary == "A picked surface: one depth for each trace of a survey."
    assert [counted(kind, 1_200) for kind in ("Horizon", "Unknown")] == ["1,200 traces", "1,200 rows"]

    runner = Runner(catalog, workspace, store)
    run, tasks = runner.run(DOCUMENT)
    assert run.state == "done", run.error
    assert tasks["pick"].outputs["out"].details() == {"traces": 4, "deepest": 3.0}
    assert runner.text(tasks["describe"]) == "3 m"
    _, tasks = runner.run(DOCUMENT)
    assert {t.state for t in tasks.values()} == {"cached"}

    # Cut to another JSON of the same number of bytes: only the type's own check sees that.
    file = Path(tasks["pick"].outputs["out"].uri)
    whole = file.read_text()
    file.write_text(json.dumps([0.0]).ljust(len(whole)))
    _, tasks = runner.run(DOCUMENT)
    assert tasks["pick"].state == "done"
    assert "has 1 traces, not 4" in tasks["pick"].reason
    assert file.read_text() == whole
    file.write_text(whole[:-3])
    _, tasks = runner.run(DOCUMENT)
    assert tasks["pick"].state == "done"
    assert file.read_text() == whole

    _is_looked_at(workspace, tasks["pick"].outputs["out"])

    root = ("--workspace", str(workspace.root))
    shown = _voxelflow("runs", "show", run.run_id, *root)
    assert "4 traces" in shown or "traces 4" in shown
    stored = [row["outputs"] for row in store.read("SELECT outputs FROM tasks WHERE node = 'pick'")]

    # The package is removed: the history opens, and nothing of what it holds is lost.
    monkeypatch.delenv("PYTHONPATH")
    shown = _voxelflow("runs", "show", run.run_id, *root)
    assert "deepest 3" in shown
    assert _read_elsewhere(workspace) == sorted(stored)


def _is_looked_at(workspace: Workspace, horizon: Dataset) -> None:
    """In the process beside the app, which gets the reference as JSON, its type shows pictures of its own."""
    process = ViewProcess(workspace)

    def ask(panel: str, what: str, **query: str) -> bytes:
        answer = process.ask(horizon, {}, panel, what, query).result(WAIT_S)
        assert answer.status == 200, answer.body
        return answer.body

    try:
        info = json.loads(ask("", "info"))
        assert (info["title"], info["facts"]["traces"]) == ("Seismic horizon", 4)
        assert info["facts"]["note"] == "As it was picked."
        kinds = {panel["name"]: (panel["kind"], panel["shape"]) for panel in info["panels"]}
        assert kinds == {"surfaces": ("gallery", [4, 1, 1]), "depths": ("charts", [])}
        (chart,) = json.loads(ask("depths", "content"))["charts"]
        assert chart["series"] == {"m": [0, 1, 2, 3]}
        assert ask("surfaces", "thumbnail", row="0").startswith(b"\x89PNG")
    finally:
        process.close()


def _read_elsewhere(workspace: Workspace) -> list[str]:
    """What a process that loads no types knows of the stored outputs of `pick`, in all runs, as JSON."""
    code = (
        "import json, sys; from pathlib import Path; from engine.store.runs import RunStore; "
        "from engine.workspace import Workspace; store = RunStore(Workspace(Path(sys.argv[1]))); "
        "print(json.dumps([json.dumps({k: d.model_dump(mode='json', context=store.paths)"
        " for k, d in t.outputs.items()})"
        " for r in store.runs() for t in store.tasks(r.run_id) if t.node == 'pick']))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(workspace.root)], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    return sorted(json.loads(process.stdout))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_type_of_the_workspaces_own_runs_and_its_runs_open_without_its_file(
    workspace: Workspace, store: RunStore
) -> None:
    own = workspace.my_nodes / "horizons.py"
    own.write_text(own_datasets.SOURCE)
    trust(workspace)
    catalog = voxelflow.catalog(workspace)
    assert catalog.problems == []
    assert catalog.datasets.origin("Horizon") == str(own)
    runner = Runner(catalog, workspace, store)
    run, tasks = runner.run(DOCUMENT)
    assert run.state == "done", run.error
    assert runner.text(tasks["describe"]) == "3 m"
    _, tasks = runner.run(DOCUMENT)
    assert {t.state for t in tasks.values()} == {"cached"}

    root = ("--workspace", str(workspace.root))
    of_run = ("runs", "show", run.run_id, *root)
    assert "traces 4, deepest 3" in _voxelflow(*of_run)
    stored = [row["outputs"] for row in store.read("SELECT outputs FROM tasks WHERE node = 'pick'")]
    own.unlink()
    assert "count 4, deepest 3" in _voxelflow(*of_run), "its fields, for nothing is known of the type"
    assert _read_elsewhere(workspace) == sorted(stored)
    assert Path(tasks["pick"].outputs["out"].uri).is_file()


def test_a_wire_of_another_kind_is_refused(package: Path) -> None:
    from engine.document.checks import check
    from engine.document.resolve import resolve

    wrong = pipeline(box("pick", "PickHorizon"), box("inspect", "InspectDataset"), wires="pick.out>inspect.dataset")
    found = [d for d in check(resolve(wrong, voxelflow.catalog())).diagnostics if d.code == "VF104"]
    assert "gives Horizon, but dataset takes" in found[0].message


def test_the_command_documents_a_type(package: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    def command(*arguments: str) -> str:
        given = [*arguments, "--workspace", str(workspace.root)]
        assert main(voxelflow.catalog, lambda *_, **__: 0, NO_WORK, given) == 0
        return capsys.readouterr().out

    said = command("nodes", "Horizon")
    assert said.startswith("Horizon: A picked surface: one depth for each trace of a survey.")
    assert "made by: PickHorizon" in said
    assert "taken by: DescribeHorizon" in said
    assert "Dataset types\n  Horizon" in command("nodes")
    output = json.loads(command("nodes", "--json"))
    assert "Horizon" in {each["kind"] for each in output["datasets"]}
    assert json.loads(command("nodes", "VolumeDelta", "--json"))["origin"] == "built-in"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("class Report(Dataset): ...", "Report is declared twice"),
        ("class Horizon(Dataset):\n    title: str", "title cannot be a field"),
        ("class Horizon(Dataset):\n    colour = 'red'", "its colour is not a Colour"),
        ("class Horizon(Dataset):\n    colour = Colour('red')", "'red' is not a colour"),
        ("class horizon(Dataset): ...", "is not a dataset type's name"),
    ],
)
def test_a_wrong_type_is_refused_with_the_reason(workspace: Workspace, source: str, why: str) -> None:
    (workspace.my_nodes / "wrong.py").write_text(f"from voxelflow import Colour, Dataset\n\n\n{source}\n")
    trust(workspace)
    catalog = build_catalog((), workspace)
    assert [d.code for d in catalog.problems] == ["VF151"]
    assert why in catalog.problems[0].message
    assert dataset_type("Report") is Report


def test_of_two_types_with_one_name_the_first_counts(workspace: Workspace) -> None:
    for name in ("a", "b"):
        text = f"from voxelflow import Dataset\n\n\nclass Twin(Dataset):\n    {name}: int = 0\n"
        (workspace.my_nodes / f"{name}.py").write_text(text)
    trust(workspace)
    catalog = build_catalog((), workspace)
    assert "b.py could not be loaded: the dataset type Twin is declared twice" in catalog.problems[0].message
    found = catalog.datasets.find("Twin")
    assert found is dataset_type("Twin")
    assert "a" in found.model_fields


def test_a_stored_reference_of_another_time_keeps_its_json(workspace: Workspace) -> None:
    (workspace.my_nodes / "own.py").write_text("from voxelflow import Dataset\n\n\nclass Fault(Dataset):\n    b: int\n")
    trust(workspace)
    build_catalog((), workspace)
    old = {"kind": "Fault", "uri": "/data/fault", "a": None, "list": [1, {"path": "/data/other"}], "name": "x", "n": 2}
    for stored in (old, old | {"kind": "NeverSeen"}):
        event = event_from_json(json.dumps({"event": "outputs", "node": "n", "outputs": {"out": stored}}))
        assert isinstance(event, Outputs)
        unknown = event.outputs["out"]
        assert isinstance(unknown, UnknownDataset)
        assert json.loads(event.model_dump_json(exclude_none=True))["outputs"]["out"] == stored
        assert unknown.model_dump_json() == json.dumps(stored, separators=(",", ":"))
        assert unknown.details() == {"name": "x", "n": 2}
        assert protected_places(unknown) == {"/data/fault", "/data/other"}
        assert f"the dataset type {stored['kind']} is not known here" in problem_with(None, Path("/"), {"out": unknown})
    with pytest.raises(ValidationError):  # what a node returns is not history
        dataset_from_json(old)


def test_what_a_type_raises_closes_nothing(tmp_path: Path) -> None:
    class Broken(Dataset):
        def details(self) -> dict[str, int]:
            raise RuntimeError("no figures")

        def check(self) -> str:
            raise RuntimeError("no check")

        def mlflow_source(self) -> None:
            raise RuntimeError("no source")

    (tmp_path / "file").write_text("x")
    broken = Broken(uri=str(tmp_path / "file"))
    assert details_of(broken) == {"problem": "RuntimeError: no figures"}
    assert "no check" in problem_with(None, tmp_path, {"out": broken})
    assert "no figures" in outputs_in_words({"out": broken})[0].figures


def test_a_reference_that_json_changes_is_refused(workspace: Workspace) -> None:
    (workspace.my_nodes / "lossy.py").write_text(
        "from typing import Any\nfrom voxelflow import Dataset, TaskContext, node\n\n\n"
        "class Lossy(Dataset):\n    values: Any\n\n\n"
        "@node('MakeLossy', version=1, category='Mine')\ndef make(*, ctx: TaskContext) -> Lossy:\n    'Make.'\n"
    )
    trust(workspace)
    catalog = build_catalog((), workspace)
    made = catalog.find("MakeLossy")
    lossy = catalog.datasets.find("Lossy")
    assert lossy is not None
    assert made.collect(lossy(uri="/x", values=[1, "a"]))["out"].uri == "/x"
    with pytest.raises(DeclarationError, match="Lossy that cannot be stored"):
        made.collect(lossy(uri="/x", values=object()))


def test_an_address_with_an_account_reaches_mlflow_whole() -> None:
    for kept in ("abfss://box@account.dfs.core.windows.net/a", "az://box/a", "/a/b@c"):
        assert without_userinfo(kept) == kept
    assert without_userinfo("s3://key:geheim@box/a") == "s3://box/a"
    assert "geheim" not in without_userinfo("abfss://box:geheim@account.dfs.core.windows.net/a")
