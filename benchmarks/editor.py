"""How the editor feels, measured in a real Chromium against a real studio, each figure beside its peer.

ready    from navigation to a canvas with its 10 or 300 nodes, beside a Streamlit page that shows one word
frames   frames a second while a node is dragged and while the canvas is moved, with 50, 200 and 500
         nodes, beside an empty page under the same mouse
run      from Run pressed to the first node running, beside the engine's own share of it, and from a
         worker's progress event to the pixel, beside the promise of once a second
traffic  bytes a second over the websocket, idle and while a run is live, with 10 and 200 nodes,
         beside what it would be to send the pipeline again each time

Chromium draws in software here: a machine with a graphics card is faster, the ratios are what counts. Aims are twice a
bare page's time until ready with 10 nodes, 0.6 of an empty page's frames with up to 200 nodes, and progress once a
second.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from browser import FLAGS, SIZE, chromium
from building import box, pipeline
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from studio import StudioServer

from benchmarks.reports import Aim, Report, Table
from engine.declare.events import Progress
from engine.document.pipeline import Pipeline, Position, dump, write_pipeline
from engine.store.runs import RunStore

PROMISE_S = 1.0
"""Nodes show how they stand at least this often."""
READY, FRAMES, FRAMES_OF = 2.0, 0.6, 200
"""The aims: to be ready in twice a bare page's time, and as many of an empty page's frames with so many nodes."""
OPENED = 300
"""Nodes of the large pipeline that is opened."""

COUNT_FRAMES = """() => {
  const times = (window.benchmark = []);
  const tick = (now) => { if (window.benchmark === times) { times.push(now); requestAnimationFrame(tick); } };
  requestAnimationFrame(tick);
}"""
# What a card shows, with the time of the frame after it changed.
WATCH_CARD = """(node) => {
  const seen = (window.benchmark = []);
  let last = '';
  const look = () => {
    if (window.benchmark !== seen) return;
    const state = node.querySelector('[data-state]').dataset.state;
    const done = Number(node.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? 0);
    if (last !== `${state} ${done}`) requestAnimationFrame(() => seen.push([state, done, Date.now() / 1000]));
    last = `${state} ${done}`;
    requestAnimationFrame(look);
  };
  look();
}"""
TAKE = "() => { const out = window.benchmark; window.benchmark = null; return out; }"
MIDDLE = """(node) => {
  const { left, top, width, height } = node.getBoundingClientRect();
  return [left + width / 2, top + height / 4];
}"""
# A point of the canvas with nothing on it.
EMPTY_POINT = """(pane) => {
  const { left, top, width, height } = pane.getBoundingClientRect();
  for (let part = 0; part < 900; part++) {
    const x = left + width * (0.2 + 0.02 * (part % 30)), y = top + height * (0.2 + 0.02 * Math.floor(part / 30));
    if (pane.getRootNode().elementFromPoint(x, y) === pane) return [x, y];
  }
  throw new Error('the canvas is full');
}"""
EMPTY_PAGE = """<div id=dot style="position:fixed;width:20px;height:20px;background:red"></div><script>
addEventListener('mousemove', e => { dot.style.transform = `translate(${e.x}px,${e.y}px)` })</script>"""


def grid(count: int, *, steps: int = 1, step_s: float = 0.0) -> Pipeline:
    """`first`, which takes a while, and behind it a grid of nodes wired row by row."""
    names = ["first", *(f"n{i}" for i in range(1, count))]
    columns = round(math.sqrt(count))
    nodes = [box("first", "Make", steps=steps, step_s=step_s), *(box(name, "Join") for name in names[1:])]
    placed = [
        node.model_copy(update={"position": Position(x=280.0 * (i % columns), y=170.0 * (i // columns))})
        for i, node in enumerate(nodes)
    ]
    wires = " ".join(f"{names[i - 1] if i % columns else 'first'}.out>{names[i]}.first" for i in range(1, count))
    return pipeline(*placed, wires=wires, name=f"grid-{count}")


class Editor:
    """A studio whose only pipeline is `document`; `open()` shows it on a page of its own."""

    def __init__(self, browser: Browser, folder: Path, document: Pipeline) -> None:
        folder.mkdir()
        self.studio = StudioServer(folder)
        self.studio.install_probes()
        write_pipeline(document, self.studio.workspace.pipelines / f"{document.name}.json")
        self._browser = browser

    def open(self) -> Page:
        page = self._browser.new_context(viewport=SIZE).new_page()
        page.goto(self.studio.url, wait_until="commit")
        card(page).wait_for(timeout=60_000)
        return page

    def __enter__(self) -> Editor:
        self.studio.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.studio.close()


def card(page: Page) -> Locator:
    return page.locator('.react-flow__node[data-id="first"]')


def press_run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


# --- ready -------------------------------------------------------------------------------------


def measure_ready(browser: Browser, folder: Path, rounds: int) -> None:
    small, large = (Editor(browser, folder / f"ready-{count}", grid(count)) for count in (10, OPENED))
    with small, large, bare_streamlit(folder) as bare:
        places = {
            "10 nodes": (small.studio.url, ".react-flow__node", 10),
            f"{OPENED} nodes": (large.studio.url, ".react-flow__node", OPENED),
            "bare": (bare, "text=hello", 1),
        }
        taken: dict[str, list[float]] = {name: [] for name in places}
        for _ in range(rounds + 1):
            for name, (url, sight, count) in places.items():
                page = browser.new_context(viewport=SIZE).new_page()
                began = time.perf_counter()
                page.goto(url, wait_until="commit")
                page.locator(sight).nth(count - 1).wait_for(state="attached", timeout=60_000)
                taken[name].append(time.perf_counter() - began)
                page.context.close()
    for what, pick in (("first visit of the server", lambda t: t[0]), ("later", lambda t: statistics.median(t[1:]))):
        peer = pick(taken["bare"])
        for name in ("10 nodes", f"{OPENED} nodes"):
            ours = pick(taken[name])
            report(
                f"editor ready, {name}, {what}",
                f"{ours:.2f} s",
                f"bare Streamlit page {peer:.2f} s",
                f"{ours / peer:.2f}",
            )
            if name == "10 nodes":
                _aims.append(Aim(f"editor ready, {what}: of a bare page", ours / peer, READY, at_most=True))


@contextmanager
def bare_streamlit(folder: Path) -> Iterator[str]:
    """A Streamlit app that shows one word; gives its URL."""
    (folder / "bare.py").write_text("import streamlit as st\nst.text('hello')\n")
    settings = ("headless=true", "address=127.0.0.1", "fileWatcherType=none", "port=8600")
    with (folder / "bare.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "bare.py", *(f"--server.{s}" for s in settings)],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false"},
        )  # fmt: skip
    try:
        while (found := re.search(r"http://127\.0\.0\.1:\d+", (folder / "bare.log").read_text())) is None:
            time.sleep(0.05)
        yield found[0]
    finally:
        process.terminate()
        process.wait()


# --- frames ------------------------------------------------------------------------------------


def measure_frames(browser: Browser, folder: Path, seconds: float) -> None:
    empty = browser.new_context(viewport=SIZE).new_page()
    empty.set_content(EMPTY_PAGE)
    peer, _ = circle(empty, (600, 400), seconds)
    empty.context.close()
    for count in (50, 200, 500):
        with Editor(browser, folder / f"frames-{count}", grid(count)) as editor:
            page = editor.open()
            for what, moved in (("node dragged", card(page)), ("canvas moved", page.locator(".react-flow__viewport"))):
                before = moved.evaluate("e => e.style.transform")
                middle = card(page).evaluate(MIDDLE)
                empty_point = page.locator(".react-flow__pane").evaluate(EMPTY_POINT)
                rate, slow = circle(page, middle if what == "node dragged" else empty_point, seconds)
                if moved.evaluate("e => e.style.transform") == before:
                    raise SystemExit(f"{what}: nothing moved, so nothing was measured")
                report(
                    f"{what}, {count} nodes",
                    f"{rate:.0f} frames/s (95% of frames within {slow:.0f} ms)",
                    f"empty page {peer:.0f} frames/s",
                    f"{rate / peer:.2f}",
                )
                if count <= FRAMES_OF:
                    _aims.append(Aim(f"{what}, {count} nodes: frames of an empty page", rate / peer, FRAMES))


def circle(page: Page, start: tuple[float, float], seconds: float) -> tuple[float, float]:
    """Lead the mouse in circles, its button down; gives frames a second, and a slow frame's time in ms."""
    x, y = start
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(COUNT_FRAMES)
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        angle = passed * 4
        # Rightwards and down from the start: at the canvas's edge a drag would also move the canvas.
        page.mouse.move(x + 60 * (1 - math.cos(angle)), y + 40 * (1 - math.cos(1.5 * angle)))
        time.sleep(0.008)
    times = page.evaluate(TAKE)
    page.mouse.up()
    gaps = sorted(b - a for a, b in pairwise(times))
    return 1000 * len(gaps) / (times[-1] - times[0]), gaps[int(len(gaps) * 0.95)]


