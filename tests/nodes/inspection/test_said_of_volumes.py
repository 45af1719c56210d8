"""`verify` of files whose metadata does not say what the volumes in them are: none is taken for another program's."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, shards, write_shard

from nodes.inspection.damage import Checked
from nodes.inspection.verify import check_data
from nodes.parquet_to_delta import parquet_to_delta
from nodes.prediction.parts import SCHEMA
from nodes.table.log import commit_file
from nodes.volume_file.damage import check_file
from nodes.volume_file.footer import sign_footer

UNSAID = "its metadata does not say the shape and dtype of its volumes"
KEY, OTHER_KEY = b"voxelflow.shape", b"voxelflow.shbpe"


def _check(place: Path | str) -> Checked:
    return check_data(str(place), threads=2, progress=lambda done, total: None)


def _voxelflows(folder: Path) -> Path:
    path = folder / write_shard(folder, ids(0, 6)).path
    sign_footer(path)
    return path


def _change(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert (data.count(old), len(old)) == (1, len(new))
    path.write_bytes(data.replace(old, new))


def _in_the_arrow_schema(path: Path) -> None:
    stored = pq.read_metadata(path).metadata[b"ARROW:schema"]
    raw = base64.b64decode(stored)
    assert raw.count(KEY) == 1
    _change(path, stored, base64.b64encode(raw.replace(KEY, OTHER_KEY)))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: _change(path, KEY, OTHER_KEY), UNSAID),
        (lambda path: _change(path, KEY, b"voxelflow.s\xffape"), UNSAID),
        (lambda path: _change(path, b"[4, 3, 2]", b"[4, 3; 2]"), UNSAID),
        (lambda path: _change(path, b"[4, 3, 2]", b"[5, 3, 2]"), "its metadata says two things of its volumes"),
        (_in_the_arrow_schema, UNSAID),
    ],
    ids=["a key", "no text", "no list", "another length", "in the Arrow schema"],
)
def test_a_damaged_shape_in_a_file_of_volumes_names_it(
    tmp_path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    path = _voxelflows(tmp_path)
    assert _check(tmp_path).damages == []
    damage(path)
    found = _check(tmp_path)
    (said,) = found.damages
    assert (said.file, said.problem, said.lost, said.rows) == (str(path), problem, "none of its rows", 0)
    assert found.volumes == 6
    # In a dataset of ours, too.
    with pa.OSFile(str(path)) as opened:
        in_dataset = check_file(opened, 6, SPEC.volume_bytes)
    assert (in_dataset.problems, in_dataset.lost, in_dataset.checked) == ((problem,), 0, 6)


def test_files_that_say_nothing_of_volumes_and_need_not_are_whole(tmp_path: Path) -> None:
    """Of another program, and Voxelflow's own predictions; and a layout that is newer."""
    other = tmp_path / "other" / write_shard(tmp_path / "other", ids(0, 6)).path
    _change(other, KEY, OTHER_KEY)
    predicted = tmp_path / "predicted" / "a.parquet"
    predicted.parent.mkdir()
    cells = {"id": ["a"], "scores": [[0.5]], "label": [None], "predicted": [0], "class": ["cat"], "model": ["m"]}
    pq.write_table(pa.table(cells, schema=SCHEMA), predicted)
    sign_footer(predicted)
    newer = tmp_path / "newer" / "a.parquet"
    newer.parent.mkdir()
    rows = pq.read_table(other)
    pq.write_table(rows.replace_schema_metadata({**(rows.schema.metadata or {}), "voxelflow.format": "99"}), newer)
    sign_footer(newer)
    for path in (other, predicted, newer):
        assert _check(path.parent).damages == [], path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"voxelflow.shape":"[4', '"voxelflow.shbpe":"[4', "its metadata has no voxelflow.shape"),
        ('"voxelflow.format":"1"', '"voxelflow.format":"q"', "has broken volume metadata: invalid literal"),
    ],
)
def test_a_damaged_shape_in_the_log_of_a_table_of_volumes_is_found(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 3), ctx=context(tmp_path)).uri
    commit = commit_file(Path(table), 0)
    assert commit.read_text().count(old) == 1
    commit.write_text(commit.read_text().replace(old, new))
    (found,) = _check(table).damages
    assert (found.kind, said in found.problem) == ("log", True)
    # Without any word of volumes it is of another program.
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"] = {}
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert _check(table).damages == []
