"""The pages about runs: what ran, how it went, and running it again."""

from __future__ import annotations

import io
import re
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SIZE
from building import box, pipeline
from canvas_page import box as box_of
from canvas_page import eventually, seed
from gated_nodes import Gate
from playwright.sync_api import Locator, Page, expect
from recorded_runs import Did, record
from running import Runner
from runs_page import RunsPage, curves
from studio import StudioServer
from studio_page import StudioPage, in_rows

from engine.catalog import build_catalog
from engine.document.pipeline import Pipeline, write_pipeline
from engine.document.plan import Choice
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import Run, RunStore
from engine.text import money
from engine.tracking import run_link


class LocalRunner(Runner):
    """With the profile that everyone has, so that runs can be run again."""

    def start(self, document: Pipeline, **choice: Any) -> str:
        run_id, _ = launch.start(
            document, self.catalog, self.workspace, self.store, profile=find_profile("local"), choice=Choice(**choice)
        )
        return run_id


@pytest.fixture
def runner(studio: StudioServer, gate: Gate) -> Iterator[Runner]:
    store = RunStore(studio.workspace)
    yield LocalRunner(build_catalog((), studio.workspace), studio.workspace, store)
    store.close()


GOOD = in_rows(pipeline(box("a", "Make", text="fine"), box("b", "Join"), wires="a.out>b.first", name="good one"))


def failing(marker: Path) -> Pipeline:
    """Fails once, then goes on."""
    return in_rows(
        pipeline(
            box("a", "Make", text="${words}"),
            box("f", "Fail", how="told", marker=str(marker), times=1),
            wires="a.out>f.first",
            name="bad one",
            words="some words",
        )
    )


def learning(rate: float) -> Pipeline:
    return in_rows(pipeline(box("l", "Learn", rate=rate, epochs="${epochs}"), name="learning", epochs=4))


def shown(chart: Locator) -> list[tuple[int, float]]:
    """The points of a chart's only curve, as a screen reader gets them."""
    marks: list[str] = chart.locator("path[aria-label]").evaluate_all(
        "all => all.map(m => m.getAttribute('aria-label'))"
    )
    points = {int(m[1]): float(m[2]) for mark in marks if (m := re.match(r"step: (\d+); value: ([\d.]+);", mark))}
    return sorted(points.items())


def test_the_history_is_searched_filtered_and_leads_to_runs(page: Page, runner: Runner, tmp_path: Path) -> None:
    pages = RunsPage(page).history()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    good, _ = runner.run(GOOD)
    bad, _ = runner.run(failing(tmp_path / "marker"))
    pages.history()
    newest, oldest = pages.expect_rows("bad one", "good one")
    assert (newest.run, newest.state, newest.profile, newest.attempt) == (bad.run_id[-6:], "failed", "local", "1")
    assert newest.result == "Fail.how: the probe was told to fail. Tell it otherwise."
    assert (oldest.run, oldest.state, oldest.result) == (good.run_id[-6:], "done", "steps 1")
    assert re.fullmatch(r"\d+(\.\d+)?", oldest.duration)  # seconds: what is drawn in words is sorted by

    search = page.get_by_role("searchbox", name="Search")
    search.fill("GOOD")
    pages.expect_rows("good one")
    search.fill("told to fail")
    pages.expect_rows("bad one")
    search.fill("nothing is called so")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    search.fill("")
    pages.expect_rows("bad one", "good one")
    page.get_by_role("combobox", name="State").fill("done")
    page.get_by_role("option", name="done").click()
    pages.expect_rows("good one")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("state=done"))
    pages.open_row(0)
    pages.shows("good one", "done")
    assert pages.run_id == good.run_id


def test_no_choice_of_a_node_is_taken_back(page: Page, runner: Runner, tmp_path: Path) -> None:
    """A timer's rerun may come at any moment between two clicks, with what the browser held before the first."""
    bad, _ = runner.run(failing(tmp_path / "marker"))
    pages = RunsPage(page).open(bad.run_id, "Graph")
    pages.expect_in_graph("done", "failed")
    panel, chosen = page.locator(".vf-title").last, page.get_by_role("combobox", name="Node")
    for _ in range(10):
        for state, node_type in (("done", "Make"), ("failed", "Fail")):
            pages.click_in_graph(state)
            expect(panel).to_contain_text(node_type)
    expect(chosen).to_have_value("Fail")
    chosen.click()
    page.get_by_role("option", name="Make", exact=True).click()
    expect(panel).to_contain_text("Make")
    pages.click_in_graph("failed")
    expect(panel).to_contain_text("Fail")
    expect(chosen).to_have_value("Fail")


