"""Frames and notes, nodes that take no part in runs, versions of a pipeline, its code, and folders outside."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path

from building import box, pipeline
from canvas_page import box as bounds
from canvas_page import eventually, middle, seed
from playwright.sync_api import Locator, Page, expect
from studio import StudioServer
from studio_page import StudioPage

from engine.document.pipeline import read_pipeline, write_pipeline
from engine.store.runs import RunStore, Task
from engine.workspace import data_roots

SHARED_STUDIO = True

CHAIN = pipeline(
    box("make", "Make", text="x"), box("join", "Join"), box("save", "Save"),
    wires="make.out>join.first join.out>save.first", name="chain",
)  # fmt: skip


def drawn(canvas: StudioPage, name: str) -> Locator:
    return canvas.page.get_by_test_id(f"annotation-{name}")


def annotation(canvas: StudioPage, name: str) -> dict[str, object]:
    return next((a for a in canvas.doc.get("annotations", ()) if a["id"] == name), {})


def test_a_frame_takes_its_nodes_along_and_a_note_says_something(page: Page, studio: StudioServer) -> None:
    canvas = StudioPage(page, studio).open(seed(studio, CHAIN))
    canvas.expect_state("save", "stale")
    canvas.select("make")
    canvas.head("join").click(modifiers=["Control"])
    canvas.keys("g")
    title = page.get_by_role("textbox", name="Title of the frame")
    expect(title).to_be_focused()
    title.fill("Input <b>")
    canvas.keys("Enter")
    frame = drawn(canvas, "frame")
    expect(frame).to_contain_text("Input <b>")
    eventually(lambda: annotation(canvas, "frame").get("text") == "Input <b>")
    for node in ("make", "join"):
        inner, outer = bounds(canvas.card(node)), bounds(frame)
        assert outer["x"] < inner["x"]
        assert inner["x"] + inner["width"] < outer["x"] + outer["width"]
        assert outer["y"] < inner["y"]
    # Nothing became stale: it is no part of what a run does.
    assert "mode" not in canvas.text

    # Dragged by its title, one step of undo; what lies outside stays.
    before = {n: canvas.node(n)["position"] for n in ("make", "join", "save")}
    x, y = middle(frame.locator(".frame-title"))
    canvas.drag((x, y), (x + 60, y + 70))
    eventually(lambda: canvas.node("make")["position"] != before["make"])
    after = {n: canvas.node(n)["position"] for n in before}
    moves = {n: (after[n]["x"] - before[n]["x"], after[n]["y"] - before[n]["y"]) for n in before}
    assert moves["make"] == moves["join"]
    assert min(moves["make"]) > 30
    assert moves["save"] == (0, 0)
    canvas.keys("Control+z")
    eventually(lambda: {n: canvas.node(n)["position"] for n in before} == before)

    # A press inside reaches the canvas and the wires, as if the frame were not there.
    page.mouse.click(*canvas.between("make.out", "join.first"))
    expect(page.locator(".react-flow__edge.selected")).to_have_count(1)

    # A note, its colour, a copy, and all of it taken back.
    outer = bounds(canvas.frame)
    page.mouse.move(outer["x"] + 200, outer["y"] + outer["height"] - 160)
    canvas.frame_keys("t")
    text = page.get_by_role("textbox", name="Text of the note")
    text.fill("Why?\nBecause.")
    canvas.keys("Control+Enter")
    eventually(lambda: annotation(canvas, "note").get("text") == "Why?\nBecause.")
    canvas.inspector.get_by_role("radio", name="violet").click()
    expect(drawn(canvas, "note")).to_have_attribute("data-colour", "violet")
    drawn(canvas, "note").click()
    canvas.keys("Control+c")
    page.mouse.move(outer["x"] + 520, outer["y"] + outer["height"] - 120)
    canvas.keys("Control+v")
    expect(drawn(canvas, "note_2")).to_have_text("Why?\nBecause.")
    canvas.keys("Delete")
    expect(drawn(canvas, "note_2")).to_have_count(0)
    x, y = (lambda b: (b["x"] + b["width"] - 8, b["y"] + b["height"] - 8))(bounds(drawn(canvas, "note")))
    canvas.drag((x, y), (x + 50, y + 40))
    eventually(lambda: annotation(canvas, "note").get("width", 0) != 220)

    # In the file, the export and another tab; after a reload as before.
    page.keyboard.press("Control+s")
    expect(canvas.notification("Saved")).to_be_visible()
    kept = read_pipeline(canvas.file)
    assert [(a.kind, a.text) for a in kept.annotations] == [("frame", "Input <b>"), ("note", "Why?\nBecause.")]
    assert kept.annotations[1].colour == "violet"
    assert '"annotations"' in canvas.export()
    page.reload()
    canvas.ready()
    expect(drawn(canvas, "note")).to_have_text("Why?\nBecause.")
    expect(page.locator(".overview-frame")).to_have_count(1)


def test_text_marked_elsewhere_is_not_what_a_copy_on_the_canvas_takes(page: Page, studio: StudioServer) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    canvas = StudioPage(page, studio).open(seed(studio, CHAIN))
    # A node into a wire, taken back; then text of the inspector is marked, and a card pressed.
    page.mouse.move(*canvas.between("make.out", "join.first"))
    page.get_by_role("button", name="Insert a node here").click()
    canvas.pick("Join")
    canvas.keys("Control+z")
    canvas.expect_nodes("make", "join", "save")
    canvas.inspector.get_by_role("heading").first.click(click_count=3)
    assert page.evaluate("getSelection().toString()") != ""
    canvas.select("make")
    canvas.keys("Control+c")
    eventually(lambda: "voxelflow-nodes" in page.evaluate("navigator.clipboard.readText()"))
    # Nothing on the canvas can be marked as text.
    canvas.head("join").click(click_count=3)
    assert page.evaluate("getSelection().toString()") == ""


def test_a_node_is_disabled_bypassed_and_enabled_again(page: Page, studio: StudioServer) -> None:
    canvas = StudioPage(page, studio).open(seed(studio, CHAIN))
    canvas.expect_state("save", "stale")
    canvas.select("join")
    canvas.keys("m")
    expect(canvas.card("join")).to_have_attribute("data-mode", "disabled")
    expect(canvas.card("join")).to_contain_text("Disabled")
    canvas.expect_state("save", "off")
    expect(canvas.card("save")).to_contain_text("Left out")
    expect(canvas.card("save")).to_contain_text("needs Join, which is disabled")
    expect(canvas.inspector.get_by_role("note")).to_contain_text("Disabled")
    run = canvas.run()
    canvas.expect_run("Done")
    assert [t.node for t in studio_tasks(studio, run)] == ["make"]

    # Bypassed, its input passes through; the run makes what is behind.
    canvas.select("join")
    canvas.keys("b")
    expect(canvas.card("join")).to_have_attribute("data-mode", "bypass")
    expect(canvas.card("join")).to_contain_text("Bypassed")
    canvas.expect_state("save", "stale")
    run = canvas.run()
    canvas.expect_run("Done")
    assert [t.node for t in studio_tasks(studio, run)] == ["make", "save"]
    assert canvas.node("join")["mode"] == "bypass"

    canvas.select("join")
    canvas.inspector.get_by_role("button", name="Enable").click()
    canvas.expect_state("join", "stale")
    # What cannot be bypassed says so.
    canvas.select("make")
    canvas.keys("b")
    expect(canvas.notification("This cannot be bypassed")).to_be_visible()
    canvas.keys("Control+z", "Control+z")
    expect(canvas.card("join")).to_have_attribute("data-mode", "disabled")


def studio_tasks(studio: StudioServer, run: str) -> list[Task]:
    store = RunStore(studio.workspace)
    try:
        return sorted(store.tasks(run), key=lambda t: t.position)
    finally:
        store.close()


def test_each_save_is_a_version_that_can_be_seen_and_brought_back(page: Page, studio: StudioServer) -> None:
    canvas = StudioPage(page, studio).open(seed(studio, CHAIN))
    canvas.set("make", "Text", "second")
    page.keyboard.press("Control+s")
    expect(canvas.notification("Saved")).to_be_visible()
    canvas.select("join")
    canvas.keys("Delete")
    page.keyboard.press("Control+s")
    expect(canvas.notification("Saved")).to_have_count(2)
    canvas.set("make", "Text", "not saved")

    canvas.choose("Version history…")
    rows = canvas.dialog.get_by_role("list", name="Versions").get_by_role("button")
    expect(rows).to_have_count(3)
    said = canvas.dialog.get_by_role("status")
    expect(said).to_have_text("1 node removed, 2 wires removed")
    removed = canvas.dialog.locator('[data-node="join"]')
    expect(removed).to_have_attribute("data-change", "removed")
    expect(removed).to_contain_text("removed")
    rows.nth(1).click()
    expect(said).to_have_text("1 node changed")
    expect(canvas.dialog.get_by_role("list", name="Changed values")).to_have_text("Make: text x → second")
    canvas.dialog.get_by_role("radio", name="Against the canvas now").click()
    expect(said).to_contain_text("1 node added")
    canvas.answer("Restore this version")
    canvas.expect_nodes("make", "join", "save")
    canvas.expect_edges("make.out>join.first", "join.out>save.first")
    eventually(lambda: read_pipeline(canvas.file).nodes[0].params["text"] == "second")

    # What was not saved is a version too, and undo brings it back.
    canvas.choose("Version history…")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("before a restore")
    page.keyboard.press("Escape")
    canvas.frame_keys("Control+z")
    canvas.expect_nodes("make", "save")
    eventually(lambda: canvas.params("make")["text"] == "not saved")


def test_a_pipeline_with_a_live_run_is_deleted_after_a_question(page: Page, studio: StudioServer) -> None:
    canvas = StudioPage(page, studio).open(
        seed(studio, pipeline(box("make", "Make", steps=9000, step_s=0.1), name="live"))
    )
    run = canvas.run()
    canvas.expect_run("Running")
    canvas.choose("Delete…")
    expect(canvas.dialog).to_contain_text("A run of it is live")
    expect(canvas.dialog.get_by_role("button", name="Delete, and let the run end")).to_be_visible()
    canvas.answer("Cancel the run and delete")
    expect(canvas.notification("Deleted live")).to_be_visible()
    eventually(lambda: run_state(studio, run) == "cancelled", "the run was not cancelled")


def run_state(studio: StudioServer, run: str) -> str:
    store = RunStore(studio.workspace)
    try:
        return store.run(run).state
    finally:
        store.close()


def test_the_code_of_a_pipeline_is_a_download(page: Page, studio: StudioServer, tmp_path: Path) -> None:
    document = pipeline(
        box("files", "VolumeFolder", folder=str(studio.home)), box("parquet", "NumpyToParquet"),
        wires="files.out>parquet.files", name="to export",
    )  # fmt: skip
    canvas = StudioPage(page, studio).open(seed(studio, document))
    canvas.choose("Export code…")
    with page.expect_download() as found:
        canvas.answer("Download")
    assert found.value.suggested_filename == "to-export.py"
    ast.parse(found.value.path().read_text())
    canvas.choose("Export code…")
    canvas.dialog.get_by_text("Airflow", exact=True).click()
    with page.expect_download() as found:
        canvas.answer("Download")
    assert found.value.suggested_filename == "to-export-airflow.zip"
    with zipfile.ZipFile(found.value.path()) as archive:
        assert any(name.endswith(".py") for name in archive.namelist())


def test_a_folder_outside_is_allowed_where_it_is_reported_and_where_it_is_looked_for(
    page: Page, studio: StudioServer, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "volumes").mkdir(parents=True)
        (tmp_path / name / "volumes" / "a.txt").write_text("a")
    first, second = tmp_path / "first" / "volumes", tmp_path / "second" / "volumes"
    document = pipeline(box("count", "Count", folder=str(first)), box("other", "Count"), name="outside")
    canvas = StudioPage(page, studio).open(seed(studio, document))
    canvas.select("count")
    expect(canvas.inspector.get_by_text("lies outside the folders")).to_be_visible()
    canvas.inspector.get_by_role("button", name="Allow this folder…").click()
    expect(canvas.dialog).to_contain_text(str(first))
    canvas.answer("Allow")
    expect(canvas.notification("may use")).to_be_visible()
    canvas.expect_state("count", "stale")
    expect(canvas.inspector.get_by_text("lies outside the folders")).to_have_count(0)
    assert data_roots(studio.workspace) == [str(first)]

    # The browser goes there; where the border is crossed it says so.
    canvas.select("other")
    canvas.inspector.get_by_role("button", name=re.compile("^Browse for")).first.click()
    canvas.dialog.get_by_role("button", name="Folders", exact=True).click()
    outside = canvas.dialog.get_by_role("region", name="Outside the workspace")
    outside.get_by_role("button", name="This computer").click()
    border = canvas.dialog.get_by_role("note")
    expect(border).to_contain_text("Outside the workspace")
    for part in second.parts[1:]:
        canvas.dialog.get_by_role("list", name="Files and folders").get_by_role("button", name=part, exact=True).click()
        expect(canvas.dialog.get_by_label("Path", exact=True)).to_have_value(re.compile(f"/{re.escape(part)}$"))
    canvas.answer("Allow and choose")
    eventually(lambda: data_roots(studio.workspace) == [str(first), str(second)], "the second folder is not allowed")
    canvas.expect_state("other", "stale")
    eventually(lambda: canvas.params("other").get("folder") == str(second))


def test_300_nodes_are_imported_and_seen_whole(page: Page, studio: StudioServer, tmp_path: Path) -> None:
    nodes = [box(f"n{i}", "Join" if i % 3 else "Make") for i in range(300)]
    wires = " ".join(f"n{i - 1}.out>n{i}.first" for i in range(300) if i % 3)
    large = pipeline(*nodes, wires=wires, name="large one")
    file = tmp_path / "large.json"
    write_pipeline(large, file)
    canvas = StudioPage(page, studio).open(seed(studio, CHAIN))
    page.locator("input[type=file]").set_input_files(file)
    canvas.shows("large one")
    expect(canvas.cards).to_have_count(300)
    canvas.frame_keys("f")
    frame = bounds(canvas.frame)

    def all_in_view() -> bool:
        places = page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(e => e.shadowRoot ? "
            "[...e.shadowRoot.querySelectorAll('.node-card')] : []).map(e => e.getBoundingClientRect().toJSON())"
        )
        return len(places) == 300 and all(
            frame["x"] <= p["left"] and p["right"] <= frame["x"] + frame["width"]
            and frame["y"] <= p["top"] and p["bottom"] <= frame["y"] + frame["height"]
            for p in places
        )  # fmt: skip

    eventually(all_in_view, "not all of the 300 nodes are in view")
