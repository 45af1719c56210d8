"""Whether the files of a table are there and whole, and whether a cached reference to it still holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from engine.declare.datasets import Dataset, VolumeDelta
from engine.errors import VoxelflowError
from engine.storage.find_place import place_at
from engine.storage.io_errors import OUT_OF_RESOURCES, number_of
from engine.storage.place import Place
from nodes.table.log import data_version
from nodes.table.snapshot import TableFile, TableVersion, load_delta, open_table


def problem_with(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    """ "" when every table among the outputs is there with all files of its version, whole, else what is wrong.

    With `for_change`, asked of such tables only: whether the newest version holds other rows, or is damaged.
    """
    for dataset in outputs.values():
        if isinstance(dataset, VolumeDelta) and (problem := _problem(dataset, for_change)):
            return problem
    return ""


def damaged_files(place: Place, files: Iterable[TableFile]) -> Iterator[tuple[TableFile, str]]:
    """Files that are gone or have another size than the log says, each with what is wrong. Bytes are not read."""
    known = tuple(files)
    for number, problem in place.damaged((file.path, file.bytes) for file in known):
        yield known[number], problem


def damage_in(table: TableVersion) -> str:
    """ "" when all files of the version are there with their sizes, else the first that is not and what is wrong."""
    file, problem = next(damaged_files(table.place, table.files), (None, ""))
    return f"{file.path} of version {table.version} {problem}" if file is not None else ""


def _problem(table: VolumeDelta, for_change: bool) -> str:
    try:
        place = place_at(table.uri)
        if not for_change:
            pinned = open_table(place, table.version)
            made_anew = sum(f.rows for f in pinned.files) != table.count
            return damage_in(pinned) or (f"the table {table.uri} was made anew" if made_anew else "")
        newest = load_delta(place).version()
        if data_version(place, newest, (table.version, table.data_version)) != table.data_version:
            return f"the table has other rows since version {table.version}"
        return damage_in(open_table(place, newest)) if newest != table.version else ""
    except VoxelflowError as exc:
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return exc.message
