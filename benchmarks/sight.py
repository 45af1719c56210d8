"""How soon something is seen, in a real Chromium against a real studio that was just started.

thumbnail  of a table of very many files, before any run: from the node's card to the first picture on it, and from the
           key that opens the gallery to its first thumbnail and to the choice of labels
run        from navigation to the page of a run at work: its head, and what stands in its overview, beside a Streamlit
           page that shows one word

Aims are 0.3 s until a first picture and a second until the head of the run. `python -m benchmarks look` is the same
without a browser.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from browser import SIZE
from building import box, pipeline
from playwright.sync_api import Browser, Page

from benchmarks.data import shape_of
from benchmarks.editor import Editor, bare_streamlit, card, grid, headless_browser, press_run
from benchmarks.look import make_table
from benchmarks.reports import Aim, Report, Table

_LONGEST_MS = 120_000
HEAD = "head of the run"
THUMBNAIL_MS, HEAD_MS = 300, 1000
"""The aims: until the first picture of a table, however many volumes it has, and until the head of a run at work."""
# Milliseconds until a picture that `selector` finds is there, and until an element of `then` is: from `event`, or now.
_WATCH = """(node, [selector, then, event]) => new Promise((found) => {
  const root = node.getRootNode();
  const times = [];
  const look = (began) => {
    const picture = root.querySelector(selector);
    if (times.length === 0 && picture?.complete && picture.naturalWidth > 0) times.push(performance.now() - began);
    if (times.length === 1 && root.querySelector(then)) { found([...times, performance.now() - began]); return; }
    requestAnimationFrame(() => look(began));
  };
  if (event === '') look(performance.now());
  else addEventListener(event, () => look(performance.now()), { capture: true, once: true });
})"""
_KEEP = "(node, given) => { window.watched = ({WATCH})(node, given); }"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", default="651000/3000/8,8,4,2", metavar="ROWS/FILES/SHAPE", help="of float32 volumes")
    parts = ("thumbnail", "run")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)


def run(options: argparse.Namespace, folder: Path) -> Report:
    rows: list[Sight] = []
    with headless_browser() as browser:
        if "thumbnail" in options.only:
            rows += _thumbnails(browser, folder, options.table, options.rounds)
        if "run" in options.only:
            rows += _run_page(browser, folder, options.rounds)
        title = f"Chromium {browser.version}, {os.cpu_count()} cores"
    table = Table(title, ["from", "to", "median ms", "least", "most"], [row.cells for row in rows])
    return Report("sight", tables=[table], aims=[row.aim for row in rows if row.aim is not None])


@dataclass(frozen=True)
class Sight:
    """Milliseconds from something to what is seen of it, in each round, and within how many it should be seen."""

    start: str
    end: str
    taken: Sequence[float]
    within_ms: float | None = None

    @property
    def cells(self) -> list[object]:
        figures = (statistics.median(self.taken), min(self.taken), max(self.taken))
        return [self.start, self.end, *(round(value) for value in figures)]

    @property
    def aim(self) -> Aim | None:
        if self.within_ms is None:
            return None
        what = f"{self.start} to {self.end}, ms"
        spread = f"{min(self.taken):.0f}..{max(self.taken):.0f}"
        return Aim(what, statistics.median(self.taken), self.within_ms, at_most=True, spread=spread)


# --- a table of very many files --------------------------------------------------------------------


def _thumbnails(browser: Browser, folder: Path, table: str, rounds: int) -> list[Sight]:
    count, files, shape = table.split("/")
    made = make_table(folder / "many", int(count), int(files), shape_of(shape))
    os.environ["VOXELFLOW_DATA_ROOTS"] = str(folder)
    taken: list[tuple[float, float, float]] = []
    for number in range(rounds):
        document = pipeline(box("first", "DeltaTable", table=made.uri), name="many")
        with Editor(browser, folder / f"thumbnail-{number}", document) as editor:
            page = editor.open()
            page.set_default_timeout(_LONGEST_MS)
            on_card, _ = card(page).evaluate(_WATCH, [".card-pictures img", ".card-pictures img", ""])
            card(page).locator(".card-title").click()
            card(page).evaluate(
                _KEEP.replace("{WATCH}", _WATCH), [".thumb img", ".look-bar option[value=stored]", "keydown"]
            )
            page.keyboard.press("d")
            thumbnail, choices = page.evaluate("window.watched")
            taken.append((on_card, thumbnail, choices))
            page.context.close()
    cards, thumbnails, choices = (list(each) for each in zip(*taken, strict=True))
    about = f"{made.count:,} rows, {made.files:,} files"
    return [
        Sight(f"card of the node ({about})", "first picture on it", cards, THUMBNAIL_MS),
        Sight(f"gallery asked for ({about})", "first thumbnail", thumbnails, THUMBNAIL_MS),
        Sight(f"gallery asked for ({about})", "choice of labels", choices),
    ]


# --- the page of a run at work ---------------------------------------------------------------------


def _run_page(browser: Browser, folder: Path, rounds: int) -> list[Sight]:
    taken: dict[str, list[float]] = {}

    def visit(url: str, sights: dict[str, str]) -> None:
        page = browser.new_context(viewport=SIZE).new_page()
        began = time.perf_counter()
        page.goto(url, wait_until="commit")
        for name, sight in sights.items():
            page.locator(sight).first.wait_for(timeout=_LONGEST_MS)
            taken.setdefault(name, []).append(1000 * (time.perf_counter() - began))
        page.context.close()

    document = grid(10, steps=10_000, step_s=0.05)
    with Editor(browser, folder / "run", document) as editor, bare_streamlit(folder) as bare:
        page = editor.open()
        address = _live_run(page)
        for _ in range(rounds):
            visit(f"{editor.studio.url}{address}", {HEAD: ".vf-title h1", "its progress": ".vf-progress"})
            visit(bare, {"bare Streamlit page": "text=hello"})
        page.context.close()
    within = {HEAD: HEAD_MS}
    return [Sight("navigation", name, times, within.get(name)) for name, times in taken.items()]


def _live_run(page: Page) -> str:
    """Start a run; the address of its page once a node is at work."""
    press_run(page)
    card(page).locator('[data-state="running"]').wait_for(timeout=_LONGEST_MS)
    address = page.get_by_role("link", name="Open run").get_attribute("href")
    assert address is not None
    return address if address.startswith("/") else f"/{address}"
