"""Figures and texts as a person reads them, and text that cannot harm a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.datasets import Dataset


def safe(text: str) -> str:
    r"""`text` on one line, with control characters spelled out (`\x1b`).

    File names, titles and messages come from anywhere: an escape sequence in one must not move the
    cursor, rename the window or hide what follows, nor must an invisible mark turn the reading direction.
    """
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    if character in "\n\r\t":
        return " "
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_log_line(line: str) -> str:
    """A line of a log: of a progress bar that redraws itself, what it drew last; tabs become spaces."""
    return safe(line.rstrip("\r\n").rsplit("\r", 1)[-1].expandtabs(8))


def plural(count: float, noun: str) -> str:
    """`1 volume`, `2,000 volumes`; a unit that is no plural ("MB") stays as it is."""
    figure = number(count)
    if not noun:
        return figure
    if count == 1 and noun.endswith("s") and len(noun) > 2:
        noun = noun[:-1]
    return f"{figure} {noun}"


def number(value: float) -> str:
    """At most four digits behind the point, thousands apart: `33,368,897`, `0.9312`."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def size(count: float) -> str:
    """Bytes in powers of a thousand: `720 MB`, `1.2 GB`."""
    unit = "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:,.0f} {unit}" if unit == "bytes" or count >= 9.95 else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `1 min 05 s`, `2 h 03 min`."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def money(amount: float) -> str:
    """An amount in a currency that nobody named: `12.40`, `0.031`."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.2g}"


def moment(seconds: float | None) -> str:
    """A time since the epoch as local date and time."""
    import time

    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def figures(details: Mapping[str, Any]) -> str:
    """A dataset's `details()` in a few words: `2,000 volumes, 720 MB`."""
    rest = dict(details)
    out: list[str] = []
    volumes = rest.pop("volumes", None)
    if volumes is not None:
        share = rest.pop("share", None)
        part = "" if share is None else f"{100 * share:.3g}% of "
        out.append(part + plural(volumes, "volumes"))
    if (held := rest.pop("bytes", None)) is not None:
        out.append(size(held))
    # Said only when it is news: everything was found, converted and labelled in a run without trouble.
    rest.pop("found", None)
    if quarantined := rest.pop("quarantined", 0):
        out.append(f"{quarantined:,} quarantined")
    labelled = rest.pop("labelled", None)
    if labelled is not None and volumes is not None and labelled < volumes:
        out.append(f"{labelled:,} labelled")
    for name in ("shape", "dtype"):
        rest.pop(name, None)
    for name, value in rest.items():
        if name in ("files", "parameters", "rows"):
            out.append(plural(value, name))
        else:
            out.append(f"{name} {number(value) if isinstance(value, (int, float)) else value}")
    return safe(", ".join(out))


def made(outputs: Mapping[str, Dataset]) -> str:
    """What a task made, by port where it has several."""
    texts = {port: figures(dataset.details()) for port, dataset in outputs.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{port}: {text}" for port, text in texts.items() if text)
