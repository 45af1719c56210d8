"""The page Compute: a person makes a profile, tests it, runs on it by default, and takes it away again."""

from __future__ import annotations

import re

import pytest
from building import box, pipeline
from canvas_page import box as place_of
from canvas_page import seed
from page_looks import both_themes, findings
from playwright.sync_api import Locator, Page, expect
from pretended_benches import SHAPE, bench_result
from studio import StudioServer
from studio_page import StudioPage, in_rows

from engine.bench.result import keep_result
from engine.profiles import default_profile, find_profile
from engine.spark.jars import ivy_home


def test_a_profile_is_made_tested_and_chosen_in_the_browser(page: Page, studio: StudioServer) -> None:
    page.goto("/compute")
    expect(page.get_by_role("heading", level=1, name="local")).to_be_visible()
    expect(page.locator(".vf-fact").filter(has_text="CPU")).to_be_visible()

    page.get_by_role("button", name="New profile").click()
    expect(page.get_by_role("heading", level=1, name="New profile")).to_be_visible()
    page.get_by_role("textbox", name="Name").fill("small")
    page.get_by_role("textbox", name="Name").press("Enter")
    page.get_by_role("spinbutton", name="Cores").fill("1")
    page.get_by_role("spinbutton", name="Cores").press("Enter")
    page.get_by_role("textbox", name="Memory").fill("much")
    page.get_by_role("textbox", name="Memory").press("Enter")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("'much' is no amount of memory")
    page.get_by_role("textbox", name="Memory").fill("1 GB")
    page.get_by_role("textbox", name="Memory").press("Enter")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="small")).to_be_visible()
    made = find_profile("small", studio.workspace)
    assert (made.backend, made.cores, made.memory_bytes) == ("embedded", 1, 10**9)

    button = page.get_by_role("button", name="Test", exact=True)
    beside = page.get_by_text("Looks whether everything is there.")
    middles = [(found["y"] + found["height"] / 2) for each in (button, beside) if (found := each.bounding_box())]
    assert middles[0] == pytest.approx(middles[1], abs=1.5)
    button.click()
    checks = page.get_by_role("list", name="Checks").get_by_role("listitem")
    expect(checks.filter(has_text="can be written and locked")).to_contain_text("ok")
    expect(page.get_by_role("status").filter(has_text="small can be used.")).to_be_visible()

    page.get_by_role("button", name="Use by default").click()
    expect(page.get_by_role("button", name="Use by default")).to_be_disabled()
    assert default_profile(studio.workspace) == "small"
    canvas = StudioPage(page, studio).open()
    choice = canvas.run_bar.get_by_label("Compute profile")
    expect(choice.locator("option:checked")).to_have_text(re.compile("small"))

    page.goto("/compute?profile=small")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_test_id("stPopoverBody").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="small", exact=True)).to_have_count(0)
    assert default_profile(studio.workspace) == "local"


@pytest.mark.needs(part="java")
def test_profiles_of_clusters_are_made_and_their_test_says_what_is_missing(page: Page, studio: StudioServer) -> None:
    clusters = {
        "Spark, standalone": (
            "spark://127.0.0.1:1",
            "no Spark master answers at spark://127.0.0.1:1",
            "the cluster is up",
        ),
        "YARN": ("yarn", "nothing says where the YARN cluster of profile of-yarn is", "Set HADOOP_CONF_DIR"),
        "Kubernetes": (
            "k8s://https://127.0.0.1:6443",
            "profile of-kubernetes names no image for the executors",
            "Set spark.kubernetes.container.image",
        ),
    }
    # Of the jars that are asked for, none is fetched once more.
    ivy_home({}).mkdir(exist_ok=True)
    (studio.home / ".ivy2.5.2").symlink_to(ivy_home({}))
    page.goto("/compute")
    for place, (master, missing, advice) in clusters.items():
        name = f"of-{place.split()[-1].lower()}"
        page.get_by_role("button", name="New profile").click()
        expect(page.get_by_role("heading", level=1, name="New profile")).to_be_visible()
        page.get_by_role("textbox", name="Name").fill(name)
        page.get_by_role("textbox", name="Name").press("Enter")
        page.get_by_test_id("stButtonGroup").get_by_text(place, exact=True).click()
        expect(page.get_by_role("combobox", name="Machine type of executors")).to_be_visible()
        if master != "yarn":
            where = page.get_by_role("textbox", name="Spark master")
            where.fill("here")
            where.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("Spark master: ")
            where.fill(master)
            where.press("Enter")
            expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
        made = find_profile(name, studio.workspace)
        assert (made.backend, made.master) == ("spark", master)
        page.get_by_role("button", name="Test", exact=True).click()
        checks = page.get_by_role("list", name="Checks").get_by_role("listitem")
        failed = checks.filter(has_text=missing)
        expect(failed).to_contain_text(advice)
        expect(failed).to_contain_text("missing")
    assert findings(page) == []


