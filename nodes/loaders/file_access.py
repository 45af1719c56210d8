"""How the loaders reach Parquet files: as local files, or by ranged reads from somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class FileAccess(Protocol):
    """Opens files by the names that `data_files` gives them."""

    @property
    def mapped(self) -> bool:
        """The names are local paths: any byte is read at once, so a page index pays."""

    @property
    def streams(self) -> int:
        """Reads that are worth having under way at a time."""

    def open(self, path: str) -> pa.NativeFile | BinaryIO:
        """A seekable file of the caller's own. Raises `FileNotFoundError`. Called from several threads."""


class LocalFiles:
    """Files on a local disk."""

    mapped = True
    streams = 2

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.OSFile(path)


LOCAL = LocalFiles()
