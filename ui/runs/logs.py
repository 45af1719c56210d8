"""The logs of a run as lines with a level: followed, searched, and the tab that shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import streamlit as st

from engine.history.details import Details
from engine.store.runs import Run, Task
from engine.text import plural, safe_log_line
from ui.runs.feed import kept_by_tab
from ui.shell.blocks import Html, count_line, notice, search_box, tag
from ui.studio_context import studio

Level = Literal["output", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("output", "info", "warning", "error")
_PREFIXES: tuple[tuple[str, Level], ...] = (("info: ", "info"), ("warning: ", "warning"), ("error: ", "error"))
_PART = 1 << 20
_MOST_AT_ONCE = 8 << 20
"""Bytes read from one file at a time; of a longer log its end."""
MOST_LINES = 50_000
"""Kept of all logs of a run together."""
_LONGEST_LINE = 2_000
_MOST_BOOKS = 3
_SHOWN = 500
_HEIGHT = 520
_LEVELS: dict[str, Level] = {"All": "output", "Messages": "info", "Warnings": "warning", "Errors": "error"}


@dataclass(frozen=True)
class Line:
    """One line of a node's log; `node` is empty for what the run's own process wrote."""

    node: str
    level: Level
    text: str


@dataclass
class Tail:
    """A growing file, read line by line."""

    path: Path
    offset: int = 0
    cut: bool = False
    """Whether the beginning was left out for its length."""
    _rest: bytes = b""

    def lines(self) -> list[str]:
        """The whole lines since the last call; [] when there are none, or no file yet."""
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as source:
                if size - self.offset > _MOST_AT_ONCE:
                    self.offset, self._rest, self.cut = size - _MOST_AT_ONCE, b"", True
                    source.seek(self.offset)
                    self.offset += len(source.readline())
                source.seek(self.offset)
                data = source.read(_MOST_AT_ONCE)
        except OSError:
            return []
        self.offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _PART:  # a line without end: what there is of it
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode(errors="replace") for line in whole]

    def unfinished(self) -> str:
        """The bytes after the last end of line, as text."""
        return self._rest.decode(errors="replace")


@dataclass
class LogBook:
    """All logs of one run, followed. Files are read in the order in which the tasks began."""

    kept: deque[Line] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    counts: dict[str, int] = field(default_factory=dict)
    """Lines by node."""
    _tails: dict[str, Tail] = field(default_factory=dict)

    def read(self, files: Iterable[tuple[str, Path]]) -> bool:
        """Take in what is new in the files of nodes; False when nothing is."""
        found = False
        for node, path in files:
            tail = self._tails.setdefault(node, Tail(path))
            lines = tail.lines()
            for text in lines:
                self.kept.append(parse(node, text))
            if lines:
                self.counts[node] = self.counts.get(node, 0) + len(lines)
                found = True
        return found

    def finish(self) -> None:
        """The run has ended: text without an end of line is a line too."""
        for node, tail in self._tails.items():
            if rest := tail.unfinished():
                self.kept.append(parse(node, rest))
                self.counts[node] = self.counts.get(node, 0) + 1
                tail._rest = b""

    @property
    def cut(self) -> bool:
        """Whether something was left out for its length."""
        return len(self.kept) == MOST_LINES or any(tail.cut for tail in self._tails.values())


def parse(node: str, text: str) -> Line:
    """A line of a node's log. Messages begin with their level, all else is output."""
    shown = safe_log_line(text)
    if len(shown) > _LONGEST_LINE:
        shown = shown[: _LONGEST_LINE - 1] + "…"
    for prefix, level in _PREFIXES:
        if shown.startswith(prefix):
            return Line(node, level, shown[len(prefix) :])
    return Line(node, "output", shown)


def matching(
    lines: Iterable[Line], *, node: str | None = None, search: str = "", least: Level = "output"
) -> Iterator[Line]:
    """The lines of `node` (None: of all) that hold the text `search` and are at least as grave as `least`."""
    wanted, floor = search.casefold(), LEVELS.index(least)
    for line in lines:
        if node is not None and line.node != node:
            continue
        if LEVELS.index(line.level) >= floor and wanted in line.text.casefold():
            yield line


