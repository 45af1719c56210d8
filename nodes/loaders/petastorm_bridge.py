"""What lets petastorm 0.13.1 run on today's pyarrow and NumPy.

It imports `pyarrow.filesystem` and `pyarrow.hdfs`, reads through `ParquetDataset.pieces` and uses
`numpy.string_` and `numpy.unicode_`, all gone from current releases. The stand-ins are put into
petastorm's own modules when this module is imported, and nowhere else. They compare the checksums of pages, name the
file of what cannot be read, and close a race in its thread pool that loses row groups.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
import warnings
from collections.abc import Iterable, Sequence
from shlex import quote as shell_quote
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DataError, UsageError, first_line
from engine.storage import is_url
from nodes.loaders.data_files import LOCAL, FileAccess


def open_reader(
    paths: Sequence[str],
    columns: Sequence[str],
    *,
    seed: int,
    shuffle: bool,
    shard: tuple[int, int] | None = None,
    workers: int = 1,
    pool: str = "thread",
    access: FileAccess = LOCAL,
    verify: bool = True,
    where: str = "",
) -> Any:
    """petastorm's batch reader over exactly these files, which `access` opens, one pass.

    It yields one named tuple per row group, with one array per column: text as str, binary as bytes, lists of
    equal length as a matrix. `seed` fixes the order of the row groups and must not be 0, which petastorm takes for
    "none"; with more than one of `workers` that order is a race all the same. `shard` is (number, count): every
    count-th row group, so shards may differ by one. Stop and join it. `verify`: compare each page with its checksum,
    where it has one. `where` is what messages call the table.

    Raises `UsageError` for another pool than threads, or a column that petastorm would silently leave out; while it
    is read `DataError`, with the file's path, for what is damaged, gone or cannot be reached.
    """
    if pool != "thread":
        raise UsageError(
            f"petastorm's {pool} pool does not work with current pyarrow and NumPy",
            hint="Its processes start a bare Python that lacks the names that this bridge puts in. Use threads.",
        )
    reader = importlib.import_module("petastorm.reader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = reader.make_batch_reader(
                [f"file://{_quoted(path)}" for path in paths],
                schema_fields=[f"^{re.escape(name)}$" for name in columns],
                reader_pool_type="thread",
                workers_count=workers,
                results_queue_size=2,
                seed=seed,
                shuffle_row_groups=shuffle,
                cur_shard=shard[0] if shard else None,
                shard_count=shard[1] if shard else None,
                filesystem=_Files(access, where, verify=verify),
            )
        except RuntimeError as exc:
            if "No fields matching" not in str(exc):
                raise
            raise _unread(columns) from exc
    if left_out := set(columns) - set(made.schema.fields):
        made.stop()
        made.join()
        raise _unread(left_out)
    return made


def _unread(columns: Iterable[str]) -> UsageError:
    return UsageError(
        f"petastorm does not read the column {', '.join(sorted(columns))}",
        hint="It reads numbers, text, binary and lists, but not Arrow's large types, as polars writes them, nor lists"
        " of a fixed size. Choose the loader arrow, or other columns.",
    )


def tf_dataset(reader: Any) -> Any:
    """petastorm's `tf.data.Dataset` over a reader: a named tuple for each row group, binary as tf.string."""
    return _tf_utils().make_petastorm_dataset(reader)


def _tf_utils() -> types.ModuleType:
    """petastorm.tf_utils, which asks NumPy for its old names while it is imported."""
    name = "petastorm.tf_utils"
    if name not in sys.modules:
        importlib.import_module("tensorflow.compat.v1")
        sys.modules["numpy"] = _NUMPY  # type: ignore[assignment]
        try:
            importlib.import_module(name)
        finally:
            sys.modules["numpy"] = np
    return sys.modules[name]


class _Files:
    """The file system: petastorm hands over a URL's path as it was quoted."""

    def __init__(self, access: FileAccess = LOCAL, where: str = "", *, verify: bool = False) -> None:
        self._access, self._where, self.verify = access, where, verify

    def open(self, path: str) -> Any:
        return self._access.open(_unquoted(path))

    def error(self, piece: _Piece, exc: Exception) -> Exception:
        """What the arrow loader raises for the same file."""
        path = _unquoted(piece.path)
        if isinstance(exc, FileNotFoundError):
            return DataError(f"{path} is gone", hint="Something vacuumed the table. Make it again.")
        if isinstance(exc, OSError | pa.ArrowInvalid):
            target = shell_quote(self._where) if self._where else "TABLE"
            what = "its footer" if piece.row_group is None else f"row group {piece.row_group}"
            return DataError(
                f"{path}: {what} cannot be read: {first_line(exc)}",
                hint="The file is damaged or cannot be reached."
                f" `voxelflow verify {target}` lists all damage and says what to do.",
            )
        return exc


