"""Whether a cached reference to a table can still be read, and its table still be changed."""

from __future__ import annotations

from collections.abc import Mapping

from engine.datasets import Dataset, VolumeDelta
from engine.errors import VoxelflowError
from nodes.delta.delta_log import data_version
from nodes.delta.delta_table import load_delta, local_folder, open_table


def problem_with(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    """ "" when every table among the outputs is there with all files of its version, else what is wrong.

    With `for_change` it also says whether the table's newest version holds other rows.
    """
    for dataset in outputs.values():
        if isinstance(dataset, VolumeDelta) and (problem := _problem(dataset, for_change)):
            return problem
    return ""


def _problem(table: VolumeDelta, for_change: bool) -> str:
    try:
        pinned = open_table(table.uri, table.version)
        missing = next((f.path for f in pinned.files if not (pinned.root / f.path).exists()), None)
        if missing is not None:
            return f"{missing} of version {table.version} is gone from the table"
        if sum(f.rows for f in pinned.files) != table.count:
            return f"the table {table.uri} was made anew"
        if for_change:
            newest = load_delta(local_folder(table.uri)).version()
            if data_version(pinned.root, newest, (table.version, table.data_version)) != table.data_version:
                return f"the table has other rows since version {table.version}"
    except VoxelflowError as exc:
        return exc.message
    return ""
