"""Leases on the table versions that a training reads: no vacuum deletes their files meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from engine.context import TaskContext
from engine.datasets import Dataset, VolumeDelta
from engine.storage.urls import is_url


@contextmanager
def held(ctx: TaskContext, *datasets: Dataset | None) -> Iterator[None]:
    """Keep what is read of these datasets in being. To be taken before they are opened.

    Says so where that cannot be promised: a table's folder that this process may not write in. Tables in object
    storage have no leases.
    """
    from nodes.delta.delta_table import local_folder
    from nodes.delta.table_lease import hold_version

    with ExitStack() as stack:
        versions = {(data.uri, data.version) for data in datasets if isinstance(data, VolumeDelta)}
        for uri, version in sorted(versions):
            if is_url(uri):
                continue
            if not stack.enter_context(hold_version(local_folder(uri), version, ctx.is_cancelled)):
                ctx.info(f"{uri} cannot be written, so nothing keeps a vacuum elsewhere from deleting files of it")
        yield