def test_each_tab_of_a_run_is_opened_then_it_is_resumed_and_run_again(
    page: Page, runner: Runner, studio: StudioServer, tmp_path: Path
) -> None:
    bad, tasks = runner.run(failing(tmp_path / "marker"))
    pages = RunsPage(page).open(bad.run_id, "Graph")
    pages.shows("bad one", "failed")
    expect(page.get_by_role("alert").first).to_contain_text("the probe was told to fail")
    pages.expect_in_graph("done", "failed")
    panel = page.locator(".vf-title").last
    expect(panel).to_contain_text("Fail")
    pages.click_in_graph("done")
    expect(panel).to_contain_text("Make")
    # Until the page is drawn anew the log of the node before is there, too.
    expect(page.get_by_role("log").filter(has_text="wrote some words")).to_be_visible()
    expect(page.get_by_role("log")).to_have_count(1)
    parameters = page.get_by_role("table", name="Parameters")
    expect(parameters.get_by_role("row").filter(has_text="text")).to_contain_text("some words")
    expect(page.get_by_role("table", name="Outputs")).to_contain_text(tasks["a"].outputs["out"].uri)
    pages.click_in_graph("failed")
    expect(panel).to_contain_text("Fail")

    expect(pages.tab("Timeline").get_by_test_id("stVegaLiteChart")).to_be_visible()
    expect(pages.tab("Metrics")).to_contain_text("This run has no metrics.")
    logs = pages.tab("Logs")
    expect(logs.get_by_role("log")).to_contain_text("wrote some words")
    logs.get_by_role("searchbox", name="Search the log").fill("was told")
    expect(logs.get_by_role("log")).not_to_contain_text("wrote some words")
    expect(logs.get_by_role("log")).to_contain_text("the probe was told to fail")
    with page.expect_download() as download:
        pages.tab("Pipeline").get_by_role("button", name="Download JSON").click()
    assert download.value.path().read_text() == bad.document
    expect(page.get_by_role("table", name="Parameters of the pipeline")).to_contain_text("some words")
    assert '"nodes"' not in page.get_by_role("tabpanel", name="Pipeline").inner_text()

    pages.button("Resume").click()
    pages.shows("bad one", "done")
    assert pages.run_id == bad.run_id
    assert runner.store.run(bad.run_id).attempt == 2

    pages.button("Re-run").click()
    eventually(lambda: pages.run_id != bad.run_id)
    pages.shows("bad one", "done")
    again = pages.run_id
    assert {t.state for t in runner.tasks(again).values()} == {"cached"}

    pages.button("Re-run with changes").click()
    page.get_by_role("dialog").get_by_role("textbox", name="words").fill("new words")
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    eventually(lambda: pages.run_id not in (again, bad.run_id))
    pages.shows("bad one", "done")
    changed = runner.store.run(pages.run_id)
    assert '"new words"' in changed.document

    pages.button("Open as pipeline").click()
    canvas = StudioPage(page, studio).ready()
    canvas.shows("bad one")
    expect(canvas.cards).to_have_count(2)
    eventually(lambda: canvas.doc.get("parameters", {}).get("words", {}).get("value") == "new words")


