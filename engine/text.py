"""Text for people, of anything: safe to print, counts, figures, sizes, durations, money, times."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from ctypes import c_float


def safe(text: str) -> str:
    r"""`text` on one line, with control characters spelled out (`\x1b`).

    File names, titles and messages come from anywhere: an escape sequence in one must not move the
    cursor, rename the window or hide what follows, nor must an invisible mark turn the reading direction.
    """
    return "".join(c if c.isprintable() else " " if c in "\n\r\t" else spelled_out(c) for c in text)


def spelled_out(character: str) -> str:
    """The escape that Python writes for a character that cannot be printed: `\\x1b`, `\\u202e`."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_log_line(line: str) -> str:
    """A line of a log: of a progress bar that redraws itself, what it drew last; tabs become spaces."""
    return safe(line.rstrip("\r\n").rsplit("\r", 1)[-1].expandtabs(8))


_PLAIN_WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*(?=[ ,;.!?…]*(?: |$))")


def headline(message: str) -> str:
    """A message that stands by itself, with a capital at its beginning; on the command line `error: ` goes before it.

    What begins with anything but a plain word stays as it is: that is a name, and `labels.csv`, `on_bad` or `/data`
    with a capital would name something else. So is what stands before a colon, a node. As the browser writes it
    (`ui/protocol/cases/headlines.json`).
    """
    return f"{message[0].upper()}{message[1:]}" if _PLAIN_WORD.match(message) else message


def did_you_mean(typed: str, known: Iterable[str], most: int = 1) -> str:
    """`Did you mean run?`: the known names nearest to a mistyped one, so many at most; "" where none is near."""
    from difflib import get_close_matches  # 2 ms, for a mistake alone

    names = {name.casefold(): name for name in known}
    near = [names[found] for found in get_close_matches(typed.casefold(), names, n=most)]
    return f"Did you mean {' or '.join(near)}?" if near else ""


def plural(count: float, noun: str) -> str:
    """`1 volume`, `2,000 volumes`; a unit that is no plural ("MB") stays as it is."""
    figure = number(count)
    if not noun:
        return figure
    return f"{figure} {singular(noun) if count == 1 else noun}"


def singular(noun: str) -> str:
    """`volume` of `volumes`, `batch` of `batches`; `MB` of `MB`."""
    if not noun.endswith("s") or len(noun) <= 2:
        return noun
    return noun[:-2] if noun.endswith("ches") else noun[:-1]


_DIGITS, _MOST_DIGITS = 4, 6
_MANY = 1e15
"""From here on a figure is written with an exponent: of its digits before the point most are not known."""


def number(value: float, digits: int = _DIGITS) -> str:
    """A whole number with its thousands apart, else so many digits: `33,368,897`, `0.9312`, `122.6`.

    Without a fraction from 1,000 on, as the browser writes it (`figureText`).
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= _MANY and isinstance(value, float):
        return f"{value:.{digits}g}"
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def numbers(values: Sequence[float]) -> list[str]:
    """`number` of values side by side: with more digits, six at most, where two that differ would read alike."""
    found = [[number(value, digits) for value in values] for digits in range(_DIGITS, _MOST_DIGITS + 1)]
    return next(texts for texts in found if len(set(texts)) == len(set(found[-1])) or texts is found[-1])


def label_text(label: float) -> str:
    """The shortest text of a label, a 32-bit float, that no other label has: `3`, `0.1`, `1234567`."""
    exact = c_float(label).value
    texts = (f"{label:.{digits}g}" for digits in (6, 7, 8))
    return next((text for text in texts if c_float(float(text)).value == exact), f"{label:.9g}")


def size(count: float) -> str:
    """Bytes in powers of a thousand: `720 MB`, `1.2 GB`."""
    unit = "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:,.0f} {unit}" if unit == "bytes" or count >= 9.95 else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `1 min 05 s`, `2 h 03 min`, `2 days 7 h`: as the browser writes it (`ui/protocol/cases`)."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{math.floor(seconds * 10 + 0.5) / 10:.1f} s"
    whole = math.floor(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def between(low: float, high: float) -> str:
    """A time in seconds that is not known exactly: `12 min 00 s to 25 min 00 s`, `up to 3.0 s`."""
    first, last = duration(low), duration(high)
    if first == last:
        return f"about {last}"
    return f"up to {last}" if low <= 0 else f"{first} to {last}"


_LEAST_MONEY = 0.0001
"""Of less nobody wants to know how much it is."""
_LEAST_COINS = 0.1
"""From here on an amount has two decimals, as coins do; of less, two digits say more."""


def money(amount: float, currency: str = "") -> str:
    """An amount: `12.40 USD`, `0.40 USD`; without a currency where none is known: `0.031`."""
    if 0 < amount < _LEAST_MONEY:
        figure = f"<{_LEAST_MONEY}"
    else:
        # 0.0996 of two digits is 0.1, which has two decimals as all from there on.
        few = f"{amount:.2g}"
        figure = f"{amount:,.2f}" if float(few) >= _LEAST_COINS or not amount else few
    return safe(f"{figure} {currency}") if currency else figure


def money_between(low: float, high: float, currency: str = "") -> str:
    """An amount that is not known exactly: `0.08 to 0.16 USD`."""
    first, last = money(low), money(high, currency)
    if first == money(high):
        return f"about {last}"
    return f"up to {last}" if low <= 0 else f"{first} to {last}"


def hourly(price: float, currency: str = "", an_hour: str = " an hour") -> str:
    """`0.384 USD an hour`."""
    return safe(f"{number(price)} {currency}".rstrip()) + an_hour


def short_source(source: str) -> str:
    """The place of a source without the rest of its address: `github.com/kubernetes/autoscaler`."""
    place = source.split("://", 1)[-1].split()
    return "/".join(place[0].split("/")[:3]) if "://" in source and place else source


def moment(seconds: float | None) -> str:
    """A time since the epoch as local date and time."""
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def ago(seconds: float, now: float) -> str:
    """How long before `now` a moment was, both in seconds since the epoch: `just now`, `5 min ago`, `3 days ago`, else
    its date."""
    passed = max(0.0, now - seconds)
    if passed < 45:
        return "just now"
    if passed < 3570:
        return f"{max(1, round(passed / 60))} min ago"
    if passed < 84600:
        return f"{round(passed / 3600)} h ago"
    if passed < 30 * 86400:
        return f"{plural(max(1, round(passed / 86400)), 'days')} ago"
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
