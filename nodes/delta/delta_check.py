"""Whether a cached reference to a table can still be read, and its table still be changed."""

from __future__ import annotations

from collections.abc import Mapping

from engine.datasets import Dataset, VolumeDelta
from engine.errors import VoxelflowError
from engine.storage import is_url
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
        if is_url(table.uri):
            return _remote_problem(table, for_change)
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


def _remote_problem(table: VolumeDelta, for_change: bool) -> str:
    """The same for a table in object storage: one listing tells of all its files."""
    from engine.storage.objects import RemotePath
    from nodes.delta.remote_table import data_version as remote_data_version
    from nodes.delta.remote_table import load_remote, open_remote

    pinned = open_remote(RemotePath.at(table.uri), table.version)
    there = {found.path for found in pinned.root.walk()}
    missing = next((f.path for f in pinned.files if f.path not in there), None)
    if missing is not None:
        return f"{missing} of version {table.version} is gone from the table"
    if sum(f.rows for f in pinned.files) != table.count:
        return f"the table {table.uri} was made anew"
    if for_change:
        newest = load_remote(pinned.root).version()
        known = (table.version, table.data_version)
        if remote_data_version(pinned.root, newest, known) != table.data_version:
            return f"the table has other rows since version {table.version}"
    return ""
