"""Which pages and dialogs are taken, and what a person does there first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from playwright.sync_api import Locator, Page, expect

QUICKSTART, BRAINS = "quickstart", "brains"
"""The pipelines of the workspace: synthetic volumes, and patches of a real brain of which some are held back."""
TABS = ("Graph", "Timeline", "Metrics", "Monitor", "Logs", "Pipeline")
_SETTLE_MS = 1500


def _nothing(page: Page) -> None:
    pass


@dataclass(frozen=True)
class Shot:
    """A page by its address, what is done there before it is taken, and after."""

    name: str
    address: str
    then: Callable[[Page], None] = _nothing
    after: Callable[[Page], None] = field(default=_nothing)


def shots(runs: dict[str, list[str]]) -> Iterator[Shot]:
    """Of a workspace with these runs, by pipeline and the newest first."""
    run, brains = runs[QUICKSTART][0], runs[BRAINS][0]
    build, predicting = f"/?pipeline={QUICKSTART}", f"/?pipeline={BRAINS}"
    yield Shot("start", "/start")
    yield Shot("help", "/start", _help)
    yield Shot("build", build, _pictured)
    yield Shot("build-template", "/?pipeline=volumes-to-resnet", _ready)
    yield Shot("build-predictions", predicting, _pictured)
    yield Shot("gallery", build, _looking_at("table"))
    yield Shot("values", build, _panel_of("table", "Values"))
    yield Shot("rows", build, _panel_of("table", "Rows"))
    yield Shot("versions", build, _panel_of("table", "Versions"))
    yield Shot("viewer", build, _viewer)
    yield Shot("brain", predicting, _brain)
    yield Shot("model", build, _panel_of("train"))
    yield Shot("predictions", predicting, _looking_at("predict"))
    yield Shot("figures", predicting, _panel_of("predict", "Figures"))
    yield Shot("report", predicting, _panel_of("evaluate"))
    yield Shot("node", build, _inspected("train"))
    yield Shot("problem", "/?pipeline=volumes-to-resnet", _problem)
    yield Shot("add", build, _add_menu)
    for name, item in _DIALOGS.items():
        yield Shot(f"dialog-{name}", build, _menu_item(item))
    yield Shot("dialog-browse", predicting, _browse)
    yield Shot("dialog-parameters", build, _parameters)
    yield Shot("dialog-shortcuts", build, _shortcuts)
    yield Shot("dialog-run", predicting, _run_dialog)
    yield Shot("dialog-sweep", predicting, _sweep_dialog)
    yield Shot("live", build, _live, _cancel)
    yield Shot("live-run", build, _live_run, _cancel_run)
    yield Shot("runs", "/runs", _table)
    yield Shot("run", f"/run?run={run}")
    yield Shot("run-predictions", f"/run?run={brains}")
    yield Shot("run-model", f"/run?run={brains}", _dialog_of("Open model"))
    yield Shot("run-table", f"/run?run={brains}", _dialog_of("Open table"))
    for tab in TABS:
        yield Shot(f"run-{tab.lower()}", f"/run?run={run}&view={tab}")
    yield Shot("compare", f"/compare?runs={','.join(runs[QUICKSTART][:2])}")
    yield Shot("compare-predictions", f"/compare?runs={','.join(runs[BRAINS][:3])}")
    yield Shot("lineage", "/lineage")
    yield Shot("compute", "/compute")


_DIALOGS = {
    "open": "Open…",
    "new": "New from template…",
    "save-as": "Save as…",
    "history": "Version history…",
    "code": "Export code…",
    "delete": "Delete…",
}


# --- what is done on a page ------------------------------------------------------------------------


def _help(page: Page) -> None:
    page.locator(".st-key-help").get_by_role("button").click()
    expect(page.locator(".vf-help")).to_be_visible()


def _ready(page: Page) -> None:
    expect(page.locator(".toolbar").get_by_role("button", name="Undo")).to_be_visible()
    expect(page.locator(".node-card").first).to_be_visible()


def _pictured(page: Page) -> None:
    _ready(page)
    expect(page.locator(".node-card img, .node-card canvas").first).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def _open(page: Page, node: str) -> None:
    """What a node made, in its dialog."""
    _ready(page)
    card = page.get_by_test_id(f"node-{node}")
    expect(card).to_have_attribute("data-state", re.compile("^(fresh|done|cached|stale)$"))
    card.locator(".card-title").click()
    page.keyboard.press("d")
    expect(_dialog(page)).to_be_visible()


def _looking_at(node: str) -> Callable[[Page], None]:
    def then(page: Page) -> None:
        _open(page, node)
        expect(_dialog(page).locator("button.thumb").first).to_be_visible()
        page.wait_for_timeout(2 * _SETTLE_MS)

    return then


def _panel_of(node: str, panel: str = "") -> Callable[[Page], None]:
    def then(page: Page) -> None:
        _open(page, node)
        expect(_dialog(page).get_by_role("tab").first).to_be_visible()
        if panel:
            _dialog(page).get_by_role("tab", name=panel).click()
        page.wait_for_timeout(2 * _SETTLE_MS)

    return then


def _viewer(page: Page) -> None:
    _looking_at("table")(page)
    _dialog(page).locator("button.thumb").first.click()
    _all_of_a_volume(page)


def _brain(page: Page) -> None:
    _looking_at("predict")(page)
    _dialog(page).locator("button.thumb").first.click()
    _all_of_a_volume(page)


def _all_of_a_volume(page: Page) -> None:
    page.get_by_label("Layout").select_option("all")
    expect(page.locator(".rendering canvas[data-drawn=fine]")).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _inspected(node: str) -> Callable[[Page], None]:
    def then(page: Page) -> None:
        _ready(page)
        page.get_by_test_id(f"node-{node}").locator(".card-title").click()
        expect(page.get_by_role("complementary", name="Inspector").locator("input").first).to_be_visible()

    return then


def _problem(page: Page) -> None:
    _inspected("train")(page)
    field_of = page.get_by_role("complementary", name="Inspector").get_by_label("Batch size", exact=True)
    field_of.fill("0")
    field_of.press("Tab")
    page.get_by_role("tab", name=re.compile("^Problems")).click()


def _add_menu(page: Page) -> None:
    _ready(page)
    page.locator(".react-flow__pane").click(position={"x": 40, "y": 40})
    page.keyboard.press("/")
    page.keyboard.type("split")


def _menu(page: Page) -> None:
    _ready(page)
    page.locator(".toolbar button[aria-haspopup=menu]").first.click()


def _menu_item(item: str) -> Callable[[Page], None]:
    def then(page: Page) -> None:
        _menu(page)
        page.get_by_role("menuitem", name=item).click()
        expect(_dialog(page)).to_be_visible()

    return then


def _browse(page: Page) -> None:
    _ready(page)
    page.get_by_role("button", name="Browse for data").click()
    expect(_dialog(page)).to_be_visible()


def _parameters(page: Page) -> None:
    _ready(page)
    page.get_by_role("button", name=re.compile("^Pipeline parameters")).click()
    expect(_dialog(page)).to_be_visible()


def _shortcuts(page: Page) -> None:
    _ready(page)
    page.locator(".react-flow__pane").click(position={"x": 40, "y": 40})
    page.keyboard.press("?")
    expect(_dialog(page)).to_be_visible()


def _run_dialog(page: Page) -> None:
    _ready(page)
    page.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    _dialog(page).get_by_role("checkbox", name=re.compile("^Ignore cached results")).check()
    expect(page.get_by_test_id("run-estimate")).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _sweep_dialog(page: Page) -> None:
    _run_dialog(page)
    _dialog(page).get_by_role("checkbox", name=re.compile("^Try several values")).check()


def _live(page: Page) -> None:
    """A training at work, in its second epoch."""
    _ready(page)
    page.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run with parameters…").click()
    _dialog(page).get_by_label("epochs", exact=True).fill("9")
    _dialog(page).get_by_role("button", name="Run", exact=True).click()
    card = page.get_by_test_id("node-train")
    expect(card.locator(".card-foot")).to_contain_text(re.compile("Epoch [5-9] of 9"), timeout=240_000)
    card.locator(".card-title").click()
    page.get_by_role("tab", name="Log").click()


def _cancel(page: Page) -> None:
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_role("group", name="Run", exact=True).get_by_role("status")).to_have_text("Cancelled")


def _live_run(page: Page) -> None:
    _live(page)
    page.get_by_role("link", name="Open run").click()
    expect(page.locator(".vf-tiles, .vf-progress").first).to_be_visible()


def _cancel_run(page: Page) -> None:
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator(".vf-title .vf-chip").first).to_have_text("cancelled")


def _table(page: Page) -> None:
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()


def _dialog_of(button: str) -> Callable[[Page], None]:
    def then(page: Page) -> None:
        page.get_by_role("button", name=button).click()
        expect(_dialog(page)).to_be_visible()
        page.wait_for_timeout(2 * _SETTLE_MS)

    return then
