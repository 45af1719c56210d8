"""What a table says of each volume (patient, age, site ...): all patches of a volume have it as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from nodes.conversion.columns import by_file, columns_with_commas, of_label_table
from nodes.conversion.formats import Reading, endings_of
from nodes.conversion.label_table import match_files, read_volume_table
from nodes.conversion.label_values import nfc
from nodes.cutting.cubes import Cube
from nodes.cutting.cut_parameters import CutParameters
from nodes.cutting.patches import columns_of


@dataclass(frozen=True)
class KnownOfVolumes:
    """`columns` has one row per volume. `without` are the volumes that the table does not name, `rows_without_volume`
    how many of its rows name none of them. `remarks` are what a person should know of the columns; `commas` those of
    them that are text because their numbers have commas, each with an example."""

    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    without: tuple[str, ...] = ()
    rows_without_volume: int = 0
    remarks: tuple[str, ...] = ()
    commas: dict[str, str] = field(default_factory=dict)


def known_of_volumes(cubes: Sequence[Cube], reading: Reading, parameters: CutParameters) -> KnownOfVolumes:
    """Read `parameters.columns_file`, where it is given. A row names its volume with or without the files' ending.

    Raises `DataError` for a table that cannot be read, or a value that no column of a volume table can hold.
    """
    if not parameters.columns_file:
        return KnownOfVolumes()
    table = read_volume_table(Path(parameters.columns_file), "columns_file")
    names = nfc(pa.array([cube.name for cube in cubes], pa.string()))
    places = match_files(names, table.keys, endings_of(reading))
    columns = of_label_table(table.others, columns_of(reading, hashes=parameters.hash_sources).names)
    each = by_file(columns.table, places, len(cubes))
    named = set(places.tolist())
    return KnownOfVolumes(
        each.table,
        without=tuple(cube.name for place, cube in enumerate(cubes) if place not in named),
        rows_without_volume=int(np.count_nonzero(places < 0)),
        remarks=tuple(f"{table.name}: {remark}" for remark in (*columns.remarks, *each.remarks)),
        commas=columns_with_commas(columns.table),
    )
