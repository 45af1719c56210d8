"""From one page to another while the timers of the one that is left go on, since its requests take their time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from building import box, pipeline
from canvas_page import eventually
from gated_nodes import Gate
from playwright.sync_api import Page, expect
from running import Runner
from runs_page import RunsPage
from sent_messages import SentMessages
from streamlit.proto.BackMsg_pb2 import BackMsg
from studio import StudioServer
from studio_page import in_rows

from engine.catalog import build_catalog
from engine.profiles import find_profile
from engine.store.runs import RunStore


@pytest.fixture
def runner(studio: StudioServer, gate: Gate) -> Iterator[Runner]:
    store = RunStore(studio.workspace)
    yield Runner(build_catalog((), studio.workspace), studio.workspace, store, find_profile("local"))
    store.close()


class SlowLine:
    """The page's connection to the server. A timer's request can be made to arrive late, and more than once: whenever
    the server has answered something."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._sent = SentMessages(page, "/_stcore/stream")
        page.add_init_script(
            """
            window.late = { send: null, times: 0 };
            const { addEventListener } = WebSocket.prototype;
            WebSocket.prototype.addEventListener = function (kind, listener, ...rest) {
              const isPages = this.url.includes('/_stcore/stream');
              if (kind !== 'message' || !isPages) return addEventListener.call(this, kind, listener, ...rest);
              const hear = (event) => {
                if (late.times-- > 0) late.send();
                listener(event);
              };
              return addEventListener.call(this, kind, hear, ...rest);
            };
            """
        )

    @contextmanager
    def slow(self) -> Iterator[None]:
        """One click is made meanwhile. It is sent at once, a timer's request of the same page late."""
        self._sent.keep()
        yield
        kinds: list[bool] = []

        def both() -> bool:
            kinds[:] = [BackMsg.FromString(message).rerun_script.is_auto_rerun for message in self._sent.kept]
            return {False, True} <= set(kinds)

        eventually(both, lambda: f"no click and no timer: {kinds}")
        self._page.evaluate(
            """([click, timer]) => {
              sent.keeps = false;
              late.send = sent.kept[timer].send;
              late.times = 12;
              sent.kept[click].send();
            }""",
            [kinds.index(False), kinds.index(True)],
        )

    def await_requests(self, count: int) -> None:
        wanted = self._sent.count + count
        self._page.wait_for_function("wanted => sent.count >= wanted", arg=wanted)


def test_timers_of_a_page_that_is_left_do_not_undo_the_new_one(page: Page, runner: Runner, gate: Gate) -> None:
    document = in_rows(pipeline(box("a", "Make", text="fine"), box("b", "Join"), wires="a.out>b.first", name="left"))
    first, _ = runner.run(document)
    second, _ = runner.run(document)
    line, pages = SlowLine(page), RunsPage(page)
    page.goto(f"/compare?runs={first.run_id},{second.run_id}")
    to_first = pages.button(f"Open {first.run_id[-6:]}")
    expect(to_first).to_be_visible()
    with line.slow():
        to_first.click()
    pages.shows("left", "done")
    line.await_requests(2)  # of the new page's timers, which fail on a page that is gone
    pages.shows("left", "done")
    with line.slow():
        pages.button("Compare").click()
    chosen = page.get_by_role("combobox", name="Runs to compare")
    expect(chosen).to_be_visible()
    # The history's timer.
    waiting = pipeline(
        box("l", "Learn", rate=2.0, epochs=2, gate=gate.path), box("j", "Join"), wires="l.out>j.first", name="waiting"
    )
    runner.start(in_rows(waiting))
    pages.history().expect_rows("waiting", "left", "left")
    with line.slow():
        pages.open_row(0)
    pages.shows("waiting", "running")
    line.await_requests(3)
    pages.shows("waiting", "running")
    gate.open()
    pages.shows("waiting", "done")
