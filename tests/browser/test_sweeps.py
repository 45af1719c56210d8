"""A sweep in the app: started in the run dialog, ranked on the page Runs, its trials put side by side."""

from __future__ import annotations

import re

from browser import settled
from building import box, pipeline
from canvas_page import eventually, seed
from gated_nodes import Gate
from page_looks import findings
from playwright.sync_api import Page, expect
from runs_page import RunsPage
from studio import StudioServer
from studio_page import StudioPage, in_rows

from engine.limit import Limit
from engine.store.runs import RunStore


def test_a_sweep_from_the_dialog_to_the_comparison_of_its_trials(page: Page, studio: StudioServer, gate: Gate) -> None:
    gate.open()
    learnt = pipeline(box("learn", "Learn", text="${words}", gate=gate.path), name="learnt", words="w")
    canvas = StudioPage(page, studio).open(seed(studio, in_rows(learnt)))
    canvas.run_bar.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    canvas.dialog.get_by_role("checkbox", name="Try several values").check()
    start = canvas.dialog.get_by_role("button", name="Run the sweep")
    expect(start).to_be_disabled()
    canvas.dialog.get_by_role("combobox", name="Parameter 1").select_option("learn.rate")
    canvas.dialog.get_by_role("textbox", name="Values 1").fill("0.1, 0.9, 0.5")
    canvas.dialog.get_by_role("button", name="Add a parameter").click()
    canvas.dialog.get_by_role("combobox", name="Parameter 2").select_option("words")
    canvas.dialog.get_by_role("textbox", name="Values 2").fill("a,b,c")
    canvas.dialog.get_by_label("Trials at a time").fill("2")
    limit = canvas.dialog.get_by_role("region", name="Limit of this sweep")
    limit.get_by_label("Stop after").fill("soon")
    expect(start).to_be_disabled()
    limit.get_by_label("Stop after").fill("3h")
    expect(start).to_be_enabled()
    outlook = canvas.dialog.get_by_role("region", name="What the sweep will run")
    expect(outlook.get_by_role("status")).to_have_text("9 runs.")
    expect(outlook.get_by_role("listitem").filter(has_text="in each run")).to_have_count(1)
    expect(canvas.dialog.get_by_test_id("sweep-takes")).to_have_text(re.compile(r"^9 runs: unknown, without"))
    assert findings(page) == []
    start.click()
    expect(canvas.notification("A sweep of 9 trials is at work")).to_be_visible()

    store = RunStore(studio.workspace)
    eventually(lambda: [s for s in store.sweeps.newest() if s.state == "done"], "the sweep is not done")
    (sweep,) = store.sweeps.newest()
    assert sweep.limit == Limit(seconds=10_800)
    assert sorted(t.score or 0 for t in store.sweeps.trials(sweep.sweep_id))[-1] == 0.675
    store.close()
    # The same again, and one value more: three runs have work, whose time is known now.
    canvas.run_bar.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    canvas.dialog.get_by_role("checkbox", name="Try several values").check()
    canvas.dialog.get_by_role("combobox", name="Parameter 1").select_option("learn.rate")
    canvas.dialog.get_by_role("textbox", name="Values 1").fill("0.1, 0.9, 0.5, 0.7")
    canvas.dialog.get_by_role("button", name="Add a parameter").click()
    canvas.dialog.get_by_role("combobox", name="Parameter 2").select_option("words")
    canvas.dialog.get_by_role("textbox", name="Values 2").fill("a,b,c")
    expect(outlook.get_by_role("status")).to_have_text("12 runs.")
    expect(outlook.get_by_role("listitem").first).to_contain_text("in 3 of the runs")
    estimate = outlook.get_by_test_id("sweep-estimate")
    expect(estimate).to_have_text(re.compile(r"^Time[\d.]+ .* to .*Costunknown, as "))
    canvas.dialog.get_by_role("textbox", name="Values 2").fill("a,a")
    canvas.dialog.get_by_role("textbox", name="Values 1").fill("0.1,0.1")
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("Nothing varies in this sweep")
    canvas.dialog.get_by_role("button", name="Cancel").click()
    runs = RunsPage(page).history()
    name = sweep.sweep_id.rpartition("-")[2]
    title = page.get_by_text(f"Sweep {name} of learnt: done, 9 of 9 trials, best accuracy 0.675")
    expect(title).to_be_visible()
    expect(page.get_by_role("table", name=f"Trials of sweep {name}")).to_be_hidden()
    title.click()
    expect(page.get_by_text(re.compile(r"^at work for [\d.]+ s; limit 3 h 00 min for all trials"))).to_be_visible()
    trials = page.get_by_role("table", name=f"Trials of sweep {name}")
    expect(trials.get_by_role("row")).to_have_count(10)
    expect(trials.get_by_role("row").nth(1)).to_contain_text("0.9")
    assert findings(page) == []
    runs.button("Compare trials").click()
    expect(page.get_by_role("heading", name="Parameters and figures together")).to_be_visible()
    expect(page.get_by_role("table", name="Runs").get_by_role("columnheader")).to_have_count(10)
    settled(page)
