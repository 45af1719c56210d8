"""The app's theme: Streamlit's options, colours for what Streamlit does not draw, and the one style sheet.

Light and dark follow the person's system. `OPTIONS` goes to Streamlit as options of its start.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import streamlit as st

from ui.shell.fonts import FAMILY, font_face
from ui.shell.redraw import is_request_waiting

Mode = Literal["light", "dark"]

_SANS = f'"{FAMILY}", system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'
_MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace'

SERIES: dict[Mode, list[str]] = {
    "light": ["#2f6fde", "#d9730d", "#2e8b57", "#a03fb5", "#c43d4b", "#0f8a9d", "#8a6d1b", "#5b6472"],
    "dark": ["#6ea2ff", "#f0a35e", "#5cc08b", "#cf85e0", "#f08089", "#4fc3d4", "#d3b45c", "#9aa5b4"],
}
"""Colours of lines, in order."""

_LIGHT = {
    "primaryColor": "#2864cc",
    "backgroundColor": "#ffffff",
    "secondaryBackgroundColor": "#f4f6f8",
    "textColor": "#1c2430",
    "borderColor": "#dfe3e8",
    "linkColor": "#2864cc",
    "codeBackgroundColor": "#f4f6f8",
    "codeTextColor": "#1c2430",
    "dataframeHeaderBackgroundColor": "#f4f6f8",
    "redColor": "#c8323f",
    "orangeColor": "#b8620b",
    "greenColor": "#1f8a53",
    "blueColor": "#2f6fde",
    "grayColor": "#68727f",
    "chartCategoricalColors": SERIES["light"],
}
_DARK = {
    "primaryColor": "#5b90ec",
    "backgroundColor": "#14171c",
    "secondaryBackgroundColor": "#1c2027",
    "textColor": "#e5e9ef",
    "borderColor": "#2e343d",
    "linkColor": "#8ab4ff",
    "codeBackgroundColor": "#1c2027",
    "codeTextColor": "#e5e9ef",
    "dataframeHeaderBackgroundColor": "#1c2027",
    "redColor": "#f2777f",
    "orangeColor": "#eba15f",
    "greenColor": "#57c08a",
    "blueColor": "#6ea2ff",
    "grayColor": "#98a3b1",
    "chartCategoricalColors": SERIES["dark"],
}

OPTIONS: dict[str, object] = {
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.font": _SANS,
    "theme.headingFont": _SANS,
    "theme.codeFont": _MONO,
    "theme.baseFontSize": 14,
    "theme.headingFontSizes": ["1.5rem", "1.2rem", "1.05rem", "1rem", "1rem", "1rem"],
    "theme.headingFontWeights": [600, 600, 600, 600, 600, 600],
    "theme.codeFontSize": "0.85rem",
    "theme.baseRadius": "5px",
    "theme.buttonRadius": "5px",
    "theme.showWidgetBorder": True,
    "theme.linkUnderline": False,
    **{f"theme.light.{name}": value for name, value in _LIGHT.items()},
    **{f"theme.dark.{name}": value for name, value in _DARK.items()},
}
"""Streamlit's options by name. Given at its start, they outrank a person's own config.toml."""

STATE_COLOURS: dict[Mode, dict[str, str]] = {
    "light": {
        "done": "#1f8a53",
        "cached": "#3a7f7b",
        "running": "#2f6fde",
        "starting": "#2f6fde",
        "waiting": "#b8620b",
        "queued": "#68727f",
        "failed": "#c8323f",
        "lost": "#8f3a66",
        "stuck": "#8f3a66",
        "cancelled": "#7d64a8",
        "cancelling": "#7d64a8",
        "pruned": "#7d64a8",
        "skipped": "#68727f",
        "left out": "#727b87",
    },
    "dark": {
        "done": "#57c08a",
        "cached": "#6fb3ae",
        "running": "#6ea2ff",
        "starting": "#6ea2ff",
        "waiting": "#eba15f",
        "queued": "#8590a0",
        "failed": "#f2777f",
        "lost": "#d987b3",
        "stuck": "#d987b3",
        "cancelled": "#b49bdc",
        "cancelling": "#b49bdc",
        "pruned": "#b49bdc",
        "skipped": "#8590a0",
        "left out": "#77818e",
    },
}
"""Of runs and tasks, for charts, graphs and chips alike. "left out" are nodes that a run was not asked for."""

SURFACE: dict[Mode, dict[str, str]] = {
    "light": {"background": "#ffffff", "raised": "#f4f6f8", "text": "#1c2430", "muted": "#68727f", "line": "#dfe3e8"},
    "dark": {"background": "#14171c", "raised": "#1c2027", "text": "#e5e9ef", "muted": "#98a3b1", "line": "#2e343d"},
}
"""The theme's own surfaces, for what draws itself on a canvas."""

_TINT = 0.16
_CHECK_S = 2.0
_CHIPS = "".join(
    f".vf-state-{name} {{ --vf-chip: var(--vf-state-{name}); }}"
    for name in (state.replace(" ", "-") for state in STATE_COLOURS["light"])
)


def tints(mode: Mode) -> dict[str, str]:
    """By state, the ground of its chip, for what draws its words itself: the state's colour, faint."""
    return {state: _mixed(colour, SURFACE[mode]["background"], _TINT) for state, colour in STATE_COLOURS[mode].items()}


def _mixed(colour: str, other: str, share: float) -> str:
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


def current_mode() -> Mode:
    """Whether this person's page is light or dark now."""
    return "dark" if st.context.theme.type == "dark" else "light"


def apply_style(*, full_bleed: bool = False) -> None:
    """Put the style sheet into the page. With `full_bleed` the page's content fills the window below the navigation."""
    st.html(f"<style>{style_sheet(full_bleed=full_bleed)}</style>")


def follow_mode() -> None:
    """Draw the page again once it has turned dark or light.

    Style sheets follow by themselves; charts and graphs are painted in colours that Python chose.
    """
    st.fragment(_check_mode, run_every=_CHECK_S)(current_mode())


def _check_mode(drawn: Mode) -> None:
    if current_mode() != drawn and not is_request_waiting():
        st.rerun()


@cache
def style_sheet(*, full_bleed: bool) -> str:
    """The sheet's text. Only files and colours of ours are in it."""
    folder = Path(__file__).parent
    names = ["style.css", "full_bleed.css"] if full_bleed else ["style.css"]
    colours = (
        f":root {{ {variables('light')} }} @media (prefers-color-scheme: dark) {{ :root {{ {variables('dark')} }} }}"
    )
    return f"{font_face()} {colours} {_CHIPS}\n" + "".join(
        (folder / name).read_text(encoding="utf-8") for name in names
    )


def variables(mode: Mode) -> str:
    """The colours as CSS variables: `--vf-text`, `--vf-state-done`, ..."""
    colours = {**SURFACE[mode], **{f"state-{s.replace(' ', '-')}": c for s, c in STATE_COLOURS[mode].items()}}
    return " ".join(f"--vf-{name}: {colour};" for name, colour in colours.items())