def test_a_profile_on_databricks_is_made_and_a_machine_found_in_the_prices(page: Page, studio: StudioServer) -> None:
    page.goto("/compute")
    page.get_by_role("button", name="New profile").click()
    expect(page.get_by_role("heading", level=1, name="New profile")).to_be_visible()
    expect(page.get_by_role("spinbutton", name="Price of a DBU")).to_have_count(0)
    page.get_by_role("textbox", name="Name").fill("bricks")
    page.get_by_role("textbox", name="Name").press("Enter")
    page.get_by_test_id("stButtonGroup").get_by_text("Databricks", exact=True).click()
    price = page.get_by_role("spinbutton", name="Price of a DBU")
    price.fill("0.3")
    price.press("Enter")
    limit = page.get_by_role("textbox", name="Stop after")
    limit.fill("soon")
    limit.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Stop after: 'soon' is no time to stop after")
    limit.fill("3h")
    limit.press("Enter")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Price of a DBU: how many units an hour takes is not known")
    expect(price).to_have_value("0.3")
    machine = page.get_by_role("combobox", name="Machine type", exact=True)
    machine.click()  # it lies above what is in sight, and so would its choices
    machine.fill("D16s_v3@eastus")
    page.get_by_role("option", name="Standard_D16s_v3@eastus", exact=True).click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("spinbutton", name="DBU an hour")).to_have_attribute("placeholder", "3")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="bricks")).to_be_visible()
    expect(page.locator(".vf-profile-line").filter(has_text="5.004 USD an hour")).to_be_visible()
    made = find_profile("bricks", studio.workspace)
    assert (made.price_per_dbu, made.dbu_per_hour, made.stop_after_s) == (0.3, 3, 3 * 3600)

    search = page.get_by_role("searchbox", name="Search prices")
    prices = page.get_by_test_id("stDataFrame").last
    for _, rules in both_themes(page):
        assert findings(page, rules) == []
    search.fill("azure t4 westeurope")
    expect(page.get_by_text(re.compile(r"^3 of \d+ prices$"))).to_be_visible()
    expect(prices.get_by_test_id("glide-cell-1-0")).to_have_text("Standard_NC4as_T4_v3")
    expect(prices.get_by_test_id("glide-cell-1-2")).to_have_text("Standard_NC16as_T4_v3")
    tick(prices, 0)
    own = page.get_by_role("spinbutton", name="Your price an hour")
    expect(own).to_have_value("0.658")
    source = page.get_by_role("link", name="github.com").first
    expect(source).to_have_attribute("href", re.compile("^https://github.com/"))
    # Beside the app, not in its place: Streamlit takes most attributes out of a page's HTML.
    expect(source).to_have_attribute("target", "_blank")
    expect(source).to_have_attribute("rel", re.compile("noopener"))
    for _, rules in both_themes(page):
        assert findings(page, rules) == []
    own.fill("0.5")
    page.get_by_role("button", name="Save price").click()
    said = page.get_by_role("status").filter(has_text="Standard_NC4as_T4_v3@westeurope costs 0.5 USD an hour")
    expect(said).to_be_visible()
    expect(prices.get_by_test_id("glide-cell-11-0")).to_have_text("own")

    page.get_by_text("Import a CSV file").click()
    box_of_file = page.locator(".st-key-prices_import").get_by_test_id("stFileUploader").locator("input")
    box_of_file.set_input_files({"name": "ours.csv", "mimeType": "text/csv", "buffer": b"name,gpu\nx,=1+1\n"})
    expect(page.get_by_role("alert")).to_contain_text("ours.csv, line 2, gpu: '=1+1' is a formula")
    rows = b"name,price_per_hour,spot_per_hour,currency\ncellar,0.3,0.9,EUR\n"
    box_of_file.set_input_files({"name": "ours.csv", "mimeType": "text/csv", "buffer": rows})
    expect(page.get_by_role("status").filter(has_text="on the spot market costs more")).to_be_visible()
    expect(page.get_by_role("table", name="Found in the file")).to_contain_text("not in the table")
    for _, rules in both_themes(page):
        assert findings(page, rules) == []
    page.get_by_role("button", name="Import anyway").click()
    expect(page.get_by_role("status").filter(has_text="1 machine added")).to_be_visible()
    search.fill("cellar")
    expect(prices.get_by_test_id("glide-cell-1-0")).to_have_text("cellar")


