"""The inspector: a form out of the declaration, checked as one types, and what the node made."""

from __future__ import annotations

import re
from pathlib import Path

from building import box, pipeline
from canvas_page import CanvasPage, eventually, seed
from page_looks import findings
from playwright.sync_api import Locator, Page, expect
from sent_messages import SentMessages
from studio import StudioServer
from volumes import write_volumes

SHARED_STUDIO = True


def test_the_form_checks_what_is_typed(page: Page, studio: StudioServer) -> None:
    made = pipeline(box("volumes", "SyntheticVolumes"), box("pack", "NumpyToParquet"), wires="volumes.out>pack.files")
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    canvas.select("volumes")

    # A number out of its range is refused under the field, and kept as it was typed.
    count = canvas.field("Count")
    expect(count).to_have_value("2000")
    expect(canvas.inspector.locator('.field[data-field="count"]')).to_contain_text("volumes")
    count.fill("0")
    expect(canvas.notes("count")).to_have_text("Must be at least 1 volume.")
    expect(count).to_have_attribute("aria-invalid", "true")
    expect(canvas.card("volumes").get_by_role("img", name="1 error")).to_be_visible()
    expect(canvas.card("volumes")).to_contain_text("Not ready")
    expect(canvas.button("Run")).to_have_attribute("aria-disabled", "true")
    count.fill("many")
    expect(canvas.notes("count")).to_have_text("Must be a whole number.")
    expect(count).to_have_value("many")
    eventually(lambda: canvas.params("volumes") == {"count": "many"})

    # The list of problems leads to the field, from wherever one is.
    canvas.deselect()
    page.get_by_role("tab", name=re.compile("^Problems")).click()
    problems = page.get_by_role("list", name="Problems")
    expect(problems.get_by_role("button")).to_have_count(1)
    problems.get_by_role("button", name=re.compile("SyntheticVolumes · Count")).click()
    expect(count).to_be_focused()
    assert canvas.selected() == ["volumes"]
    count.fill("64")
    expect(canvas.notes("count")).to_have_count(0)
    expect(page.get_by_text("No problems found.")).to_be_visible()
    expect(canvas.card("volumes").get_by_role("img", name="1 error")).to_have_count(0)
    page.get_by_role("button", name="Hide the dock").click()

    # Arrow keys step; undo in the field takes back what was typed, letter or not.
    count.press("ArrowUp")
    expect(count).to_have_value("65")
    eventually(lambda: canvas.params("volumes") == {"count": 65})
    canvas.inspector.get_by_role("button", name="Reset Count").click()
    eventually(lambda: canvas.params("volumes") == {})
    count.click()
    page.keyboard.type("12")
    eventually(lambda: canvas.params("volumes") == {"count": 12})
    page.keyboard.press("Control+z")
    expect(count).to_have_value("2000")
    eventually(lambda: canvas.params("volumes") == {})

    # A list, a choice of many, a choice of few, an optional path, a switch, a number with limits shown.
    canvas.field("Shape").fill("6, 6, 4")
    eventually(lambda: canvas.params("volumes").get("shape") == [6, 6, 4])
    canvas.field("Shape").fill("6, six")
    expect(canvas.notes("shape").first).to_have_text("Must be a whole number.")
    canvas.field("Shape").fill("")
    eventually(lambda: canvas.params("volumes") == {})
    canvas.field("Dtype").select_option("float16")
    eventually(lambda: canvas.params("volumes") == {"dtype": "float16"})
    expect(canvas.inspector.locator('.field[data-field="noise"]')).to_contain_text("0 to 10")
    canvas.select("pack")
    canvas.inspector.get_by_role("radiogroup", name="Compression").get_by_role("radio", name="zstd").check()
    eventually(lambda: canvas.params("pack") == {"compression": "zstd"})
    expect(canvas.field("Label file")).to_have_attribute("placeholder", "none")
    canvas.add("OptimizeDelta")
    vacuum = canvas.inspector.get_by_role("switch", name="Vacuum", exact=True)
    expect(vacuum).not_to_be_checked()
    vacuum.click()
    expect(vacuum).to_be_checked()
    eventually(lambda: canvas.params("optimize_delta") == {"vacuum": True})