# --- run ---------------------------------------------------------------------------------------


def measure_run(browser: Browser, folder: Path, rounds: int) -> None:
    pressed_to_pixel, engine, lags = [], [], []
    for number in range(rounds):
        # A hundred steps: the percentage on the card is the number of the step.
        with Editor(browser, folder / f"run-{number}", grid(10, steps=100, step_s=0.1)) as editor:
            page = editor.open()
            card(page).evaluate(WATCH_CARD)
            store = RunStore(editor.studio.workspace)
            events: list[Progress] = []
            recorder = threading.Thread(target=record_progress, args=(store, events), daemon=True)
            recorder.start()
            pressed = time.time()
            press_run(page)
            page.locator('.react-flow__node[data-id="first"] [data-state="done"]').wait_for(timeout=60_000)
            seen: list[tuple[str, int, float]] = page.evaluate(TAKE)
            recorder.join()
            run = store.runs()[0]
            first = next(task for task in store.tasks(run.run_id) if task.node == "first")
            assert first.started is not None
            pressed_to_pixel.append(next(at for state, _, at in seen if state == "running") - pressed)
            engine.append(first.started - run.created)
            for event in events:
                shown = [at for state, done, at in seen if state == "running" and done >= event.done]
                lags += [shown[0] - event.time] if shown else []
            store.close()
    report(
        "Run pressed to first node running",
        f"{statistics.median(pressed_to_pixel):.2f} s",
        f"engine alone {statistics.median(engine):.2f} s",
        f"{statistics.median(pressed_to_pixel) / statistics.median(engine):.2f}",
    )
    lags.sort()
    usual, late = statistics.median(lags), lags[int(len(lags) * 0.95)]
    report(
        "progress event to pixel", f"{usual:.2f} s (95% within {late:.2f} s, {len(lags)} events)",
        f"promised {PROMISE_S:.0f} s", f"{usual / PROMISE_S:.2f}",
    )  # fmt: skip
    _aims.append(Aim("progress event to pixel, s", usual, PROMISE_S, at_most=True))


