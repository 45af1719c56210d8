"""Which paths of a log delta-rs can name when it commits.

It takes the path on disk and percent-encodes it in its own way: `k=0.parquet` stays, `ü.parquet` does not. A file that
another program logged in another spelling stays in the table for every reader when delta-rs removes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, create_table_with_add_actions

from engine.errors import UnsupportedTable
from nodes.table.snapshot import TableFile, logged_paths
from nodes.table.temporary_folder import temporary_folder

_SAME_FOR_ALL = re.compile(r"[A-Za-z0-9_./-]*")


def refuse_misspelled(root: object, files: Iterable[TableFile]) -> None:
    """Raise `UnsupportedTable` when delta-rs would spell the path of one of these files otherwise than the log."""
    odd = [f for f in files if _SAME_FOR_ALL.fullmatch(f.path_in_log) is None]
    known = _logged_by_delta_rs([f.path for f in odd]) if odd else set()
    for file in odd:
        if file.path_in_log not in known:
            raise UnsupportedTable(
                f"{file.path} cannot be taken out of the table {root}: its log spells the file {file.path_in_log},"
                " which delta-rs cannot write, and the file system has neither hard links nor a rename that replaces"
                " nothing, so that delta-rs must write it",
                hint="Let Spark rewrite that file (OPTIMIZE, or REORG TABLE), or write the table again.",
            )


def _logged_by_delta_rs(paths: Sequence[str]) -> set[str]:
    """The paths as the installed delta-rs logs them: it is asked, because its releases need not agree."""
    adds = [AddAction(path, 0, {}, 0, False, "{}") for path in paths]
    with temporary_folder() as folder:
        create_table_with_add_actions(str(folder), Schema([Field("id", PrimitiveType("string"))]), adds)
        return set(logged_paths(DeltaTable(str(folder))))
