"""The one style sheet, with the colours of light and dark, and what follows when the person's system changes them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ui.shell.theme import STATE_COLOURS, SURFACE, Mode, current_mode

_LOOK_S = 2.0
_CHIPS = "".join(
    f".vf-state-{name} {{ --vf-chip: var(--vf-state-{name}); }}"
    for name in (state.replace(" ", "-") for state in STATE_COLOURS["light"])
)


def apply_style(*, full_bleed: bool = False) -> None:
    """Put the style sheet into the page. With `full_bleed` the page's content fills the window below the navigation."""
    import streamlit as st

    st.html(f"<style>{style_sheet(full_bleed=full_bleed)}</style>")


def follow_mode() -> None:
    """Draw the page again once it has turned dark or light.

    Style sheets follow by themselves; charts and graphs are painted in colours that Python chose.
    """
    import streamlit as st

    st.fragment(_look, run_every=_LOOK_S)(current_mode())


def _look(drawn: Mode) -> None:
    import streamlit as st

    if current_mode() != drawn:
        st.rerun()


@cache
def style_sheet(*, full_bleed: bool) -> str:
    """The sheet's text. Only files and colours of ours are in it."""
    folder = Path(__file__).parent
    names = ["style.css", "full_bleed.css"] if full_bleed else ["style.css"]
    colours = (
        f":root {{ {variables('light')} }} @media (prefers-color-scheme: dark) {{ :root {{ {variables('dark')} }} }}"
    )
    return f"{colours} {_CHIPS}\n" + "".join((folder / name).read_text(encoding="utf-8") for name in names)


def variables(mode: Mode) -> str:
    """The colours as CSS variables: `--vf-text`, `--vf-state-done`, ..."""
    colours = {**SURFACE[mode], **{f"state-{s.replace(' ', '-')}": c for s, c in STATE_COLOURS[mode].items()}}
    return " ".join(f"--vf-{name}: {colour};" for name, colour in colours.items())
