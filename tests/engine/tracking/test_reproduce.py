"""`voxelflow runs reproduce`: a run done over, from the run store and from MLflow alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import NO_WORK, Said
from running import Runner
from tracked_runs import QUICK, Reader

from engine.catalog import build_catalog
from engine.cli import main
from engine.document.pipeline import load
from engine.profiles import local_profile
from engine.store.runs import Run, RunStore
from engine.tracking import run_link, track_run
from engine.workspace import Workspace, open_workspace, trust

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]
Read = Callable[[Workspace], Reader]
_SUPPORT = Path(__file__).parents[2] / "support"


@dataclass
class Bench:
    """A workspace with the probes, and the command in it."""

    workspace: Workspace
    capsys: pytest.CaptureFixture[str]

    def __post_init__(self) -> None:
        for name in ("probes.py", "curve_nodes.py"):
            shutil.copy(_SUPPORT / name, self.workspace.my_nodes)
        trust(self.workspace)
        self.store = RunStore(self.workspace)

    def study(self, folder: Path) -> Run:
        """A run over the text files of `folder`."""
        runner = Runner(build_catalog((), self.workspace), self.workspace, self.store, local_profile())
        run, _ = runner.run(
            pipeline(
                box("count", "Count", folder="${folder}"),
                box("study", "Study", rate=0.25),
                box("after", "Join"),
                wires="count.out>study.files study.out>after.first",
                folder=str(folder),
            )
        )
        assert run.state == "done", run.error
        return run

    def reproduce(self, *arguments: str) -> Said:
        self.capsys.readouterr()

        def no_studio(workspace: Workspace, **_: object) -> int:
            raise AssertionError("the app was started")

        status = main(
            lambda workspace: build_catalog((), workspace),
            no_studio,
            NO_WORK,
            ["runs", "reproduce", *arguments, "--workspace", str(self.workspace.root)],
        )
        printed = self.capsys.readouterr()
        return Said(status, printed.out, printed.err)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("x" * (100 + number))
    return folder


@pytest.fixture
def bench(local: Workspace, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(local, capsys)


def test_a_run_is_reproduced_and_differences_are_reported(
    bench: Bench, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.study(texts)
    # The sources have moved on; the run was given a listing that still stands.
    (texts / "more.txt").write_text("x")
    said = bench.reproduce(run.run_id)
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert f"the environment is that of run {run.run_id}" in lines
    assert "study.loss: 4 points, all equal" in lines
    assert "2 of 2 figures equal" in lines
    assert "not compared, since they measure the machine: study.epoch_seconds, study.peak_memory_mb" in lines
    assert lines[-1] == f"run {run.run_id} is reproduced exactly"
    again = bench.store.runs(1)[0]
    assert again.options["reproduces"] == run.run_id
    # The whole pipeline, with what it left to defaults.
    repeated = load(again.document).node("study")
    assert repeated is not None
    assert (repeated.version, repeated.params) == (1, {"epochs": 4, "rate": 0.25})
    assert [n.id for n in load(again.document).nodes] == [n.id for n in load(run.document).nodes]
    # What came behind the training is not done again, what came before it neither.
    assert {t.node: t.state for t in bench.store.tasks(again.run_id)} == {"count": "cached", "study": "done"}

    monkeypatch.setenv("VOXELFLOW_TEST_DRIFT", "0.125")
    said = bench.reproduce(run.run_id, "--json")
    assert said.status == 1
    assert said.events[0]["event"] == "run-started"
    event = said.events[-1]
    assert (event["event"], event["equal"], event["environment"]) == ("reproduced", False, [])
    (curve,) = event["curves"]
    assert (curve["node"], curve["name"], curve["differing"], curve["first"]) == ("study", "loss", 2, 3)
    assert curve["largest"] == pytest.approx(0.125)
    said = bench.reproduce(run.run_id, "--with", "last")
    assert said.status == 1
    assert "study.loss: 2 of 4 points differ, by 0.125 at most, first at step 3" in said.out.splitlines()
    assert said.out.splitlines()[-1] == f"runs {run.run_id} and {bench.store.runs(1)[0].run_id} differ"


def test_another_environment_is_reported(bench: Bench, texts: Path) -> None:
    run = bench.study(texts)
    kept = bench.workspace.run_folder(run.run_id) / "environment.json"
    text = kept.read_text()
    assert '"pydantic": "' in text
    kept.write_text(text.replace('"pydantic": "', '"pydantic": "0.'))
    own = bench.workspace.my_nodes / "curve_nodes.py"
    own.write_text(own.read_text().replace("total / (1", "(total + 1) / (1"))
    said = bench.reproduce(run.run_id)
    assert said.status == 1
    lines = [line.strip() for line in said.out.splitlines()]
    assert any(line.startswith("package pydantic: 0.") for line in lines)
    assert any(line.startswith("code of node study: ") for line in lines)
    assert any(line.startswith("study.loss: 4 of 4 points differ") for line in lines)


def test_from_mlflow_alone_in_another_workspace(
    bench: Bench, texts: Path, tmp_path: Path, reader: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.study(texts)
    assert track_run(bench.workspace, run.run_id, patience=QUICK)
    read = reader(bench.workspace)
    found = read.runs(run.run_id)
    assert read.artifacts(found[""].id) == ["environment.json", "pipeline.json", "requirements.txt"]
    assert "voxelflow.machine" in found[""].tags
    link = run_link(bench.workspace, run.run_id)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{bench.workspace.mlflow_database}")
    shutil.rmtree(bench.workspace.run_folder(run.run_id))
    bench.workspace.database.unlink()
    other = Bench(open_workspace(tmp_path / "elsewhere"), bench.capsys)
    for name in (link["run_id"], run.run_id):
        said = other.reproduce(name)
        assert (said.status, said.err) == (0, "")
        lines = said.out.splitlines()
        assert f"the environment is that of run {run.run_id}" in lines
        assert "study.loss: 4 points, all equal" in lines
        assert "2 of 2 figures equal" in lines
    assert other.store.runs(1)[0].options["reproduces"] == link["run_id"]
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(other.workspace.root))
    said = other.reproduce(link["run_id"])
    assert said.status == 2
    assert f"{texts}, which count gave then, lies outside the folders that this workspace may use" in said.err
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", str(tmp_path))
    shutil.rmtree(texts)
    said = other.reproduce(link["children"]["study"])
    assert said.status == 1
    assert f"count: the data of then are not there any more: {texts} is gone" in said.err


def test_an_unknown_run_and_one_without_curves_are_reported(bench: Bench, texts: Path) -> None:
    said = bench.reproduce("0123456789abcdef0123456789abcdef")
    assert said.status == 2
    assert "there is no run 0123456789abcdef0123456789abcdef, neither in this workspace nor in MLflow at" in said.err
    runner = Runner(build_catalog((), bench.workspace), bench.workspace, bench.store)
    run, _ = runner.run(pipeline(box("a", "Make")))
    said = bench.reproduce(run.run_id)
    assert said.status == 2
    assert f"run {run.run_id} reported no curves and made no model" in said.err
