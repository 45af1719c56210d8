"""The theme: options that Streamlit knows, colours that can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from colours import contrast, mixed
from streamlit import config

import ui
from engine.declare.appearance import CATEGORIES, Category
from engine.declare.events import RunState, TaskState
from ui.shell.theme import OPTIONS, SERIES, STATE_COLOURS, SURFACE, Mode, style_sheet, tints, variables

MODES = get_args(Mode)
CANVAS = Path(ui.__file__ or "").parent / "canvas"


def test_streamlit_knows_every_option() -> None:
    assert set(OPTIONS) <= set(config.get_config_options())


def test_light_and_dark_set_the_same() -> None:
    names = {
        mode: {n.removeprefix(f"theme.{mode}.") for n in OPTIONS if n.startswith(f"theme.{mode}.")} for mode in MODES
    }
    assert names["light"] == names["dark"] != set()
    # Without a base, Streamlit follows the person's system.
    assert "theme.base" not in OPTIONS


def test_the_app_shows_no_traceback_and_no_developer_menu() -> None:
    assert OPTIONS["client.showErrorDetails"] == "none"
    assert OPTIONS["client.toolbarMode"] == "minimal"


@pytest.mark.parametrize("mode", MODES)
def test_states_and_lines_can_be_read_on_the_background(mode: Mode) -> None:
    background = SURFACE[mode]["background"]
    assert OPTIONS[f"theme.{mode}.backgroundColor"] == background
    for state, colour in STATE_COLOURS[mode].items():
        assert contrast(colour, background) > 4, state
    for colour in SERIES[mode]:
        assert contrast(colour, background) > 3
    assert contrast(SURFACE[mode]["text"], background) > 10
    assert contrast(SURFACE[mode]["muted"], background) > 4.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("category", [*CATEGORIES, Category("Another")], ids=lambda each: each.name)
def test_a_category_can_be_read_as_a_heading_and_its_icon_on_its_tint(category: Category, mode: Mode) -> None:
    colour = category.colour.light if mode == "light" else category.colour.dark
    styles = (CANVAS / "src/view/styles/canvas/cards.css").read_text()
    tint = re.search(r"color-mix\(in srgb, var\(--category, var\(--vf-muted\)\) (\d+)%, var\(--vf-bg\)\)", styles)
    assert tint is not None
    for ground in (SURFACE[mode]["background"], SURFACE[mode]["raised"]):
        assert contrast(colour, ground) >= 4.5
        assert contrast(colour, mixed(colour, ground, int(tint[1]) / 100)) >= 4.5


@pytest.mark.parametrize("mode", MODES)
def test_a_chip_can_be_read_in_every_state(mode: Mode) -> None:
    sheet = style_sheet(full_bleed=False)
    found = re.search(
        r"color: color-mix\(in srgb, var\(--vf-chip\) (\d+)%, var\(--vf-text\)\); "
        r"background: color-mix\(in srgb, var\(--vf-chip\) (\d+)%, transparent\)",
        sheet,
    )
    assert found is not None
    of_state, tint = (int(share) / 100 for share in found.groups())
    for state, colour in STATE_COLOURS[mode].items():
        text = mixed(colour, SURFACE[mode]["text"], of_state)
        for ground in (SURFACE[mode]["background"], SURFACE[mode]["raised"]):
            assert contrast(text, mixed(colour, ground, tint)) >= 4.5, state


@pytest.mark.parametrize("mode", MODES)
def test_every_state_has_its_colour_in_the_style_sheet(mode: Mode) -> None:
    for state in {*get_args(TaskState), *get_args(RunState), "left-out", "cancelling"}:
        assert f"--vf-state-{state}:" in variables(mode)
        assert f".vf-state-{state} " in style_sheet(full_bleed=False)


@pytest.mark.parametrize("mode", MODES)
def test_words_can_be_read_on_the_ground_of_a_state(mode: Mode) -> None:
    assert tints(mode).keys() == STATE_COLOURS[mode].keys()
    assert all(contrast(SURFACE[mode]["text"], ground) > 7 for ground in tints(mode).values())


def test_every_state_of_a_node_has_its_colour_on_the_canvas() -> None:
    sheet = (CANVAS / "src/view/styles/states.css").read_text()
    for state in {*get_args(TaskState), *get_args(RunState), "cancelling", "fresh", "stale"} - {"queued", "skipped"}:
        assert f"[data-state='{state}']" in sheet


def test_a_state_is_marked_on_the_canvas_as_on_the_pages() -> None:
    styles = CANVAS / "src/view/styles"
    mark = _rules((styles / "states.css").read_text(), ".state-mark")
    chip = _rules(style_sheet(full_bleed=False), ".vf-chip")
    tokens = _rules((styles / "tokens.css").read_text(), ".vf-root")
    for name in ("font-size", "font-weight", "border-radius"):
        value = mark[name].removeprefix("var(").removesuffix(")")
        assert tokens.get(value, value) == chip[name]
    tint = re.compile(r"\d+%")
    assert tint.findall(mark["background"]) == tint.findall(chip["background"]) != []


def test_only_a_full_bleed_page_fills_the_window() -> None:
    plain, full = style_sheet(full_bleed=False), style_sheet(full_bleed=True)
    assert "100dvh" in full
    assert "100dvh" not in plain
    assert full.startswith(plain)
    assert "</style" not in full


def _rules(sheet: str, selector: str) -> dict[str, str]:
    """What the first block of a selector sets."""
    block = re.search(rf"^{re.escape(selector)} {{(.*?)}}", sheet, re.MULTILINE | re.DOTALL)
    assert block is not None, selector
    plain = re.sub(r"/\*.*?\*/", "", block[1], flags=re.DOTALL)
    return {name.strip(): value.strip() for name, _, value in (rule.partition(":") for rule in plain.split(";"))}


def test_the_canvas_takes_its_colours_of_states_from_the_page() -> None:
    tokens = (CANVAS / "src/view/styles/tokens.css").read_text()
    taken = set(re.findall(r"var\((--vf-state-[a-z-]+)\)", tokens))
    assert len(taken) == 7
    for mode in MODES:
        assert all(f"{name}: #" in variables(mode) for name in taken)
