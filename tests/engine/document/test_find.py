"""Which document a name means."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.document.find import find_pipeline, shipped_pipelines
from engine.document.pipeline import Pipeline, write_pipeline
from engine.errors import PipelineError
from engine.workspace import Workspace


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the installation: an engine with a `pipelines` folder beside it."""
    site = tmp_path / "site"
    (site / "engine").mkdir(parents=True)
    shutil.copytree(Path(engine.__file__ or "").parents[1] / "pipelines", site / "pipelines")
    monkeypatch.setattr(engine, "__file__", str(site / "engine" / "__init__.py"))
    return site / "pipelines"


def test_a_path_wins_over_the_workspace_and_that_over_what_is_shipped(
    home: Path, workspace: Workspace, shipped: Path
) -> None:
    for name, folder in (("three", shipped), ("two", shipped), ("two", workspace.pipelines), ("one", home)):
        write_pipeline(Pipeline(name=folder.name), folder / f"{name}.json")
    write_pipeline(Pipeline(name="without an ending"), home / "two")
    assert find_pipeline("three", workspace).name == shipped.name
    assert find_pipeline("one.json", workspace).name == home.name
    assert find_pipeline(str(home / "one.json"), workspace).name == home.name
    assert find_pipeline("two", workspace).name == "without an ending"
    (home / "two").unlink()
    assert find_pipeline("two", workspace).name == workspace.pipelines.name
    assert "pipeline.schema" not in shipped_pipelines()


def test_the_error_for_a_missing_name_lists_the_known_ones(home: Path, workspace: Workspace, shipped: Path) -> None:
    write_pipeline(Pipeline(name="q"), shipped / "ready.json")
    with pytest.raises(PipelineError) as missing:
        find_pipeline("readyy", workspace)
    assert "ready" in missing.value.hint
    with pytest.raises(PipelineError, match="does not exist") as elsewhere:
        find_pipeline("pipelines/ready.json", workspace)
    assert "`ready` alone" in elsewhere.value.hint
    with pytest.raises(PipelineError, match="cannot be read"):
        find_pipeline("other/file.json", workspace)
    (home / "folder").mkdir()
    with pytest.raises(PipelineError, match="it is a folder"):
        find_pipeline("folder", workspace)


_CONTROL = st.sampled_from([chr(n) for n in (*range(9), *range(14, 32), 127)])


@given(control=_CONTROL, before=st.text("ab/.", max_size=3), after=st.text("ab/.", max_size=3))
def test_control_characters_are_refused_in_names(control: str, before: str, after: str) -> None:
    with pytest.raises(PipelineError, match="holds the control character"):
        find_pipeline(before + control + after, Workspace(Path("nowhere")))


def test_a_name_that_is_not_utf8_is_refused_also_where_there_is_such_a_file(home: Path, workspace: Workspace) -> None:
    write_pipeline(Pipeline(name="q"), home / "q.json")
    (home / "q.json").rename(home / "q\udcff.json")
    with pytest.raises(PipelineError, match=r"no pipeline can be called 'q\\udcff.json': it is not UTF-8 text"):
        find_pipeline("q\udcff.json", workspace)
