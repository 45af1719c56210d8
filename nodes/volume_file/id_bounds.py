"""Whether a file holds the rows that a log says, by its ids and labels: another one may have the same size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nodes.volume_file.join import is_of_known_writer

WRONG_ENDS = "its footer says wrongly between which ends its ids are"
NO_TEXT = ("\U0010ffff", "")
"""Ends between which no id is, nor any that a log says."""
WRONG_LABELS = "its footer says wrongly which labels its rows have"
_NUMBERS = ("INT32", "INT64", "FLOAT", "DOUBLE")
"""Parquet's types whose statistics pyarrow reads as numbers."""
_CUT_SHORT = "\ufffd\U0010ffff"
"""One of them stands behind a greatest id that Spark has cut short; the first is less than some characters are."""


class Described(Protocol):
    """What a table's log, or the list of a dataset's files, says of a file; the ends may be wider than they are."""

    @property
    def bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def labelled(self) -> int: ...
    @property
    def id_min(self) -> str: ...
    @property
    def id_max(self) -> str: ...
    @property
    def label_min(self) -> float | None: ...
    @property
    def label_max(self) -> float | None: ...


class Ends(NamedTuple):
    """The least and the greatest id and label of some rows. `labelled` have one that is not null, `numbers` one that is
    not NaN either."""

    ids: tuple[str, str] | None
    labels: tuple[float, float] | None
    labelled: int
    numbers: int


def id_bounds(metadata: pq.FileMetaData) -> tuple[str, str] | None:
    """The least and the greatest id of a file's rows by its footer; None where that is not known for sure, `NO_TEXT`
    where it says bytes that are no text."""
    if not is_of_known_writer(metadata) or not metadata.num_rows:
        return None
    found = [chunk.statistics for chunk in column_chunks(metadata, "id")]
    if not found or any(each is None or not each.has_min_max for each in found):
        return None
    try:
        ends = [end for each in found for end in (each.min, each.max)]
    except UnicodeDecodeError:
        return NO_TEXT
    return (min(ends), max(ends)) if all(isinstance(end, str) for end in ends) else None


def footer_ends(metadata: pq.FileMetaData) -> Ends | None:
    """The ends of a file's rows by its footer, which counts NaN as a number; None where they are not known for sure."""
    if (ids := id_bounds(metadata)) is None:
        return None
    labels, labelled = list[tuple[Any, Any]](), 0
    for chunk in column_chunks(metadata, "label"):
        found = number_statistics(chunk)
        if found is None or not found.has_null_count:
            return None
        if there := chunk.num_values - found.null_count:
            if not found.has_min_max:
                return None  # all of them are NaN, or it is not said
            labels.append((found.min, found.max))
            labelled += there
    return Ends(ids, _outer(labels), labelled, labelled)


def number_statistics(chunk: pq.ColumnChunkMetaData) -> pq.Statistics | None:
    """What a footer says of a column of numbers; None where it says nothing, or it is of others, as float16 is."""
    return chunk.statistics if chunk.physical_type in _NUMBERS else None


def column_chunks(metadata: pq.FileMetaData, name: str) -> list[pq.ColumnChunkMetaData]:
    """The column's chunks in the row groups that have rows."""
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    groups = map(metadata.row_group, range(metadata.num_row_groups) if name in paths else ())
    return [group.column(paths.index(name)) for group in groups if group.num_rows]


def ends_of(ids: pa.ChunkedArray | pa.Array, labels: pa.ChunkedArray | pa.Array | None) -> Ends:
    """Of columns of the same rows. `labels` are numbers; None: there are none."""
    first, last = pc.min_max(ids.cast(pa.string())).as_py().values()
    found = None if first is None else (first, last)
    if labels is None:
        return Ends(found, None, 0, 0)
    values = labels.cast(pa.float32(), safe=False)
    # Where all are NaN these are none: Arrow passes over it.
    least, most = pc.min_max(values).as_py().values()
    labelled = len(values) - values.null_count
    numbers = labelled - (pc.sum(pc.is_nan(values)).as_py() or 0)
    return Ends(found, (least, most) if numbers else None, labelled, numbers)


