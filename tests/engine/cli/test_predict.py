"""`voxelflow predict`: which model is meant, and how answers are told. The model is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command_line import Said

from engine.catalog import build_catalog
from engine.cli import main
from engine.datasets import TrainedModel, VolumeSpec
from engine.runs import RunStore
from engine.workspace import Workspace

Ask = Callable[..., Said]


@dataclass(frozen=True)
class _Answer:
    file: Path
    name: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


class _Model:
    """Says "yes" to all files but those called bad.npy."""

    def __init__(self) -> None:
        self.asked: list[Path] = []

    def __call__(self, folder: Path, files: Sequence[Path]) -> list[_Answer]:
        self.asked.append(folder)
        return [
            _Answer(f, error="is \x1b[1mempty") if f.name == "bad.npy" else _Answer(f, "yes", {"no": 0.25, "yes": 0.75})
            for f in files
        ]


@pytest.fixture
def model() -> _Model:
    return _Model()


@pytest.fixture
def ask(home: Path, model: _Model, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str) -> Said:
        status = main(lambda w: build_catalog((), w), lambda *_, **__: 0, model, ["predict", *arguments])
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
    shown = ask("model", "a.npy", "--json").json
    assert shown == {
        "model": "model",
        "files": [{"file": "a.npy", "class": "yes", "scores": {"no": 0.25, "yes": 0.75}}],
    }


def test_a_bad_file_is_told_and_the_others_are_predicted(ask: Ask, home: Path) -> None:
    (home / "model").mkdir()
    said = ask("model", "bad.npy", "a.npy")
    assert said.status == 1
    assert "a.npy" in said.out
    assert "bad.npy" not in said.out
    assert said.err == "error: bad.npy: is \\x1b[1mempty\n"
    assert ask("model", "bad.npy", "--json").json["files"] == [{"file": "bad.npy", "error": "is \x1b[1mempty"}]


def test_the_model_of_a_run(ask: Ask, store: RunStore, model: _Model) -> None:
    first = trained(store, "train")
    trained(store, "small", "large")
    assert ask(first, "a.npy").status == 0
    assert ask("last", "a.npy", "--node", "large").status == 0
    assert model.asked == [Path("/models/train"), Path("/models/large")]
    said = ask("last", "a.npy")
    assert said.status == 2
    assert "made several models. Choose one with --node: small, large." in said.err
    assert "made no model in the node other" in ask("last", "a.npy", "--node", "other").err


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("no/folder", "there is no folder no/folder"),
        ("nothing", "there is no workspace"),
        ("models:/brains", "names no registered model. Write models:/NAME@ALIAS"),
    ],
)
def test_a_model_that_is_not_there(ask: Ask, model: _Model, named: str, text: str) -> None:
    said = ask(named, "a.npy")
    assert said.status == 2
    assert text in said.err
    assert model.asked == []


def test_files_are_wanted(ask: Ask, home: Path, workspace: Workspace) -> None:
    assert ask("last").status == 2
