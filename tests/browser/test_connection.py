"""A connection that is lost while one edits: the edits stay, arrive, and nothing on the page is reset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser import Troubles
from building import box, pipeline
from canvas_page import eventually, middle, seed
from playwright.sync_api import Locator, Page, WebSocketRoute, expect
from studio import StudioServer
from studio_page import AWAY, StudioPage, in_rows

from ui.protocol.link import CANVAS_PATH

SHARED_STUDIO = True


def lost(page: Page) -> Locator:
    """The line that says so."""
    return page.get_by_role("status").filter(has_text="Connection lost, changes are kept here")


def until(page: Page, ask: Callable[[], bool]) -> None:
    """Wait for something while the page's sockets go through this process."""
    eventually(lambda: page.evaluate("true") and ask())


def seeded(studio: StudioServer, name: str) -> str:
    nodes = (box("a", "Make", text="one", steps=1), box("b", "Join"), box("c", "Make", text="three"))
    return seed(studio, in_rows(pipeline(*nodes, wires="a.out>b.first", name=name)))


def test_edits_made_offline_arrive_later(
    page: Page, open_page: Callable[[], Page], studio: StudioServer, troubles: Troubles
) -> None:
    troubles.allow(AWAY)
    document = seeded(studio, "offline")
    canvas = StudioPage(page, studio).open(document)
    other = StudioPage(open_page(), studio).open(document)
    canvas.keys("Control+-")
    zoom, before = canvas.zoom, canvas.text

    page.context.set_offline(True)
    canvas.set("a", "Text", "typed offline")
    canvas.draw("c.out", "b.second")
    expect(canvas.wires()).to_have_count(2)
    canvas.select("c")
    canvas.frame_keys("Control+d")
    expect(canvas.cards).to_have_count(4)
    expect(lost(page)).to_be_visible()
    # Meanwhile someone else goes on.
    other.set("c", "Text", "typed by another")
    eventually(lambda: canvas.params("c") == {"text": "typed by another"})
    assert canvas.params("a")["text"] == "one", "the line was not dead"
    canvas.select("b")
    canvas.field("Title").fill("half typ")

    page.context.set_offline(False)
    expect(lost(page)).to_have_count(0)
    # Streamlit may have shown a box over everything, which has the keyboard for as long as it is there.
    title = canvas.field("Title")
    expect(title).to_be_focused()
    canvas.page.keyboard.type("ed")
    expect(title).to_have_value("half typed")
    canvas.expect_edges("a.out>b.first", "c.out>b.second")
    assert (canvas.zoom, canvas.selected()) == (zoom, ["b"])
    eventually(lambda: canvas.node("b").get("title") == "half typed")
    assert canvas.params("a")["text"] == "typed offline"
    assert canvas.params("c") == {"text": "typed by another"}
    assert len(canvas.doc["nodes"]) == 4
    for tab in (canvas, other):
        expect(tab.cards).to_have_count(4)
        expect(tab.card("b").locator(".card-title")).to_have_text("half typed")
        tab.select("c")
        expect(tab.field("Text")).to_have_value("typed by another")
    # They are steps like any other.
    for _ in range(4):
        canvas.frame_keys("Control+z")
    eventually(lambda: canvas.params("a")["text"] == "one")
    assert canvas.text != before, "the other one's edit stays"


@pytest.mark.parametrize("path", ["_stcore/stream", CANVAS_PATH])
def test_a_socket_that_drops_disturbs_no_hand(page: Page, studio: StudioServer, troubles: Troubles, path: str) -> None:
    troubles.allow(AWAY)
    document = seeded(studio, f"dropped {path.rpartition('/')[2]}")
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket(f"**/{path}", through)
    canvas = StudioPage(page, studio).open(document)
    canvas.select("a")
    field = canvas.field("Text")
    for part in (" and", " so", " on"):
        # On a busy machine Streamlit's own box may have taken the keyboard at the drop before. Playwright gives it back
        # to the field with the caret in front.
        field.press("End")
        before = len(sockets)
        sockets[-1].close(code=1011)
        field.press_sequentially(part)
        until(page, lambda before=before: len(sockets) > before)  # type: ignore[misc]
        until(page, lambda: canvas.params("a")["text"] == field.input_value())
    # Where the keyboard is afterwards is not asked, for the same reason.
    assert field.input_value() == "one and so on"
    eventually(lambda: canvas.selected() == ["a"], "the node is not chosen any more")
    # One step, or one for each time that the keyboard was taken; there is nothing before them.
    for _ in range(3):
        canvas.frame_keys("Control+z")
    eventually(lambda: canvas.params("a")["text"] == "one")
    page.close()  # what is routed stays so, and the next test is to have no part in it


def test_typing_goes_on_while_the_server_is_unreachable(page: Page, studio: StudioServer, troubles: Troubles) -> None:
    troubles.allow(AWAY)
    canvas = StudioPage(page, studio).open(seeded(studio, "away"))
    canvas.select("a")
    field = canvas.field("Text")
    field.press("End")
    studio.kill()
    field.press_sequentially(" and")
    expect(lost(page)).to_be_visible()
    # Streamlit reports it in a box over everything, which takes the keyboard.
    expect(page.get_by_test_id("stDialog")).to_have_count(0)
    expect(field).to_be_focused()
    page.keyboard.type(" so on")
    canvas.drag(middle(canvas.head("c")), (middle(canvas.head("c"))[0], middle(canvas.head("c"))[1] + 120))
    studio.start()
    expect(lost(page)).to_have_count(0)
    eventually(lambda: canvas.params("a")["text"] == "one and so on")
    eventually(lambda: canvas.node("c")["position"]["y"] > 120)
    assert canvas.selected() == ["c"]


def test_a_tab_that_came_back_from_another_page_finds_the_new_server(
    page: Page, studio: StudioServer, troubles: Troubles
) -> None:
    troubles.allow(AWAY)
    canvas = StudioPage(page, studio).open(seeded(studio, "returned"))
    menu = page.get_by_test_id("stTopNavLinkContainer")
    menu.filter(has_text="Compute").click()
    expect(canvas.cards).to_have_count(0)
    menu.filter(has_text="Build").click()
    canvas.shows("returned")
    # The page's last run was the whole script's: after a fragment's Streamlit asks for one by itself.
    page.wait_for_timeout(2_000)
    studio.restart()
    expect(lost(page)).to_have_count(0)
    canvas.set("a", "Text", "typed later")
    eventually(lambda: canvas.params("a")["text"] == "typed later")
