"""`hash_sources`: the SHA-256 of `.npy` files as a column, and the copies that SplitDataset finds by it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from npy_folders import context, convert, make_volumes, numbered, take
from store_fixtures import upload_folder

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeDelta, VolumeParquet
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import split_dataset
from nodes.transform_volumes import transform_volumes
from nodes.volume_file.parts import read_parts


def hashes_in(made: VolumeParquet) -> dict[str, str]:
    parts = [pq.read_table(Path(made.uri) / part.path, partitioning=None) for part in read_parts(made).parts]
    table = pa.concat_tables(parts)
    return dict(zip(table["id"].to_pylist(), table["source_sha256"].to_pylist(), strict=True))


def sums(root: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.glob("*.npy")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Plain files, one in Fortran order, one big-endian."""
    root = tmp_path / "in"
    made = make_volumes(root, numbered(6))
    np.save(root / "v0001.npy", np.asfortranarray(made["v0001.npy"]))
    np.save(root / "v0002.npy", made["v0002.npy"].astype(">f4"))
    return root


def test_each_row_has_the_sum_of_its_file(tmp_path: Path, folder: Path) -> None:
    made = convert(folder, tmp_path / "work", hash_sources=True)
    assert hashes_in(made) == sums(folder)
    plain = convert(folder, tmp_path / "other")
    assert "source_sha256" not in pq.read_schema(Path(plain.uri) / read_parts(plain).parts[0].path).names


def test_after_transforms_it_is_still_that_of_the_file(tmp_path: Path, folder: Path) -> None:
    files = transform_volumes(take(folder, tmp_path), normalise="z-score", ctx=context(tmp_path, "transform"))
    made = numpy_to_parquet(files, hash_sources=True, ctx=context(tmp_path, "parquet"))
    assert hashes_in(made) == sums(folder)


@pytest.mark.slow
def test_in_object_storage_too(tmp_path: Path, folder: Path, azure: str) -> None:
    url = upload_folder(folder, f"{azure}/hashed")
    assert hashes_in(convert(url, tmp_path / "work", hash_sources=True)) == sums(folder)
    files = transform_volumes(take(url, tmp_path), normalise="z-score", ctx=context(tmp_path, "transform"))
    made = numpy_to_parquet(files, hash_sources=True, ctx=context(tmp_path, "parquet"))
    assert hashes_in(made) == sums(folder)


def test_the_column_is_known_before(tmp_path: Path, folder: Path) -> None:
    files = take(folder, tmp_path)
    given = Preview.of(files).model_copy(update={"dataset": files, "sample": tuple(sorted(sums(folder)))})
    params = {p.name: p.default for p in numpy_to_parquet.parameters}
    assert numpy_to_parquet.scan_hook is not None
    assert numpy_to_parquet.preview_hook is not None
    for wanted in (False, True):
        look = CheckContext(params | {"hash_sources": wanted}, {"files": given})
        look.facts = numpy_to_parquet.scan_hook(look)
        shown = numpy_to_parquet.preview_hook(look)
        assert isinstance(shown, Preview)
        assert shown.columns == (("source_sha256",) if wanted else ())


def table_of_copies(base: Path, **params: Any) -> VolumeDelta:
    """Ten files, each of them twice."""
    root = base / "in"
    make_volumes(root, numbered(10))
    for path in sorted(root.glob("*.npy")):
        (root / f"copy-of-{path.name}").write_bytes(path.read_bytes())
    return parquet_to_delta(convert(root, base / "work", **params), ctx=context(base, "table"))


@pytest.mark.slow
def test_a_split_says_how_many_volumes_have_a_copy_on_another_side(tmp_path: Path) -> None:
    table = table_of_copies(tmp_path, hash_sources=True)
    messages: list[str] = []

    def hear(event: Any) -> None:
        messages.append(getattr(event, "text", ""))

    split_dataset(table, validation=0.5, ctx=context(tmp_path, "split", emit=hear))
    (warned,) = [text for text in messages if "copy" in text]
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    params = {p.name: p.default for p in split_dataset.parameters} | {"validation": 0.5}
    given = Preview.of(table).model_copy(update={"dataset": table, "columns": ("source_sha256",)})
    found = {}
    for by in ({}, {"by": "group", "column": "source_sha256"}):
        look = CheckContext(params | by, {"table": given})
        look.facts = split_dataset.scan_hook(look)
        split_dataset.preview_hook(look)
        found[bool(by)] = [(d.code, d.message) for d in look.problems]
    assert found == {False: [("VF448", warned)], True: []}
    # Whichever side a copy is on, its original is on the other one.
    assert int(warned.split()[0]) % 2 == 0


def test_without_the_column_nothing_is_reported(tmp_path: Path) -> None:
    messages: list[str] = []

    def hear(event: Any) -> None:
        messages.append(getattr(event, "text", ""))

    split_dataset(table_of_copies(tmp_path), validation=0.5, ctx=context(tmp_path, "split", emit=hear))
    assert not any("copy" in text for text in messages)
