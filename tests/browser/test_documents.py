"""Pipelines as files: kept, named, copied, thrown away, brought in and out; and never lost."""

from __future__ import annotations

import json
from pathlib import Path

from browser import Troubles
from building import box, pipeline
from canvas_page import seed
from playwright.sync_api import Page, expect
from studio import StudioServer
from studio_page import AWAY, StudioPage, in_rows

from engine.document.pipeline import dump, load, read_pipeline

TWO_NODES = in_rows(pipeline(box("a", "Make", text="first"), box("b", "Join"), wires="a.out>b.first", name="first one"))


def file_of(studio: StudioServer, document: str) -> Path:
    return studio.workspace.pipelines / f"{document}.json"


def text_of(file: Path) -> object:
    """The parameter that these tests change, as the file has it."""
    return read_pipeline(file).nodes[0].params["text"]


def test_save_rename_duplicate_open_and_delete(page: Page, studio: StudioServer) -> None:
    seed(studio, TWO_NODES, "first-one")
    first = file_of(studio, "first-one")
    before = first.read_text()
    canvas = StudioPage(page, studio).open("first-one")
    canvas.shows("first one")
    expect(canvas.save_button).to_be_disabled()

    canvas.set("a", "Text", "changed")
    expect(canvas.unsaved).to_be_visible()
    assert first.read_text() == before, "nothing is written before it is saved"
    page.keyboard.press("Control+s")
    expect(canvas.notification("Saved")).to_be_visible()
    expect(canvas.unsaved).to_have_count(0)
    expect(canvas.save_button).to_be_disabled()
    saved = first.read_text()
    assert saved == dump(read_pipeline(first)), "the file is the command line's text, byte for byte"

    canvas.choose("Save as…")
    canvas.name_it("Second: one", "Save")
    canvas.shows("Second: one")
    second = file_of(studio, "second-one")
    assert read_pipeline(second).nodes == read_pipeline(first).nodes
    assert first.read_text() == saved

    canvas.set("a", "Text", "not saved yet")
    expect(canvas.unsaved).to_be_visible()
    canvas.choose("Rename…")
    canvas.name_it("third", "Rename")
    canvas.shows("third")
    third = file_of(studio, "third")
    expect(canvas.unsaved).to_be_visible()
    assert not second.exists()
    assert read_pipeline(third).name == "third"
    assert text_of(third) == "changed", "renaming does not save"

    canvas.choose("Duplicate")
    canvas.shows("third copy")
    copy = file_of(studio, "third-copy")
    assert text_of(copy) == "not saved yet"

    canvas.choose("Open…")
    canvas.dialog.get_by_role("searchbox", name="Search pipelines").fill("first")
    canvas.dialog.get_by_role("button", name="first one").click()
    canvas.shows("first one")
    canvas.select("a")
    expect(canvas.field("Text")).to_have_value("changed")

    canvas.choose("Open…")
    unsaved = canvas.dialog.get_by_role("region", name="Pipelines").get_by_role("button").filter(has_text="unsaved")
    expect(unsaved).to_have_count(1)
    unsaved.click()
    canvas.shows("third")
    canvas.choose("Delete…")
    expect(canvas.dialog).to_contain_text("third")
    canvas.dialog.get_by_role("button", name="Cancel").click()
    assert third.exists()
    canvas.choose("Delete…")
    canvas.dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(canvas.notification("Deleted third")).to_be_visible()
    assert not third.exists()
    kept = sorted((studio.workspace.root / "trash").iterdir())
    assert [text_of(p) for p in kept] == ["changed", "not saved yet"]
    canvas.choose("Open…")
    rows = canvas.dialog.get_by_role("region", name="Pipelines").get_by_role("button").locator(".library-name")
    expect(rows).to_have_count(2)
    assert sorted(rows.all_inner_texts()) == ["first one", "third copy"]


