"""`voxelflow plan` and `validate`: golden text, JSON, statuses, and that nothing is started or made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save
from pretended_results import pretend

from engine.catalog import Catalog
from engine.declare.datasets import Report
from engine.document.pipeline import Pipeline
from engine.document.plan import Plan
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace

GOLDEN = Path(__file__).with_name("golden") / "plan.txt"


def _document(text: str = "new words") -> Pipeline:
    return pipeline(
        box("words", "Make", text="${text}", steps=3),
        box("others", "Make", text="others"),
        box("both", "Join"),
        box("found", "Count", folder="${data}"),
        box("apart", "Grow", epochs=2),
        wires="words.out>both.first others.out>both.second",
        text=text,
        data=None,
    )


@pytest.fixture
def files(home: Path) -> Path:
    folder = home / "files"
    folder.mkdir()
    for i in range(101):
        (folder / f"{i:03}.txt").write_text("x" * 30_000)
    return folder


@pytest.mark.slow
def test_the_plan_as_people_read_it(
    command: Command, save: Save, files: Path, probes: Catalog, workspace: Workspace, store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "110")
    ran = launch.prepare(_document("old words"), probes, workspace, store, values={"data": str(files)}).plan
    pretend(ran, workspace, store, lambda _, out: Report(uri=str(out), figures={"steps": 3}))
    (files / "another.txt").write_text("new")
    save(_document())
    parts = []
    for options in ([], ["--to", "both"], ["--from", "found"], ["--fresh"]):
        said = command("plan", "test.json", "--set", "data=files", *options).done()
        parts.append(" ".join(["$ voxelflow plan", *options]) + "\n" + said.out)
    output = "\n".join(parts)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(output)
    assert output == GOLDEN.read_text()


def test_the_plan_as_json_is_a_plan(command: Command, save: Save, files: Path) -> None:
    said = command("plan", save(_document()), "--set", "data=files", "--json")
    made = Plan.model_validate_json(said.out)
    assert [t.node for t in made.to_run] == ["words", "others", "both", "found", "apart"]
    assert made.task("found").params == {"folder": str(files)}
    assert [d.code for d in made.diagnostics] == ["PR001"]


def test_a_plan_starts_nothing(command: Command, save: Save, files: Path, store: RunStore) -> None:
    command("plan", save(_document()), "--set", "data=files").done()
    assert store.runs() == []


def test_choosing_what_is_not_there(command: Command, save: Save, files: Path) -> None:
    command("plan", save(_document()), "--set", "data=files", "--to", "nowhere").fails(
        "has no node nowhere. It has: words, others"
    )
    command("plan", "test.json", "--profile", "moon", "--set", "data=files").fails()


def test_validate_reports_every_problem(command: Command, save: Save, files: Path) -> None:
    name = save(
        pipeline(
            box("a", "Make", steps=20_000, colour="red"),
            box("b", "Join"),
            box("c", "Nonsense"),
            box("d", "Count", folder="nowhere"),
            wires="a.out>b.second",
        )
    )
    said = command("validate", name).fails()
    assert said.err == ""
    assert [line.split()[1] for line in said.out.splitlines()[:-1]] == ["VF201", "VF203", "VF106", "VF101", "VF301"]
    output = command("validate", name, "--json").fails()
    assert output.json["ok"] is False
    assert [d["code"] for d in output.json["diagnostics"]] == ["VF201", "VF203", "VF106", "VF101", "VF301"]


def test_control_characters_are_refused_before_anything_starts(command: Command, save: Save, files: Path) -> None:
    name = save(
        pipeline(
            box("a", "Make", note="tab\tand\nline"),
            box("d", "Count", folder="data\x00"),
            box("e", "Count", folder="da\nta"),
        )
    )
    for verb in ("validate", "plan", "run"):
        said = command(verb, name).fails()
        assert "must not hold the control character '\\x00'" in said.out + said.err
        assert "must not hold the control character '\\n'" in said.out + said.err
    assert "--set x holds the control character" in command("run", name, "--set", 'x="a\\u0000"').fails().err


@pytest.mark.timeout(60)
def test_what_is_no_regular_file_is_refused_at_once(command: Command, home: Path) -> None:
    os.mkfifo(home / "pipe.json")
    (home / "folder.json").mkdir()
    with (home / "giant.json").open("wb") as giant:
        giant.truncate(1 << 30)
    for verb in ("validate", "plan", "run"):
        for name, reason in (
            ("/dev/zero", "a device"),
            ("pipe.json", "a named pipe"),
            ("folder.json", "a folder"),
            ("giant.json", "larger than 64 MB"),
        ):
            assert f"{name} cannot be read: it is {reason}" in command(verb, name).fails().err
    assert "/dev/zero" in command("runs", "reproduce", "/dev/zero").fails().err


def test_validate_says_when_all_is_well(command: Command, save: Save, files: Path) -> None:
    save(_document())
    said = command("validate", "test.json", "--set", "data=files", "--json")
    assert (said.status, said.json) == (0, {"ok": True, "pipeline": "test", "diagnostics": []})
    assert command("validate", "test.json", "--set", "data=files").out == "test: 5 nodes, no errors\n"
    missing = command("validate", "test.json").fails()
    assert "VF205 found.folder" in missing.out


def test_a_folder_given_with_set_may_lie_anywhere(
    command: Command, save: Save, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "1.txt").write_text("x")
    monkeypatch.delenv("VOXELFLOW_DATA_ROOTS")
    document = _document()
    save(document)
    for verb in ("validate", "plan"):
        command(verb, "test.json", "--set", f"data={elsewhere}").done()
    settled = document.model_copy(
        update={"parameters": {**document.parameters, "data": document.parameters["text"].model_copy(
            update={"value": str(elsewhere)})}}
    )  # fmt: skip
    save(settled)
    said = command("validate", "test.json").fails()
    assert "VF308" in said.out


def test_looking_makes_no_workspace(command: Command, home: Path) -> None:
    (home / "p.json").write_text(json.dumps({"name": "p", "nodes": [{"id": "a", "type": "Make"}]}))
    command("validate", "p.json").fails()
    command("nodes").done()
    command("runs", "list").fails()
    assert [p.name for p in home.iterdir()] == ["p.json"]


def test_a_nodes_parameter_is_set_by_its_name(command: Command, save: Save, files: Path) -> None:
    save(_document())
    given = ["--set", "found.folder=files", "--set", "words.steps=5"]
    planned = command("plan", "test.json", *given, "--json").json
    assert {t["node"]: t["params"].get("steps") for t in planned["tasks"]}["words"] == 5
    assert command("validate", "test.json", *given).done().out == "test: 5 nodes, no errors\n"
    said = command("validate", "test.json", *given, "--set", "words.stepz=5")
    assert said.status == 2
    assert "VF207: the node words (Make) has no parameter stepz. It has: text, steps, step_s." in said.out
