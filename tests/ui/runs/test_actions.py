"""Running a run again: same values, changed values, the same part of the pipeline; and where it is in MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import load
from engine.errors import UsageError
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.tracking.recorder import TrackState
from engine.workspace import Workspace
from ui.runs.actions import read_values, resume, run_again, shown_value
from ui.runs.results import tracked
from ui.studio_context import Studio


@pytest.fixture
def studio(workspace: Workspace, store: RunStore, probes: Catalog, tmp_path: Path) -> Studio:
    return Studio(workspace, store, tmp_path, lambda _: probes)


def _read(texts: dict[str, str], catalog: Catalog, base: Path = Path("/base"), **held: object) -> dict[str, object]:
    document = pipeline(box("c", "Count", folder="${folder}"), **held)
    return dict(read_values(texts, document, catalog, base))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "text", "value"),
    [
        (3, "5", 5),
        (0.5, "1e-3", 0.001),
        (True, "false", False),
        ([1, 2], "[3]", [3]),
        ("text", "2024", "2024"),
        ("text", "", ""),
        (None, "x", "x"),
        (3, "many", "many"),
    ],
)
def test_values_are_read_as_on_the_command_line(probes: Catalog, held: object, text: str, value: object) -> None:
    assert _read({"p": text}, probes, p=held) == {"p": value}


@pytest.mark.slow
@pytest.mark.parametrize("held", [3, 0.1, True, "a", "12", "", [1, "b"], {"k": 1}, None])
def test_a_field_left_as_it_was_changes_nothing(probes: Catalog, held: object) -> None:
    kept = {} if held is None else {"p": held}
    assert _read({"p": shown_value(held)}, probes, p=held) == kept  # type: ignore[arg-type]


def test_paths_are_made_absolute_from_where_the_app_was_started(probes: Catalog) -> None:
    assert _read({"folder": "data/x"}, probes, folder="") == {"folder": "/base/data/x"}
    assert _read({"folder": "/data/x"}, probes, folder="") == {"folder": "/data/x"}
    assert _read({"other": "data/x"}, probes, folder="", other="") == {"other": "data/x"}


@pytest.mark.slow
def test_a_run_again_is_the_same_run(runs, studio: Studio, store: RunStore) -> None:
    document = pipeline(box("a", "Make", text="${text}"), box("j", "Join"), wires="a.out>j.first", text="one")
    run, _ = runs.run(document, end="a")
    again = runs.finish(run_again(studio, run))
    assert (again.state, again.profile, again.document) == ("done", run.profile, run.document)
    assert again.options["end"] == "a"
    assert [(t.node, t.state) for t in store.tasks(again.run_id)] == [("a", "cached")]


@pytest.mark.slow
def test_changed_values_are_in_the_document_that_ran(runs, studio: Studio, store: RunStore) -> None:
    run, _ = runs.run(pipeline(box("a", "Make", text="${text}", steps="${steps}"), text="one", steps=1))
    again = runs.finish(run_again(studio, run, {"text": "two"}, fresh=True))
    assert {n: p.value for n, p in load(again.document).parameters.items()} == {"text": "two", "steps": 1}
    assert runs.text(runs.tasks(again.run_id)["a"]) == "two"
    assert again.options["fresh"] is True


@pytest.mark.slow
def test_what_cannot_run_is_reported_and_leaves_no_run(runs, studio: Studio, store: RunStore) -> None:
    run, _ = runs.run(pipeline(box("a", "Make", steps="${steps}"), steps=1))
    with pytest.raises(CheckFailed):
        run_again(studio, run, {"steps": -1})
    assert len(store.runs()) == 1


def test_a_profile_that_is_gone_is_reported(studio: Studio, store: RunStore) -> None:
    document = '{"schema_version": 1, "name": "p", "nodes": [], "edges": []}'
    run = store.run(store.create_run("p", document, {}, "the old cluster"))
    with pytest.raises(UsageError, match="no compute profile the old cluster"):
        run_again(studio, run)


@pytest.mark.slow
def test_a_folder_that_was_given_before_stays_allowed(
    runs, studio: Studio, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VOXELFLOW_DATA_ROOTS")
    folder = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    document = pipeline(box("c", "Count", folder="${folder}"), folder=str(folder))
    with pytest.raises(CheckFailed):  # nobody gave it, it just stands there
        runs.start(document)
    given, _ = launch.start(
        document, runs.catalog, studio.workspace, store, values={"folder": str(folder)}, profile=find_profile("local")
    )
    assert runs.finish(run_again(studio, runs.finish(given))).state == "done"


@pytest.mark.slow
def test_resume_waits_until_the_run_goes_on(runs, studio: Studio, store: RunStore, tmp_path: Path) -> None:
    run, _ = runs.run(pipeline(box("f", "Fail", marker=str(tmp_path / "m"), times=1)))
    assert run.state == "failed"
    resume(studio, run)
    assert store.run(run.run_id).attempt == 2
    done = runs.finish(run.run_id)
    assert done.state == "done"
    with pytest.raises(UsageError, match="is done"):
        resume(studio, done)


def _sent(store: RunStore, location: str) -> str:
    run_id = store.create_run("p", "{}", {}, "local")
    state = TrackState(location=location, experiment="7", run="abc", notes=["a name was cut"])
    store.tracking.record(run_id, 1, state.model_dump(mode="json"), finished=True)
    return run_id


def test_on_a_server_it_has_a_page(workspace: Workspace, store: RunStore) -> None:
    found = tracked(workspace, _sent(store, "https://mlflow.example"))
    assert found.url == "https://mlflow.example/#/experiments/7/runs/abc"
    assert (found.run, found.command, found.sent, found.notes) == ("abc", "", True, ["a name was cut"])


def test_in_a_file_there_is_a_command_to_see_it(workspace: Workspace, store: RunStore) -> None:
    found = tracked(workspace, _sent(store, "sqlite:////a folder/mlflow.db"))
    assert (found.url, found.command) == ("", "mlflow ui --backend-store-uri 'sqlite:////a folder/mlflow.db'")


def test_before_anything_was_sent_the_place_is_known(
    workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://user:secret@mlflow.example")
    found = tracked(workspace, store.create_run("p", "{}", {}, "local"))
    assert (found.place, found.run) == ("https://mlflow.example", "")
