"""Two people on one pipeline: both see both, and neither loses anything without a word."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from building import box, pipeline
from canvas_page import box as place_of
from canvas_page import eventually, middle, seed
from playwright.sync_api import Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows

SHARED_STUDIO = True

NODES = in_rows(
    pipeline(
        box("a", "Make", text="one", steps=1),
        box("b", "Join"),
        box("c", "Make", text="three"),
        wires="a.out>b.first",
        name="shared",
    )
)

STEP = 8
"""How far an arrow key moves a card."""


@pytest.fixture
def tabs(studio: StudioServer, open_page: Callable[[], Page]) -> tuple[StudioPage, StudioPage]:
    """Two people's tabs with the same pipeline."""
    document = seed(studio, NODES)
    one, two = (StudioPage(open_page(), studio).open(document) for _ in range(2))
    expect(one.toolbar).to_contain_text("1 other here")
    expect(two.toolbar).to_contain_text("1 other here")
    return one, two


def test_two_people_edit_together(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    one.select("a")
    two.select("a")
    # Both type into one node at the same time, into different fields.
    one.field("Text").press("End")
    one.field("Text").press_sequentially(" by the first")
    two.field("Steps").fill("7")
    for tab in tabs:
        expect(tab.field("Text")).to_have_value("one by the first")
        expect(tab.field("Steps")).to_have_value("7")
        assert tab.selected() == ["a"]
    eventually(lambda: one.params("a") == {"text": "one by the first", "steps": 7})

    # While one drags a card, the other one's edits arrive and disturb nothing.
    start = middle(one.head("c"))
    before = place_of(one.card("c"))
    one.take(start, (start[0] + 30, start[1] + 110))
    two.set("c", "Text", "by the second")
    two.head("b").dblclick()
    two.card("b").get_by_role("textbox", name="Title").fill("named by the second")
    two.keys("Enter")
    expect(one.card("b")).to_contain_text("named by the second")
    held = place_of(one.card("c"))
    assert (held["x"] - before["x"], held["y"] - before["y"]) == pytest.approx((30, 110), abs=4)
    one.page.mouse.up()
    expect(one.field("Text")).to_have_value("by the second")
    eventually(lambda: one.node("c")["position"]["y"] > 100)
    assert two.selected() == ["b"]
    dropped = place_of(one.card("c"))["y"]
    assert dropped - before["y"] == pytest.approx(110, abs=4)
    eventually(lambda: abs(place_of(two.card("c"))["y"] - dropped) < 2, "the other one does not see it move")

    # Undo takes back one's own steps only.
    one.frame_keys("Control+z")
    eventually(lambda: one.node("c")["position"]["y"] < 100)
    one.frame_keys("Control+z")
    eventually(lambda: one.params("a") == {"text": "one", "steps": 7})
    expect(one.button("Undo")).to_be_disabled()
    assert one.node("b")["title"] == "named by the second"
    assert one.params("c") == {"text": "by the second"}
    for _ in range(3):
        two.frame_keys("Control+z")
    eventually(lambda: (two.params("a"), two.params("c")) == ({"text": "one", "steps": 1}, {"text": "three"}))
    expect(two.button("Undo")).to_be_disabled()
    expect(one.card("b").locator(".card-title")).to_have_text("Join")


def test_a_save_is_everyones(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    one.set("a", "Text", "to be saved")
    expect(two.unsaved).to_be_visible()
    two.save_button.click()
    expect(two.notification("Saved")).to_be_visible()
    expect(one.unsaved).to_have_count(0)
    expect(one.save_button).to_be_disabled()
    assert '"to be saved"' in one.file.read_text()

    one.choose("Rename…")
    one.name_it("renamed", "Rename")
    two.shows("renamed")
    eventually(lambda: two.document == "renamed")
    two.set("c", "Text", "after the renaming")
    eventually(lambda: one.params("c") == {"text": "after the renaming"})
    two.page.close()
    expect(one.toolbar.get_by_text("other here")).to_have_count(0)


def test_what_one_deletes_the_other_does_not_lose_silently(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    two.select("c")
    two.field("Text").fill("worth keeping")
    # Before the first has heard of it.
    one.select("c")
    one.keys("Delete")
    expect(two.card("c")).to_have_count(0)
    # What is typed on into the field that is gone is no shortcut: N would select the next node.
    two.page.keyboard.type("nb")
    assert two.selected() == []
    expect(two.inspector.get_by_role("heading", name="shared")).to_be_visible()
    # Whoever deleted it can bring it back, with what the other one typed.
    one.frame_keys("Control+z")
    expect(two.card("c")).to_be_visible()
    eventually(lambda: two.params("c") == {"text": "worth keeping"})

    one.choose("Delete…")
    expect(one.dialog).to_contain_text("Others have it open at this moment.")
    one.answer("Delete")
    expect(one.notification("Deleted shared")).to_be_visible()
    gone = two.page.get_by_role("status").filter(has_text="was deleted on disk by someone else")
    expect(gone).to_be_visible()
    two.select("c")
    expect(two.field("Text")).to_have_value("worth keeping")
    gone.get_by_role("button", name="Save again").click()
    expect(two.notification("Saved")).to_be_visible()
    assert '"worth keeping"' in two.file.read_text()


def test_a_renaming_takes_nothing_from_who_types(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    two.select("c")
    two.field("Text").fill("typed")
    one.choose("Rename…")
    one.name_it("called otherwise", "Rename")
    two.shows("called otherwise")
    assert two.selected() == ["c"]
    expect(two.field("Text")).to_be_focused()
    two.page.keyboard.type(" on")
    eventually(lambda: one.params("c") == {"text": "typed on"})


def test_a_note_is_sent_as_it_is_typed_and_does_not_vanish_silently(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    two.page.mouse.move(600, 640)
    two.frame_keys("t")
    # A new note can take the focus only once it is measured.
    expect(two.page.get_by_role("textbox", name="Text of the note")).to_be_focused()
    two.page.keyboard.type("half a thought")
    note = one.page.get_by_text("half a thought")
    expect(note).to_be_visible()
    note.click()
    expect(one.inspector.get_by_role("heading", name="Note")).to_be_visible()
    one.keys("Delete")
    expect(two.notification("Removed in another tab: half a thought")).to_be_visible()
    two.page.keyboard.type("n")
    assert two.selected() == []


def test_one_goes_on_writing_while_the_other_renames_the_pipeline(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, two = tabs
    two.page.mouse.move(600, 640)
    two.frame_keys("t")
    text = two.page.get_by_role("textbox", name="Text of the note")
    expect(text).to_be_focused()
    two.page.keyboard.type("half")
    one.choose("Rename…")
    one.name_it("noted", "Rename")
    two.shows("noted")
    expect(text).to_be_focused()
    two.page.keyboard.type(" a thought")
    expect(one.page.get_by_text("half a thought")).to_be_visible()
    two.keys("Escape")
    expect(one.page.get_by_text("half a thought")).to_have_count(0)


def test_keys_are_shortcuts_after_a_field_that_went_by_ones_own_doing(tabs: tuple[StudioPage, StudioPage]) -> None:
    one, _ = tabs
    one.select("c")
    one.inspector.get_by_label("Id", exact=True).fill("d")
    one.keys("Enter")
    expect(one.card("d")).to_be_visible()
    assert one.selected() == ["d"]
    one.page.keyboard.press("n")
    eventually(lambda: one.selected() not in ([], ["d"]), "N selects the next node")


def test_thirty_quick_edits_in_both_at_once(tabs: tuple[StudioPage, StudioPage]) -> None:
    """Nobody waits for the other: edits of different things all stay, of one and the same thing one stays."""
    one, two = tabs
    own = {one: "a", two: "c"}
    places = {node: one.node(node)["position"] for node in own.values()}
    before = one.params("a")["text"], one.params("c")["text"]
    frame = place_of(one.frame)
    below = {
        tab: (frame["x"] + frame["width"] * x, frame["y"] + 0.8 * frame["height"])
        for tab, x in zip(tabs, (0.25, 0.7), strict=True)
    }
    new: dict[StudioPage, str] = {}

    def move(tab: StudioPage, _: int) -> None:
        tab.select(own[tab])
        tab.keys("ArrowDown")

    def set_parameter(tab: StudioPage, i: int) -> None:
        tab.field("Text").press("End")
        tab.page.keyboard.type(str(i))

    def add(tab: StudioPage, _: int) -> None:
        new[tab] = tab.add("Join", below[tab])

    def wire(tab: StudioPage, _: int) -> None:
        tab.draw(f"{own[tab]}.out", f"{new[tab]}.second")

    def rename(tab: StudioPage, i: int) -> None:
        # The same node, at the same time.
        tab.head("b").dblclick()
        tab.card("b").get_by_role("textbox", name="Title").fill(f"{own[tab]} {i}")
        tab.keys("Enter")

    def delete(tab: StudioPage, i: int) -> None:
        tab.select(new[tab])
        tab.keys("Delete" if i < 4 else "Control+d")

    for i in range(5):
        for edit in (move, set_parameter, add, wire, rename, delete):
            for tab in tabs:
                edit(tab, i)

    def drawn(tab: StudioPage) -> dict[str, str]:
        return {card.get_attribute("data-testid") or "": card.inner_text() for card in tab.cards.all()}

    for tab in tabs:
        expect(tab.cards).to_have_count(7)
    eventually(lambda: drawn(one) == drawn(two), "the tabs differ")
    # Places and parameters are not all drawn.
    eventually(lambda: one.export() == two.export(), "the tabs' documents differ")
    assert (one.params("a")["text"], one.params("c")["text"]) == tuple(text + "01234" for text in before)
    for node, place in places.items():
        assert one.node(node)["position"]["y"] == place["y"] + 5 * STEP
    for tab in tabs:
        tab.expect_edges("a.out>b.first", *(f"{own[t]}.out>{new[t]}.second" for t in tabs))
    assert one.node("b")["title"] in ("a 4", "c 4")
    # Each can take back what it did, and only that.
    for _ in range(40):
        if not one.button("Undo").is_enabled():
            break
        one.frame_keys("Control+z")
    for tab in tabs:
        expect(tab.cards).to_have_count(5)
    eventually(lambda: one.params("a")["text"] == before[0], "its own text was not taken back")
    eventually(lambda: two.params("c")["text"] == before[1] + "01234", "the other's text was taken back")
    tabs[1].expect_edges("a.out>b.first", f"c.out>{new[two]}.second")
