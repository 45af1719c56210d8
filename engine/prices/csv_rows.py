"""Rows of CSV files that people edit and bring along: read with the line of anything wrong, and written back."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.declare.field_rules import control_character
from engine.errors import UsageError
from engine.storage.encodings import LOOKED_AT, SAVE_AS_UTF_8, no_utf_8
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy
from engine.text import did_you_mean

_OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""What spreadsheets write between columns where a comma is the decimal point."""
_FORMULA = re.compile(r"[=+@-].")
"""What spreadsheets compute when they open the file; a dash alone is a text."""
_NUMBER = re.compile(r"\+?[0-9.]+([eE][+-]?[0-9]+)?|-0+(\.0*)?")
"""Of at least 0, in the digits and with the point of CSV files; -0 is 0."""
_SHOWN = 40
"""Characters of a cell that a message repeats."""
_MOST = 1e15
"""Larger figures are slips, and what is computed from them may be no number any more."""
Cell = str | int | float
Row = TypeVar("Row")
Read = Callable[[Path], list[Row]]
"""Reads a file's rows. Raises `FileNotFoundError`, and `UsageError` with the line for anything wrong."""


@dataclass(frozen=True)
class Layout:
    """The columns that a file may have, in any order, and those that each row needs.

    `numbers` are at least 0, `whole` ones whole, too; `date` is in ISO 8601, `currency` has three letters, which are
    read as capitals. `rows` is what the rows are, such as `machine`.
    """

    columns: tuple[str, ...]
    needed: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: str
    whole: tuple[str, ...] = ()


def read_rows(
    path: Path, layout: Layout, *, codes: bool = False, data: bytes | None = None
) -> Iterator[tuple[str, dict[str, Cell]]]:
    """Each row's place (`FILE, line 3`) and its cells that are not empty.

    `codes`: a currency has to be a code of three letters, and no text a formula. Earlier versions took any text into a
    workspace's own table. `data` is the file's content where it lies on no disk here; `path` then only names it.
    Raises `FileNotFoundError`, and `UsageError` with the line for anything wrong.
    """
    # Lines may end as on any system.
    reader = csv.DictReader(io.StringIO(_text(path, data), newline=""), strict=True)
    try:
        header = [_column(name.strip(), layout) for name in reader.fieldnames or ()]
        while header and not header[-1]:
            header.pop()  # spreadsheets write empty columns, and rows, too
        reader.fieldnames = header
        _check_header(path, header, layout)
        for row in reader:
            if not any(_texts(row)):
                continue
            where = f"{path}, line {reader.line_num}"
            yield where, _cells(where, row, layout, codes)
    except csv.Error as exc:
        raise UsageError(
            f"{path}, line {reader.reader.line_num}: {exc}", hint="Save it as a CSV file with commas."
        ) from exc


def brought_rows(path: Path, read: Read[Row], rows: str) -> list[Row]:
    """What a person brings along: a file that is there, with at least one row; `rows` is what a row is.

    Raises `UsageError`, with the line.
    """
    try:
        found = read(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint="Check the path.") from None
    if not found:
        raise UsageError(f"{path} has no rows", hint=f"Write a row for each {rows}, below the line with the columns.")
    return found


def own_rows(path: Path | None, read: Read[Row]) -> tuple[list[Row], UsageError | None]:
    """A workspace's own rows, of which there need be none, and why its file cannot be used."""
    try:
        return ([] if path is None else read(path)), None
    except FileNotFoundError:
        return [], None
    except UsageError as exc:
        return [], exc


def merged_rows(
    new: Sequence[Row], path: Path, read: Read[Row], key: Callable[[Row], Hashable]
) -> tuple[list[Row], int]:
    """New rows, then the workspace's own that they do not replace; and how many they do.

    Raises `UsageError` when the workspace's file cannot be read.
    """
    before, problem = own_rows(path, read)
    if problem is not None:
        raise problem
    keys = {key(row) for row in new}
    kept = [row for row in before if key(row) not in keys]
    return [*new, *kept], len(before) - len(kept)


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the file anew. Raises `UsageError` where that is not possible; then nothing has changed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_written(value) for value in row] for row in rows)
    try:
        write_whole(path, text.getvalue(), durable=True)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}", hint=remedy(exc)) from exc