def test_advanced_parameters_come_into_sight_as_they_are_opened(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(box("train", "TrainResNet3D"))))
    canvas.select("train")
    advanced = canvas.inspector.locator("details.fold")
    advanced.get_by_text("Advanced").click()
    expect(advanced.locator(".field").first).to_be_in_viewport(ratio=1)


def test_a_field_type_of_ones_own_is_drawn_and_checked(page: Page, studio: StudioServer) -> None:
    """Its declaration in a Python file of the person's is all there is of it (tests/support/own_field_types.py)."""
    studio.install_probes("own_field_types")
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(box("since", "SinceThen"))))
    canvas.select("since")
    day = canvas.field("Day")
    expect(day).to_have_value("2026-01-31")
    expect(canvas.inspector.locator('.field[data-field="day"]')).to_contain_text("A date like 2026-01-31.")
    day.fill("31 Jan")
    expect(canvas.notes("day")).to_have_text("Must be a date like 2026-01-31.")
    expect(canvas.card("since").get_by_role("img", name="1 error")).to_be_visible()
    day.fill("2026-02-28")
    expect(canvas.notes("day")).to_have_count(0)
    eventually(lambda: canvas.params("since") == {"day": "2026-02-28"})
    canvas.field("Share").press("ArrowUp")
    eventually(lambda: canvas.params("since") == {"day": "2026-02-28", "share": 25})
    expect(canvas.card("since").get_by_role("img", name="1 error")).to_have_count(0)


def test_a_problem_stands_at_its_port_and_one_is_led_there(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(box("make", "Make"), box("join", "Join"))))
    first = canvas.port("join", "first", "input")
    expect(first).to_have_accessible_name(re.compile("first of Join.*, has a problem$"))
    expect(canvas.port("join", "second", "input")).not_to_have_accessible_name(re.compile("problem"))
    first.hover()
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text("Report")
    expect(tooltip.get_by_role("listitem")).to_have_count(1)
    page.get_by_role("tab", name=re.compile("^Problems")).click()
    page.get_by_role("list", name="Problems").get_by_role("button", name=re.compile("Join · first")).click()
    expect(page.locator('.react-flow__node.selected[data-id="join"]')).to_have_count(1)
    canvas.draw("make.out", "join.first")
    expect(page.get_by_text("No problems found.")).to_be_visible()
    expect(first).not_to_have_accessible_name(re.compile("problem"))


def test_a_folder_is_found_in_the_file_browser(page: Page, studio: StudioServer) -> None:
    write_volumes(studio.home / "scans" / "2024", 5)
    (studio.home / "outside").symlink_to("/etc")
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(box("source", "VolumeFolder"))))
    canvas.select("source")
    expect(canvas.notes("folder")).to_have_text("Needs a value.")
    canvas.inspector.get_by_role("button", name="Browse for Folder").click()
    browser = page.get_by_role("dialog", name="Choose a folder: folder")
    rows = browser.get_by_role("list", name="Files and folders").get_by_role("button")

    # It begins with the folders that the workspace may use; where a link leads out of them, it says so.
    expect(rows).to_have_text([str(studio.home), str(studio.workspace.root)])
    rows.first.click()
    rows.filter(has_text="outside").click()
    expect(browser.get_by_role("note")).to_contain_text("lets the pipelines of this workspace read and write")
    expect(browser.get_by_role("button", name="Allow and choose")).to_be_visible()
    browser.get_by_role("navigation", name="Folder").get_by_role("button", name="Folders").click()
    expect(rows).to_have_count(2)
    rows.first.click()

    rows.filter(has_text="scans").click()
    rows.filter(has_text="2024").click()
    expect(rows.filter(has_text="00000.npy")).to_be_disabled()
    browser.get_by_role("button", name="Choose this folder").click()
    expect(browser).to_have_count(0)
    folder = str(studio.home / "scans" / "2024")
    expect(canvas.field("Folder")).to_have_value(folder)
    eventually(lambda: canvas.params("source") == {"folder": folder})
    expect(canvas.notes("folder")).to_have_count(0)
    expect(canvas.card("source").get_by_role("img", name=re.compile("error"))).to_have_count(0)

    # A path elsewhere may be typed; an error says that it may not be used.
    canvas.field("Folder").fill("/etc")
    expect(canvas.notes("folder").first).to_be_visible()