def newest(lines: Iterable[Line], count: int) -> tuple[list[Line], int]:
    """The last `count` lines, and how many there are in all."""
    kept: deque[Line] = deque(maxlen=count)
    total = 0
    for line in lines:
        kept.append(line)
        total += 1
    return list(kept), total


def as_text(lines: Sequence[Line]) -> str:
    """The lines as a file to keep."""
    out = []
    for line in lines:
        level = "" if line.level == "output" else f"{line.level}: "
        out.append(f"{line.node or 'run'} | {level}{line.text}\n")
    return "".join(out)


def logs_of(run: Run, tasks: Sequence[Task]) -> LogBook:
    """The run's logs, up to date; this browser tab keeps them."""
    book = kept_by_tab("run_logs", run.run_id, LogBook, _MOST_BOOKS)
    workspace = studio().workspace
    begun = sorted(tasks, key=lambda t: (t.started is None, t.started or 0.0, t.position))
    own = workspace.run_folder(run.run_id) / "supervisor.log"
    book.read([*((t.node, workspace.log_file(run.run_id, t.node)) for t in begun), ("", own)])
    if not run.active:
        book.finish()
    return book


def show(details: Details) -> None:
    """Draw the tab."""
    book = logs_of(details.run, details.tasks)
    names = details.names
    with st.container(key="logs_bar", horizontal=True, vertical_alignment="center"):
        nodes = ["", *(t.node for t in details.tasks)]
        node = st.selectbox(
            "Node",
            nodes,
            key="log_node",
            format_func=lambda n: names.get(n, str(n)) if n else "All nodes",
            label_visibility="collapsed",
            width=240,
            persist_state="page",
        )
        search = search_box("Search the log", key="log_search", placeholder="Search", width=260, persist_state="page")
        level = st.segmented_control(
            "Level",
            list(_LEVELS),
            default="All",
            key="log_level",
            required=True,
            label_visibility="collapsed",
            persist_state="page",
        )
        least = _LEVELS[level or "All"]

        def wanted() -> Iterator[Line]:
            return matching(book.kept, node=node or None, search=search, least=least)

        lines, total = newest(wanted(), _SHOWN)
        count = f"newest {len(lines):,} of {total:,} lines" if total > len(lines) else plural(total, "lines")
        count += ", the beginning is left out" if book.cut else ""
        count_line(count)
        st.download_button(
            "Download",
            data=lambda: as_text(list(wanted())),
            file_name=f"{details.run.run_id}{'-' + node if node else ''}.log",
            mime="text/plain",
            key="log_download",
            icon=":material/download:",
            on_click="ignore",
        )
    if not lines:
        nothing = "Nothing was written yet." if details.run.active else "Nothing was written."
        st.html(notice("info", "No line matches." if book.kept else nothing))
        return
    draw_lines(lines, key="log_lines", height=_HEIGHT, names=None if node else names)


def draw_lines(lines: Sequence[Line], *, key: str, height: int, names: Mapping[str, str] | None = None) -> None:
    """The lines in a frame of `height` pixels that stays at its end while lines come in.

    With `names` of nodes, each line begins with its node's.
    """
    with st.container(key=key, height=height, autoscroll=True):
        st.html(log_block(lines, names))


def log_block(lines: Sequence[Line], names: Mapping[str, str] | None = None) -> Html:
    """The lines as text, each in the colour of its level."""
    written = [_line(line, names) for line in lines]
    longest = max((len(_name(line, names)) for line in lines), default=0) if names is not None else 0
    width = f"--vf-log-names: {longest}ch" if longest else None
    # With a place in the tab order, the frame around it can be scrolled by the keyboard.
    return tag("div", *written, class_="vf-log", role="log", aria_label="Log", tabindex=0, style=width)


def _name(line: Line, names: Mapping[str, str]) -> str:
    return names.get(line.node, line.node) or "run"


def _line(line: Line, names: Mapping[str, str] | None) -> Html:
    name = _name(line, names) if names is not None else ""
    node = tag("span", name, class_="vf-log-node", title=name) if names is not None else None
    return tag("div", node, tag("span", line.text, class_="vf-log-text"), class_=f"vf-log-{line.level}")
