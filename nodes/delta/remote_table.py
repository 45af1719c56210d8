"""Reading a Delta table of volumes in object storage: one version, its files, its spec.

What would be read wrongly is refused as in a local table (`nodes.delta.delta_table`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.datasets import Selection, VolumeDelta, VolumeSpec
from engine.errors import DataError, UnsupportedTable
from engine.storage.objects import RemotePath, redact, told
from nodes.delta.delta_log import commit_name, data_version_of
from nodes.delta.delta_table import TableFile, files_in_log, refuse_unsupported, unreadable
from nodes.volume_layout import spec_of

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

SOURCE = "voxelflow.source"
"""Property of a table that Voxelflow fills: the digest of the dataset whose files it holds."""


@dataclass(frozen=True)
class RemoteTable:
    """One version of a table; `files` are sorted by their first id."""

    root: RemotePath
    version: int
    spec: VolumeSpec
    files: tuple[TableFile, ...]
    source: str
    columns: Schema = field(compare=False, repr=False)

    def reference(self, selections: Sequence[Selection] = (), known: tuple[int, int] | None = None) -> VolumeDelta:
        """The dataset reference that pins this version (`known`: see `delta_log.data_version`)."""
        return VolumeDelta(
            uri=str(self.root),
            count=sum(f.rows for f in self.files),
            bytes=sum(f.bytes for f in self.files),
            spec=self.spec,
            version=self.version,
            data_version=data_version(self.root, self.version, known),
            files=len(self.files),
            labelled=sum(f.labelled for f in self.files),
            selections=tuple(selections),
        )


def is_remote_table(root: RemotePath) -> bool:
    return next((root / "_delta_log").walk(), None) is not None


def open_remote(root: RemotePath, version: int | None = None) -> RemoteTable:
    """Open a version of the table at `root` (the newest by default). Raises as `open_table` does."""
    delta = load_remote(root, version)
    refuse_unsupported(delta, root)
    metadata = delta.metadata()
    files = files_in_log(delta, root, _without_statistics)
    return RemoteTable(
        root=root,
        version=delta.version(),
        spec=spec_of(metadata.configuration, f"the table {root}"),
        files=tuple(sorted(files, key=lambda f: (f.id_min, f.path))),
        source=metadata.configuration.get(SOURCE, ""),
        columns=delta.schema(),
    )


def load_remote(root: RemotePath, version: int | None = None) -> DeltaTable:
    """delta-rs' table object, with its errors told in ours."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(str(root), version=version)
    except TableNotFoundError as exc:
        raise DataError(f"there is no Delta table at {root}", hint="Run the node that makes it again.") from exc
    except DeltaError as exc:
        is_there = is_remote_table(root)
        if not is_there:
            raise DataError(f"there is no Delta table at {root}", hint="Run the node that makes it again.") from None
        raise unreadable(root, version, redact(str(exc)), is_there=is_there) from None
    except OSError as exc:
        raise told(root.url, exc) from None


def data_version(root: RemotePath, version: int, known: tuple[int, int] | None = None) -> int:
    """See `delta_log.data_version`."""

    def lines(wanted: int) -> list[bytes] | None:
        try:
            return (root / "_delta_log" / commit_name(wanted)).read_bytes().splitlines()
        except FileNotFoundError:
            return None

    return data_version_of(lines, version, known)


def _without_statistics(root: object, path: str) -> TableFile:
    raise UnsupportedTable(
        f"the table {root} has no statistics of the ids in {path}",
        hint="Make the table with ParquetToDelta, or let its writer collect statistics of the columns id and label.",
    )
