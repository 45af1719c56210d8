"""The one style sheet, with the colours of the page's light or dark mode."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ui.shell.theme import STATE_COLOURS, SURFACE, Mode, current_mode


def apply_style(*, full_bleed: bool = False) -> None:
    """Put the style sheet into the page. With `full_bleed` the page's content fills the window below the navigation."""
    import streamlit as st

    st.html(f"<style>{style_sheet(current_mode(), full_bleed=full_bleed)}</style>")


@cache
def style_sheet(mode: Mode, *, full_bleed: bool) -> str:
    """The sheet's text. Only files and colours of ours are in it."""
    folder = Path(__file__).parent
    names = ["style.css", "full_bleed.css"] if full_bleed else ["style.css"]
    return variables(mode) + "".join((folder / name).read_text(encoding="utf-8") for name in names)


def variables(mode: Mode) -> str:
    """The colours as CSS variables: `--vf-text`, `--vf-state-done`, ..."""
    colours = {**SURFACE[mode], **{f"state-{s.replace(' ', '-')}": c for s, c in STATE_COLOURS[mode].items()}}
    lines = [f"--vf-{name}: {colour};" for name, colour in colours.items()]
    chips = "".join(
        f".vf-state-{name} {{ --vf-chip: var(--vf-state-{name}); }}"
        for name in (s.replace(" ", "-") for s in STATE_COLOURS[mode])
    )
    return f":root {{ {' '.join(lines)} }} {chips}\n"
