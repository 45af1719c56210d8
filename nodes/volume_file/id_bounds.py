"""Whether a file holds the rows that a log says, by the ends of its ids: another one may have the same size."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nodes.volume_file.join import is_of_known_writer

WRONG_ENDS = "its footer says wrongly between which ends its ids are"


def id_bounds(metadata: pq.FileMetaData) -> tuple[str, str] | None:
    """The least and the greatest id of a file's rows by its footer; None where that is not known for sure."""
    if not is_of_known_writer(metadata) or not metadata.num_rows:
        return None
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if "id" not in paths:
        return None
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    found = [group.column(paths.index("id")).statistics for group in groups if group.num_rows]
    if any(each is None or not each.has_min_max for each in found):
        return None
    ends = [end for each in found for end in (each.min, each.max)]
    return (min(ends), max(ends)) if all(isinstance(end, str) for end in ends) else None


def read_id_bounds(file: pq.ParquetFile) -> tuple[str, str] | None:
    """The same by reading all ids; None without any."""
    ends: list[str] = []
    for batch in file.iter_batches(columns=["id"], use_threads=False):
        found = pc.min_max(batch.column(0).cast(pa.string())).as_py()
        ends += [end for end in found.values() if end is not None]
    return (min(ends), max(ends)) if ends else None


def other_rows(found: tuple[str, str] | None, said: tuple[str, str]) -> str:
    """What is wrong where ids with these ends are `said` to lie between others, or ""."""
    # Spark cuts long ids short in its log; the last one may then lie behind the end, and begins with it.
    if found is None or (said[0] <= found[0] and (found[1] <= said[1] or found[1].startswith(said[1]))):
        return ""
    within = f"not from {said[0]} to {said[1]}"
    return f"holds other rows than the table's log says: ids from {found[0]} to {found[1]}, {within}"