def tick(table: Locator, row: int) -> None:
    """Tick a row of a table that is drawn on a canvas."""
    table.scroll_into_view_if_needed()
    corner = place_of(table.locator("canvas").first)
    table.page.mouse.click(corner["x"] + 17, corner["y"] + 34 * (row + 1.5))


TRAINING = in_rows(
    pipeline(
        box("make", "SyntheticVolumes", count=4000, shape=list(SHAPE)),
        box("pack", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("learn", "TrainResNet3D", epochs=10),
        wires="make.out>pack.files pack.out>table.parquet table.out>learn.data",
        name="learning",
    )
)


def test_the_run_dialog_and_the_page_say_what_a_training_takes(page: Page, studio: StudioServer) -> None:
    # Else it is what is free now: beside other tests too little for the training, which then is not in the picture.
    (studio.workspace.root / "profiles.toml").write_text('[local]\nmemory = "16 GB"\n')
    document = seed(studio, TRAINING)

    def run_dialog() -> Locator:
        canvas = StudioPage(page, studio).open(document)
        canvas.run_bar.get_by_role("button", name="More ways to run").click()
        page.get_by_role("menuitem", name="Run with parameters…").click()
        return canvas.dialog.get_by_test_id("run-advice")

    expect(run_dialog()).to_contain_text("voxelflow bench")
    estimate = page.get_by_test_id("run-estimate")
    # Nothing is known, which is said once.
    why = "the profile local names neither a machine nor a price"
    expect(estimate).to_have_text(re.compile(f"^Time and costunknown, without an earlier run of .*, and {why}$"))
    expect(page.get_by_test_id("run-takes")).to_have_count(0)
    # A limit that cannot be kept is refused at its field.
    limit = page.get_by_role("region", name="Limit of this run")
    start = page.get_by_role("button", name="Run", exact=True).last
    limit.get_by_label("Stop at a cost").fill("20")
    expect(limit).to_contain_text("the profile has no price")
    expect(start).to_be_disabled()
    limit.get_by_label("Stop at a cost").fill("")
    limit.get_by_label("Stop after").fill("3")
    expect(limit).to_contain_text("A time such as 3h")
    limit.get_by_label("Stop after").fill("3h")
    expect(start).to_be_enabled()
    assert findings(page) == []
    page.goto("/compute")
    expect(page.get_by_role("status").filter(has_text="No machine was measured yet.")).to_be_visible()
    keep_result(studio.workspace, bench_result("desk"))
    line = run_dialog()
    expect(line).to_contain_text(re.compile(r"TrainResNet3D About \d+ .*limited by computing"))
    expect(line).to_contain_text(re.compile(r"would take .* for [\d.]+ to [\d.]+ USD"))
    # Without scrolling.
    expect(page.get_by_test_id("run-takes")).to_be_in_viewport()
    expect(page.get_by_test_id("run-takes")).to_have_text(re.compile(r"^Takes .+ or more\.$"))
    page.get_by_text("How this is known").click()
    expect(page.get_by_label("Time and cost of this run")).to_contain_text("predicted from voxelflow bench")
    expect(estimate).to_contain_text(re.compile(r"Time.* to .*Not counted.*, which have no earlier run"))
    assert findings(page) == []

    page.goto("/compute")
    expect(page.get_by_role("heading", name="Where to train")).to_be_visible()
    expect(page.locator(".vf-fact").filter(has_text="recommended")).to_be_visible()
    expect(page.locator(".vf-advice")).to_contain_text("batch_size = ")
    page.get_by_text("All figures").click()
    expect(page.get_by_role("table", name="Machines", exact=True).get_by_text("data sheet").first).to_be_visible()
    picture = page.get_by_test_id("stVegaLiteChart").and_(page.get_by_label("Time against cost"))
    for _, rules in both_themes(page):
        for words in ("recommended", "limited by computing", "waits for input", "no price"):
            expect(picture).to_contain_text(words)
        assert findings(page, rules) == []
