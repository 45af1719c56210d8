"""The logs of a run as lines with a level: read once, followed, searched. No Streamlit here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.cli.wording import safe_log_line

Level = Literal["output", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("output", "info", "warning", "error")
_PREFIXES: tuple[tuple[str, Level], ...] = (("info: ", "info"), ("warning: ", "warning"), ("error: ", "error"))
_PART = 1 << 20
_MOST_AT_ONCE = 8 << 20
"""Bytes read from one file at a time; of a longer log its end."""
MOST_LINES = 50_000
"""Kept of all logs of a run together."""
_LONGEST_LINE = 2_000


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
        """What stands behind the last end of line."""
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
        """The run has ended: what stands without an end of line is a line too."""
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
    """A line as it stands in a node's log. Messages begin with their level, all else is output."""
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
