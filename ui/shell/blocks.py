"""Small pieces of a page: HTML for `st.html`, plain text where Streamlit would read Markdown, a search box, errors.

Every text that is not `Html` already is escaped, so nothing that a person typed is markup. Labels of widgets, captions
and tooltips are Markdown to Streamlit: what a person, a file or a library wrote goes through `plain` on its way there.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from engine.diagnostics.rule import CheckFailed
from engine.errors import VoxelflowError
from engine.text import headline, safe
from ui.shell.fonts import embedded_style

_WITH_FIGURE = re.compile(r"\b(\w+-\d\w*|\d+-\w+)\b")
_EVEN_PERCENT = 66
"""Of a table's width: what its columns of one width have together."""
_MARKDOWN = re.compile(r"([!-/:-@\[-`{-~])")


class Html(str):
    """Text that is markup, made here and nowhere else."""

    __slots__ = ()


Content = Html | str | None


def escaped(value: object) -> Html:
    """`value` as text: control characters spelled out, its reading direction kept to itself."""
    return Html(html.escape(safe(str(value))))


def tag(name: str, *children: Content, **attributes: object) -> Html:
    """`<name>` around the children. `class_` and `data_x` are written `class` and `data-x`; None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(c if isinstance(c, Html) else escaped(c) for c in children if c is not None)
    return Html(f"<{name}{written}>{inner}</{name}>")


def text(value: object, class_: str | None = None) -> Html:
    """A text from elsewhere: right-to-left letters in it do not turn what is around it."""
    return tag("bdi", str(value), class_=class_)


def unbroken(words: str) -> Html:
    """`words` whose names with a figure (`ResNet-18`, `3-D`) stay on one line, which else breaks after the hyphen."""
    parts = _WITH_FIGURE.split(words)
    return Html(
        "".join(tag("span", part, class_="vf-unbroken") if at % 2 else escaped(part) for at, part in enumerate(parts))
    )


def with_commands(sentence: str) -> Html:
    """A sentence that is printed in a terminal, too, as a `span`: each command in it, there between backquotes, as
    `code`."""
    parts = re.split(r"`([^`]*)`", sentence)
    return tag("span", *(tag("code", part) if n % 2 else text(part) for n, part in enumerate(parts) if part))


def chip(state: str, word: str = "") -> Html:
    """A run's or a task's state, in its colour and in words; or another `word`, in the colour of a state."""
    return tag("span", word or state, class_=f"vf-chip vf-state-{state.replace(' ', '-')}")


def heading(title: Content, *, in_row: bool = False) -> Html:
    """A small heading above a table or a chart; `in_row`: in line with what stands beside it."""
    return tag("h3", title, class_="vf-heading vf-in-row" if in_row else "vf-heading")


def facts(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Names with their values, side by side."""
    items = [
        tag(
            "div",
            tag("dt", name),
            tag("dd", value if isinstance(value, Html) else text(value or "-")),
            class_="vf-fact",
        )
        for name, value in pairs
    ]
    return tag("dl", *items, class_="vf-facts")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Content]],
    label: str,
    *,
    numeric: Iterable[int] = (),
    narrow: Iterable[int] = (),
    even: int = 0,
) -> Html:
    """A small table; the columns `numeric` are set flush right, those `narrow` do not break their lines.

    The last `even` are of one width, which is theirs in each table as wide as this one: they stand below one another.
    """
    classes = {**dict.fromkeys(numeric, "vf-number"), **dict.fromkeys(narrow, "vf-narrow")}
    width = f"width: {_EVEN_PERCENT / even:.3g}%" if even else None

    def cell(name: str, at: int, value: Content) -> Html:
        inner = value if isinstance(value, Html) else text("" if value is None else value)
        style = width if name == "th" and at >= len(columns) - even else None
        return tag(name, inner, class_=classes.get(at), style=style)

    head = tag("thead", tag("tr", *[cell("th", i, c) for i, c in enumerate(columns)]))
    body = tag("tbody", *[tag("tr", *[cell("td", i, c) for i, c in enumerate(row)]) for row in rows])
    return tag("div", tag("table", head, body, class_="vf-table", aria_label=label), class_="vf-scroll")


def notice(level: str, title: Content, *lines: Content) -> Html:
    """Something to read: an error with its hint, an empty page that says what to do.

    `level` is "error", "warning" or "info".
    """
    body = [tag("p", title, class_="vf-notice-title")] + [tag("p", line) for line in lines if line]
    return tag("div", *body, class_=f"vf-notice vf-{level}", role="alert" if level == "error" else "status")


def failure(message: str, hint: str = "") -> Html:
    """What went wrong, and what to do about it."""
    return notice("error", text(headline(message)), text(hint) if hint else None)


def svg_image(svg: str, ink: str, label: str, style: str) -> Html:
    """A picture as an image, since Streamlit lets no SVG stand in HTML. By itself it would have neither the colour of
    the page's text (`ink`) nor its font. It is decoded at once: one that is drawn anew each second would flicker."""
    head, _, drawn = svg.replace("<svg ", f'<svg color="{ink}" ', 1).partition(">")
    font = f"<style>{embedded_style()}</style>" if "<text" in drawn else ""
    data = base64.b64encode(f"{head}>{font}{drawn}".encode()).decode()
    return tag("img", src=f"data:image/svg+xml;base64,{data}", alt=label, decoding="sync", style=style)


def skeleton() -> Html:
    """What stands in the place of what is on its way."""
    return tag("div", tag("span", ""), tag("span", ""), class_="vf-skeleton", role="status", aria_label="Loading")


def show_error(error: VoxelflowError) -> None:
    """Draw the error with what to do about it; of failed checks, each problem."""
    st.html(error_block(error))


def error_block(error: VoxelflowError) -> Html:
    """The error as `show_error` draws it."""
    if not isinstance(error, CheckFailed):
        where = f"{error.node}: " if error.node else ""
        return failure(f"{where}{error.message}", error.hint)
    lines = []
    for problem in error.diagnostics:
        field = problem.parameter or problem.port
        where = f"{problem.node}{'.' + field if field else ''}: " if problem.node else ""
        message = f"{where}{problem.message}"
        if problem.hint and not message.endswith((".", "!", "?")):
            message += "."
        code = tag("span", f"{problem.severity} {problem.code} ", class_="vf-muted")
        lines.append(Html(f"{code}{text(message)} {tag('span', problem.hint, class_='vf-muted')}"))
    return notice("error", text(headline(error.message)), *lines)


def search_box(label: str, *, key: str, placeholder: str, width: int, **more: Any) -> str:
    """Draw a search box `width` pixels wide; returns what is typed into it, letter by letter.

    `more` goes to `st.text_input`: where the text is kept.
    """
    typed = st.text_input(
        label,
        key=key,
        type="search",
        live=True,
        placeholder=placeholder,
        label_visibility="collapsed",
        width=width,
        **more,
    )
    return typed or ""


def count_line(count: Content) -> None:
    """Draw `12 of 40 runs`, beside what chooses them."""
    st.html(tag("p", count, class_="vf-count"), width="content")


def plain(text: object, limit: int = 0) -> str:
    """`text` as Markdown that shows exactly it, on one line; with `limit`, at most so many characters."""
    return _MARKDOWN.sub(r"\\\1", shortened(text, limit))


def shortened(text: object, limit: int = 0) -> str:
    """`text` on one line, control characters spelled out, cut to `limit` characters if it is longer."""
    out = safe(str(text))
    return out if not limit or len(out) <= limit else out[: limit - 1].rstrip() + "…"
