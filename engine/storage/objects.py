"""Objects in a store: reading them whole or in ranges, writing them whole, listing.

obstore (Rust's object_store) does the work: the library that delta-rs uses too, so both understand the same
environment, and it lets go of the interpreter's lock while it waits. Its stores hold connections and are shared by
the threads of a process; a `RemotePath` is only a name, and travels to other processes as such.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import DataError, UsageError, VoxelflowError
from engine.storage.schemes import EXAMPLES, PREFIXES, SCHEMES, open_store
from engine.storage.urls import StorageUrl, parse_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|SAS|PASSWORD|CONNECTION_STRING", re.IGNORECASE)
_SHORTEST_SECRET = 8
_NO_CONTAINER = ("ContainerNotFound", "NoSuchBucket")
_PIECE = 8 << 20
"""Uploads in more than one piece; small enough that a few in flight are no memory to speak of."""
_UPLOADS = 4
_DELETED_AGAIN_S = (0.2, 1.0, 5.0)
"""Waits before a deletion is tried again: Azure's and S3's go as POST, which the library does not repeat by itself when
the connection is dropped."""


@dataclass(frozen=True)
class Found:
    """An object as it is now.

    `mtime_ns` is true to the second, as a store reports it; the digits below come from the object's tag, so that
    two writes within a second differ.
    """

    path: str
    size: int
    mtime_ns: int
    tag: str


class ObjectVersion(NamedTuple):
    """Which version of an object was read or written, as its store names it: by tag (S3, Azure) or number (Google)."""

    e_tag: str | None
    version: str | None


@dataclass(frozen=True, order=True)
class RemotePath:
    """The name of an object, or of a folder of objects, with what Voxelflow needs of a `pathlib.Path`."""

    url: StorageUrl

    @classmethod
    def at(cls, url: str) -> RemotePath:
        """Raises `UsageError` when it is no storage URL."""
        return cls(parse_url(url))

    def __str__(self) -> str:
        return str(self.url)

    def __truediv__(self, below: str) -> RemotePath:
        return RemotePath(self.url / below)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.url.key.rpartition("/")[2]

    def stat(self) -> Found:
        """Raises `FileNotFoundError`."""
        import obstore

        with _translated(self.url):
            return _found(obstore.head(_store(self.url), self.url.key), self.name)

    def read(self) -> tuple[Buffer, Found]:
        """The whole object, and what was read. Raises `FileNotFoundError`."""
        import obstore

        with _translated(self.url):
            got = obstore.get(_store(self.url), self.url.key)
            return got.bytes(), _found(got.meta, self.name)

    def read_bytes(self) -> bytes:
        """The whole object. Raises `FileNotFoundError`."""
        return bytes(self.read()[0])

    def read_range(self, start: int, end: int, tag: str = "") -> tuple[Buffer, Found]:
        """Bytes start ... end - 1 (or to the object's end, where that comes first).

        With `tag` only of the object that has this tag. Raises `FileNotFoundError`, `DataError` when it is another
        object now.
        """
        import obstore

        options: Any = {"range": (start, end)}
        if tag:
            options["if_match"] = f'"{tag}"'
        with _translated(self.url):
            got = obstore.get(_store(self.url), self.url.key, options=options)
            return got.bytes(), _found(got.meta, self.name)

    def write_bytes(self, data: bytes) -> None:
        """Write the object in one step, durable."""
        import obstore

        with _translated(self.url):
            obstore.put(_store(self.url), self.url.key, data, chunk_size=_PIECE, max_concurrency=_UPLOADS)

    def create(self, data: bytes) -> bool:
        """Write the object if there is none; False, and nothing changed, if there is."""
        return self.write_if(data, None) is not None

    def read_version(self) -> tuple[bytes, ObjectVersion]:
        """The whole object, and which version of it was read. Raises `FileNotFoundError`."""
        import obstore

        with _translated(self.url):
            got = obstore.get(_store(self.url), self.url.key)
            return bytes(got.bytes()), ObjectVersion(got.meta["e_tag"], got.meta["version"])

    def write_if(self, data: bytes, last: ObjectVersion | None) -> ObjectVersion | None:
        """Write the object if its version is still `last`, or if there is none (`last` None); gives the new version.

        None, and nothing changed, if that is not so. `data` must differ from what it replaces: a tag may be a digest.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with _translated(self.url):
            try:
                mode: Any = "create"
                if last is not None:
                    mode = {name: value for name, value in last._asdict().items() if value is not None}
                written = obstore.put(_store(self.url), self.url.key, data, mode=mode)
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError:
                if last is None:  # the container is missing
                    raise
                return None
            return ObjectVersion(written["e_tag"], written["version"])

    def upload(self, file: Path) -> None:
        """Write the file's bytes: they appear whole or not at all, and stay."""
        import obstore

        with _translated(self.url):
            obstore.put(_store(self.url), self.url.key, file, chunk_size=_PIECE, max_concurrency=_UPLOADS)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object. Raises `FileNotFoundError` when it is not there, unless `missing_ok`."""
        import obstore
        from obstore.exceptions import GenericError

        with _translated(self.url):
            for wait_s in (*_DELETED_AGAIN_S, None):
                try:
                    obstore.delete(_store(self.url), self.url.key)
                    return
                except FileNotFoundError:
                    if not missing_ok:
                        raise
                    return
                except GenericError:
                    if wait_s is None:
                        raise
                # The object may be gone, and only the answer lost.
                missing_ok = True
                time.sleep(wait_s)

    def walk(self) -> Iterator[Found]:
        """All objects below this folder, with their paths below it, in the store's order (by key, as bytes).

        Raises `DataError` when the container is not there.
        """
        import obstore

        prefix = f"{self.url.key}/" if self.url.key else ""
        with _translated(self.url):
            for chunk in obstore.list(_store(self.url), prefix or None, chunk_size=1000):
                for meta in chunk:
                    path = meta["path"].removeprefix(prefix)
                    if path and not path.endswith("/"):
                        yield _found(meta, path)

    def has_any(self) -> bool:
        """Whether there is an object below this folder. Raises `DataError` when the container is not there."""
        return next(self.walk(), None) is not None


def redact(text: str) -> str:
    """The text without queries of addresses (signatures) and without any secret that the environment holds."""
    text = re.sub(r"(https?://[^\s?\"']+)\?[^\s\"')]*", r"\1?...", text)
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name):
            for secret in (value, *_within(value)):
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, "...")
    return text


def _within(value: str) -> list[str]:
    """The secrets in a key that is a JSON object, as Google's are."""
    try:
        found = json.loads(value) if value.startswith("{") else {}
    except ValueError:
        return []
    return [part for name, part in found.items() if isinstance(part, str) and _SECRET_NAME.search(name)]


def storage_error(url: StorageUrl, exc: BaseException) -> VoxelflowError:
    """The error of a storage library as ours: one line, nothing secret."""
    text = redact(str(exc).partition("Debug source")[0])
    code = re.search(r"<Code>(\w+)</Code>", text)
    line = " ".join(text.split("<?xml")[0].split())[:300] + (f" ({code[1]})" if code else "")
    kind = type(exc).__name__
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or isinstance(exc, PermissionError):
        return DataError(f"no right to use {url}: {line}", hint=SCHEMES[url.scheme].hint)
    if code is not None and code[1] in _NO_CONTAINER:
        return DataError(f"there is no container {url.root}", hint="Check the spelling.")
    if kind == "PreconditionError":
        return DataError(f"{url} was changed while it was read", hint="Run it again.")
    return DataError(f"{url} cannot be reached: {line}", hint=SCHEMES[url.scheme].hint)


@contextmanager
def _translated(url: StorageUrl) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as exc:
        if any(code in str(exc) for code in _NO_CONTAINER):
            raise storage_error(url, exc) from None
        raise FileNotFoundError(f"{url} is not there") from None
    except (BaseError, OSError, ValueError) as exc:
        # Not chained: the library's text may hold what ours leaves out.
        raise storage_error(url, exc) from None


def _found(meta: Any, path: str) -> Found:
    tag = (meta["e_tag"] or meta["version"] or "").strip('"')
    seconds = int(meta["last_modified"].timestamp())
    digits = int.from_bytes(hashlib.blake2b(tag.encode(), digest_size=8).digest(), "big") % 10**9
    return Found(path, int(meta["size"]), seconds * 10**9 + digits, tag)


def _store(url: StorageUrl) -> Any:
    if url.scheme not in SCHEMES:
        raise UsageError(
            f"{url}: at {url.scheme}:// addresses, which an installed package brings, only Delta tables are read"
            " and written",
            hint=f"Use a local folder, or {EXAMPLES}.",
        )
    # A store does not survive a fork, and reads the environment once.
    return _open_store(url.scheme, url.container, url.account, os.getpid(), _environment())


def _environment() -> int:
    return hash(tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(PREFIXES))))


@lru_cache(maxsize=16)
def _open_store(scheme: str, container: str, account: str, _pid: int, _environment: int) -> Any:
    client = {"timeout": timedelta(minutes=3), "connect_timeout": timedelta(seconds=10)}
    retry = {"max_retries": 5, "retry_timeout": timedelta(minutes=2)}
    return open_store(SCHEMES[scheme], container, account, client=client, retry=retry)
