"""Which document a name means, and what --set values mean."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from building import box, pipeline
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import engine
from engine.catalog import Catalog
from engine.cli.documents import find_pipeline, read_setting, read_settings, shipped_pipelines
from engine.errors import PipelineError, UsageError
from engine.pipeline import Pipeline, write_pipeline
from engine.workspace import Workspace


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


def test_what_is_not_there_is_said_with_what_is(home: Path, workspace: Workspace, shipped: Path) -> None:
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
    with pytest.raises(PipelineError, match="Is a directory"):
        find_pipeline("folder", workspace)


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("5", 3, 5),
        ("5", None, "5"),
        ("2024", "text", "2024"),
        ("[16,16,8,2]", None, [16, 16, 8, 2]),
        ("[16,16,8,2]", [1], [16, 16, 8, 2]),
        ("true", False, True),
        ("true", None, "true"),
        ("null", "text", "null"),
        ("null", 3, None),
        ('"5"', 3, "5"),
        ("007", 3, "007"),
        ("NaN", 3.5, "NaN"),
        ("1e999", 3.5, "1e999"),
        ("", "text", ""),
        ("a=b", None, "a=b"),
    ],
)
def test_values(text: str, default: JsonValue, value: JsonValue) -> None:
    assert read_setting(text, default) == value
    assert type(read_setting(text, default)) is type(value)


@given(st.text(), st.sampled_from([None, "text", 3, [1], True]))
def test_any_value_can_be_kept_in_a_document(text: str, default: JsonValue) -> None:
    json.dumps(read_setting(text, default), allow_nan=False)


def test_relative_paths_start_at_the_current_directory(home: Path, probes: Catalog) -> None:
    document = pipeline(box("n", "Count", folder="${data}"), box("m", "Make", text="${text}"), data=None, text="t")
    assert read_settings(["data=some/../files", "text=some/files"], document, probes) == {
        "data": str(home / "files"),
        "text": "some/files",
    }
    assert read_settings(["data=~/x"], document, probes) == {"data": str(Path.home() / "x")}
    assert read_settings(["data="], document, probes) == {"data": ""}


@pytest.mark.parametrize("given_twice", [["text"], ["=x"], ["text=a", "text=b"]])
def test_settings_that_cannot_be_read(given_twice: list[str], probes: Catalog) -> None:
    with pytest.raises(UsageError, match="--set"):
        read_settings(given_twice, pipeline(text="t"), probes)
