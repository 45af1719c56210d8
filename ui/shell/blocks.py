"""Small pieces of HTML for `st.html`.

Every text that is not `Html` already is escaped, so nothing that a person typed is markup.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from engine.cli.wording import safe


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
    """A text from elsewhere: right-to-left letters in it do not turn what stands around it."""
    return tag("bdi", str(value), class_=class_)


def chip(state: str) -> Html:
    """A run's or a task's state, in its colour and in words."""
    return tag("span", state, class_=f"vf-chip vf-state-{state.replace(' ', '-')}")


def heading(told: Content) -> Html:
    """A small heading above a table or a chart."""
    return tag("h3", told, class_="vf-heading")


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
) -> Html:
    """A small table; the columns `numeric` are set flush right, those `narrow` do not break their lines."""
    classes = {**dict.fromkeys(numeric, "vf-number"), **dict.fromkeys(narrow, "vf-narrow")}

    def cell(name: str, at: int, value: Content) -> Html:
        inner = value if isinstance(value, Html) else text("" if value is None else value)
        return tag(name, inner, class_=classes.get(at))

    head = tag("thead", tag("tr", *[cell("th", i, c) for i, c in enumerate(columns)]))
    body = tag("tbody", *[tag("tr", *[cell("td", i, c) for i, c in enumerate(row)]) for row in rows])
    return tag("div", tag("table", head, body, class_="vf-table", aria_label=label), class_="vf-scroll")


def notice(level: str, title: Content, *lines: Content) -> Html:
    """Something to read: an error with its hint, an empty page that says what to do.

    `level` is "error", "warning" or "info".
    """
    body = [tag("p", title, class_="vf-notice-title")] + [tag("p", line) for line in lines if line]
    return tag("div", *body, class_=f"vf-notice vf-{level}", role="alert" if level == "error" else "status")