def test_metrics_are_live_and_runs_are_compared(page: Page, runner: Runner, gate: Gate) -> None:
    first, _ = runner.run(learning(0.5))
    live = runner.start(
        in_rows(
            pipeline(
                box("l", "Learn", rate=2.0, epochs=12, gate=gate.path),
                box("j", "Join"),
                wires="l.out>j.first",
                name="learning",
            )
        ),
    )
    pages = RunsPage(page).open(live)
    pages.shows("learning", "running")
    metrics = pages.tab("Metrics")
    expect(metrics).to_contain_text("This run has no metrics.")
    gate.let(2)
    charts = metrics.get_by_test_id("stVegaLiteChart")
    expect(charts).to_have_count(2)
    loss = charts.last if charts.first.get_by_text("accuracy").count() else charts.first
    before: list[tuple[int, float]] = []
    for epochs in (2, 3, 6):  # longer while the run goes on, and never shorter
        gate.let(epochs)
        eventually(lambda epochs=epochs: len(shown(loss)) == epochs, "the curve does not grow")  # type: ignore[misc]
        assert shown(loss)[: len(before)] == before
        before = shown(loss)
        pages.shows("learning", "running")
    assert curves(loss) == 1
    gate.open()
    pages.shows("learning", "done")
    eventually(lambda: len(shown(loss)) == 12, "the end is missing")
    assert shown(loss)[:3] == [(1, 1.0), (2, 0.333333), (3, 0.2)]
    system = pages.tab("Monitor")
    expect(system.get_by_role("heading").filter(has_text="CPU of this run")).to_be_visible()
    eventually(lambda: curves(system.get_by_test_id("stVegaLiteChart").first) >= 1, "no load is drawn")

    pages.history()
    pages.expect_rows("learning", "learning")
    expect(pages.button("Compare")).to_be_disabled()
    pages.tick(0)
    expect(page.get_by_text("1 selected")).to_be_visible()
    pages.tick(1)
    expect(page.get_by_text("2 selected")).to_be_visible()
    pages.button("Compare").click()
    parameters = page.get_by_role("table", name="Parameters")
    expect(parameters.get_by_role("row").filter(has_text="rate")).to_contain_text(re.compile(r"2(\.0)?.*0\.5|0\.5.*2"))
    expect(parameters.get_by_role("row").filter(has_text="epochs")).not_to_have_count(0)
    graph = page.get_by_role("table", name="Graph differences").get_by_role("row")
    expect(graph.filter(has_text="removed").filter(has_text="node")).to_contain_text("Join")
    expect(graph.filter(has_text="removed").filter(has_text="wire")).to_contain_text("Learn.out → Join.first")
    expect(graph.filter(has_text="changed")).to_contain_text("rate 2.0 → 0.5")
    for chart in page.get_by_test_id("stVegaLiteChart").all():
        eventually(lambda chart=chart: curves(chart) == 2, "the runs' curves do not lie over each other")
    expect(page.get_by_role("table", name="Final figures")).to_contain_text("Loss")
    for run_id in (first.run_id, live):
        expect(pages.button(f"Open {run_id[-6:]}")).to_be_visible()
    pages.button(f"Open {first.run_id[-6:]}").click()
    pages.shows("learning", "done")
    assert pages.run_id == first.run_id


def test_two_runs_that_are_laid_over_another_are_both_in_sight(page: Page, studio: StudioServer) -> None:
    store = RunStore(studio.workspace)
    ids = [f"20251229-09{n}000-a1b2c{n}" for n in range(3)]
    for n, run_id in enumerate(ids):
        tasks = {"l": Did("cancelled", 0, 60, curves={"loss": lambda epoch: 1 / epoch}, epochs=4)}
        record(store, run_id, learning(0.5), "cancelled", tasks, began=1_767_000_000 + 600 * n, took=60)
    store.close()
    RunsPage(page).open(ids[0], "Metrics")
    picker = page.get_by_test_id("stMultiSelect")
    chips = picker.locator("[data-tag-index]")
    for count, run_id in enumerate(ids[1:], start=1):
        picker.get_by_role("combobox").click()
        page.get_by_role("option", name=re.compile(run_id[-6:])).click()
        expect(chips).to_have_count(count)
    page.keyboard.press("Escape")
    for size in (SIZE, {"width": 800, "height": 600}):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        eventually(
            lambda: all(box_of(chip)["x"] >= box_of(picker)["x"] for chip in chips.all()),
            lambda: f"{[box_of(chip) for chip in chips.all()]} in {box_of(picker)}",
        )
        assert box_of(picker)["x"] + box_of(picker)["width"] <= size["width"]


def test_the_parts_of_a_run_open_as_fast_as_one_clicks(page: Page, runner: Runner) -> None:
    good, _ = runner.run(GOOD)
    pages = RunsPage(page).open(good.run_id, "Graph")
    pages.shows("good one", "done")
    pages.expect_in_graph("done")
    tabs = page.get_by_role("tab")
    for name in ("Timeline", "Logs", "Monitor", "Pipeline", "Logs"):
        tabs.get_by_text(name, exact=True).click()
        page.wait_for_timeout(120)  # as a person in a hurry
    expect(page.get_by_role("tabpanel", name="Logs")).to_contain_text("wrote fine")
    expect(page.get_by_role("tab", name="Logs")).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(re.compile("view=Logs"))


def test_a_saved_pipeline_opens_from_its_run(page: Page, runner: Runner, studio: StudioServer) -> None:
    write_pipeline(GOOD, studio.workspace.pipelines / "good-one.json")
    good, _ = runner.run(GOOD)
    RunsPage(page).open(good.run_id).button("Open as pipeline").click()
    canvas = StudioPage(page, studio).ready()
    canvas.shows("good one")
    canvas.expect_document("good-one")
    canvas.expect_state("a", "done", "fresh")
    canvas.run_bar.get_by_role("link", name="Open run").click()
    RunsPage(page).shows("good one", "done")


