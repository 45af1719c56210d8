"""Our code as one zip for the executors, which need the third-party packages only.

The workspace's own nodes are in it under the names that they have on the driver, since functions travel by name.

Beside each source lies what Python has compiled of it, where this machine has it: each of Spark's Python processes
imports from the zip, and keeps nothing of what it compiles. Another version of Python takes the sources. Asserts hold
there also where the driver runs without (`PYTHONOPTIMIZE`).
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from engine.catalog import user_module
from engine.storage.files import whole_file
from engine.workspace import Workspace, is_trusted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("engine", "nodes")
_MODULES = ("voxelflow",)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip can hold: equal code gives equal bytes."""
_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of a compiled file which Python takes without looking at the source's date (PEP 552)."""
_HEAD = 16
"""Bytes of a compiled file before its code: Python's version, flags, the source's date and size."""


def code_zip(folder: Path, workspace: Workspace | None = None) -> Path:
    """Write the zip into `folder`, named after its sources; one that is there may lack what is compiled by now."""
    files = [(name, path.read_bytes()) for name, path in sorted(_files(workspace))]
    digest = hashlib.blake2b(digest_size=8)
    for name, content in files:
        digest.update(f"{name}\0".encode() + content + b"\0")
    files += [(f"{name}c", code) for name, path in sorted(_packages()) if (code := _compiled(path))]
    out = folder / f"voxelflow-{digest.hexdigest()}.zip"
    with whole_file(out, durable=True) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return out


def send_to_executors(session: SparkSession, files: Iterable[Path]) -> None:
    """Give the executors these files to import from; the driver goes on with the code that it runs."""
    path = list(sys.path)
    for file in files:
        session.sparkContext.addPyFile(str(file))
    sys.path[:] = path


def _compiled(source: Path) -> bytes:
    """What Python keeps of a module that it has compiled; nothing where it keeps none, or one of another text."""
    try:
        found, kept = os.stat(source), Path(cache_from_source(str(source), optimization="")).read_bytes()
    except (OSError, NotImplementedError):  # the second from a Python that keeps nothing at all
        return b""
    date, size = (int(number) & 0xFFFFFFFF for number in (found.st_mtime, found.st_size))
    wanted = MAGIC_NUMBER + bytes(4) + date.to_bytes(4, "little") + size.to_bytes(4, "little")
    return MAGIC_NUMBER + _UNCHECKED + bytes(8) + kept[_HEAD:] if kept[:_HEAD] == wanted else b""


def _files(workspace: Workspace | None) -> Iterator[tuple[str, Path]]:
    """Names in the zip, with the files that go there."""
    yield from _packages()
    if workspace is not None and is_trusted(workspace):
        for path in workspace.my_nodes.glob("*.py"):
            if not path.is_file():  # an editor's lock is a link to nothing
                continue
            yield f"{user_module(path)}.py", path


def _packages() -> Iterator[tuple[str, Path]]:
    for package in _PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(root).rglob("*.py"):
                yield f"{package}/{path.relative_to(root).as_posix()}", path
    for module in _MODULES:
        spec = find_spec(module)
        if spec and spec.origin:
            yield f"{module}.py", Path(spec.origin)
