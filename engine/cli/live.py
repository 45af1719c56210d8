"""A run on a terminal: one line per task, redrawn in place; warnings scroll by above."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from engine.cli.displays import Display, Moment
from engine.cli.screen import COLOURS, console
from engine.declare.events import Message
from engine.store.runs import Task
from engine.text import safe
from engine.wording import advance, outcome, time_taken

_GLYPHS = {"done": "✓", "cached": "✓", "failed": "✗", "cancelled": "■", "skipped": "-", "waiting": "…", "queued": "·"}
_ASCII = {"done": "+", "cached": "=", "failed": "x", "cancelled": "#", "skipped": "-", "waiting": "~", "queued": "."}
_BAR = 20
_TITLE = 28
_REST = 4
"""Lines of the terminal left to the rest: the prompt, the run's own line, the count of what is not shown."""


class LiveDisplay(Display):
    """Draws about ten times a second; what is drawn last stays on the screen."""

    kinds = ("message",)

    def __init__(self) -> None:
        self._console = console()
        self._ascii = self._console.options.ascii_only
        self._spinners: dict[str, Spinner] = {}
        self._tasks: list[Task] = []
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        # All of it at the end, however many lines it has.
        self._live.update(self._drawn(self._tasks), refresh=False)
        self._live.stop()

    def show(self, moment: Moment) -> None:
        for event in moment.events:
            if isinstance(event, Message) and event.level != "info":
                style = COLOURS.get(event.level, "")
                self._console.print(Text(safe(f"{event.level} {event.node or 'run'}: {event.text}"), style=style))
        self._tasks = moment.tasks
        shown = visible(moment.tasks, self._console.height - _REST)
        drawn = self._drawn(shown)
        if hidden := len(moment.tasks) - len(shown):
            drawn = Group(drawn, Text(f"  and {hidden} more", style="dim"))
        self._live.update(drawn, refresh=True)

    def note(self, text: str) -> None:
        self._console.print(Text(safe(text), style="yellow"))

    def sending(self, to: str) -> AbstractContextManager[Any]:
        return self._console.status(Text(safe(f"sending to MLflow at {to}")), spinner=self._spinner_name)

    @property
    def _spinner_name(self) -> str:
        return "line" if self._ascii else "dots"

    def _drawn(self, tasks: list[Task]) -> RenderableType:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=1, no_wrap=True)
        grid.add_column(max_width=_TITLE, no_wrap=True, overflow="ellipsis")
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        for task in tasks:
            grid.add_row(
                self._glyph(task), Text(safe(task.title)), self._body(task), Text(time_taken(task), style="dim")
            )
        return grid

    def _glyph(self, task: Task) -> RenderableType:
        if task.state == "running":
            return self._spinners.setdefault(task.node, Spinner(self._spinner_name, style=COLOURS["running"]))
        glyphs = _ASCII if self._ascii else _GLYPHS
        return Text(glyphs[task.state], style=COLOURS.get(task.state, "dim"))

    def _body(self, task: Task) -> RenderableType:
        if task.state != "running":
            return Text(outcome(task), style="" if task.state == "done" else COLOURS.get(task.state, "dim"))
        progress = task.progress
        if progress is None or not (text := advance(progress)):
            return Text(safe(task.reason), style="dim")
        row = Table.grid(padding=(0, 1))
        row.add_column(width=_BAR)
        row.add_column(no_wrap=True, overflow="ellipsis")
        # Nothing is known of a total of zero either: it would draw a full bar.
        whole = progress.whole
        bar = ProgressBar(total=None if whole is None else 1.0, completed=whole or 0.0)
        row.add_row(bar, Text(text))
        return row


def visible(tasks: list[Task], lines: int) -> list[Task]:
    """Those that fit, in the order of the plan: first what runs or failed, then what ended last, then what is next."""
    if len(tasks) <= max(1, lines):
        return tasks
    lively = [t for t in tasks if t.state in ("running", "waiting", "failed")]
    ended = sorted((t for t in tasks if t.state in ("done", "cancelled")), key=lambda t: -(t.ended or 0))
    rest = [t for t in tasks if t.state in ("queued", "cached", "skipped")]
    kept = {t.node for t in [*lively, *ended[: max(1, lines // 3)], *rest, *ended][: max(1, lines)]}
    return [t for t in tasks if t.node in kept]
