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
from engine.document.plan import Choice
from engine.profiles import local_profile
from engine.run import launch
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


SIZED = '''
from pathlib import Path
from typing import Annotated

from voxelflow import PathIn, Report, TaskContext, VolumeFiles, node


@node("Sized", version=1, category="Probes")
def sized(
    files: VolumeFiles,
    earlier: Report | None = None,
    *,
    names: Annotated[str, PathIn("file")],
    more: Annotated[str, PathIn("file")] = "",
    ctx: TaskContext,
) -> Report:
    """Report what the names are worth."""
    ctx.metrics(1, worth=sum(len(Path(p).read_text()) for p in (names, more) if p))
    path = ctx.out / "report.txt"
    path.write_text("x")
    return Report(uri=str(path))
'''


def test_behind_nodes_that_are_bypassed_or_disabled_and_from_another_folder(
    bench: Bench, texts: Path, reader: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is given what was passed through, and its relative paths begin where they began then."""
    (bench.workspace.my_nodes / "sized.py").write_text(SIZED)
    trust(bench.workspace)
    here, there = bench.workspace.root / "here", bench.workspace.root / "there"
    for folder, text in ((here, "12345"), (there, "1")):
        folder.mkdir()
        (folder / "${names}.txt").write_text(text)
    document = pipeline(
        box("count", "Count", folder=str(texts)),
        box("passing", "Count", folder=str(texts)).model_copy(update={"mode": "bypass"}),
        box("off", "Make").model_copy(update={"mode": "disabled"}),
        box("fit", "Sized", names="$${names}.txt", more="${where}/$${names}.txt"),
        wires="count.out>passing.files passing.out>fit.files off.out>fit.earlier",
        where=".",
    )
    catalog = build_catalog((), bench.workspace)
    run_id, _ = launch.start(
        document, catalog, bench.workspace, bench.store, profile=local_profile(), choice=Choice(), base=here
    )
    run = Runner(catalog, bench.workspace, bench.store).finish_done(run_id)
    assert track_run(bench.workspace, run.run_id, patience=QUICK)
    (given,) = reader(bench.workspace).runs(run.run_id)["fit"].inputs
    assert (given.tags[0].value, given.dataset.name) == ("files", "count")

    monkeypatch.chdir(there)  # where both files are, too
    said = bench.reproduce(run.run_id)
    assert said.status == 0, said.err
    assert "fit.worth: 1 points, all equal" in said.out.splitlines()
    assert [t.node for t in bench.store.tasks(bench.store.runs(1)[0].run_id)] == ["count", "fit"]
    # What is given now is of now.
    said = bench.reproduce(run.run_id, "--set", f"where={there}")
    assert said.status == 1
    assert "fit.worth: 1 of 1 points differ, by 4 at most, first at step 1" in said.out.splitlines()


def test_relative_paths_of_a_project_that_was_renamed_begin_where_it_is_now(
    bench: Bench, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a clone of it do, and where the folder of then may not be read."""
    (bench.workspace.my_nodes / "sized.py").write_text(SIZED)
    trust(bench.workspace)
    before, now = tmp_path / "before", tmp_path / "now"
    before.mkdir()
    (before / "a.txt").write_text("12345")
    document = pipeline(
        box("count", "Count", folder=str(texts)), box("fit", "Sized", names="a.txt"), wires="count.out>fit.files"
    )
    catalog = build_catalog((), bench.workspace)
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", f"{before}:{texts}")
    run_id, _ = launch.start(
        document, catalog, bench.workspace, bench.store, profile=local_profile(), choice=Choice(), base=before
    )
    Runner(catalog, bench.workspace, bench.store).finish_done(run_id)
    before.rename(now)
    monkeypatch.chdir(now)
    for roots in (f"{before}:{texts}", str(texts)):
        monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", roots)
        said = bench.reproduce(run_id)
        assert said.status == 0, said.err
        assert "fit.worth: 1 points, all equal" in said.out.splitlines()
        before.mkdir(exist_ok=True)
        (before / "a.txt").write_text("another project's")


def test_an_unknown_run_and_one_without_curves_are_reported(bench: Bench, texts: Path) -> None:
    said = bench.reproduce("0123456789abcdef0123456789abcdef")
    assert said.status == 2
    assert "there is no run 0123456789abcdef0123456789abcdef, neither in this workspace nor in MLflow at" in said.err
    runner = Runner(build_catalog((), bench.workspace), bench.workspace, bench.store)
    run, _ = runner.run(pipeline(box("a", "Make")))
    said = bench.reproduce(run.run_id)
    assert said.status == 2
    assert f"run {run.run_id} reported no curves and made no model" in said.err
