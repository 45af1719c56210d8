"""A person's own functions and models go along with an export, and run where their workspace is not."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.catalog import Catalog, build_catalog
from engine.document.pipeline import Node, Pipeline, PipelineParameter, read_pipeline
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.done import Done
from engine.export.own_files import allowed_copy
from engine.export.platforms import PLATFORMS, export_files
from engine.own_code import OwnFile
from engine.profiles import Profile
from engine.workspace import Workspace, open_workspace, trust

LOCAL = Profile(name="local", cores=2, memory_bytes=3 << 30)
MINE = '''
from typing import Annotated

from voxelflow import PathIn, Report, TaskContext, node

from engine.own_code import OwnFile

FILES = {
    "function": OwnFile("my_transforms", "A transform", "transform", "transform(volume, row)", "function"),
    "model_file": OwnFile("my_models", "A model", "build", "build(shape, outputs)", "model_file"),
}


@node("Reads", version=1, category="Mine")
def reads(
    *,
    function: Annotated[str | None, PathIn("file")] = None,
    model_file: Annotated[str | None, PathIn("file")] = None,
    ctx: TaskContext,
) -> Report:
    """Say what the own files hold."""
    path = ctx.out / "texts.txt"
    given = {"function": function, "model_file": model_file}
    path.write_text("".join(FILES[name].read(own) for name, own in given.items() if own))
    return Report(uri=str(path))
'''
GAIN = "# Größer.\ndef transform(volume, row):\n    return volume * 2\n"
NET = "def build(shape, outputs):\n    return None\n"


@pytest.fixture
def own(workspace: Workspace) -> Catalog:
    """A node, a transform and a model in the workspace's folders, trusted."""
    for folder, name, text in (
        (workspace.my_nodes, "mine.py", MINE),
        (workspace.my_transforms, "gain.py", GAIN),
        (workspace.my_models, "net.py", NET),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    trust(workspace)
    return build_catalog((), workspace)


def document(workspace: Workspace, **changes: Any) -> Pipeline:
    params = {"function": str(workspace.my_transforms / "gain.py"), "model_file": str(workspace.my_models / "net.py")}
    return Pipeline(**({"name": "own", "nodes": [Node(id="first", type="Reads", params=params)]} | changes))


def exported(target: str, pipeline: Pipeline, catalog: Catalog, workspace: Workspace) -> dict[str, str]:
    resolved = resolve(pipeline, catalog, {}, base=workspace.root)
    return export_files(target, resolved, LOCAL, {}, base=workspace.root, workspace=workspace.root)


def write(files: dict[str, str], folder: Path) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def run(program: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the program as `python FILE` does, and give what its step made."""
    out = program.parent / "out"
    monkeypatch.setattr(sys, "argv", [str(program), "--out", str(out)])
    runpy.run_path(str(program), run_name="__main__")
    return Path(Done(out / "done.json").all()[-1].outputs["out"].uri).read_text()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_own_functions_and_models_go_along(platform: str, own: Catalog, workspace: Workspace) -> None:
    files = exported(platform, document(workspace), own, workspace)
    folder = "workspace/" if platform == "airflow" else ""
    assert files[f"{folder}my_transforms/gain.py"] == GAIN
    assert files[f"{folder}my_models/net.py"] == NET
    assert str(workspace.root) not in "\n".join(files.values())
    if platform == "kubernetes":
        objects = {each["kind"]: each for each in yaml.safe_load_all(files["own.yaml"])}
        (volume, *_) = objects["Job"]["spec"]["template"]["spec"]["volumes"]
        mounted = {item["path"]: objects["ConfigMap"]["data"][item["key"]] for item in volume["configMap"]["items"]}
        assert mounted == {name: text for name, text in files.items() if name.endswith(".py")}


def test_a_program_runs_where_its_workspace_is_not(
    own: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Also from links, as Kubernetes mounts files, and again on a machine that has nothing but the half-done work."""
    real = write(exported("github", document(workspace), own, workspace), tmp_path / "real")
    shutil.rmtree(workspace.root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in real.iterdir():
        (elsewhere / path.name).symlink_to(path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert run(elsewhere / "own.py", monkeypatch) == GAIN + NET
    assert "there already" not in capsys.readouterr().out
    shutil.rmtree(tmp_path / "another")
    os.utime(real / "my_transforms" / "gain.py", (1e9, 1e9))
    assert run(elsewhere / "own.py", monkeypatch) == GAIN + NET
    assert "first: there already" in capsys.readouterr().out


def test_other_code_is_other_work(
    own: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(exported("github", document(workspace), own, workspace), tmp_path / "moved") / "own.py"
    assert run(program, monkeypatch) == GAIN + NET
    other = GAIN.replace("2", "3")
    (program.parent / "my_transforms" / "gain.py").write_text(other)
    assert run(program, monkeypatch) == other + NET


def test_a_program_takes_its_own_files_alone(
    own: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Not others that lie beside them, nor those of a folder with another name."""
    program = write(exported("github", document(workspace), own, workspace), tmp_path / "moved") / "own.py"
    (program.parent / "my_transforms" / "other.py").write_text(GAIN)
    text = program.read_text()
    program.write_text(text.replace("function=FIRST_FUNCTION", 'function=str(beside("my_transforms/other.py"))'))
    with pytest.raises(SystemExit):
        run(program, monkeypatch)
    assert "other.py does not lie in a workspace's my_transforms/" in capsys.readouterr().err
    (program.parent / "gain.py").write_text(GAIN)
    program.write_text(text.replace('"my_transforms/gain.py"', '"gain.py"'))
    with pytest.raises(SystemExit):
        run(program, monkeypatch)
    assert "gain.py does not lie in a workspace's my_transforms/" in capsys.readouterr().err


def test_what_a_program_misses_is_named(
    own: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    program = write(exported("github", document(workspace), own, workspace), tmp_path / "moved") / "own.py"
    (program.parent / "my_models" / "net.py").unlink()
    with pytest.raises(SystemExit):
        run(program, monkeypatch)
    assert f"error: first: {program.parent}/my_models/net.py does not exist" in capsys.readouterr().err
    (program.parent / "my_models" / "net.py").write_text(NET)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(SystemExit):
        run(program, monkeypatch)
    assert "Let XDG_CONFIG_HOME name a folder that this user may write." in capsys.readouterr().err


def test_steps_that_start_at_once_all_have_their_files(tmp_path: Path) -> None:
    """As a scheduler starts them: each adds to the one list of what is trusted."""
    files = [tmp_path / "my_transforms" / f"gain{number}.py" for number in range(4)]
    write({f"my_transforms/{file.name}": GAIN.replace("2", file.stem[-1]) for file in files}, tmp_path)
    with ThreadPoolExecutor(len(files)) as pool:
        copies = list(pool.map(allowed_copy, map(str, files)))
    own = OwnFile("my_transforms", "A transform", "transform", "transform(volume, row)", "function")
    assert [own.read(copy) for copy in copies] == [file.read_text() for file in files]


def test_a_copy_that_another_program_reads_is_left_alone(tmp_path: Path) -> None:
    """Steps know it by its time, which it has not for a moment when it is written."""
    (tmp_path / "my_transforms").mkdir()
    (tmp_path / "my_transforms" / "gain.py").write_text("x = 1\n")
    copy = Path(allowed_copy(str(tmp_path / "my_transforms" / "gain.py")))
    before = copy.stat().st_ino
    allowed_copy(str(tmp_path / "my_transforms" / "gain.py"))
    assert copy.stat().st_ino == before
    copy.write_text("x = 2\n")
    allowed_copy(str(tmp_path / "my_transforms" / "gain.py"))
    assert (copy.read_text(), copy.stat().st_mtime) == ("x = 1\n", 0)
    # A power cut may have left the mark of its workspace empty.
    mark = copy.parents[1] / "workspace.json"
    marked = mark.read_text()
    mark.write_text("")
    allowed_copy(str(tmp_path / "my_transforms" / "gain.py"))
    assert mark.read_text() == marked


def test_a_person_may_leave_one_out(
    own: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(exported("github", document(workspace), own, workspace), tmp_path / "moved") / "own.py"
    text = program.read_text()
    program.write_text(text.replace('FIRST_FUNCTION = str(beside("my_transforms/gain.py"))', "FIRST_FUNCTION = None"))
    assert run(program, monkeypatch) == NET


def test_an_airflow_workspace_has_them_as_its_own(own: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    files = exported("airflow", document(workspace), own, workspace)
    write(files, tmp_path / "dags")
    shutil.rmtree(workspace.root)
    theirs = open_workspace(tmp_path / "dags" / "workspace")
    # As the DAG runs it: from within its workspace, which its head says how to trust.
    assert 'cd "$workspace" || exit 1' in files["own_dag.py"]
    assert "my_models/, my_nodes/, my_transforms/ runs once the worker's user" in files["own_dag.py"]
    found = resolve(read_pipeline(theirs.pipelines / "own.json"), own, base=theirs.root)
    (item,) = found.typed()
    trust(theirs)
    assert item.params == {
        "function": str(theirs.my_transforms / "gain.py"),
        "model_file": str(theirs.my_models / "net.py"),
    }


def test_a_pipelines_parameter_does_not_keep_the_path(own: Catalog, workspace: Workspace) -> None:
    """Whole, or a part of it; the parameter is left out of the file where nothing else uses it."""
    pipeline = document(
        workspace,
        parameters={
            "whole": PipelineParameter(value=str(workspace.my_transforms / "gain.py")),
            "name": PipelineParameter(value="net"),
        },
        nodes=[Node(id="first", type="Reads", params={"function": "${whole}", "model_file": "my_models/${name}.py"})],
    )
    text = exported("github", pipeline, own, workspace)["own.py"]
    assert str(workspace.root) not in text
    assert "\nWHOLE" not in text
    assert '\nFIRST_FUNCTION = str(beside("my_transforms/gain.py"))\n' in text
    assert '\nFIRST_MODEL_FILE = str(beside("my_models/net.py"))\n' in text
    assert "start(main, OUT, own_code=[FIRST_FUNCTION, FIRST_MODEL_FILE])" in text


def test_two_files_of_one_name_have_two_places(own: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    other = open_workspace(tmp_path / "other")
    other.my_transforms.mkdir()
    (other.my_transforms / "gain.py").write_text(GAIN.replace("2", "3"))
    trust(other)
    both = (workspace.my_transforms / "gain.py", other.my_transforms / "gain.py", workspace.my_transforms / "gain.py")
    pipeline = document(
        workspace,
        nodes=[Node(id=f"n{i}", type="Reads", params={"function": str(path)}) for i, path in enumerate(both)],
    )
    files = exported("databricks", pipeline, own, workspace)
    assert files["my_transforms/gain.py"] == GAIN
    assert files["my_transforms/gain_2.py"] == GAIN.replace("2", "3")
    assert files["own.py"].count('beside("my_transforms/gain.py")') == 2


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_export_lends_no_trust(platform: str, own: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    """Nor does it go without a file that is not there."""
    other = open_workspace(tmp_path / "other")
    other.my_transforms.mkdir()
    (other.my_transforms / "gain.py").write_text(GAIN)
    for path, says in (
        (other.my_transforms / "gain.py", "cannot go along: its workspace is not trusted"),
        (workspace.my_transforms / "gone.py", "does not exist"),
    ):
        pipeline = document(workspace, nodes=[Node(id="first", type="Reads", params={"function": str(path)})])
        with pytest.raises(UsageError, match=f"{path} {says}") as caught:
            exported(platform, pipeline, own, workspace)
        assert (caught.value.node, caught.value.parameter) == ("first", "function")


def test_the_file_alone_names_them_where_they_are(own: Catalog, workspace: Workspace) -> None:
    """It is for this machine, where they are trusted."""
    (text,) = exported("python", document(workspace), own, workspace).values()
    assert f'\nFIRST_FUNCTION = "{workspace.my_transforms}/gain.py"\n' in text
    assert "own_code" not in text
