"""`voxelflow runs compare`: runs side by side in the shell."""

from __future__ import annotations

import pytest
from building import box, pipeline
from command_line import Command
from stored_results import stored_result

from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.declare.events import Metrics
from engine.document.pipeline import dump
from engine.store.runs import RunStore

SPEC = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")


@pytest.fixture
def runs(home: object, store: RunStore) -> list[str]:
    made = []
    for steps, loss in ((2, 0.5), (3, 0.25)):
        document = pipeline(box("a", "Make", steps="${steps}", text="same"), steps=steps, name="p")
        run = store.create_run("p", dump(document), {}, "local")
        store.set_tasks(run, [("a", "Make", "a")])
        model = TrainedModel(uri="m", spec=SPEC, metrics={"val_loss": loss})
        store.update_task(run, "a", state="done", outputs={"out": model}, started=1.0, ended=3.0)
        store.add_events(run, [Metrics(node="a", step=n, values={"loss": loss / n}) for n in (2, 1)])
        store.record_end(run, "done")
        made.append(run)
    return made


def test_two_runs_side_by_side(command: Command, runs: list[str]) -> None:
    said = command("runs", "compare", *(run[9:] for run in runs)).done()
    rows = [line.split() for line in said.out.splitlines() if line]
    assert ["state", "done", "done"] in rows
    assert [row for row in rows if "steps" in row] == [["pipeline", "steps", "2", "3"]], "once, not also of the node"
    assert ["Make", "val_loss", "0.5", "0.25"] in rows
    assert ["Make", "loss", "0.25", "0.125"] in rows
    assert ["Make", "2.0", "s", "2.0", "s"] in rows
    assert "same" not in said.out
    assert "same" in command("runs", "compare", *runs, "--all").done().out
    output = command("runs", "compare", *runs, "--json").json
    assert [run["run_id"] for run in output["runs"]] == runs
    assert {"node": "pipeline", "name": "steps", "values": ["2", "3"]} in output["parameters"]


def test_a_run_from_the_cache_has_the_curves_of_the_run_that_made_it(
    command: Command, runs: list[str], store: RunStore
) -> None:
    store.results.put(stored_result("f", node="a", run_id=runs[1]))
    cached = store.create_run("p", store.run(runs[1]).document, {}, "local")
    store.set_tasks(cached, [("a", "Make", "a")])
    store.update_task(cached, "a", state="cached", fingerprint="f", outputs=stored_result("f").outputs)
    rows = [line.split() for line in command("runs", "compare", runs[0], cached).done().out.splitlines()]
    assert ["Make", "loss", "0.25", "0.125"] in rows


def test_one_run_is_no_comparison(command: Command, runs: list[str]) -> None:
    command("runs", "compare", runs[0], runs[0]).fails("a comparison needs two runs")
    command("runs", "compare", runs[0], "nope").fails("there is no run nope")
    command("runs", "show", "\udcff").fails("there is no run \\udcff")