def test_a_new_pipeline_from_a_template_asks_for_its_name_when_saved(page: Page, studio: StudioServer) -> None:
    canvas = StudioPage(page, studio).open()
    canvas.choose("New from template…")
    canvas.dialog.get_by_role("searchbox").fill("optimi")
    template = canvas.dialog.get_by_role("region", name="Start a new one").get_by_role("button").first
    name = template.locator(".library-name").inner_text()
    template.click()
    canvas.shows(name)
    # Nothing was done with it: it has nothing to lose, and no mistake in it.
    expect(canvas.unsaved).to_have_count(0)
    expect(page.get_by_text("not saved", exact=True)).to_have_count(0)
    assert list(studio.workspace.pipelines.glob("*.json")) == []

    page.keyboard.press("Control+s")
    canvas.name_it("my own", "Save")
    canvas.shows("my own")
    expect(page.get_by_text("not saved", exact=True)).to_have_count(0)
    shipped = read_pipeline(Path(__file__).parents[2] / "pipelines" / f"{name}.json")
    assert file_of(studio, "my-own").read_text() == dump(shipped.model_copy(update={"name": "my own"}))

    canvas.choose("New pipeline")
    canvas.shows("untitled")
    expect(page.locator(".react-flow__node")).to_have_count(0)
    canvas.choose("Save as…")
    canvas.dialog.get_by_label("Name").fill("my own")
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("There is a pipeline called my own already")
    expect(canvas.dialog.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    canvas.dialog.get_by_label("Name").fill("My own")
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("gets a number")
    expect(canvas.dialog.get_by_role("button", name="Save", exact=True)).to_be_enabled()
    canvas.dialog.get_by_label("Name").fill(" ")
    expect(canvas.dialog.get_by_role("button", name="Save", exact=True)).to_be_disabled()


def test_json_is_imported_and_exported(page: Page, studio: StudioServer, tmp_path: Path) -> None:
    seed(studio, TWO_NODES, "first-one")
    before = file_of(studio, "first-one").read_text()
    canvas = StudioPage(page, studio).open("first-one")
    canvas.set("a", "Text", "only here")
    expect(canvas.unsaved).to_be_visible()
    with page.expect_download() as download:
        canvas.choose("Export JSON")
    assert download.value.suggested_filename == "first-one.json"
    exported = Path(download.value.path()).read_text()
    assert exported == before.replace('"first"', '"only here"', 1)
    assert exported == dump(load(exported))

    chooser = page.get_by_label("JSON file to import")
    for name, text, message in (
        ("broken.json", '{"name": "x", ', "is not valid JSON"),
        ("other.json", json.dumps({"name": "x", "nodes": [{"id": 1}]}), "is not a pipeline"),
        ("picture.png", "", "is no pipeline"),
    ):
        file = tmp_path / name
        file.write_text(text)
        with page.expect_file_chooser() as choosing:
            canvas.choose("Import JSON…")
        choosing.value.set_files(file)
        toast = canvas.notification(message)
        expect(toast).to_contain_text(name)
        toast.get_by_role("button", name="Dismiss").click()
        canvas.shows("first one")
        expect(canvas.unsaved).to_be_visible()

    brought = tmp_path / "brought.json"
    brought.write_text(exported)
    chooser.set_input_files(brought)
    canvas.shows("first one 2")
    canvas.select("a")
    expect(canvas.field("Text")).to_have_value("only here")
    expect(page.locator(".react-flow__edge")).to_have_count(1)


def test_unsaved_changes_survive_a_reload_a_lost_server_and_its_restart(
    page: Page, studio: StudioServer, troubles: Troubles
) -> None:
    seed(studio, TWO_NODES, "first-one")
    file = file_of(studio, "first-one")
    before = file.read_text()
    canvas = StudioPage(page, studio).open("first-one")
    canvas.set("a", "Text", "before the reload")
    page.reload()  # at once: the edit may not have left the browser yet
    canvas.ready()
    expect(canvas.unsaved).to_be_visible()
    canvas.select("a")
    expect(canvas.field("Text")).to_have_value("before the reload")

    troubles.allow(AWAY)
    studio.kill()
    canvas.field("Text").fill("while it was away")
    canvas.card("b").locator(".card-title").dblclick()
    canvas.card("b").get_by_role("textbox", name="Title").fill("named meanwhile")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Connection lost, changes are kept here")).to_be_visible()
    studio.start()
    expect(page.get_by_text("Connection lost, changes are kept here")).to_have_count(0)
    canvas.select("a")
    expect(canvas.field("Text")).to_have_value("while it was away")
    expect(canvas.card("b")).to_contain_text("named meanwhile")
    expect(canvas.unsaved).to_be_visible()
    assert file.read_text() == before

    page.close()
    again = StudioPage(page.context.new_page(), studio).open()
    again.shows("first one")
    expect(again.card("b")).to_contain_text("named meanwhile")
    again.save_button.click()
    expect(again.notification("Saved")).to_be_visible()
    saved = read_pipeline(file)
    assert saved.nodes[0].params == {"text": "while it was away"}
    assert saved.nodes[1].title == "named meanwhile"
    assert list((studio.workspace.root / "drafts").glob("[!.]*.json")) == []


def test_a_file_changed_by_someone_else_is_never_overwritten_silently(page: Page, studio: StudioServer) -> None:
    seed(studio, TWO_NODES, "first-one")
    file = file_of(studio, "first-one")
    canvas = StudioPage(page, studio).open("first-one")
    canvas.set("a", "Text", "mine")
    expect(canvas.unsaved).to_be_visible()
    theirs = file.read_text().replace('"first"', '"theirs"', 1)
    file.write_text(theirs)
    banner = page.get_by_role("status").filter(has_text="was changed on disk by someone else")
    expect(banner).to_be_visible()
    page.keyboard.press("Control+s")
    expect(canvas.dialog).to_contain_text("Someone else changed")
    canvas.dialog.get_by_role("button", name="Cancel").click()
    assert file.read_text() == theirs

    banner.get_by_role("button", name="Take theirs").click()
    canvas.dialog.get_by_role("button", name="Revert").click()
    expect(banner).to_have_count(0)
    expect(canvas.field("Text")).to_have_value("theirs")
    expect(canvas.unsaved).to_have_count(0)
    assert file.read_text() == theirs

    canvas.field("Text").fill("mine again")
    expect(canvas.unsaved).to_be_visible()
    file.write_text(theirs.replace('"theirs"', '"theirs again"'))
    expect(banner).to_be_visible()
    canvas.save_button.click()
    canvas.dialog.get_by_role("button", name="Keep mine").click()
    expect(canvas.notification("Saved")).to_be_visible()
    expect(banner).to_have_count(0)
    assert text_of(file) == "mine again"

    file.unlink()
    gone = page.get_by_role("status").filter(has_text="was deleted on disk by someone else")
    expect(gone).to_be_visible()
    expect(canvas.field("Text")).to_have_value("mine again")
    gone.get_by_role("button", name="Save again").click()
    expect(gone).to_have_count(0)
    assert text_of(file) == "mine again"