def record_progress(store: RunStore, events: list[Progress]) -> None:
    """The store keeps a task's newest progress only: collect what `first` reports until it is done."""
    while not (runs := store.runs()) or not store.tasks(runs[0].run_id):
        time.sleep(0.01)
    while True:
        first = next(task for task in store.tasks(runs[0].run_id) if task.node == "first")
        if first.progress is not None and (not events or first.progress.done > events[-1].done):
            events.append(first.progress)
        if first.state == "done":
            return
        time.sleep(0.02)


# --- traffic -----------------------------------------------------------------------------------


class Traffic:
    """Bytes over the page's websockets."""

    def __init__(self, page: Page) -> None:
        self._page, self.received, self.sent = page, 0, 0
        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", lambda frame: self._count("received", frame))
        session.on("Network.webSocketFrameSent", lambda frame: self._count("sent", frame))
        session.send("Network.enable")

    def _count(self, way: str, frame: dict[str, Any]) -> None:
        text, binary = frame["response"]["payloadData"], frame["response"]["opcode"] == 2
        setattr(self, way, getattr(self, way) + (len(text) * 3 // 4 if binary else len(text)))

    def during(self, seconds: float) -> tuple[float, float]:
        """Bytes a second received and sent."""
        received, sent, began = self.received, self.sent, time.perf_counter()
        self._page.wait_for_timeout(seconds * 1000)
        passed = time.perf_counter() - began
        return (self.received - received) / passed, (self.sent - sent) / passed


def measure_traffic(browser: Browser, folder: Path, seconds: float) -> None:
    for count in (10, 200):
        document = grid(count, steps=10_000, step_s=0.05)
        again = 2 * len(dump(document))
        with Editor(browser, folder / f"traffic-{count}", document) as editor:
            page = browser.new_context(viewport=SIZE).new_page()
            traffic = Traffic(page)
            page.goto(editor.studio.url, wait_until="commit")
            card(page).wait_for(timeout=60_000)
            page.wait_for_timeout(3000)
            opening = traffic.received
            idle = traffic.during(seconds)
            press_run(page)
            page.locator('.react-flow__node[data-id="first"] [data-state="running"]').wait_for(timeout=60_000)
            page.wait_for_timeout(2000)
            live = traffic.during(2 * seconds)
            page.context.close()
        for what, (received, sent) in (("idle", idle), ("run live", live)):
            report(
                f"websocket, {what}, {count} nodes", f"{received:,.0f} bytes/s in, {sent:,.0f} out",
                f"pipeline sent twice a second {again:,}", f"{received / again:.3f}",
            )  # fmt: skip
        report(f"websocket, opening {count} nodes", f"{opening:,} bytes in", "", "")


_rows: list[tuple[str, str, str, str]] = []
_aims: list[Aim] = []


def report(figure: str, measured: str, peer: str, ratio: str) -> None:
    _rows.append((figure, measured, peer, ratio))
    print(f"{figure}: {measured}, {peer}, {ratio}", file=sys.stderr, flush=True)


@contextmanager
def headless_browser() -> Iterator[Browser]:
    """Chromium, until the end of the block. Raises `SystemExit` where there is none."""
    program = chromium()
    if program is None:
        raise SystemExit("there is no Chromium: install it, or name it with VOXELFLOW_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement (default: 5)")
    parts = ("ready", "frames", "run", "traffic")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)


def run(options: argparse.Namespace, folder: Path) -> Report:
    with headless_browser() as browser:
        if "ready" in options.only:
            measure_ready(browser, folder, options.rounds)
        if "frames" in options.only:
            measure_frames(browser, folder, options.seconds)
        if "run" in options.only:
            measure_run(browser, folder, options.rounds)
        if "traffic" in options.only:
            measure_traffic(browser, folder, options.seconds)
        title = f"Chromium {browser.version}, {os.cpu_count()} cores"
    return Report("editor", tables=[Table(title, ["figure", "measured", "beside", "ratio"], _rows)], aims=_aims)