def read_ends(file: pq.ParquetFile) -> Ends:
    """The same by reading all ids and labels. Raises `OSError` and `pyarrow.ArrowException`."""
    names = file.schema_arrow.names
    if problem := columns_problem(names):
        raise pa.ArrowInvalid(problem)
    wanted = [name for name in ("id", "label") if name in names]
    found = [
        ends_of(batch["id"], batch["label"] if "label" in wanted else None)
        for batch in file.iter_batches(columns=wanted, use_threads=False)
    ]
    return Ends(
        _outer(each.ids for each in found),
        _outer(each.labels for each in found),
        sum(each.labelled for each in found),
        sum(each.numbers for each in found),
    )


def columns_problem(names: Sequence[str]) -> str:
    """Why columns of these names are not those of volumes, or ""."""
    if missing := next((name for name in ("id", "volume") if name not in names), ""):
        return f"it has no column {missing}"
    return doubled_column(names)


def doubled_column(names: Sequence[str]) -> str:
    """What a name is that several columns have, of which Arrow then gives none, or ""."""
    name = next((name for name in names if names.count(name) > 1), None)
    return "" if name is None else f"it has {names.count(name)} columns {name}"


def _outer(found: Iterable[tuple[Any, Any] | None]) -> tuple[Any, Any] | None:
    known = [each for each in found if each is not None]
    return (min(least for least, _ in known), max(most for _, most in known)) if known else None


def other_content(found: Ends, said: Described, where: str = "the table's log") -> str:
    """What is wrong where rows with these ends are not those that `where` has `said`, or ""."""
    if problem := other_rows(found.ids, (said.id_min, said.id_max), where):
        return problem
    other = f"holds other labels than {where} says"
    # A writer may count NaN as a label or as none.
    if not found.numbers <= said.labelled <= found.labelled:
        return f"{other}: {found.numbers:,} of {said.rows:,} rows have one, not {said.labelled:,}"
    if found.labels is None or said.label_min is None or said.label_max is None:
        return ""
    # As 32 bits, since a log may have fewer digits, or more; plus 0, which makes -0 a 0.
    with np.errstate(over="ignore"):
        least, most, first, last = np.array([*found.labels, said.label_min, said.label_max]).astype(np.float32) + 0
    if least < first or most > last:
        return f"{other}: from {least:g} to {most:g}, not from {first:g} to {last:g}"
    return ""


def is_exactly(found: Ends, said: Described) -> bool:
    """Whether the ends are those that the table's log says, neither wider nor narrower."""
    labels = (said.label_min, said.label_max)
    as_said = Ends(None, None if None in labels else labels, said.labelled, said.labelled)  # type: ignore[arg-type]
    return found.ids == (said.id_min, said.id_max) and have_same_labels(found, as_said)


def have_same_labels(one: Ends, other: Ends) -> bool:
    """Whether as many labels lie between the same ends, as 32 bits."""
    if one.labelled != other.labelled or one.labels is None or other.labels is None:
        return one.labelled == other.labelled and one.labels == other.labels
    with np.errstate(over="ignore"):
        return bool((np.array(one.labels).astype(np.float32) == np.array(other.labels).astype(np.float32)).all())


OTHER_FILE = (
    "Bring the right file back from a copy. Or delete this one and run again from the node that makes the table"
    " (--from): it fills it again from the Parquet files."
)
"""What to do about one."""


def other_rows(found: tuple[str, str] | None, said: tuple[str, str], where: str = "the table's log") -> str:
    """What is wrong where ids with these ends are `said` to lie between others, or ""."""
    # Spark cuts long ids short in its log; the last one may then lie behind the end, and begins with it.
    begins = said[1].rstrip(_CUT_SHORT)
    if found is None or (said[0] <= found[0] and (found[1] <= said[1] or found[1].startswith(begins))):
        return ""
    within = f"not from {said[0]} to {said[1]}"
    return f"holds other rows than {where} says: ids from {found[0]} to {found[1]}, {within}"
