"""`voxelflow plan` and `validate`: golden text, JSON, statuses, and that nothing is started or made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save

from engine import launch
from engine.catalog import Catalog
from engine.datasets import Report
from engine.pipeline import Pipeline
from engine.plan import Plan
from engine.runs import Result, RunStore
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


def _ran(document: Pipeline, values: dict[str, str], probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    """As if a run of `document` had made everything."""
    made = launch.prepare(document, probes, workspace, store, values=dict(values)).plan
    run_id = store.create_run(document.name, "", {}, "local")
    store.set_tasks(run_id, [(t.node, t.node_type, t.title) for t in made.tasks])
    for task in made.tasks:
        out = workspace.data / task.out
        out.mkdir(parents=True)
        identity = task.identity
        store.put_result(
            Result(
                fingerprint=identity.fingerprint, lineage=identity.lineage, base=identity.base,
                node_type=task.node_type, identity=identity.parts, out=task.out, shared=task.shared,
                outputs={"out": Report(uri=str(out), figures={"steps": 3})},
                pipeline=document.name, node=task.node, run_id=run_id,
            )
        )  # fmt: skip
        store.update_task(run_id, task.node, fingerprint=identity.fingerprint, state="done")
    store.finish_run(run_id, "done")


@pytest.fixture
def files(home: Path) -> Path:
    folder = home / "files"
    folder.mkdir()
    for i in range(101):
        (folder / f"{i:03}.txt").write_text("x" * 30_000)
    return folder


def test_the_plan_as_people_read_it(
    command: Command, save: Save, files: Path, probes: Catalog, workspace: Workspace, store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "110")
    _ran(_document("old words"), {"data": str(files)}, probes, workspace, store)
    (files / "another.txt").write_text("new")
    save(_document())
    parts = []
    for options in ([], ["--to", "both"], ["--from", "found"], ["--fresh"]):
        said = command("plan", "test.json", "--set", "data=files", *options)
        assert said.status == 0
        parts.append(" ".join(["$ voxelflow plan", *options]) + "\n" + said.out)
    told = "\n".join(parts)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(told)
    assert told == GOLDEN.read_text()


def test_the_plan_as_json_is_a_plan(command: Command, save: Save, files: Path) -> None:
    said = command("plan", save(_document()), "--set", "data=files", "--json")
    made = Plan.model_validate_json(said.out)
    assert [t.node for t in made.to_run] == ["words", "others", "both", "found", "apart"]
    assert made.task("found").params == {"folder": str(files)}
    assert [d.code for d in made.diagnostics] == ["VF499"]


def test_a_plan_starts_nothing(command: Command, save: Save, files: Path, store: RunStore) -> None:
    assert command("plan", save(_document()), "--set", "data=files").status == 0
    assert store.runs() == []


def test_choosing_what_is_not_there(command: Command, save: Save, files: Path) -> None:
    said = command("plan", save(_document()), "--set", "data=files", "--to", "nowhere")
    assert said.status == 2
    assert "has no node nowhere. It has: words, others" in said.err
    assert command("plan", "test.json", "--profile", "moon", "--set", "data=files").status == 2


def test_validate_tells_every_problem(command: Command, save: Save, files: Path) -> None:
    name = save(
        pipeline(
            box("a", "Make", steps=20_000, colour="red"),
            box("b", "Join"),
            box("c", "Nonsense"),
            box("d", "Count", folder="nowhere"),
            wires="a.out>b.second",
        )
    )
    said = command("validate", name)
    assert said.status == 2
    assert said.err == ""
    assert [line.split()[1] for line in said.out.splitlines()] == ["VF201", "VF203", "VF106", "VF101", "VF301"]
    told = command("validate", name, "--json")
    assert told.status == 2
    assert told.json["ok"] is False
    assert [d["code"] for d in told.json["diagnostics"]] == ["VF201", "VF203", "VF106", "VF101", "VF301"]


def test_validate_says_when_all_is_well(command: Command, save: Save, files: Path) -> None:
    save(_document())
    said = command("validate", "test.json", "--set", "data=files", "--json")
    assert (said.status, said.json) == (0, {"ok": True, "pipeline": "test", "diagnostics": []})
    assert command("validate", "test.json", "--set", "data=files").out == "test: 5 nodes, no errors\n"
    missing = command("validate", "test.json")
    assert missing.status == 2
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
        assert command(verb, "test.json", "--set", f"data={elsewhere}").status == 0
    settled = document.model_copy(
        update={"parameters": {**document.parameters, "data": document.parameters["text"].model_copy(
            update={"value": str(elsewhere)})}}
    )  # fmt: skip
    save(settled)
    said = command("validate", "test.json")
    assert said.status == 2
    assert "VF308" in said.out


def test_looking_makes_no_workspace(command: Command, home: Path) -> None:
    (home / "p.json").write_text(json.dumps({"name": "p", "nodes": [{"id": "a", "type": "Make"}]}))
    assert command("validate", "p.json").status == 2
    assert command("nodes").status == 0
    assert command("runs", "list").status == 2
    assert [p.name for p in home.iterdir()] == ["p.json"]