def _quoted(path: str) -> str:
    """The path of a `file://` URL that stands for this file: of an address in object storage all is one part of it."""
    return quote(path) if path.startswith("/") else "/" + quote(path, safe="")


def _unquoted(path: str) -> str:
    found = unquote(path)
    return found[1:] if is_url(found[1:]) else found


class _Piece:
    """A file, or one row group of it."""

    def __init__(
        self, path: str, open_file_func: Any, row_group: int | None = None, partition_keys: Sequence[Any] = ()
    ) -> None:
        self.path, self.row_group, self.partition_keys = path, row_group, partition_keys
        # petastorm hands on no more of the file system than this bound method.
        self._files: _Files = open_file_func.__self__

    def get_metadata(self) -> pq.FileMetaData:
        try:
            with self._files.open(self.path) as file:
                return pq.read_metadata(file)
        except (OSError, pa.ArrowInvalid) as exc:
            raise self._files.error(self, exc) from exc

    def read(self, columns: Iterable[str], partitions: object = None) -> pa.Table:
        with (
            self._files.open(self.path) as file,
            pq.ParquetFile(file, page_checksum_verification=self._files.verify) as parquet,
        ):
            return parquet.read_row_group(self.row_group, columns=sorted(columns), use_threads=False)


class _Dataset:
    """A list of files without partitions and without petastorm's own metadata."""

    def __init__(self, path_or_paths: str | list[str], filesystem: _Files, **_: object) -> None:
        self.paths, self.fs = path_or_paths, filesystem
        paths = [path_or_paths] if isinstance(path_or_paths, str) else path_or_paths
        self.pieces = [_Piece(path, filesystem.open) for path in paths]
        self.partitions = self.metadata = self.common_metadata = None


class _Stead(types.SimpleNamespace):
    """A module with some names replaced."""

    def __init__(self, module: types.ModuleType, **names: Any) -> None:
        super().__init__(**names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_NUMPY = _Stead(np, string_=np.bytes_, unicode_=np.str_)


def _install() -> None:
    filesystem = types.ModuleType("pyarrow.filesystem")
    filesystem.LocalFileSystem = _Files  # type: ignore[attr-defined]
    hdfs = types.ModuleType("pyarrow.hdfs")
    hdfs.HadoopFileSystem = object  # type: ignore[attr-defined]
    gone = {"pyarrow.filesystem": filesystem, "pyarrow.hdfs": hdfs}
    absent = [name for name in gone if name not in sys.modules]
    sys.modules.update({name: gone[name] for name in absent})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # distutils and pkg_resources
            names = ("reader", "etl.dataset_metadata", "arrow_reader_worker", "unischema", "workers_pool.thread_pool")
            reader, metadata, worker, unischema, thread_pool = (
                importlib.import_module(f"petastorm.{name}") for name in names
            )
    finally:
        # Only the imports needed them; other packages must not take them for the real ones.
        for name in absent:
            del sys.modules[name]
    parquet = _Stead(pq, ParquetDataset=_Dataset, ParquetDatasetPiece=_Piece)
    for module in (reader, metadata, worker):
        module.pq = parquet  # type: ignore[attr-defined]
    for module in (worker, unischema):
        module.np = _NUMPY  # type: ignore[attr-defined]

    class ThreadPool(reader.ThreadPool):  # type: ignore[misc, name-defined]
        """petastorm's pool, which may lose the last row groups of a pass.

        It looks whether all work is done and then whether more is to come: work that comes between
        the two looks is lost. Here the second question is asked first.
        """

        def all_workers_done(self) -> bool:
            no_more_comes = self._ventilator is None or self._ventilator.completed()
            return bool(no_more_comes and super().all_workers_done())

    class Worker(worker.ArrowReaderWorker):  # type: ignore[misc, name-defined]
        """petastorm's worker, whose errors reach the caller as ours, with the file's path.

        Its pool prints an error with a traceback and puts it into a queue; when the queue is full and the reader has
        been left, the worker's thread never ends. So errors are passed on with the data instead.
        """

        def process(self, piece_index: int, *others: Any, **more: Any) -> None:
            try:
                super().process(piece_index, *others, **more)
            except thread_pool.WorkerTerminationRequested:
                raise
            except Exception as exc:
                found = self._filesystem.error(self._split_pieces[piece_index], exc)
                if found is not exc:
                    found.__cause__ = exc
                self.publish_func(found)

    reader.ThreadPool = ThreadPool  # type: ignore[attr-defined]
    reader.ArrowReaderWorker = Worker  # type: ignore[attr-defined]


_install()
