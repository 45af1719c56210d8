"""What `voxelflow verify` checks: a dataset of ours, a model, or a table of another program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.declare.datasets import Dataset
from engine.errors import DataError, UnsupportedTable, UsageError, VoxelflowError
from engine.storage.find_place import place_at
from engine.storage.io_errors import raise_if_not_damage
from engine.storage.place import Place
from nodes.foreign_tables.tables import any_table, has_files
from nodes.inspection.damage import (
    Checked,
    Damage,
    Progress,
    check_dataset,
    check_log,
    check_model,
    check_removes,
    check_version,
    set_aside,
)
from nodes.inspection.foreign import check_foreign
from nodes.table.log import LOG, versions
from nodes.table.snapshot import load_delta, open_table
from nodes.volume_file.layout import names_volumes


def check_data(
    data: Dataset | str, *, threads: int, progress: Progress, aside: Sequence[Path] | None = None
) -> Checked:
    """Check a dataset, the newest version of the table at a path or URL, Parquet files, or the model in a folder.

    With `aside`, the folders of the workspace's parts, damaged files of volumes are renamed afterwards (`set_aside`);
    files of other programs stay as they are. Raises `UsageError` where there is nothing that could be checked,
    `UnsupportedTable` for a table of another program that cannot be read here, `OSError` where nothing can be said of
    a file: no handle was left for it, or access is not given. Then nothing is renamed.
    """
    checked = Checked()
    if isinstance(data, str):
        damages = _check_place(data, checked, threads, progress)
    else:
        damages = check_dataset(data, checked, threads=threads, progress=progress)
    checked.damages += damages
    if aside is not None:
        checked.moved += set_aside(checked.damages, aside)
    return checked


def _check_place(target: str, checked: Checked, threads: int, progress: Progress) -> Iterator[Damage]:
    place = place_at(target)
    if next(place.names(LOG), None) is None:
        if (folder := place.local_folder) is not None and place.stat("model.json") is not None:
            yield from check_model(folder, checked)
            return
        if not has_files(target):
            raise UsageError(
                f"there is no Delta table, no Parquet file and no trained model at {target}",
                hint="Give the folder of one, a table's URL, or a run.",
            )
        yield from check_foreign(any_table(target), checked, threads, progress)
        return
    yield from check_log(place)
    try:
        table = open_table(place)
    except VoxelflowError as exc:
        raise_if_not_damage(exc)
        if isinstance(exc, UnsupportedTable) and not _holds_volumes(place):
            # Nothing is wrong with it: it is of another program.
            yield from _check_foreign_table(target, place, checked, threads, progress)
            return
        yield Damage(place.path(LOG), "log", exc.message, "which files and rows the table has")
        return
    yield from check_version(table, checked, threads, progress)


def _check_foreign_table(
    target: str, place: Place, checked: Checked, threads: int, progress: Progress
) -> Iterator[Damage]:
    try:
        table = any_table(target)
    except UnsupportedTable:
        raise
    except DataError as exc:
        raise_if_not_damage(exc)
        # Of a deletion vector that is gone or damaged.
        yield Damage(place.path(LOG), "log", exc.message, "which files and rows the table has")
        return
    yield from check_removes(place, max(versions(place), default=-1))
    yield from check_foreign(table, checked, threads, progress)


def _holds_volumes(place: Place) -> bool:
    """Whether the table says of itself that it holds volumes as Voxelflow writes them."""
    return names_volumes(load_delta(place).metadata().configuration)
