"""The table of tokens in ui/README.md is what the sources say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import ui
from engine.declare.appearance import CATEGORIES
from ui.shell.theme import OPTIONS, SERIES, STATE_COLOURS, SURFACE

HOME = Path(ui.__file__ or "").parent
README = HOME / "README.md"
STYLES = HOME / "canvas/src/view/styles"
TOKENS = (STYLES / "tokens.css").read_text(encoding="utf-8")
BEGIN, END = (
    "<!-- tokens: UPDATE_GOLDEN=1 pytest tests/ui/shell/test_design.py writes them -->\n",
    "<!-- end of tokens -->",
)
SURFACES = {
    "background": "pages, cards, panels",
    "raised": "what stands out from it: heads of tables, tiles",
    "text": "words",
    "muted": "words beside the matter",
    "line": "borders",
}


def test_the_table_of_tokens_is_what_the_sources_say() -> None:
    """`UPDATE_GOLDEN=1 pytest tests/ui/shell/test_design.py` writes it anew."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    found, _, after = rest.partition(END)
    wanted = "\n".join(["", *table(), ""]) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        README.write_text(f"{before}{BEGIN}{wanted}{END}{after}", encoding="utf-8")
        return
    assert found == wanted


def test_each_size_is_used() -> None:
    sheets = "".join(path.read_text(encoding="utf-8") for path in STYLES.rglob("*.css"))
    for name, _, _ in sizes():
        assert f"var({name})" in sheets, name


def table() -> Iterator[str]:
    yield from ("| colour | light | dark | for |", "| --- | --- | --- | --- |")
    yield _colour("accent", *(str(OPTIONS[f"theme.{mode}.primaryColor"]) for mode in ("light", "dark")), "what acts")
    for name, use in SURFACES.items():
        yield _colour(name, SURFACE["light"][name], SURFACE["dark"][name], use)
    for state, light in STATE_COLOURS["light"].items():
        yield _colour(f"state {state}", light, STATE_COLOURS["dark"][state], "")
    for each in CATEGORIES:
        yield _colour(f"category {each.name}", each.colour.light, each.colour.dark, f"place {each.order}")
    for at, pair in enumerate(zip(SERIES["light"], SERIES["dark"], strict=True), 1):
        yield _colour(f"line {at}", *pair, "")
    yield from ("", "| size | value | for |", "| --- | --- | --- |")
    for name, value, use in sizes():
        yield f"| `{name}` | {value} | {use} |"


def sizes() -> list[tuple[str, str, str]]:
    """Name, value and use of the tokens with a comment beside them."""
    return re.findall(r"^  (--vf-[a-z-]+): ([^;]+); /\* (.+) \*/$", TOKENS, re.MULTILINE)


def _colour(name: str, light: str, dark: str, use: str) -> str:
    return f"| {name} | `{light}` | `{dark}` | {use} |".replace("  |", " |")