def test_the_log_of_the_chosen_node_comes_line_by_line(page: Page, gate: Gate, studio: StudioServer) -> None:
    nodes = (box("l", "Learn", epochs=14, gate=gate.path), box("m", "Make"))
    seed(studio, in_rows(pipeline(*nodes, name="failing")), "failing")
    canvas = StudioPage(page, studio).open("failing")
    canvas.select("l")
    page.get_by_role("tab", name="Log").click()
    canvas.run()
    lines = canvas.log.get_by_text(re.compile(r"epoch \d+ is over"))
    for epochs in (1, 2, 7):
        gate.let(epochs)
        expect(lines).to_have_count(epochs)
        canvas.expect_state("l", "running")
    canvas.select("m")
    expect(lines).to_have_count(0)
    expect(canvas.log).to_contain_text("wrote made")
    canvas.select("l")
    gate.open()
    canvas.expect_run("Done")
    expect(lines).to_have_count(14)
    assert [re.findall(r"epoch (\d+)", line)[0] for line in lines.all_inner_texts()] == [str(i) for i in range(1, 15)]


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's
def test_a_run_leads_to_its_page_in_mlflow(
    page: Page, runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, studio: StudioServer
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("VOXELFLOW_TRACKING", "")
    database = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    good = runner.start(GOOD)
    eventually(lambda: run_link(studio.workspace, good).get("sent"), "nothing was sent", within_s=120)
    pages = RunsPage(page).open(good)
    pages.shows("good one", "done")
    # Another MLflow than the app's own, which nobody here shows.
    pages.button("MLflow").click()
    shown = page.get_by_test_id("stPopoverBody")
    link = run_link(studio.workspace, good)
    expect(shown).to_contain_text(link["run_id"])
    expect(shown).to_contain_text(f"mlflow ui --backend-store-uri {database}")
    tracked = MlflowClient(database).get_run(link["run_id"])
    assert tracked.data.tags["mlflow.runName"].startswith("good one")


def test_the_history_sums_what_runs_have_cost(page: Page, runner: Runner, studio: StudioServer, tmp_path: Path) -> None:
    """By month and pipeline, of the runs that match; without a price no cost is shown."""
    pages = RunsPage(page)
    runner.run(GOOD)
    pages.history().expect_rows("good one")
    expect(page.get_by_text("Cost by month and pipeline")).to_have_count(0)

    (studio.workspace.root / "machines.csv").write_text("name,price_per_hour,currency\nours,3600,EUR\n")
    (studio.workspace.root / "profiles.toml").write_text('[paid]\nmachine = "ours"\n')
    paid = find_profile("paid", studio.workspace)

    def run(document: Pipeline) -> Run:
        run_id, _ = launch.start(
            document, runner.catalog, runner.workspace, runner.store, profile=paid, choice=Choice(fresh=True)
        )
        return list(launch.ended(runner.workspace, runner.store, run_id))[-1]

    ended = [run(GOOD), run(GOOD), run(failing(tmp_path / "marker"))]
    cost = [each.cost for each in ended]
    assert all(cost)
    pages.history().expect_rows("bad one", "good one", "good one", "good one")
    page.get_by_text("Cost by month and pipeline").click()
    sums = page.get_by_label("Cost by month and pipeline")
    rows = sums.locator("tbody tr")
    expect(rows).to_have_count(2)
    row = rows.filter(has_text="good one")
    expect(row.locator("td").nth(0)).to_have_text(time.strftime("%Y-%m", time.localtime(ended[0].started)))
    expect(row.locator("td").nth(2)).to_have_text("2")
    expect(row.locator("td").nth(4)).to_have_text(money((cost[0] or 0) + (cost[1] or 0), "EUR"))
    expect(row.locator("td").nth(5)).to_have_text(re.compile(r"[\d.]+ EUR"))
    # The sums are those of the runs that match.
    page.get_by_role("searchbox", name="Search").fill("bad")
    pages.expect_rows("bad one")
    expect(rows).to_have_count(1)

    pages.open(ended[0].run_id).shows("good one", "done")
    text = f"{money(cost[0] or 0, 'EUR')} at 3,600 EUR an hour, of which"
    expect(page.get_by_text(text)).to_be_visible()


def test_a_run_that_ends_says_what_it_came_to_and_leads_there(page: Page, gate: Gate, studio: StudioServer) -> None:
    """In the editor a panel that takes no focus; on the run's page the figures, what was made, and what changed."""

    def scored(auc: float) -> Pipeline:
        return in_rows(pipeline(box("l", "Scored", auc=auc, gate=gate.path), box("m", "Make"), name="scored"))

    studio.install_probes("scored_nodes")
    seed(studio, scored(0.75), "scored")
    canvas = StudioPage(page, studio).open("scored")
    gate.open()
    canvas.run()
    canvas.expect_run("Done")
    panel = page.get_by_role("complementary", name="Result of the run")
    expect(panel).to_contain_text("Validation AUC")
    expect(panel).to_contain_text("0.75")
    expect(panel).not_to_contain_text("was")
    # On the card the figure that says most is large and comes first, and none that is seen is cut.
    large = canvas.card("l").locator(".card-figure")
    expect(large).to_have_text("0.75Validation AUC")
    sizes = [
        large.locator(part).evaluate("part => parseFloat(getComputedStyle(part).fontSize)")
        for part in ("strong", "span")
    ]
    assert sizes[0] > 1.5 * sizes[1]
    figures = canvas.card("l").locator(".card-figures > span")
    expect(figures).to_have_text(["Loss 0.5", "0 parameters"])  # not the large one once more
    assert figures.evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)
    page.reload()
    canvas.expect_run("Done")
    expect(panel).to_have_count(0)  # that it has ended is no news now

    canvas.select("l")
    canvas.field("Auc").fill("0.5")
    canvas.field("Auc").press("Enter")
    title = canvas.field("Auc")
    canvas.run()
    title.focus()
    canvas.expect_run("Done")
    expect(panel).to_contain_text("worse, was 0.75")
    expect(title).to_be_focused()
    panel.get_by_role("link", name="See results").click()

    tiles = page.locator(".vf-tiles")
    expect(tiles).to_contain_text("0.5")
    expect(tiles).to_contain_text("worse, was 0.75")
    changes = page.get_by_role("table", name="Changes").get_by_role("row")
    expect(changes.filter(has_text="auc")).to_contain_text("0.75")
    # The editor's own panels show what was made.
    expect(page.get_by_role("tablist", name="What to look at")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_test_id("stDownloadButton").first.get_by_role("button").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    # The picture of the run is there, and larger when asked for.
    picture = page.get_by_test_id("stImage").locator("img").first
    eventually(lambda: picture.evaluate("image => image.complete && image.naturalWidth") == 8)
    height = "image => image.getBoundingClientRect().height"
    assert picture.evaluate(height) < 0.5 * SIZE["height"]
    picture.hover()
    page.get_by_role("button", name="Fullscreen: Scored: Curves").click()
    eventually(lambda: picture.evaluate(height) > 0.5 * SIZE["height"])
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Open model").click()
    expect(page.get_by_role("dialog")).to_contain_text("voxelflow predict")
    # All of its files in one go.
    address = page.get_by_role("dialog").get_by_role("link", name="Download all").get_attribute("href")
    with zipfile.ZipFile(io.BytesIO(page.request.get(f"/{address}").body())) as files:
        assert {"history.json", "model.json"} <= {Path(name).name for name in files.namelist()}


def test_a_model_is_registered_from_its_runs_overview(
    page: Page, runner: Runner, studio: StudioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way, with MLflow itself: the run that registers, the version in the registry, the links to both."""
    studio.install_probes("registered_nodes")
    monkeypatch.setenv("VOXELFLOW_TRACKING", "")
    made = pipeline(box("m", "Registrable", auc=0.75), name="registrable")
    trained, _ = LocalRunner(build_catalog((), studio.workspace), studio.workspace, runner.store).run(made)
    eventually(lambda: run_link(studio.workspace, trained.run_id).get("sent"), "nothing was sent", within_s=120)
    pages = RunsPage(page).open(trained.run_id)
    pages.shows("registrable", "done")
    in_mlflow = page.get_by_role("link", name="Open in MLflow")
    expect(in_mlflow).to_have_attribute("href", f"voxelflow/mlflow/run/{trained.run_id}")
    pages.button("Register").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name in the registry").fill("small brains")
    dialog.get_by_role("button", name="Register", exact=True).click()
    pages.shows("registrable: register", "done")
    assert pages.run_id != trained.run_id
    states = {node: task.state for node, task in runner.tasks(pages.run_id).items()}
    assert states == {"m": "cached", "register": "done"}
    link = page.get_by_role("link", name="small brains, version 1")
    assert link.get_attribute("href") == "voxelflow/mlflow/model/small%20brains/1"
    with sqlite3.connect(studio.workspace.mlflow_database) as registry:
        versions = registry.execute("select name, version from model_versions").fetchall()
        aliases = registry.execute("select name, alias, version from registered_model_aliases").fetchall()
    assert (versions, aliases) == ([("small brains", 1)], [("small brains", "champion", 1)])
