"""`voxelflow.run`: pipelines from a notebook or a script."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from building import box, pipeline

import voxelflow
from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import write_pipeline
from engine.errors import PipelineError, UsageError
from engine.store.runs import RunStore
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs", "probes")]

_TWO = pipeline(box("a", "Make", text="one"), box("b", "Join"), wires="a.out>b.first")
_ENDLESS = pipeline(box("a", "Make", text="slow", steps=10, step_s=0.05))
"""At work until the probes' gate is there."""


def _profile(workspace: Workspace, **values: object) -> str:
    lines = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    (workspace.root / "profiles.toml").write_text(f"[mine]\ncores = 2\n{lines}\n")
    return "mine"


def test_the_outputs_of_a_document_and_of_a_file_with_values(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "profiles.toml").write_text('default = "mine"\n\n[mine]\ncores = 2\n')
    first = voxelflow.run(_TWO, workspace=workspace.root)
    with closing(RunStore(workspace)) as store:
        assert store.run(first.run_id).profile == "mine"
    assert (first.state, first.error) == ("done", "")
    assert {node: [*ports] for node, ports in first.outputs.items()} == {"a": ["out"], "b": ["out"]}
    assert Path(first.outputs["b"]["out"].uri).read_text() == "one"
    write_pipeline(_TWO, tmp_path / "two.json")
    second = voxelflow.run(tmp_path / "two.json", workspace=workspace.root, **{"a.text": "other"})
    assert Path(second.outputs["b"]["out"].uri).read_text() == "other"
    assert second.run_id != first.run_id


def test_a_run_that_fails_is_returned_and_one_that_cannot_start_raises(workspace: Workspace) -> None:
    failed = voxelflow.run(pipeline(box("a", "Fail", how="told")), workspace=workspace.root)
    assert failed.state == "failed"
    assert "the probe was told to fail" in failed.error
    with pytest.raises(CheckFailed) as refused:
        voxelflow.run(_TWO, workspace=workspace.root, **{"a.steps": "many"})
    # Below the message, as a notebook shows it.
    assert [note.split(": ")[0] for note in refused.value.__notes__] == ["error VF203 a.steps"]
    with pytest.raises(PipelineError) as missing:
        voxelflow.run("gone.json", workspace=workspace.root)
    assert missing.value.__notes__ == [missing.value.hint] != [""]


def test_names_are_those_that_the_command_takes(workspace: Workspace) -> None:
    write_pipeline(_TWO, workspace.pipelines / "two.json")
    assert voxelflow.run("two", workspace=workspace.root).state == "done"
    with pytest.raises(CheckFailed) as refused:  # it is found, and has no such parameter
        voxelflow.run("quickstart", workspace=workspace.root, epoch=3)
    assert "epoch" in refused.value.__notes__[0]
    with pytest.raises(PipelineError, match="there is no pipeline quikstart") as missing:
        voxelflow.run("quikstart", workspace=workspace.root)
    assert "Did you mean quickstart?" in missing.value.hint


@pytest.mark.parametrize(
    ("limits", "reached"),
    [({"stop_after": "0.5s"}, "0.5 s"), ({"stop_at_cost": 1.0}, "1.00")],
    ids=["time", "cost"],
)
def test_it_is_stopped_at_its_limit(
    limits: dict[str, str | float], reached: str, workspace: Workspace, probe_gate: Path
) -> None:
    profile = _profile(workspace, price_per_hour=7200.0, stop_after="2h")
    ended = voxelflow.run(_ENDLESS, workspace=workspace.root, profile=profile, **limits)
    assert ended.state == "cancelled"
    assert ended.error.startswith("stopped at its limit of ")
    assert reached in ended.error


def test_without_a_limit_of_its_own_it_has_the_profiles(workspace: Workspace, probe_gate: Path) -> None:
    ended = voxelflow.run(_ENDLESS, workspace=workspace.root, profile=_profile(workspace, stop_after="0.5s"))
    assert ended.error.startswith("stopped at its limit of 0.5 s")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"stop_after": "soon"}, "'soon' is no time to stop after"),
        ({"stop_at_cost": 0}, "0 is no cost to stop at"),
        ({"stop_at_cost": 5.0}, "what an hour of it costs is not known"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_before_the_run(
    limits: dict[str, str | float], said: str, workspace: Workspace, store: RunStore
) -> None:
    with pytest.raises(UsageError, match=said):
        voxelflow.run(_TWO, workspace=workspace.root, **limits)
    assert store.runs() == []