def _text(path: Path, data: bytes | None) -> str:
    try:
        found = read_document(path) if data is None else data
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=remedy(exc)) from exc
    try:
        # Spreadsheets begin a CSV file with a byte order mark.
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is {no_utf_8(found[:LOOKED_AT])}", hint=SAVE_AS_UTF_8) from None


def _column(name: str, layout: Layout) -> str:
    """The column of that name, in capitals too."""
    return name.casefold() if name.casefold() in layout.columns else name


def _check_header(path: Path, header: list[str], layout: Layout) -> None:
    hint = f"It may have: {', '.join(layout.columns)}."
    if len(header) == 1 and (mark := next((mark for mark in _OTHER_MARKS if mark in header[0]), "")):
        raise UsageError(
            f"{path} has {_OTHER_MARKS[mark]} between its columns",
            hint="Save it as a CSV file with commas between them, and a point in numbers.",
        )
    for name in layout.needed:
        if name not in header:
            raise UsageError(f"{path} has no column {name}", hint=hint)
    for name in header:
        if name not in layout.columns:
            raise UsageError(
                f"{path} has a column {name!r}, which a table of {layout.rows}s has not",
                hint=f"{did_you_mean(name, layout.columns)} {hint}".lstrip(),
            )
    if len(set(header)) < len(header):
        raise UsageError(f"{path} has a column twice", hint="Name each column once.")


def _texts(row: Mapping[str | None, str | list[str] | None]) -> Iterator[str]:
    """The text of each cell of a row, also of those beyond the last column."""
    for cell in row.values():
        yield from (text.strip() for text in (cell if isinstance(cell, list) else [cell or ""]))


def _cells(
    where: str, row: Mapping[str | None, str | list[str] | None], layout: Layout, codes: bool
) -> dict[str, Cell]:
    if any(text.strip() for text in row.get(None) or ()):
        raise UsageError(
            f"{where} has more cells than the first line",
            hint='Write numbers with a point (0.384), and put a text with commas into "quotes".',
        )
    values: dict[str, Cell] = {}
    for column, cell in row.items():
        if column is None:
            continue
        text = cell.strip() if isinstance(cell, str) else ""
        if bad := control_character(text):
            raise UsageError(f"{where}, {column}: holds the control character {bad!r}", hint="Remove it.")
        if text:
            is_number = column in (*layout.whole, *layout.numbers)
            if codes and not is_number and _FORMULA.match(text):
                raise UsageError(
                    f"{where}, {column}: {text[:_SHOWN]!r} is a formula to a spreadsheet",
                    hint="Write the text itself, without = + - or @ before it.",
                )
            values[column] = _number(where, column, text, layout) if is_number else text
    for name in layout.needed:
        if name not in values:
            raise UsageError(f"{where} has no {name}", hint=f"Give each {layout.rows} a {name}.")
    if "date" in values:
        try:
            datetime.date.fromisoformat(str(values["date"]))
        except ValueError:
            raise UsageError(
                f"{where}, date: {values['date']} is no date", hint="Write for example 2026-06-18."
            ) from None
    if "currency" in values:
        values["currency"] = _currency(where, str(values["currency"]), codes)
    return values


def _currency(where: str, text: str, codes: bool) -> str:
    # Amounts are compared where their currencies are the same text.
    if re.fullmatch(r"[A-Za-z]{3}", text):
        return text.upper()
    if codes:
        raise UsageError(
            f"{where}, currency: must be the three letters of a currency, not {text!r}", hint="Write for example EUR."
        )
    return text


def _number(where: str, column: str, text: str, layout: Layout) -> int | float:
    try:
        # Python's 1_5 is 15, which the person may not have meant.
        value = abs(float(text)) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        value = math.nan
    is_whole = column in layout.whole
    if not 0 <= value < math.inf or (is_whole and value != int(value)):
        kind, example = ("a whole number", "16") if is_whole else ("a number", "0.384")
        shown = repr(text[:_SHOWN])
        raise UsageError(
            f"{where}, {column}: must be {kind} of at least 0, not {shown}", hint=f"Write it as {example}."
        )
    if value > _MOST:
        raise UsageError(f"{where}, {column}: {text!r} is more than there is of anything", hint="Look the figure up.")
    return int(value) if is_whole else value


def _written(value: object) -> str:
    return "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)
