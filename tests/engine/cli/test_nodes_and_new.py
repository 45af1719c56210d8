"""`voxelflow nodes` and `new`."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from command_line import Command
from file_limits import largest_file

from engine.catalog import Catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import SCHEMA_FILE, json_schema, read_pipeline
from engine.workspace import Workspace, is_trusted

NODE = '''
from typing import Annotated, Literal
from voxelflow import Extendable, Help, PathIn, PathOut, Policy, Range, Report, Secret, TaskContext, Unit, node

@node("Show", version=3, category="Mine")
def show(
    first: Report,
    second: Report | None = None,
    *,
    folder: Annotated[str, PathIn("folder", "**/*.npy", "*.txt")],
    size: Annotated[int, Range(1, 4096), Unit("MB")] = 78,
    rate: Annotated[float, Range(0, None)] = 0.5,
    depth: Literal[18, 34] = 18,
    shape: tuple[int, ...] = (16, 16),
    token: Annotated[str, Secret()] = "",
    to: Annotated[str, PathOut("folder")] = "",
    epochs: Annotated[int, Extendable()] = 5,
    threads: Annotated[int, Policy()] = 0,
    ctx: TaskContext,
) -> Report:
    """Show everything.

    It shows what a node may declare,
    on two lines.

    Args:
        first: what to show.
        size: how much of it.
        epochs: how often.
    """
'''
GOLDEN = Path(__file__).with_name("golden") / "node.txt"


@pytest.fixture
def own_node(workspace: Workspace) -> Path:
    path = workspace.my_nodes / "show.py"
    path.write_text(NODE)
    return path


def test_own_nodes_run_only_after_trust(command: Command, workspace: Workspace, own_node: Path) -> None:
    said = command("nodes").done()
    assert "Show" not in said.out
    assert "VF150" in said.err
    assert not is_trusted(workspace)
    trusted = command("nodes", "--trust")
    assert is_trusted(workspace)
    assert trusted.err == f"trusted: {own_node}\n"
    assert trusted.out.splitlines() == ["Mine", "  Show                 Show everything. (show.py)"]
    assert command("nodes").err == ""


def test_own_models_are_reported_and_trusted_too(command: Command, workspace: Workspace) -> None:
    workspace.my_models.mkdir()
    path = workspace.my_models / "net.py"
    path.write_text("def build(shape, outputs): ...\n")
    assert command("nodes", "--trust").err == f"trusted: {path}\n"
    assert is_trusted(workspace)


def test_there_must_be_something_to_trust(command: Command, workspace: Workspace) -> None:
    command("nodes", "--trust").fails()
    assert not is_trusted(workspace)


def test_the_docs_of_one_node(
    command: Command, own_node: Path, monkeypatch: pytest.MonkeyPatch, workspace: Workspace
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    command("nodes", "--trust")
    output = command("nodes", "Show").out.replace(str(workspace.root), "WORKSPACE")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(output)
    assert output == GOLDEN.read_text()
    near = command("nodes", "Shwo")
    assert "Did you mean Show?" in near.err


def test_nodes_as_json(command: Command, probes: Catalog) -> None:
    output = command("nodes", "--json").json
    assert [n["type"] for n in output["nodes"]] == [t.name for t in probes]
    assert output["problems"] == []
    assert command("nodes", "Grow", "--json").json == probes.types["Grow"][0].describe()


def test_a_broken_file_is_reported_and_the_others_are_there(
    command: Command, probes: Catalog, workspace: Workspace
) -> None:
    (workspace.my_nodes / "broken.py").write_text("1 / 0\n")
    said = command("nodes").done()
    assert "Make" in said.out
    assert "VF151" in said.err
    assert "line 1" in said.err


def test_new_writes_a_document_and_the_schema(command: Command, home: Path) -> None:
    said = command("new", "first", "--template", "empty")
    path = home / "workspace" / "pipelines" / "first.json"
    assert (said.status, said.out) == (0, f"made {path}\n")
    assert read_pipeline(path).name == "first"
    assert json.loads(path.with_name(SCHEMA_FILE).read_text()) == json_schema()
    before = path.read_bytes()
    command("new", "first.json", "--template", "empty").fails("is there already")
    assert path.read_bytes() == before


def test_a_new_document_is_there_whole_or_not_at_all(
    command: Command, home: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with largest_file(100):
        said = command("new", "first")
    path = workspace.pipelines / "first.json"
    assert said.status != 0
    assert str(path) in said.err
    assert list(workspace.pipelines.iterdir()) == []
    with monkeypatch.context() as patch:

        def no_links(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        patch.setattr(os, "link", no_links)
        command("new", "first").done()
        before = path.read_bytes()
        command("new", "first", "--template", "empty").fails("is there already")
    assert read_pipeline(path).name == "first"
    assert path.read_bytes() == before


@pytest.mark.parametrize("template", sorted(shipped_pipelines()))
def test_every_shipped_pipeline_is_a_template(template: str, command: Command, home: Path) -> None:
    said = command("new", "mine", "--template", template).done()
    made = read_pipeline(home / "workspace" / "pipelines" / "mine.json")
    shipped = read_pipeline(shipped_pipelines()[template])
    assert made == shipped.model_copy(update={"name": "mine"})
    for name, parameter in shipped.parameters.items():
        assert (f"--set {name}=" in said.out) == (parameter.value is None)


def test_the_error_for_an_unknown_template_names_the_known_ones(command: Command, home: Path) -> None:
    command("new", "mine", "--template", "nonsense").fails("empty")
    command("new").fails()
    assert list(home.iterdir()) == []


def test_the_schema_is_printed_for_other_tools(command: Command, home: Path) -> None:
    assert command("new", "--schema").json == json_schema()
    assert list(home.iterdir()) == []
