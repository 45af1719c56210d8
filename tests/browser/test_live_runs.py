"""A run while it is at work: the canvas shows how it goes and is never disturbed by it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from browser import Troubles
from building import box, pipeline
from canvas_page import CanvasPage, eventually, middle, seed
from canvas_page import box as place_of
from gated_nodes import Gate
from playwright.sync_api import Page, expect
from runs_page import RunsPage
from studio import StudioServer
from studio_page import AWAY, StudioPage, in_rows
from waiting import WAIT_S

from engine.declare.events import RunState
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.text import duration


@pytest.fixture
def store(studio: StudioServer) -> Iterator[RunStore]:
    out = RunStore(studio.workspace)
    yield out
    out.close()


def state_of(store: RunStore, run_id: str) -> RunState:
    return store.run(run_id).state


def test_a_run_from_the_first_click_to_its_repetition(
    page: Page, studio: StudioServer, store: RunStore, gate: Gate
) -> None:
    seed(
        studio,
        in_rows(
            pipeline(
                box("slow", "Learn", text="${words}", epochs=30, gate=gate.path),
                box("after", "Join"),
                box("bad", "Fail", how="told"),
                wires="slow.out>after.first after.out>bad.first",
                name="live",
                words="some text",
            )
        ),
        "live",
    )
    canvas = StudioPage(page, studio).open("live")
    canvas.expect_state("slow", "stale")
    canvas.select("slow")
    page.get_by_role("tab", name="Log").click()
    canvas.run()
    canvas.expect_state("after", "queued")
    canvas.expect_state("slow", "running")
    expect(canvas.run_bar.get_by_test_id("run-tasks")).to_have_text("0/3 nodes")
    foot = canvas.card("slow").locator(".card-foot")
    gate.let(5)
    expect(foot).to_contain_text("5 / 30 epochs")
    expect(foot).to_contain_text(re.compile(r"\d.* left"))
    expect(foot).to_contain_text(re.compile(r"[\d.]+/s"))
    bar = canvas.card("slow").get_by_role("progressbar")
    first = int(bar.get_attribute("aria-valuenow") or 0)
    gate.let(20)
    expect(foot).to_contain_text("20 / 30 epochs")
    assert int(bar.get_attribute("aria-valuenow") or 0) > first, "the bar stands still"

    gate.open()
    canvas.expect_state("slow", "done")
    task = next(t for t in store.tasks(canvas.run_id) if t.node == "slow")
    assert task.started
    assert task.ended
    took = duration(task.ended - task.started)
    expect(foot).to_contain_text(re.compile(rf"Done\s*{re.escape(took)}"))
    expect(canvas.log).to_contain_text("wrote some text")
    canvas.expect_run("Failed")
    canvas.expect_state("bad", "failed")
    expect(canvas.card("bad")).to_contain_text("the probe was told to fail")
    canvas.select("bad")
    failure = page.get_by_role("tabpanel", name="Log").get_by_role("alert")
    expect(failure).to_contain_text("The probe was told to fail.")
    expect(failure).to_contain_text("Tell it otherwise.")
    failure.get_by_role("button", name="Go to field").click()
    expect(canvas.field("How")).to_be_focused()

    canvas.run_as("Run to selected node")
    canvas.expect_run("Failed")
    canvas.expect_state("slow", "cached")
    canvas.expect_state("after", "cached")
    expect(canvas.card("slow").locator(".card-foot")).to_contain_text("Cached")

    canvas.select("after")
    canvas.run_as("Run to selected node")
    canvas.expect_run("Done")
    tasks = {t.node: t.state for t in store.tasks(canvas.run_id)}
    assert tasks == {"slow": "cached", "after": "cached"}

    canvas.head("after").click(button="right")
    canvas.started(page.get_by_role("menuitem", name="Run from here").click)
    canvas.expect_run("Failed")
    assert {t.node: t.state for t in store.tasks(canvas.run_id)}["bad"] == "failed"

    canvas.run_bar.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    expect(canvas.dialog.get_by_role("region", name="What will run")).to_contain_text("up to date")
    canvas.dialog.get_by_label("words").fill("other words")
    canvas.dialog.get_by_label("Up to").select_option(label="Join")
    canvas.started(lambda: canvas.answer("Run"))
    canvas.expect_state("slow", "running", "done")
    canvas.expect_run("Done")
    run = store.run(canvas.run_id)
    assert '"other words"' in run.document
    assert canvas.doc["parameters"]["words"] == {"value": "some text"}, "the values were for that run alone"
    expect(canvas.run_bar.locator(".run-older", has_text="own values")).to_have_attribute(
        "title", "Values for this run alone: words = other words"
    )
    canvas.select("slow")
    expect(canvas.log).to_contain_text("wrote other words")


def test_a_live_training_is_watched_on_its_card_in_the_dock_and_by_the_monitor(
    page: Page, studio: StudioServer, store: RunStore, gate: Gate
) -> None:
    seed(studio, pipeline(box("l", "Learn", epochs=12, gate=gate.path, phases=True), name="watched"), "watched")
    canvas = StudioPage(page, studio).open("watched")
    canvas.select("l")
    page.get_by_role("tab", name="Log").click()
    dock = page.get_by_role("tabpanel", name="Log")
    canvas.run()
    foot = canvas.card("l").locator(".card-foot")
    for place in (foot, dock):
        expect(place).to_contain_text("Measuring the input")
    line = canvas.card("l").locator(".sparkline polyline")
    bar = canvas.card("l").get_by_role("progressbar")

    def points() -> int:
        return len((line.get_attribute("points") or "").split()) if line.count() else 0

    seen = (0, 0)
    for epochs, loss in ((3, "0.5"), (6, "0.286"), (9, "0.2")):  # longer while the training goes on, and never shorter
        gate.let(epochs)
        for place in (foot, dock):
            expect(place).to_contain_text(f"Epoch {epochs + 1} of 12")
        eventually(lambda epochs=epochs: points() == epochs, "the loss does not grow")  # type: ignore[misc]
        expect(canvas.card("l").locator(".card-figure")).to_have_text(f"{loss}Loss")
        now = points(), int(bar.get_attribute("aria-valuenow") or 0)
        assert now > seen
        assert now[1] > seen[1]
        seen = now
    for place in (foot, dock):
        expect(place).to_contain_text(re.compile(r"\d.* left"))
    expect(dock).to_contain_text(re.compile(r"7[5-9]%"))

    # Edited meanwhile: the run goes on with what it began with, and says so.
    canvas.field("Rate").fill("0.25")
    page.keyboard.press("Enter")
    expect(canvas.run_bar.locator(".run-older", has_text="older version")).to_have_attribute(
        "title", re.compile("Since then: Learn changed")
    )

    run_id = canvas.run_id
    pages = RunsPage(page).open(run_id)
    monitor = pages.tab("Monitor")
    picture = monitor.get_by_role("img").first

    def moments() -> int:
        found = re.search(r"Learn: (\d+) moments", picture.get_attribute("alt") or "") if picture.count() else None
        return int(found[1]) if found else 0

    eventually(lambda: moments() >= 2, "there is no picture")
    before = moments()
    eventually(lambda: moments() > before + 1, "the picture does not grow")
    assert "Not measured: GPU" in (picture.get_attribute("alt") or "")
    gate.open()
    pages.shows("watched", "done")
    eventually(lambda: moments() > before, "the picture of a run that has ended is gone")


def test_cancel_and_resume(page: Page, studio: StudioServer, store: RunStore, gate: Gate) -> None:
    nodes = (box("quick", "Make"), box("slow", "Learn", gate=gate.path), box("both", "Join"))
    wires = "quick.out>both.first slow.out>both.second"
    seed(studio, in_rows(pipeline(*nodes, wires=wires, name="stopped")), "stopped")
    canvas = StudioPage(page, studio).open("stopped")
    canvas.run()
    canvas.expect_state("quick", "done")
    canvas.expect_state("slow", "running")
    canvas.run_bar.get_by_role("button", name="Cancel run").click()
    canvas.expect_run("Cancelled")
    canvas.expect_state("slow", "cancelled")
    run_id = canvas.run_id
    assert state_of(store, run_id) == "cancelled"
    canvas.run_bar.get_by_role("button", name="Resume").click()
    canvas.expect_state("slow", "running")
    # What was cancelled is to do again, not done.
    expect(canvas.run_bar.get_by_test_id("run-tasks")).to_have_text("1/3 nodes")
    gate.open()
    canvas.expect_run("Done")
    canvas.expect_state("both", "done")
    assert canvas.run_id == run_id
    assert store.run(run_id).attempt == 2


def test_a_status_storm_disturbs_no_hand(page: Page, studio: StudioServer) -> None:
    makers = [box(f"m{i}", "Make", text=f"t{i}", steps=400, step_s=0.02) for i in range(20)]
    rest = [box("j1", "Join"), box("j2", "Join")]
    seed(
        studio,
        in_rows(pipeline(*makers, *rest, wires="m0.out>j1.first m1.out>j2.first", name="storm"), columns=6),
        "storm",
    )
    canvas = StudioPage(page, studio).open("storm")
    canvas.select("j1")
    zoom = canvas.zoom
    canvas.run()
    eventually(lambda: page.locator(".node-card[data-state=running]").count() >= 2, "no storm")

    start = middle(canvas.head("j1"))
    end = (start[0] + 120, start[1] + 60)
    before = place_of(canvas.card("j1"))
    canvas.take(start, end)
    _storm_for(canvas, 1.5)
    during = place_of(canvas.card("j1"))
    page.mouse.up()
    _storm_for(canvas, 0.5)
    after = place_of(canvas.card("j1"))
    for shown in (during, after):
        # React Flow begins to move a card after the first pixel.
        assert shown["x"] - before["x"] == pytest.approx(120, abs=4)
        assert shown["y"] - before["y"] == pytest.approx(60, abs=4)
    assert canvas.selected() == ["j1"]

    source, target = canvas.ends("m19.out", "j1.second")
    canvas.take(source, (target[0] - 60, target[1] - 30))
    _storm_for(canvas, 1.5)
    expect(page.locator(".react-flow__connectionline, .react-flow__connection")).not_to_have_count(0)
    page.mouse.move(*target, steps=4)
    page.mouse.up()
    canvas.expect_edges("m0.out>j1.first", "m1.out>j2.first", "m19.out>j1.second")
    assert canvas.zoom == zoom
    assert canvas.selected() == ["j1"]
    expect(canvas.run_bar.get_by_role("status")).to_have_text("Running")
    canvas.run_bar.get_by_role("button", name="Cancel run").click()
    canvas.expect_run("Cancelled")


def _storm_for(canvas: CanvasPage, seconds: float) -> None:
    """Wait until the running nodes have reported progress for so long."""
    card = canvas.page.locator(".node-card[data-state=running] .card-foot").first
    seen: set[str] = set()
    wanted = seconds / 0.5
    eventually(lambda: seen.add(card.inner_text()) or len(seen) > wanted, "no progress is shown")


def test_a_run_outlives_its_tab_and_its_server(
    page: Page, open_page: Callable[[], Page], studio: StudioServer, store: RunStore, troubles: Troubles, gate: Gate
) -> None:
    nodes = (box("slow", "Learn", epochs=8, gate=gate.path), box("after", "Join"))
    seed(studio, in_rows(pipeline(*nodes, wires="slow.out>after.first", name="long")), "long")
    canvas = StudioPage(page, studio).open("long")
    canvas.run()
    canvas.expect_state("slow", "running")
    run_id = canvas.run_id
    page.close()

    other = StudioPage(open_page(), studio).open("long")
    other.expect_run("Running")
    assert other.run_id == run_id
    other.expect_state("slow", "running")

    troubles.allow(AWAY)
    studio.kill()
    assert state_of(store, run_id) == "running"
    studio.start()
    # Progress that moves on is that of the new server.
    gate.let(3)
    expect(other.card("slow").locator(".card-foot")).to_contain_text("3 / 8 epochs")
    gate.open()
    other.expect_state("after", "done")
    other.expect_run("Done")
    assert other.run_id == run_id
    assert state_of(store, run_id) == "done"


def test_a_part_is_run_where_the_chosen_profile_says(page: Page, studio: StudioServer, store: RunStore) -> None:
    (studio.workspace.root / "profiles.toml").write_text("[small]\ncores = 1\nprice_per_hour = 2.5\n")
    nodes = (box("a", "Make"), box("b", "Join"), box("c", "Join"))
    seed(studio, in_rows(pipeline(*nodes, wires="a.out>b.first b.out>c.first", name="placed")), "placed")
    canvas = StudioPage(page, studio).open("placed")
    profile = canvas.run_bar.get_by_role("combobox", name="Compute profile")
    profile.select_option("small")
    canvas.select("b")
    canvas.run_as("Run to selected node")
    canvas.expect_run("Done")
    canvas.expect_state("b", "done")
    canvas.expect_state("c", "stale")
    first = store.run(canvas.run_id)
    assert (first.profile, {t.node for t in store.tasks(first.run_id)}) == ("small", {"a", "b"})

    # The choice is the tab's, also when it is loaded again.
    page.reload()
    canvas.ready()
    expect(profile).to_have_value("small")
    canvas.select("b")
    canvas.run_as("Run from selected node")
    canvas.expect_run("Done")
    canvas.expect_state("c", "done")
    again = store.run(canvas.run_id)
    assert again.profile == "small"
    assert {t.node: t.state for t in store.tasks(again.run_id)}["c"] == "done"


def test_a_run_of_the_command_line_shows_in_the_open_page(page: Page, studio: StudioServer, gate: Gate) -> None:
    seed(studio, in_rows(pipeline(box("a", "Learn", gate=gate.path), name="shelled")), "shelled")
    canvas = StudioPage(page, studio).open("shelled")
    canvas.expect_state("a", "stale")
    file = studio.workspace.pipelines / "shelled.json"
    with subprocess.Popen(
        [*PROGRAM, "run", str(file), "--workspace", str(studio.workspace.root)],
        cwd=studio.home, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as shell:  # fmt: skip
        canvas.expect_state("a", "running")
        canvas.expect_run("Running")
        gate.open()
        assert shell.wait(WAIT_S) == 0, shell.stdout and shell.stdout.read()
    canvas.expect_run("Done")
    canvas.expect_state("a", "done")
