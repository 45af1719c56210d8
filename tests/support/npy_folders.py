"""Folders of `.npy` files, good and hostile, and the storage nodes run on them without an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.context import Resources, TaskContext
from engine.declare.datasets import Dataset, VolumeFiles, VolumeParquet
from engine.declare.events import Event, Message, Progress
from engine.declare.path_found import PathFound
from engine.observe.paths import find_path
from engine.storage import manifest
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.volume_file.parts import Parts, read_parts
from nodes.volume_folder import VOLUME_FILES, volume_folder

PATTERNS = (*VOLUME_FILES, "labels.csv", "labels.parquet")


def make_volumes(
    root: Path, names: list[str], shape: tuple[int, ...] = (4, 3, 2, 2), dtype: str = "float32", seed: int = 0
) -> dict[str, NDArray[Any]]:
    """Write one volume a name, all different; what was written by name."""
    random = np.random.default_rng(seed)
    out: dict[str, NDArray[Any]] = {}
    for name in names:
        out[name] = (100 * random.random(shape)).astype(dtype)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(root / name, out[name], allow_pickle=False)
    return out


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"v{i:04d}.npy" for i in range(start, start + count)]


def context(base: Path, node: str, fingerprint: str = "0" * 32, **fields: Any) -> TaskContext:
    """A context with the folders that the engine would make, `out` below `shared`."""
    shared = base / node
    out = TaskContext(
        run_id="test",
        node_id=node,
        fingerprint=fingerprint,
        out=shared / fingerprint[:16],
        shared=shared,
        scratch=base / "scratch" / node,
        resources=fields.pop("resources", Resources(cores=2)),
        **fields,
    )
    for folder in (out.shared, out.out, out.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    return out


class Listener:
    """Stands for the worker while a node runs here: keeps its progress, and cancels it at its n-th look."""

    def __init__(self, cancel_after: float = float("inf")) -> None:
        self.events: list[Progress] = []
        self._left = cancel_after

    def emit(self, event: Progress, /) -> None:
        self.events.append(event)

    def cancelled(self) -> bool:
        self._left -= 1
        return self._left < 0


def take(root: Path | str, base: Path, *, messages: list[str] | None = None, **params: Any) -> VolumeFiles:
    """List `root` now and run VolumeFolder on it; what it reports goes to `messages`."""
    base.mkdir(parents=True, exist_ok=True)
    found = look(root, base, **params)
    ctx = context(base, "folder", found.digest, inputs_found={"folder": Path(found.manifest)}, emit=_into(messages))
    return volume_folder(folder=str(root), **params, ctx=ctx)


def _into(messages: list[str] | None) -> Callable[[Event], None]:
    def hear(event: Event) -> None:
        if isinstance(event, Message) and messages is not None:
            messages.append(event.text)

    return hear


def look(root: Path | str, base: Path, **params: Any) -> PathFound:
    """What the engine finds in `root`; its listing goes into `base`."""
    wanted = next(p.path_in for p in volume_folder.parameters if p.name == "folder")
    assert wanted is not None
    return find_path(str(root), wanted, base, params=params)


def convert(
    root: Path | str,
    base: Path,
    *,
    previous: Dataset | None = None,
    messages: list[str] | None = None,
    source: Mapping[str, Any] | None = None,
    **params: Any,
) -> VolumeParquet:
    """List `root` and run NumpyToParquet on it; what it reports goes to `messages`.

    `source` are parameters of VolumeFolder.
    """
    files = take(root, base, **source or {})
    fingerprint = Path(files.manifest).parent.name.ljust(32, "0")
    ctx = context(base, "parquet", fingerprint, previous={"out": previous} if previous else {}, emit=_into(messages))
    return numpy_to_parquet(files, **params, ctx=ctx)


def rows(dataset: VolumeParquet) -> dict[str, tuple[float | None, bytes]]:
    """Label and bytes by id, read from the parts that the manifest lists. Fails on a doubled id."""
    tables = [pq.read_table(Path(dataset.uri) / p.path, partitioning=None) for p in read_parts(dataset).parts]
    out: dict[str, tuple[float | None, bytes]] = {}
    for table in tables:
        for row in table.to_pylist():
            assert row["id"] not in out, f"{row['id']} is there twice"
            out[row["id"]] = (row["label"], row["volume"])
    return out


def contents(dataset: VolumeParquet) -> dict[str, bytes]:
    return {volume_id: data for volume_id, (_, data) in rows(dataset).items()}


def labels_in(dataset: VolumeParquet) -> dict[str, float | None]:
    return {volume_id: label for volume_id, (label, _) in rows(dataset).items()}


def parts_of(dataset: VolumeParquet) -> Parts:
    return read_parts(dataset)


def sources_of(dataset: VolumeParquet) -> list[dict[str, Any]]:
    sources = read_parts(dataset).sources
    assert sources is not None
    return list(manifest.read(sources).to_pylist())


def reasons(dataset: VolumeParquet) -> dict[str, str]:
    """The refused files with their reason, from the published list."""
    path = read_parts(dataset).quarantine
    assert path is not None
    return read_quarantine(Path(path))


def read_quarantine(path: Path) -> dict[str, str]:
    import csv

    with path.open(newline="", encoding="utf-8") as source:
        return {row["file"]: row["reason"] for row in csv.DictReader(source)}


def bytes_of(volumes: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """What a table should hold: C order, little-endian."""
    return {name: np.ascontiguousarray(v, v.dtype.newbyteorder("<")).tobytes() for name, v in volumes.items()}


class MakesFile:
    """Unpickling an instance would make the file `path`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def hostile_folder(root: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str], Path]:
    """A folder with every kind of file that people have.

    Gives the volumes that should come out, the reason for each file that should not, and the path
    that exists only if a pickle was executed.
    """
    shape, proof = (4, 3, 2, 2), root.parent / "executed"
    good = make_volumes(root, numbered(12), shape)
    whole = (root / "v0000.npy").read_bytes()
    random = np.random.default_rng(1)
    good["fortran.npy"] = np.asfortranarray(random.random(shape, np.float32))
    good["big-endian.npy"] = random.random(shape).astype(">f4")
    good["both.npy"] = np.asfortranarray(random.random(shape).astype(">f4"))
    for name in ("fortran.npy", "big-endian.npy", "both.npy"):
        np.save(root / name, good[name])
    (root / "truncated.npy").write_bytes(whole[:-7])
    (root / "cut-header.npy").write_bytes(whole[:40])
    (root / "empty.npy").write_bytes(b"")
    (root / "longer.npy").write_bytes(whole + b"x")
    (root / "text.npy").write_text("id,label\n")
    np.save(root / "shape.npy", np.zeros((4, 3, 2, 3), np.float32))
    np.save(root / "dtype.npy", np.zeros(shape, np.complex64))
    np.save(root / "double.npy", np.zeros(shape, np.float64))
    np.save(root / "pickle.npy", np.array([MakesFile(str(proof))], object), allow_pickle=True)
    with_nan = np.ones(shape, np.float32)
    with_nan[1, 2, 0, 1] = np.nan
    np.save(root / "nan.npy", with_nan)
    with_nan[1, 2, 0, 1] = -np.inf
    np.save(root / "inf.npy", with_nan)
    composed, decomposed = "caf\u00e9.npy", "cafe\u0301.npy"
    good |= make_volumes(root, [decomposed], shape, seed=2)
    good[composed] = good.pop(decomposed)
    make_volumes(root, [composed], shape, seed=3)
    with open(os.fsencode(root) + b"/latin-\xe9.npy", "wb") as sink:
        sink.write(whole)
    os.mkfifo(root / "pipe.npy")
    bad = {
        "truncated.npy": "truncated",
        "cut-header.npy": "truncated",
        "empty.npy": "empty",
        "longer.npy": "too-long",
        "text.npy": "not-npy",
        "shape.npy": "shape",
        "dtype.npy": "dtype",
        "double.npy": "dtype-differs",
        "pickle.npy": "pickle",
        "nan.npy": "not-finite",
        "inf.npy": "not-finite",
        composed: "duplicate-id",
        "latin-\\xe9.npy": "unreadable",
        "pipe.npy": "unreadable",
    }
    return good, bad, proof


def write_labels(path: Path, labels: list[tuple[str, Any]]) -> None:
    """`labels.csv`, or `labels.parquet` by its suffix."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"file": [f for f, _ in labels], "label": [v for _, v in labels]}), path)
    else:
        path.write_text("file,label\n" + "".join(f"{f},{v}\n" for f, v in labels), encoding="utf-8")
