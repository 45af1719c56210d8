"""Pages that nodes write for people: plain HTML in one file, with everything escaped that is not ours."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from engine.text import label_text

_STYLE = """
body { font: 15px/1.5 Inter, system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .8rem .2rem 0; text-align: right; }
th:first-child, td:first-child { text-align: left; }
tr + tr { border-top: 1px solid #ddd; }
.bar { display: inline-block; height: .8rem; background: #3b6ea5; }
figure { display: inline-block; margin: 0 1rem 1rem 0; }
figcaption { font-size: .8rem; max-width: 12rem; overflow-wrap: anywhere; }
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
body { color: #e3e6ea; background: #15181c; } tr + tr { border-top-color: #363c44; }
img { background: #fff; border-radius: 6px; }
}
"""


class Html(str):
    """Text that is HTML already. Everything else is escaped."""


def html_page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page; `parts` are HTML, `style` is added to that of all pages."""
    head = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
    ]
    return "\n".join([*head, *parts, "</body></html>", ""])


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its head; cells are escaped unless they are `Html`."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}>{c if isinstance(c, Html) else escape(c)}</{tag}>" for c in row)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>{body}</table>"


def figure_text(value: float | int | str) -> str:
    """A figure as a person reads it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    # All digits before the point, as of a maximum of int32, as long as float64 knows them.
    return f"{value:,.0f}" if 999_999.5 <= abs(value) < 1e15 else f"{value:,.6g}"


def first_of(shown: int, count: int, noun: str) -> str:
    """`the first 200 of 1,234 classes`, for the title of what has no room for all; "" where all are shown."""
    return f"the first {shown:,} of {count:,} {noun}" if shown < count else ""


def predicted_text(value: float, label: float) -> str:
    """A predicted number, a 32-bit float, with four digits and all before the point; with more, nine at most, where it
    would read as its label (`label_text`) does."""
    if value == label:
        return label_text(label)
    whole = len(f"{abs(value):.0f}")
    texts = ((f"{value:.{digits}g}", f"{label:.{digits}g}") for digits in range(max(4, min(whole, 9)), 10))
    return next((text for text, other in texts if text not in (other, label_text(label))), label_text(value))


def html_picture(png: bytes, alt: str = "") -> Html:
    """A PNG within the page itself."""
    return Html(f"<img alt='{escape(alt)}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>")
