"""A file that another one took the place of is refused before it is trained on; wide or short statistics are not."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from delta_tables import context, ids, shards, write_shard
from volume_sets import labels_for, make_delta, make_parquet, some_volumes, write_own_file

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError
from nodes.inspection.verify import check_data
from nodes.loaders import LoaderName, open_source
from nodes.loaders.chained_volumes import rows_as_files
from nodes.loaders.interface import Reading, Source
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import commit_file
from nodes.table.snapshot import TableFile, open_table
from nodes.testing.loader import evaluation
from nodes.volume_file.id_bounds import ends_of, other_content

VOLUMES = some_volumes(24)
LABELS = labels_for(VOLUMES)
IDS = list(VOLUMES)[8:16]
"""Of the second file."""
OTHERS = {f"z{name}"[: len(name)]: VOLUMES[name] for name in IDS}


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, LABELS, rows=8, own=True)


def _second(table: VolumeDelta) -> Path:
    return Path(table.uri) / "part 1.parquet"


def _other_ids(path: Path) -> None:
    write_own_file(path, OTHERS, dict.fromkeys(OTHERS, 1.0))


def _other_labels(path: Path) -> None:
    write_own_file(path, {name: VOLUMES[name] for name in IDS}, dict.fromkeys(IDS, 9.0))


def _no_labels(path: Path) -> None:
    write_own_file(path, {name: VOLUMES[name] for name in IDS}, dict.fromkeys(IDS))


@pytest.mark.parametrize("use", ["arrow", "petastorm", "rows for transforms"])
@pytest.mark.parametrize(
    ("replace", "said"),
    [
        (_other_ids, "holds other rows than the table's log says: ids from z"),
        (_other_labels, "holds other labels than the table's log says: from 9 to 9, not from 0 to 1"),
        (_no_labels, r"has [\d,]+ bytes, not [\d,]+"),
    ],
)
def test_another_file_is_refused(
    table: VolumeDelta, replace: Callable[[Path], None], said: str, use: str, tmp_path: Path
) -> None:
    path = _second(table)
    size = path.stat().st_size
    replace(path)
    assert (path.stat().st_size == size) == ("bytes" not in said)
    uses: dict[str, Callable[[], object]] = {
        "arrow": lambda: open_source("arrow", table, cores=1),
        "petastorm": lambda: open_source("petastorm", table, cores=1),
        "rows for transforms": lambda: rows_as_files(table, tmp_path / "listing"),
    }
    with pytest.raises(DataError, match=f"{re.escape(str(path))} {said}") as caught:
        uses[use]()
    assert "Bring the right file back from a copy" in (caught.value.hint or "")
    # What the hint of other messages says is right: verify names it, too.
    (damage,) = check_data(table.uri, threads=1, progress=lambda done, total: None).damages
    assert (damage.file, damage.lost) == (str(path), "all 8 volumes in it")


def test_another_file_of_a_list_of_parts_is_refused(tmp_path: Path) -> None:
    parts = make_parquet(tmp_path, VOLUMES, LABELS, rows=8)
    first, second = (Path(parts.uri) / f"part-{number}.parquet" for number in (0, 1))
    kept = second.stat().st_size
    shutil.copyfile(first, second)
    assert second.stat().st_size == kept
    with pytest.raises(DataError, match=r"part-1\.parquet holds other rows than the list of the Parquet files says"):
        open_source("arrow", parts, cores=1)


@pytest.mark.parametrize("known", ["all", "cut short", "ids", "none"])
def test_statistics_that_are_wide_short_or_missing_are_no_reason(tmp_path: Path, known: str) -> None:
    """As Spark cuts ids short, and other programs write none of the labels, or none at all."""
    table = parquet_to_delta(shards(tmp_path / "p", 4, 4), ctx=context(tmp_path))
    log = commit_file(Path(table.uri), 1)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (line["add"] for line in lines if "add" in line):
        statistics = json.loads(add["stats"])
        for kind, label in (("minValues", -1e30), ("maxValues", 1e30)):
            ends = statistics[kind]
            ends["label"] = label
            if known == "cut short":
                ends["id"] = ends["id"][:5] + ("\ufffd" if kind == "maxValues" else "")
            elif known == "ids":
                del ends["label"]
        if known == "none":
            del add["stats"]
        else:
            add["stats"] = json.dumps(statistics)
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    with closing(open_source("arrow", table, cores=1)) as source:
        assert source.rows.ids.to_pylist() == ids(0, 8)


@pytest.mark.parametrize(
    ("labels", "labelled", "ends"),
    [
        ([0.1, 0.7], 2, (0.1, 0.7)),
        ([0.1, 0.7], 2, (float(np.float32(0.1)), float(np.float32(0.7)))),
        ([0.0], 1, (-0.0, -0.0)),
        ([np.nan, 1.0], 2, (1.0, 1.0)),
        ([np.nan, 1.0], 1, (1.0, 1.0)),
        ([np.nan, 1.0], 2, (1.0, np.nan)),
        ([np.nan, np.nan], 2, (None, None)),
        ([None, None], 0, (None, None)),
        ([np.inf, 1.0], 2, (1.0, np.inf)),
    ],
)
def test_labels_are_compared_as_any_writer_counts_them(
    labels: list[float | None], labelled: int, ends: tuple[float | None, float | None]
) -> None:
    names = pa.array([f"v{number}" for number in range(len(labels))])
    found = ends_of(names, pa.array(labels, pa.float32()))
    said = TableFile("a", 1, len(labels), labelled, 0, "v0", names[-1].as_py(), *ends)
    assert other_content(found, said) == ""


@pytest.mark.parametrize(
    ("labels", "labelled", "problem"),
    [
        ([None, 1.0], 2, "1 of 2 rows have one, not 2"),
        ([0.0, 1.0], 0, "2 of 2 rows have one, not 0"),
        ([0.0, 2.0], 2, "from 0 to 2, not from 0 to 1"),
    ],
)
def test_other_labels_are_said(labels: list[float | None], labelled: int, problem: str) -> None:
    found = ends_of(pa.array(["v0", "v1"]), pa.array(labels, pa.float32()))
    said = TableFile("a", 1, 2, labelled, 0, "v0", "v1", 0.0, 1.0)
    assert other_content(found, said) == f"holds other labels than the table's log says: {problem}"


def test_ids_that_spark_cut_before_a_character_beyond_its_mark() -> None:
    """It puts U+FFFD behind what is left, which is less than the characters that it counts as two."""
    found = ends_of(pa.array(["a" * 32 + "\U0001f9e0"]), None)
    assert other_content(found, TableFile("a", 1, 1, 0, 0, "a" * 32, "a" * 32 + "\ufffd")) == ""


def _swap(path: Path) -> None:
    """By another file of the same layout; the one that is open stays as it is."""
    path.unlink()
    _other_ids(path)


def _copy(path: Path) -> None:
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)
    os.utime(path, (1, 1))


def _order(source: Source) -> list[str]:
    loader = source.loader(source.rows_in(), Reading(4, training=False))
    return [name for batch in loader.batches() for name in source.ids(batch.rows)]


@pytest.mark.parametrize("loader", ["arrow", "petastorm"])
@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_a_file_that_is_replaced_after_the_table_was_opened_is_refused(
    tmp_path: Path, loader: LoaderName, compression: str
) -> None:
    own = {"own": True} if compression == "NONE" else {"compression": compression}
    table = make_delta(tmp_path, VOLUMES, LABELS, rows=8, **own)
    with closing(open_source(loader, table, cores=1)) as source:
        _copy(_second(table))
        assert sorted(_order(source)) == sorted(VOLUMES), "a copy is as good"
    with closing(open_source(loader, table, cores=1)) as source:
        _swap(_second(table))
        for _ in range(2):
            with pytest.raises(DataError) as caught:
                evaluation(source, 4)
    if loader == "arrow":
        said = f"{_second(table)} was changed while the table was read: it holds other rows now"
        assert caught.value.message == said
    else:
        assert "which it did not have when it was opened" in caught.value.message


def test_the_log_of_a_table_in_place_of_another_is_no_matter(tmp_path: Path) -> None:
    """Two swapped files are found by their ids: each row would still be there once."""
    table = parquet_to_delta(shards(tmp_path / "p", 4, 4), ctx=context(tmp_path))
    first, second = (Path(table.uri) / file.path for file in open_table(table.uri).files)
    kept = tmp_path / write_shard(tmp_path, ids(0, 4)).path
    first.unlink()
    second.replace(first)
    kept.replace(second)
    with pytest.raises(DataError, match="holds other rows than the table's log says"):
        open_source("arrow", table, cores=1)
