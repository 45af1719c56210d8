"""A folder in an object store as a `Place`: files go there by upload and conditional put."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.errors import StaleInput
from engine.storage.files import GONE, other_size
from engine.storage.objects import RemotePath, storage_error
from engine.storage.place import NewFile, Place, Stat, source_gone

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from engine.storage.reservation import Reservation

_UPLOADS = 4
"""Files that are uploaded at a time, each in pieces of 8 MB, four of them under way: 128 MB of memory."""
_FETCHES = 16
_FEW = 32
_POLL_S = 0.5


@dataclass(frozen=True)
class RemotePlace(Place):
    """A folder in an object store. What was written is durable; there are no locks, so writers use put-if-absent."""

    root: RemotePath

    def __str__(self) -> str:
        return str(self.root)

    @property
    def delta_rs_address(self) -> str:
        return str(self.root)

    def reservation(self, run: str, workspace: Path) -> Reservation:
        from engine.storage.reservation import lease_in

        # Not the workspace: the path of somebody's folder is nothing that a shared table should contain.
        return lease_in(self.root, f"run {run}")

    def error_of(self, exc: OSError) -> Exception:
        return storage_error(self.root.url, exc)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def names(self, below: str = "") -> Iterator[str]:
        last = ""
        for found in (self.root / below if below else self.root).walk():
            name = found.path.partition("/")[0]
            if name != last:
                yield name
            last = name

    def stat(self, name: str) -> Stat | None:
        try:
            found = (self.root / name).stat()
        except FileNotFoundError:
            return None
        return Stat(found.size, found.mtime_ns)

    def sizes(self) -> Callable[[str], int | None]:
        @cache
        def listed() -> dict[str, int]:
            return {found.path: found.size for found in self.root.walk()}

        return lambda name: listed().get(name)

    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        sizes = self.sizes()
        for number, (name, wanted) in enumerate(files):
            if (size := sizes(name)) != wanted:
                yield number, GONE if size is None else other_size(size, wanted)

    def read(self, name: str) -> Buffer:
        return (self.root / name).read()[0]

    def lines(self, name: str) -> Iterator[bytes]:
        return iter(bytes(self.read(name)).splitlines(keepends=True))

    def open(self, name: str, size: int) -> pa.NativeFile:
        import pyarrow as pa

        from engine.storage.ranged_file import RangedFile

        return pa.PythonFile(RangedFile(self.root / name, size), mode="r")

    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        fill(sink)
        (self.root / name).write_bytes(sink.getvalue().to_pybytes())

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return (self.root / name).create(data)

    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        files = list(files)

        def one(name: str) -> int | None:
            found = self.stat(name)
            return None if found is None else found.size

        # One listing for many, which may list many others; else a question for each.
        sizes = self.sizes() if len(files) > _FEW else one

        def upload(number: int) -> int:
            source, name, size = files[number]
            try:
                if (found := source.stat().st_size) != size:
                    raise StaleInput(
                        f"{source} is not the file it was: {found} bytes, not {size}", hint="Run it again."
                    )
                if sizes(name) != size:
                    (self.root / name).upload(source)
            except FileNotFoundError as exc:
                raise source_gone(source) from exc
            return number

        waiting = iter(range(len(files)))
        with ThreadPoolExecutor(_UPLOADS, thread_name_prefix="upload") as pool:
            under_way: set[Future[int]] = {pool.submit(upload, number) for number in islice(waiting, _UPLOADS)}
            try:
                while under_way:
                    done, under_way = wait(under_way, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                    check()
                    for future in done:
                        yield future.result()
                        under_way |= {pool.submit(upload, number) for number in islice(waiting, 1)}
            finally:
                pool.shutdown(cancel_futures=True)

    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        def fetch(file: tuple[str, int]) -> None:
            name, size = file
            data, found = (self.root / name).read()
            if found.size != size:
                raise FileNotFoundError(f"{self.path(name)} {other_size(found.size, size)}")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)

        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="fetch") as pool:
            try:
                for _ in pool.map(fetch, files):
                    pass
            finally:
                pool.shutdown(cancel_futures=True)

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)
