"""The pages as Streamlit draws them, on real runs, without a browser.

What needs one (the graph's clicks, the table's ticks, addresses, the way to the editor) is tested in tests/browser.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from building import box, pipeline
from streamlit.testing.v1 import AppTest

from engine.events import Message
from engine.pipeline import Node, Pipeline, PipelineParameter
from engine.runs import RunStore

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:1) **b** :red[x]'


def html(page: AppTest) -> str:
    assert not page.exception, [e.message for e in page.exception]
    return "\n".join(str(element.proto.body) for element in page.get("html"))


@pytest.fixture
def done(runs) -> str:
    document = pipeline(
        Node(id="a", type="Make", title="Maker", params={"text": "${text}", "steps": 2}),
        box("j", "Join"),
        wires="a.out>j.first",
        name="demo",
        text="hello",
    )
    run, _ = runs.run(document)
    assert run.state == "done"
    return run.run_id


def test_an_empty_history_tells_what_to_do(app: Open) -> None:
    page = app("runs")
    assert "There are no runs yet." in html(page)
    assert page.button(key="runs_build").label == "Go to Build"


def test_the_history_lists_runs_newest_first(app: Open, runs, done: str) -> None:
    failed, _ = runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("runs")
    assert "2 runs" in html(page)
    table = page.dataframe[0].value
    assert list(table["pipeline"]) == ["broken", "demo"]
    assert list(table["result"]) == ["f.how: the probe was told to fail. Tell it otherwise.", "steps 2"]
    assert [list(s) for s in table["state"]] == [["failed"], ["done"]]
    assert list(table["run"]) == [failed.run_id[-6:], done[-6:]]


def test_the_history_can_be_searched_and_filtered(app: Open, runs, done: str) -> None:
    runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("runs")
    page.text_input(key="q").set_value("DEM").run()
    assert "1 of 2 runs" in html(page)
    assert list(page.dataframe[0].value["pipeline"]) == ["demo"]
    page.text_input(key="q").set_value("").run()
    page.multiselect(key="state").set_value(["failed"]).run()
    assert list(page.dataframe[0].value["pipeline"]) == ["broken"]
    page.multiselect(key="pipeline").set_value(["demo"]).run()
    assert "No run matches." in html(page)


def test_a_long_history_is_shown_in_parts(app: Open, store: RunStore) -> None:
    with store._write() as db:
        db.executemany(
            "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created)"
            " VALUES (?, 'p', '{}', '{}', 'local', 'done', ?)",
            [(f"20260101-000000-{i:06x}", float(i)) for i in range(450)],
        )
    page = app("runs")
    assert "450 runs" in html(page)
    assert len(page.dataframe[0].value) == 200
    page.button(key="runs_more").click().run()
    page.button(key="runs_more").click().run()
    assert len(page.dataframe[0].value) == 450
    assert not any(b.key == "runs_more" for b in page.button)


def test_a_run_shows_its_graph_and_a_node(app: Open, done: str) -> None:
    page = app("run", run=done)
    shown = html(page)
    assert "demo" in shown
    assert done in shown
    assert "2 ran" in shown
    (graph,) = page.get("component_instance")
    assert graph.proto.component_name == "streamlit_agraph.agraph"
    assert '\\"id\\": \\"a\\"' in graph.proto.json_args
    page.selectbox[0].set_value("a").run()
    shown = html(page)
    assert "wrote hello" in shown
    assert "never ran before" in shown
    assert "report.txt" in shown
    assert "step_s" in shown


def test_the_node_looked_at_stays_when_another_begins(app: Open, store: RunStore, done: str) -> None:
    def marked() -> list[str]:
        (graph,) = page.get("component_instance")
        data = json.loads(json.loads(graph.proto.json_args)["data"])
        return [node["id"] for node in data["nodes"] if node["borderWidth"] > 1]

    store.update_task(done, "a", state="running")
    store.update_task(done, "j", state="waiting")
    page = app("run", run=done)
    assert (page.selectbox[0].value, marked()) == ("a", ["a"])
    store.update_task(done, "a", state="done")
    store.update_task(done, "j", state="running")
    page.run()
    assert (page.selectbox[0].value, marked()) == ("a", ["a"])


def test_what_failed_stands_at_the_top_with_its_hint(app: Open, runs) -> None:
    run, _ = runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("run", run=run.run_id)
    shown = html(page)
    assert "f.how: the probe was told to fail" in shown
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
    assert "accuracy" in html(app("run", run=done, view="Metrics"))
    assert "step_loss" in html(app("run", run=done, view="Metrics"))
    assert "CPU" in html(app("run", run=done, view="System"))
    assert len(app("run", run=done, view="Timeline").get("vega_lite_chart")) == 1
    assert "wrote hello" in html(app("run", run=done, view="Logs"))
    page = app("run", run=done, view="Pipeline")
    html(page)
    assert page.code[0].value == store.run(done).document.rstrip("\n")


def test_a_log_can_be_sifted(app: Open, done: str) -> None:
    page = app("run", run=done, view="Logs")
    assert "1 lines" in html(page)
    page.text_input(key="log_search").set_value("nothing like it").run()
    assert "No line matches." in html(page)


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
    assert "must be mended" in shown
    assert "a.steps" in shown


def test_a_refusal_is_told_and_takes_no_button_away(app: Open, store: RunStore) -> None:
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


def test_two_runs_side_by_side(app: Open, runs, done: str) -> None:
    other, _ = runs.run(
        pipeline(
            Node(id="a", type="Make", title="Maker", params={"text": "${text}", "steps": 7}), name="demo", text="bye"
        )
    )
    for run_id in (done, other.run_id):
        runs.train(run_id, "a")
    page = app("compare", runs=f"{done},{other.run_id[-6:]}")
    shown = html(page)
    for told in ("hello", "bye", "removed", "a.out → j.first", "whole run"):
        assert told in shown
    assert "step_s" not in shown  # equal in both
    assert len(page.get("vega_lite_chart")) == 4
    assert page.multiselect(key="compare_runs").value == [done, other.run_id]
    page.toggle(key="compare_all").set_value(True).run()
    assert "step_s" in html(page)
    page.multiselect(key="compare_runs").set_value([done]).run()
    assert "Choose one more run above." in html(page)
    assert page.query_params["runs"] == done


def test_a_comparison_says_which_run_is_not_there(app: Open, done: str) -> None:
    assert "there is no run nothing-like-it" in html(app("compare", runs=f"{done},nothing-like-it"))


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
    pages = [app("run", run=run.run_id, view=view) for view in ("Graph", "Timeline", "Metrics", "System", "Logs")]
    pages += [app("runs"), app("compare", runs=f"{run.run_id},{other.run_id}", compare_all="true")]
    for page in pages:
        assert "<img" not in html(page)
        # Nothing of it is Markdown: what Streamlit would read as such is ours, or escaped.
        labels = [w.label for w in (*page.button, *page.text_input, *page.toggle)]
        assert not any("<img" in label or "**" in label for label in labels)
        assert not page.markdown
    page = pages[0]
    page.button(key="run_changed").click().run()
    field = page.text_input(key=f"rerun-{run.run_id}-_p_")
    assert field.value == EVIL
    assert r"\<img" in field.help
    assert r"\[x\]\(javascript\:1\)" in field.help