def test_the_folder_of_a_pipelines_parameter_is_found_in_the_file_browser(page: Page, studio: StudioServer) -> None:
    write_volumes(studio.home / "scans", 5)
    sent = SentMessages(page)
    nodes = pipeline(box("source", "VolumeFolder", folder="${data}"), name="of-data", data=None)
    canvas = CanvasPage(page, studio).open(seed(studio, nodes))
    browser = page.get_by_role("dialog", name="Choose a folder: data")

    def chosen(place: Locator, folder: Path) -> None:
        browser.get_by_role("button", name="Choose this folder").click()
        # The form that one came from is there again.
        expect(place.get_by_label("Value of data", exact=True)).to_have_value(str(folder))
        eventually(lambda: canvas.doc["parameters"]["data"]["value"] == str(folder))

    canvas.inspector.get_by_role("button", name="Browse for data").click()
    browser.get_by_role("list", name="Files and folders").get_by_role("button").first.click()
    chosen(canvas.inspector, studio.home)

    canvas.button("Pipeline parameters: 1").click()
    dialog = page.get_by_role("dialog", name="Pipeline parameters")
    dialog.get_by_role("button", name="Browse for data").click()
    # What was clicked is on its way for a while: until then nothing can be chosen.
    scans = browser.get_by_role("button", name="scans")
    expect(scans).to_be_visible()  # else the question for the list would be kept too
    sent.keep()
    scans.click()
    choose = browser.get_by_role("button", name="Choose this folder")
    expect(choose).to_be_disabled()
    sent.let_go()
    expect(choose).to_be_enabled()
    chosen(dialog, studio.home / "scans")


def test_paths_for_one_run_or_a_sweep_are_found_in_the_file_browser(page: Page, studio: StudioServer) -> None:
    for name in ("scans", "more, of 2024"):
        write_volumes(studio.home / name, 5)
    nodes = pipeline(box("source", "VolumeFolder", folder="${data}"), name="of-any-data", data=str(studio.home))
    canvas = CanvasPage(page, studio).open(seed(studio, nodes))
    page.get_by_role("group", name="Run", exact=True).get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    run = page.get_by_role("dialog", name="Run of-any-data")
    browser = page.get_by_role("dialog", name=re.compile("^Choose a folder"))

    def choose(folder: str) -> None:
        browser.get_by_role("list", name="Files and folders").get_by_role("button", name=folder).click()
        expect(browser.get_by_label("Path")).to_have_value(str(studio.home / folder))
        browser.get_by_role("button", name="Choose this folder").click()
        expect(browser).to_have_count(0)

    # For this run: the pipeline keeps its own value. The dialog stays below the browser, and has the focus again.
    run.get_by_label("Ignore cached results").check()
    browse = run.get_by_role("button", name="Browse for data")
    browse.click()
    expect(browser.get_by_role("list", name="Files and folders")).to_contain_text("scans")
    assert findings(page) == []
    choose("scans")
    expect(browse).to_be_focused()
    expect(run.get_by_label("data", exact=True)).to_have_value(str(studio.home / "scans"))
    expect(run.get_by_label("Ignore cached results")).to_be_checked()
    assert canvas.doc["parameters"]["data"]["value"] == str(studio.home)

    # In a sweep it is one more value; Escape leaves the browser and not what lies below it.
    run.get_by_role("checkbox", name="Try several values").check()
    run.get_by_role("combobox", name="Parameter 1").select_option("source.format")
    expect(run.get_by_role("button", name=re.compile("^Browse"))).to_have_count(0)
    run.get_by_role("combobox", name="Parameter 1").select_option("data")
    browse = run.get_by_role("button", name="Browse for a value 1")
    browse.click()
    expect(browser).to_be_visible()
    page.keyboard.press("Escape")
    expect(browser).to_have_count(0)
    values = run.get_by_role("textbox", name="Values 1")
    values.fill(str(studio.home))
    browse.click()
    choose("scans")
    expect(values).to_have_value(f"{studio.home}, {studio.home}/scans")
    browse.click()
    browser.get_by_role("navigation", name="Folder").get_by_role("button", name=studio.home.name).click()
    choose("more, of 2024")
    expect(values).to_have_value(f'{studio.home}, {studio.home}/scans, "{studio.home}/more, of 2024"')


