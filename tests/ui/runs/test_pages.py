"""The pages as Streamlit draws them, on real runs, without a browser.

What needs one (the graph's clicks, the table's ticks, addresses, the way to the editor) is tested in tests/browser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from drawn_html import html
from drawn_places import path_to
from streamlit.testing.v1 import AppTest
from waiting import has_ended, wait_until

from engine.declare.datasets import TrainedModel, VolumeDelta, VolumeSpec
from engine.declare.events import Artifact, Message, Metrics
from engine.document.pipeline import Node, Pipeline, PipelineParameter
from engine.document.plan import PLAN
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:1) **b** :red[x]'


def test_a_run_shows_its_graph_and_a_node(app: Open, done: str, pictures: dict[str, dict[str, Any]]) -> None:
    page = app("run", run=done, view="Graph")
    shown = html(page)
    assert "demo" in shown
    assert done in shown
    assert "2 ran" in shown
    (graph,) = pictures.values()
    assert {node: status["state"] for node, status in graph["status"].items()} == {"a": "done", "j": "done"}
    assert (graph["doc"]["nodes"]["a"]["title"], graph["chosen"]) == ("Maker", "j")
    page.selectbox[0].set_value("a").run()
    shown = html(page)
    assert "wrote hello" in shown
    assert "never ran before" in shown
    assert "report.txt" in shown
    assert "step_s" in shown


def test_another_node_is_drawn_in_another_place(app: Open, done: str) -> None:
    """Streamlit would leave the parameters of the one before beside its own until all of the page is drawn."""
    page = app("run", run=done, view="Graph")

    def place() -> tuple[int, ...]:
        return path_to(page, lambda element: "<h2" in getattr(getattr(element, "proto", None), "body", ""))[:-1]

    first = place()
    page.run()
    assert place() == first
    page.selectbox[0].set_value("a").run()
    assert place() != first
    page.selectbox[0].set_value("j").run()
    assert place() == first


def test_the_selected_node_stays_when_another_begins(
    app: Open, store: RunStore, done: str, pictures: dict[str, dict[str, Any]]
) -> None:
    def marked() -> list[str]:
        (graph,) = pictures.values()
        return [graph["chosen"]]

    store.update_task(done, "a", state="running")
    store.update_task(done, "j", state="waiting")
    page = app("run", run=done, view="Graph")
    assert (page.selectbox[0].value, marked()) == ("a", ["a"])
    store.update_task(done, "a", state="done")
    store.update_task(done, "j", state="running")
    page.run()
    assert (page.selectbox[0].value, marked()) == ("a", ["a"])


def test_another_run_opens_at_the_node_that_failed(app: Open, runs, store: RunStore, done: str) -> None:
    document = pipeline(box("a", "Make"), box("j", "Join"), wires="a.out>j.first", name="demo")
    other, _ = runs.run(document)
    store.update_task(other.run_id, "a", state="failed")
    page = app("run", run=done, view="Graph")
    page.selectbox[0].set_value("j").run()
    page.query_params["run"] = other.run_id
    page.run()
    assert page.selectbox[0].value == "a"
    page.query_params["run"] = done
    page.run()
    assert page.selectbox[0].value == "j"


def test_what_failed_stands_at_the_top_with_its_hint(app: Open, runs) -> None:
    run, _ = runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("run", run=run.run_id)
    shown = html(page)
    assert "Fail.how: the probe was told to fail" in shown
    assert "Tell it otherwise." in shown
    assert page.button(key="run_resume").label == "Resume"


@pytest.mark.parametrize("wanted", ["", "nothing-like-it"])
def test_a_run_that_is_not_there_leads_to_the_history(app: Open, done: str, wanted: str) -> None:
    page = app("run", run=wanted)
    assert "Choose one from the history." in html(page)
    assert page.button(key="run_to_history").label == "Go to Runs"


def test_each_part_of_a_run_can_be_addressed(app: Open, runs, store: RunStore, done: str) -> None:
    runs.train(done, "a")
    store.add_events(done, [Message(node="a", text="x")])
    assert "Accuracy" in html(app("run", run=done, view="Metrics"))
    assert "Loss of a step" in html(app("run", run=done, view="Metrics"))
    assert "CPU" in html(app("run", run=done, view="Monitor"))
    assert len(app("run", run=done, view="Timeline").get("vega_lite_chart")) == 1
    assert "wrote hello" in html(app("run", run=done, view="Logs"))
    page = app("run", run=done, view="Pipeline")
    shown = html(page)
    assert "hello" in shown
    assert "Parameters of the pipeline" in shown
    assert not page.code


def test_a_log_can_be_sifted(app: Open, done: str) -> None:
    page = app("run", run=done, view="Logs")
    assert ">1 line<" in html(page)
    page.text_input(key="log_search").set_value("nothing like it").run()
    assert "No line matches." in html(page)


def test_the_overview_comes_first_with_figures_and_what_changed(app: Open, runs, store: RunStore, done: str) -> None:
    changed = pipeline(Node(id="a", type="Make", title="Maker", params={"text": "bye"}), name="demo")
    run, _ = runs.run(changed)
    runs.train(run.run_id, "a")
    for run_id, auc in ((done, 0.8), (run.run_id, 0.9)):
        spec = VolumeSpec(shape=(4, 4, 4), dtype="float32", classes=("a", "b"))
        model = TrainedModel(uri="/gone", spec=spec, metrics={"val_auc": auc, "val_loss": 0.25})
        store.update_task(run_id, "a", outputs={"out": model})
    page = app("run", run=run.run_id)
    shown = html(page)
    for words in ("Validation AUC", "0.9", "↑ better, was 0.8", "as before", "Changed since run", "hello", "bye"):
        assert words in shown
    assert len(page.get("vega_lite_chart")) == 2
    # Framed as the charts beside it are.
    (changed_box,) = [box for box in page.main.container if box.proto.id.endswith("overview_changes")]
    assert changed_box.proto.flex_container.border
    assert {"open_model", "register"} <= {b.key for b in page.button}
    page.button(key="open_model").click().run()
    assert any(f"voxelflow predict {run.run_id} volume.npy" in c.value for c in page.code)
    assert "folder is gone." in html(page)


def test_what_a_run_used_is_not_called_equal_when_its_record_is_gone(app: Open, runs, workspace: Workspace) -> None:
    document = pipeline(box("a", "Make"), name="twice")
    first, second = (runs.run(document)[0].run_id for _ in range(2))
    assert "Nothing: the same parameters, code and data." in html(app("run", run=second))
    workspace.run_folder(first).joinpath(PLAN).unlink()
    shown = html(app("run", run=second))
    assert "Not known: there is no record of what one of the runs used." in shown
    assert "Nothing: the same" not in shown


def test_a_table_is_opened_with_the_code_that_reads_it(app: Open, store: RunStore, done: str) -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 2), dtype="float32")
    table = VolumeDelta(
        uri="/gone/table", count=5, bytes=2560, spec=spec, version=3, data_version=3, files=1, labelled=4
    )
    store.update_task(done, "a", outputs={"out": table})
    page = app("run", run=done)
    page.button(key="open_table").click().run()
    shown = html(page)
    for words in ("Maker", "5 volumes", "/gone/table"):
        assert words in shown
    code = {tab.label: "\n".join(each.value for each in tab.code) for tab in page.tabs if tab.code}
    assert list(code) == ["pandas", "Spark", "DuckDB", "Voxelflow"]
    assert "DeltaTable('/gone/table', version=3)" in code["pandas"]
    assert ".option(\"versionAsOf\", 3).load('/gone/table')" in code["Spark"]
    assert "ATTACH '/gone/table' AS volumes (TYPE delta, VERSION 3);" in code["DuckDB"]


def test_a_model_that_would_be_trained_again_is_not_registered(app: Open, runs, store: RunStore, done: str) -> None:
    model = TrainedModel(uri="/gone", spec=VolumeSpec(shape=(4, 4, 4), dtype="float32"), metrics={"val_auc": 0.9})
    store.update_task(done, "a", outputs={"out": model})
    page = app("run", run=done)
    page.button(key="register").click().run()
    page.button(key="register_start").click().run()
    assert "no node type RegisterModel" in html(page)
    assert len(store.runs()) == 1


def test_curves_are_smoothed_and_other_runs_laid_over(app: Open, runs, done: str) -> None:
    other = runs.start(pipeline(box("a", "Make"), name="demo"))
    runs.finish(other)
    for run_id in (done, other):
        runs.train(run_id, "a", epochs=12)
    page = app("run", run=done, view="Metrics")
    assert "smoothed from 11 epochs on" in page.slider(key="smoothing").help
    page.slider(key="smoothing").set_value(0.5).run()
    over = page.multiselect(key=f"over-{done}")
    assert re.fullmatch(rf"{other[-6:]}, done, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", over.options[0])
    over.set_value([other]).run()
    html(page)
    specifications = [chart.proto.spec for chart in page.get("vega_lite_chart")]
    assert all('"raw"' in s for s in specifications)
    assert all(f"{other[-6:]}: " in s for s in specifications)


def test_curves_that_begin_with_those_of_a_stopped_run_say_so_on_each_page(
    app: Open, runs, store: RunStore, done: str, probe_gate: Path
) -> None:
    document = pipeline(Node(id="a", type="Make", title="Maker", params={"text": "slow"}), name="demo")
    stopped = runs.start(document)
    runs.wait_for(stopped, "a", "running")
    runs.train(stopped, "a", epochs=2)
    launch.cancel(store, stopped)
    assert runs.finish(stopped).state == "cancelled"
    probe_gate.touch()
    went_on, _ = runs.run(document)
    later = [Metrics(node="a", step=step, values={"loss": 0.1, "val_loss": 0.2}) for step in (3, 4)]
    steps = [Metrics(node="a", step=30 + i, values={"step_loss": 0.1}) for i in range(10)]
    store.add_events(went_on.run_id, [*steps, *later])
    runs.train(done, "a")

    def links(page: AppTest) -> list[tuple[str, str]]:
        html(page)
        shown = [(link.proto.label, link.proto.query_string) for link in page.get("page_link")]
        return [(re.sub(r"\\(.)", r"\1", label), query) for label, query in shown]  # as Markdown shows it

    address = f"run={stopped}"
    words = f"Maker, up to epoch 2: of run {stopped[-6:]}, which it went on from"
    assert links(app("run", run=went_on.run_id)) == [(words, address)]
    assert links(app("run", run=went_on.run_id, view="Metrics")) == [(words, address)]
    page = app("run", run=done, view="Metrics")
    assert links(page) == []
    page.multiselect(key=f"over-{done}").set_value([went_on.run_id]).run()
    assert links(page) == [(f"{went_on.run_id[-6:]}, {words}", address)]
    assert any(f"{went_on.run_id[-6:]}: validation" in chart.proto.spec for chart in page.get("vega_lite_chart"))


def test_the_loss_can_be_logarithmic(app: Open, runs, done: str) -> None:
    runs.train(done, "a")
    page = app("run", run=done, view="Metrics")
    page.toggle(key="log_loss").set_value(True).run()
    html(page)
    specifications = [chart.proto.spec for chart in page.get("vega_lite_chart")]
    assert sum('"log"' in s for s in specifications) == 2  # loss and step_loss, not accuracy


def test_a_run_in_the_making_can_be_cancelled(app: Open, runs) -> None:
    run_id = runs.start(pipeline(box("a", "Make", steps=1000, step_s=0.1)))
    runs.wait_for_progress(run_id, "a")
    page = app("run", run=run_id)
    assert "steps/s" in html(page)
    page.button(key="run_cancel").click().run()
    ended = runs.finish(run_id)
    assert ended.state == "cancelled"


def test_changed_values_are_asked_for_and_refused_with_a_reason(app: Open, runs) -> None:
    run, _ = runs.run(pipeline(box("a", "Make", steps="${_steps_}"), _steps_=1))
    page = app("run", run=run.run_id)
    page.button(key="run_changed").click().run()
    field = page.text_input(key=f"rerun-{run.run_id}-_steps_")
    assert (field.label, field.value) == (r"\_steps\_", "1")
    field.set_value("-1")
    page.button(key="rerun_start").click().run()
    shown = html(page)
    assert "to fix before" in shown
    assert "a.steps" in shown


def test_the_nodes_of_a_run_are_named_as_on_the_canvas(app: Open, store: RunStore) -> None:
    maker = Node(id="a", type="Make", title="Maker")
    document = pipeline(maker, box("j", "Join"), wires="a.out>j.first")
    run_id = store.create_run("p", document.model_dump_json(by_alias=True), {}, "local")
    store.finish_run(run_id, "cancelled")
    shown = html(app("run", run=run_id, view="Pipeline"))
    assert "Maker.out → first" in shown
    assert "Nothing was written.<" in html(app("run", run=run_id, view="Logs"))  # and nothing more will be


def test_a_refusal_is_reported_and_removes_no_button(app: Open, store: RunStore) -> None:
    document = '{"schema_version": 1, "name": "p", "nodes": [{"id": "x", "type": "Gone", "params": {}}], "edges": []}'
    run_id = store.create_run("p", document, {}, "local")
    store.finish_run(run_id, "failed", "no such node type")
    page = app("run", run=run_id)
    before = [b.key for b in page.button]
    page.button(key="run_again").click().run()
    shown = html(page)
    assert "there is no node type Gone" in shown
    assert [b.key for b in page.button] == before
    assert len(store.runs()) == 1


def test_a_run_again_is_shown(app: Open, store: RunStore, done: str) -> None:
    page = app("run", run=done)
    page.button(key="run_again").click().run()
    html(page)
    new = store.runs()[0]
    assert new.run_id != done
    assert page.query_params["run"] == new.run_id


def test_a_run_from_the_cache_shows_the_curves_and_files_of_the_one_that_made_its_results(
    app: Open, runs, tmp_path: Path
) -> None:
    document = pipeline(Node(id="a", type="Make", title="Maker", params={"text": "one"}), name="demo")
    made, _ = runs.run(document)
    runs.train(made.run_id, "a")
    table = tmp_path / "mistakes.csv"
    table.write_text("volume,predicted")
    runs.store.add_events(made.run_id, [Artifact(node="a", role="table", name="Mistakes", path=str(table))])
    again, _ = runs.run(document)
    assert [task.state for task in runs.store.tasks(again.run_id)] == ["cached"]

    def links(page: AppTest) -> list[tuple[str, str]]:
        return [(link.proto.label, link.proto.query_string) for link in page.get("page_link")]

    words, address = f"Maker: of run {made.run_id[-6:]}, which made this result", f"run={made.run_id}"
    page = app("run", run=again.run_id, view="Metrics")
    assert "This run has no metrics." not in html(page)
    assert len(page.get("vega_lite_chart")) == len(app("run", run=made.run_id, view="Metrics").get("vega_lite_chart"))
    assert links(page) == [(words, address)]
    page = app("run", run=again.run_id)
    assert len(page.get("vega_lite_chart")) == 2
    assert "Mistakes" in html(page)
    assert links(page) == [(words, address)]
    assert links(app("run", run=made.run_id)) == []
    other, _ = runs.run(document.model_copy(update={"nodes": (document.nodes[0].model_copy(update={"params": {}}),)}))
    page = app("compare", runs=f"{other.run_id},{again.run_id}")
    assert "None of these runs has metrics." not in html(page)
    assert len(page.get("vega_lite_chart")) == 4
    assert links(page) == [(f"{again.run_id[-6:]}, {words}", address)]


def test_hostile_names_are_text_everywhere(app: Open, runs, store: RunStore) -> None:
    document = Pipeline(
        name=EVIL + "z" * 200,
        nodes=(
            Node(id="a", type="Make", title=EVIL, params={"text": EVIL}),
            Node(id="f", type="Fail", title="שלום " + EVIL, params={"how": EVIL}),
        ),
        parameters={"_p_": PipelineParameter(value=EVIL, help=EVIL)},
    )
    run, _ = runs.run(document)
    runs.train(run.run_id, "a")
    other, _ = runs.run(document.model_copy(update={"parameters": {}}))
    third, _ = runs.run(document.model_copy(update={"name": f"{EVIL}y", "nodes": document.nodes[:1]}))
    pages = [
        app("run", run=run.run_id, view=view)
        for view in ("Overview", "Graph", "Timeline", "Metrics", "Monitor", "Logs", "Pipeline")
    ]
    pages += [app("runs"), app("compare", runs=f"{run.run_id},{other.run_id}")]
    pages.append(app("compare", runs=f"{run.run_id},{other.run_id},{third.run_id}", compare_all="true"))
    for page in pages:
        assert "<img src=x" not in html(page)  # as the monitor's pictures are
        # Nothing of it is Markdown: what Streamlit would read as such is ours, or escaped.
        labels = [w.label for w in (*page.button, *page.text_input, *page.toggle)]
        assert not any("<img" in label or "**" in label for label in labels)
        assert not page.markdown
    control = pages[-1].button_group(key="compare_graph_of")
    assert [r"\<img" in option for option in control.options] == [True, True]
    page = pages[0]
    page.button(key="run_changed").click().run()
    field = page.text_input(key=f"rerun-{run.run_id}-_p_")
    assert field.value == EVIL
    assert r"\<img" in field.help
    assert r"\[x\]\(javascript\:1\)" in field.help


def test_a_damaged_run_store_is_named_with_the_command_that_helps(app: Open, runs, done: str) -> None:
    database = runs.workspace.root / "runs.db"
    # While the run's process has it open, a copy of its pages lies beside it.
    supervisor = runs.store.run(done).pid
    assert supervisor is not None
    wait_until(lambda: has_ended(supervisor), "the end of the run's process")
    runs.store.close()
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    shown = html(app("runs"))
    assert "runs.db is damaged" in shown
    assert "voxelflow runs rebuild" in shown
