"""What a file is made of, so that its few bytes of labels are struck as often as its megabytes of volumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from nodes.volume_file.pages import parse_header

OTHER = "another file"
_COLUMNS = {"id": "ids", "label": "labels", "volume": "volumes"}
_LENGTH_AND_MAGIC = 8


class Section(NamedTuple):
    """The bytes of a file from `begin` to `end`, which hold one kind of thing."""

    kind: str
    begin: int
    end: int


def sections_of(path: Path) -> list[Section]:
    """All of them: of a Parquet file its pages, their headers with the checksums, index and footer; else the file."""
    if "_delta_log" in path.parts:
        return [Section("log", 0, path.stat().st_size)]
    if path.suffix != ".parquet":
        return [Section(OTHER, 0, path.stat().st_size)]
    return [section for section in _of_parquet(path) if section.begin < section.end]


def _of_parquet(path: Path) -> Iterator[Section]:
    data, described = memoryview(path.read_bytes()), pq.read_metadata(path)
    at = 0
    for group in (described.row_group(number) for number in range(described.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            kind = _COLUMNS.get(column.path_in_schema, "another column")
            at = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
            end = at + column.total_compressed_size
            while at < end:
                header = parse_header(bytes(data[at : min(end, at + 4096)]))
                body = at + header.length
                yield Section("checksums", at, body)
                at = body + header.body
                yield Section(kind, body, at)
    footer = len(data) - _LENGTH_AND_MAGIC - int.from_bytes(data[-8:-4], "little")
    yield Section("indexes", at, footer)
    yield Section("footers", footer, len(data))
