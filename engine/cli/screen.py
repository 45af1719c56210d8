"""Printing: to a terminal with colours, to a pipe as plain text that other programs can read."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from engine.text import safe

if TYPE_CHECKING:
    from rich.console import Console

    from engine.diagnostics.rule import Diagnostic

COLOURS = {
    "done": "green",
    "cached": "green",
    "running": "cyan",
    "starting": "cyan",
    "waiting": "yellow",
    "failed": "bold red",
    "lost": "bold red",
    "stuck": "bold red",
    "cancelled": "yellow",
    "error": "bold red",
    "warning": "yellow",
    "run": "cyan",
}
_PIPED_WIDTH = 10_000
"""Wide enough that nothing is cut or wrapped: a program reads it line by line."""


def is_terminal() -> bool:
    """Whether a person sees the output, on a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def console() -> Console:
    """Where to print. Markup, emoji codes and highlighting are off: much of what is shown was typed by people."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would end the process; the command has a status for it

    return Ours(file=sys.stdout, width=_width(), markup=False, emoji=False, highlight=False)


def _width() -> int | None:
    """The columns to print in; None: those of `COLUMNS` or of the terminal, as Rich finds them."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return None
    if not sys.stdout.isatty():
        return _PIPED_WIDTH
    # Rich would print nothing into 0 columns.
    return shutil.get_terminal_size().columns if given else None


def say(text: str, *, style: str = "", error: bool = False) -> None:
    """One line, made safe; at once. Without Rich: `validate` would wait 80 ms for its import."""
    stream = sys.stderr if error else sys.stdout
    line = safe(text)
    if style and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        words = style.split()
        line = click.style(line, fg=next((w for w in words if w != "bold"), None), bold="bold" in words)
    print(line, file=stream, flush=True)


def say_diagnostics(found: Iterable[Diagnostic], *, error: bool = False) -> None:
    """One line for each problem, in the colour of its severity; on standard error with `error`."""
    for diagnostic in found:
        say(diagnostic.line(), style=COLOURS.get(diagnostic.severity, ""), error=error)


def say_json(value: Any) -> None:
    """One JSON document on one line, at once. Figures that are not finite become text, as in events."""
    print(json.dumps(_finite(value), allow_nan=False, default=str), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Aligned columns. A cell that is the name of a state gets its colour. `right` names columns of figures."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    for name in columns:
        out.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        out.add_row(*(Text(safe(cell), style=COLOURS.get(cell, "")) for cell in row))
    target = console()
    if target.is_terminal:
        target.print(out)
        return
    with target.capture() as captured:
        target.print(out)
    for line in captured.get().splitlines():
        print(line.rstrip())
