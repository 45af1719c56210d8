"""Would rows be in the table twice? Compares ids, reading only files whose ranges of ids meet."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nodes.delta.delta_table import TableFile

Located = tuple[Path, TableFile]
"""A file with the place it can be read at."""


def first_common_id(new: Sequence[Located], present: Sequence[Located]) -> str | None:
    """An id that is in both sets of files, or None. Memory: the ids of the files whose ranges meet."""
    if not new or not present:
        return None
    ours = _meeting(new, present)
    theirs = _meeting(present, ours)
    if not ours or not theirs:
        return None
    common = pc.filter(ids := _ids(ours), pc.is_in(ids, value_set=_ids(theirs)))
    return str(common[0].as_py()) if len(common) else None


def _meeting(files: Sequence[Located], others: Sequence[Located]) -> list[Located]:
    """The files whose range of ids meets that of one of the others."""
    ranges = sorted((f.id_min, f.id_max) for _, f in others)
    starts = [low for low, _ in ranges]
    # The furthest end among the ranges that begin up to each one.
    ends = list(accumulate((high for _, high in ranges), max))
    out = []
    for path, file in files:
        before = bisect_right(starts, file.id_max)
        if before and ends[before - 1] >= file.id_min:
            out.append((path, file))
    return out


def _ids(files: Sequence[Located]) -> pa.Array:
    chunks = [pq.read_table(path, columns=["id"], memory_map=True, use_threads=False)["id"] for path, _ in files]
    return pa.concat_arrays([c for chunked in chunks for c in chunked.chunks] or [pa.array([], pa.string())])
