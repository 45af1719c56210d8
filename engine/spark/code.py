"""Our code as one zip for the executors, which need the third-party packages only.

The workspace's own nodes are in it under the names that they have on the driver, since functions travel by name.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
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


def code_zip(folder: Path, workspace: Workspace | None = None) -> Path:
    """Write the zip into `folder`, named after its content; one that is there stays."""
    files = sorted(_files(workspace))
    digest = hashlib.blake2b(digest_size=8)
    for name, path in files:
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    out = folder / f"voxelflow-{digest.hexdigest()}.zip"
    if not out.exists():
        with (
            whole_file(out, durable=True) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, path in files:
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return out


def send_to_executors(session: SparkSession, files: Iterable[Path]) -> None:
    """Give the executors these files to import from; the driver goes on with the code that it runs."""
    path = list(sys.path)
    for file in files:
        session.sparkContext.addPyFile(str(file))
    sys.path[:] = path


def _files(workspace: Workspace | None) -> Iterator[tuple[str, Path]]:
    """Names in the zip, with the files that go there."""
    for package in _PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(root).rglob("*.py"):
                yield f"{package}/{path.relative_to(root).as_posix()}", path
    for module in _MODULES:
        spec = find_spec(module)
        if spec and spec.origin:
            yield f"{module}.py", Path(spec.origin)
    if workspace is not None and is_trusted(workspace):
        for path in workspace.my_nodes.glob("*.py"):
            if not path.is_file():  # an editor's lock is a link to nothing
                continue
            yield f"{user_module(path)}.py", path
