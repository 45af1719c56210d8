"""`voxelflow predict`: which model is meant, and how answers are printed. The model is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from command_line import NO_WORK, Said

from engine.catalog import build_catalog
from engine.cli import main
from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.store.runs import RunStore
from engine.workspace import Workspace

Ask = Callable[..., Said]


@dataclass(frozen=True)
class _Answer:
    file: Path
    name: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class _Asked:
    classes: tuple[str, ...]
    answers: Iterator[_Answer]


class _Model:
    """Says "yes" to all files but those called bad.npy, and doubts those called far."""

    def __init__(self) -> None:
        self.asked: list[Path] = []
        self.dataset = ""

    def __call__(self, folder: Path, files: Sequence[Path], *, dataset: str = "") -> _Asked:
        self.asked.append(folder)
        self.dataset = dataset
        return _Asked(
            ("no", "yes"),
            (
                _Answer(f, error="is \x1b[1mempty")
                if f.name == "bad.npy"
                else _Answer(f, "yes", {"no": 0.25, "yes": 0.75}, doubt="is far" if f.name.startswith("far") else "")
                for f in files
            ),
        )


@pytest.fixture
def model() -> _Model:
    return _Model()


@pytest.fixture
def ask(home: Path, model: _Model, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str) -> Said:
        work = replace(NO_WORK, ask_model=model)
        status = main(lambda w: build_catalog((), w), lambda *_, **__: 0, work, ["predict", *arguments])
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return run


def trained(store: RunStore, *nodes: str) -> str:
    """A run whose `nodes` made a model each."""
    run_id = store.create_run("demo", "{}", {}, "local")
    store.set_tasks(run_id, [(node, "TrainResNet3D", node) for node in (*nodes, "other")])
    for node in nodes:
        made = TrainedModel(uri=f"/models/{node}", spec=VolumeSpec(shape=(2, 2, 2), dtype="float32"))
        store.update_task(run_id, node, outputs=json.dumps({"out": made.model_dump(mode="json")}))
    return run_id


def test_a_folder_is_asked_about_each_file(ask: Ask, home: Path, model: _Model) -> None:
    (home / "model").mkdir()
    said = ask("model", "a.npy", "b/c.npy")
    assert (said.status, said.err) == (0, "")
    assert [line.split() for line in said.out.splitlines()] == [
        ["file", "class", "probabilities"],
        ["a.npy", "yes", "no", "0.2500,", "yes", "0.7500"],
        ["b/c.npy", "yes", "no", "0.2500,", "yes", "0.7500"],
    ]
    assert model.asked == [Path("model")]
    assert model.dataset == ""
    shown = ask("model", "a.npy", "--dataset", "scan", "--json").json
    assert model.dataset == "scan"
    assert shown == {
        "model": "model",
        "files": [{"file": "a.npy", "class": "yes", "scores": {"no": 0.25, "yes": 0.75}}],
    }


def test_a_bad_file_is_reported_and_the_others_are_predicted(ask: Ask, home: Path) -> None:
    (home / "model").mkdir()
    said = ask("model", "bad.npy", "a.npy")
    assert said.status == 1
    assert "a.npy" in said.out
    assert "bad.npy" not in said.out
    assert said.err == "error: bad.npy: is \\x1b[1mempty\n"
    assert ask("model", "bad.npy", "--json").json["files"] == [{"file": "bad.npy", "error": "is \x1b[1mempty"}]


def test_answers_are_written_as_a_table(ask: Ask, home: Path) -> None:
    (home / "model").mkdir()
    said = ask("model", "a,1.npy", "bad.npy", "-o", "found/out.csv")
    assert (said.status, said.out) == (1, "wrote found/out.csv: 2 files, 1 of them not predicted\n")
    assert (home / "found/out.csv").read_text().splitlines() == [
        "file,class,probability_no,probability_yes,error,warning",
        '"a,1.npy",yes,0.25,0.75,,',
        "bad.npy,,,,is \x1b[1mempty,",
    ]
    assert [path.name for path in (home / "found").iterdir()] == ["out.csv"]
    assert "Choose one" in ask("model", "a.npy", "-o", "out.csv", "--json").err


def test_answers_that_may_be_wrong_have_a_warning(ask: Ask, home: Path) -> None:
    (home / "model").mkdir()
    said = ask("model", "a.npy", "far1.npy", "far2.npy", "far3.npy")
    assert (said.status, len(said.out.splitlines())) == (0, 5)
    assert said.err == "warning: far1.npy: is far\nwarning: the same of 2 more files\n"
    assert ask("model", "far1.npy", "--json").json["files"] == [
        {"file": "far1.npy", "class": "yes", "scores": {"no": 0.25, "yes": 0.75}, "warning": "is far"}
    ]
    written = ask("model", "far1.npy", "-o", "out.csv")
    assert (written.status, written.err) == (0, "warning: far1.npy: is far\n")
    assert (home / "out.csv").read_text().splitlines()[1] == "far1.npy,yes,0.25,0.75,,is far"


def test_the_newest_run_that_made_a_model_is_the_last(ask: Ask, store: RunStore, model: _Model) -> None:
    trained(store, "old")
    trained(store, "train")
    trained(store)
    ask("last", "a.npy").done()
    ask("last", "a.npy", "--node", "old").done()
    assert model.asked == [Path("/models/train"), Path("/models/old")]


def test_the_model_of_a_run(ask: Ask, store: RunStore, model: _Model) -> None:
    first = trained(store, "train")
    trained(store, "small", "large")
    ask(first, "a.npy").done()
    ask("last", "a.npy", "--node", "large").done()
    assert model.asked == [Path("/models/train"), Path("/models/large")]
    ask("last", "a.npy").fails("made several models. Choose one with --node: small, large.")
    assert "made no model in the node other" in ask("last", "a.npy", "--node", "other").err


def test_the_model_of_a_run_in_a_workspace_that_was_moved(
    ask: Ask, home: Path, store: RunStore, model: _Model, workspace: Workspace
) -> None:
    run_id = trained(store, "train")
    made = TrainedModel(uri=str(workspace.data / "T/model"), spec=VolumeSpec(shape=(2, 2, 2), dtype="float32"))
    store.update_task(run_id, "train", outputs={"out": made})
    store.close()
    workspace.root.rename(home / "elsewhere")
    ask("last", "a.npy", "--workspace", "elsewhere").done()
    assert model.asked == [home / "elsewhere/data/T/model"]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("no/folder", "there is no folder no/folder"),
        ("nothing", "there is no workspace"),
        ("models:/brains", "names no registered model. Write models:/NAME@ALIAS"),
    ],
)
def test_a_model_that_is_not_there(ask: Ask, model: _Model, named: str, text: str) -> None:
    said = ask(named, "a.npy").fails()
    assert text in said.err
    assert model.asked == []


def test_files_are_wanted(ask: Ask, home: Path, workspace: Workspace) -> None:
    ask("last").fails()