def test_a_field_takes_a_parameter_of_the_pipeline(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open(
        seed(studio, pipeline(box("volumes", "SyntheticVolumes", count=64), box("more", "SyntheticVolumes")))
    )
    canvas.select("volumes")
    canvas.inspector.get_by_role("button", name="Bind Count to a pipeline parameter").click()
    page.get_by_role("menuitem", name="New parameter with this value").click()
    chip = canvas.inspector.get_by_role("button", name=re.compile("^Count takes the pipeline.s parameter count: 64$"))
    expect(chip).to_be_visible()
    eventually(lambda: canvas.params("volumes") == {"count": "${count}"})
    assert canvas.doc["parameters"]["count"]["value"] == 64

    # Another node takes the same one, by the menu; the dialog changes it for both, checked as the fields are.
    canvas.select("more")
    canvas.inspector.get_by_role("button", name="Bind Count to a pipeline parameter").click()
    page.get_by_role("menuitem", name="count").click()
    eventually(lambda: canvas.params("more") == {"count": "${count}"})
    canvas.button("Pipeline parameters: 1").click()
    dialog = page.get_by_role("dialog", name="Pipeline parameters")
    value = dialog.get_by_label("Value of count")
    value.fill("0")
    expect(dialog.get_by_role("alert").filter(has_text="Must be at least 1 volume.")).to_be_visible()
    value.fill("128")
    expect(dialog.get_by_role("button", name="Used in 2 fields")).to_be_visible()
    canvas.keys("Escape")
    expect(dialog).to_have_count(0)
    eventually(lambda: canvas.doc["parameters"]["count"]["value"] == 128)

    # Freed again it keeps the value.
    canvas.inspector.get_by_role("button", name="Unbind Count").click()
    expect(canvas.field("Count")).to_have_value("128")
    eventually(lambda: canvas.params("more") == {"count": 128})
    assert canvas.params("volumes") == {"count": "${count}"}


def test_the_inspector_shows_what_a_node_is_and_made(page: Page, studio: StudioServer) -> None:
    made = pipeline(
        box("volumes", "SyntheticVolumes", count=64, shape=[6, 6, 4, 2]), box("make", "Make", step_s=0.0),
    )  # fmt: skip
    canvas = CanvasPage(page, studio).open(seed(studio, made))

    # A node type of one's own, out of a Python file: its form, its ports, its words.
    canvas.select("make")
    expect(canvas.inspector).to_contain_text("my_nodes/probes.py")
    steps = canvas.inspector.locator('.field[data-field="steps"]')
    expect(steps).to_contain_text("steps")
    expect(steps).to_contain_text("How many steps it takes.")
    canvas.field("Steps").fill("10001")
    expect(canvas.notes("steps")).to_have_text("Must be at most 10,000 steps.")
    canvas.field("Steps").fill("2")
    canvas.inspector.get_by_role("tab", name="About").click()
    expect(canvas.inspector).to_contain_text("Write a text, slowly if asked to.")

    canvas.select("volumes")
    about = canvas.inspector.get_by_role("tabpanel", name="About")
    expect(about).to_contain_text("VolumeFiles")
    expect(about).to_contain_text("built-in")
    canvas.inspector.get_by_role("tab", name="Result").click()
    result = canvas.inspector.get_by_role("tabpanel", name="Result")
    expect(result.get_by_role("region", name="In the next run")).to_contain_text("Never ran before.")
    expect(result).to_contain_text("No result of it is kept.")

    canvas.button("Run").click()
    expect(canvas.card("volumes")).to_have_attribute("data-state", "done")
    expect(canvas.button("Run")).to_be_visible()
    in_this_run = result.get_by_role("region", name="In this run")
    expect(in_this_run).to_contain_text("Done")
    expect(in_this_run).to_contain_text(re.compile("64 volumes, 8. kB"))
    expect(in_this_run).not_to_contain_text("Never ran before.")
    expect(result.get_by_role("region", name="In the next run")).to_contain_text("Up to date")

    # Why it will run again.
    canvas.inspector.get_by_role("tab", name="Parameters").click()
    canvas.field("Seed").fill("7")
    canvas.inspector.get_by_role("tab", name="Result").click()
    again = result.get_by_role("region", name="In the next run")
    expect(again).to_contain_text("Will run")
    expect(again).to_contain_text("seed")
    expect(canvas.card("volumes")).to_contain_text("Will run")
    expect(canvas.card("volumes")).to_contain_text("seed")
