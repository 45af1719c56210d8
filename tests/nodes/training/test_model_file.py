"""A model from a file of the workspace: when it may run, and what is reported of one that does not fit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from own_models import readme_model
from pydantic import TypeAdapter

from engine.errors import UsageError
from engine.workspace import Workspace, trust
from nodes.training.model_file import ModelFile, read_model_file
from nodes.training.settings import Settings

SHAPE = (6, 6, 5, 2)


@pytest.fixture
def file(workspace: Workspace) -> Path:
    workspace.my_models.mkdir()
    path = workspace.my_models / "net.py"
    path.write_text(readme_model())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_model_file(str(path))
    assert caught.value.hint
    assert caught.value.parameter == "model_file"
    return caught.value.message


def test_it_is_read_in_a_trusted_workspace_only(workspace: Workspace, file: Path) -> None:
    assert "the workspace is not trusted" in refusal(file)
    trust(workspace)
    assert read_model_file(str(file)) == ModelFile(str(file), readme_model())


def test_trust_reaches_no_other_folder(workspace: Workspace, file: Path, tmp_path: Path) -> None:
    trust(workspace)
    elsewhere = tmp_path / "my_models" / "net.py"
    elsewhere.parent.mkdir()
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    for path in (elsewhere, file, workspace.root / "my_nodes" / ".." / "my_models" / "net.py"):
        assert "does not lie in a workspace's my_models/" in refusal(path)


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(workspace: Workspace, file: Path) -> None:
    trust(workspace)
    file.unlink()
    os.mkfifo(file)
    assert "net.py cannot be read: it is a named pipe, not a regular file" in refusal(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make(shape, outputs): ...\n", "has no function build"),
        ("x = 1\ndef build(shape, outputs:\n", "line 2: "),
        ("\0", "net.py"),
    ],
)
def test_a_file_without_a_model(workspace: Workspace, file: Path, text: str, said: str) -> None:
    trust(workspace)
    file.write_text(text)
    assert said in refusal(file)


def test_a_file_that_is_not_there(workspace: Workspace) -> None:
    trust(workspace)
    assert "does not exist" in refusal(workspace.my_models / "net.py")


def test_reading_runs_nothing(workspace: Workspace, file: Path) -> None:
    trust(workspace)
    file.write_text("raise SystemExit\ndef build(shape, outputs): ...\n")
    assert read_model_file(str(file)).name == "net"


def test_workers_get_the_text_and_not_the_path_alone() -> None:
    """They may be on machines that do not see the file."""
    file = ModelFile("/w/my_models/net.py", "x = 1\n")
    settings = Settings(model_file=file.path, own_model=file)
    assert settings.deciding()["model_file"] == {"path": file.path, "text": file.text}
    travels = TypeAdapter(Settings)
    assert travels.validate_json(travels.dump_json(settings)) == settings
