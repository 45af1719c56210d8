"""Parts made of rows that are no files: patches of few large arrays, whose readers give labels and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import examples
from npy_folders import context, parts_of, reasons, rows
from numpy.typing import NDArray

from engine.declare.datasets import VolumeParquet, VolumeSpec
from engine.errors import DataError, TooManyBadFiles
from nodes.conversion.make_parts import Making, make_parts, opened_store
from nodes.conversion.part_writer import Layout, Row
from nodes.conversion.quarantine import Refused
from nodes.conversion.row_ledger import RowLedger

SPEC = VolumeSpec(shape=(4, 4, 4), dtype="float32")
READS: list[str] = []
"""The cubes that were opened, one after the other."""


@dataclass(frozen=True)
class Patches:
    """Patches of cubes whose voxels all have the number of their layer; one cube is read for many rows."""

    rule: str = "one"
    noun: str = "patches"

    def key(self) -> Sequence[str]:
        return ["patches", self.rule]

    def open(self, layout: Layout) -> Cutter:
        return Cutter()

    def reader_bytes(self, layout: Layout) -> int:
        return layout.spec.volume_bytes


class Cutter:
    def __init__(self) -> None:
        self.cube = ""

    def expect(self, rows: Sequence[Row]) -> None:
        self.cube = ""

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, Sequence[Any]]:
        cube, _, layer = row.key.partition("#")
        if cube != self.cube:
            READS.append(cube)
            self.cube = cube
        if layer == "13":
            raise Refused("not-finite", "holds no data")
        volume.view("<f4")[:] = float(layer)
        return float(int(layer) % 2), (int(layer),)


def cut(
    base: Path, cubes: dict[str, int], *, previous: VolumeParquet | None = None, most: int = 0, rule: str = "one",
    messages: list[str] | None = None,
) -> VolumeParquet:  # fmt: skip
    keys = [f"{cube}#{layer}" for cube, layers in cubes.items() for layer in range(layers)]
    ids = pa.array(keys, pa.string())
    stamps = pa.table({"state": pa.array([f"{k.partition('#')[0]} as it is" for k in keys], pa.string())})
    ctx = context(base, "cut", "f" * 32, previous={"out": previous} if previous else {})
    if messages is not None:
        object.__setattr__(ctx, "emit", lambda event: messages.append(getattr(event, "text", "")))
    columns = pa.schema([("layer", pa.int64())])
    layout = Layout(SPEC, target_bytes=10 * 320, row_group_rows=4, compression="none", finite=True, columns=columns)
    ledger = RowLedger(ids, ids, stamps, np.full(len(keys), np.nan, np.float32))
    with opened_store(ctx) as store:
        return make_parts(Making(Patches(rule), ledger, layout, store, threads=1, most_refused=most), ctx)


def test_rows_near_to_each_other_share_a_read_and_the_reader_gives_labels_and_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    READS.clear()
    out = cut(tmp_path, {"a": 12, "b": 8})
    assert READS == ["a", "a", "b"], "a part has ten rows: one cube lies in two of them"
    found = rows(out)
    assert out.count == out.labelled == len(found) == 20
    assert found["a#7"] == (1.0, np.full(64, 7, "<f4").tobytes())
    parts = parts_of(out).parts
    assert [(p.rows, p.labelled, p.label_min, p.label_max) for p in parts] == [(10, 10, 0.0, 1.0)] * 2
    table = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts])
    assert table["layer"].to_pylist() == [*range(12), *range(8)]


def test_a_refused_row_is_listed_and_more_than_allowed_stop_the_run(tmp_path: Path) -> None:
    out = cut(tmp_path, {"a": 20}, most=1)
    assert (out.found, out.count, out.quarantined) == (20, 19, 1)
    assert reasons(out) == {"a#13": "not-finite"}
    with pytest.raises(TooManyBadFiles, match=r"^1 patch cannot be converted, 0 allowed") as caught:
        cut(tmp_path, {"a": 20})
    assert "allow more" not in caught.value.hint
    assert caught.value.parameter is None


def test_a_further_cube_costs_its_own_rows_and_another_rule_all(tmp_path: Path) -> None:
    said: list[str] = []
    first = cut(tmp_path, {"b": 10, "c": 10})
    before = {p.path for p in parts_of(first).parts}
    second = cut(tmp_path, {"a": 5, "b": 10, "c": 10}, previous=first, messages=said)
    assert [s for s in said if s][-1] == "25 volumes in 3 parts; 5 patches converted now, 2 parts were there already"
    after = {p.path for p in parts_of(second).parts}
    assert before < after
    other = cut(tmp_path / "other", {"a": 5, "b": 10, "c": 10}, rule="two")
    assert not {p.path for p in parts_of(other).parts} & after


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 12), min_size=1), min_size=2, max_size=4))
def test_whatever_comes_and_goes_the_rows_are_those_of_a_first_run(states: list[dict[str, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        before = None
        for cubes in states:
            before = cut(Path(folder), cubes, previous=before, most=9)
        with tempfile.TemporaryDirectory() as fresh:
            assert before is not None
            assert rows(before) == rows(cut(Path(fresh), states[-1], most=9))


def test_a_removed_row_of_a_source_with_columns() -> None:
    """Rows that are gone count for nothing, also where columns are compared."""

    def ledger(keys: list[str]) -> RowLedger:
        names = pa.array(keys, pa.string())
        stamps = pa.table({"size": pa.array([1] * len(keys))})
        return RowLedger(names, names, stamps, np.zeros(len(keys), np.float32), pa.table({"of": names}))

    import tempfile

    from engine.storage import manifest

    before = ledger(["a", "b", "c", "d"])
    before.part[:] = [0, 0, 1, 1]
    with tempfile.TemporaryDirectory() as folder:
        before.write(["one", "two"], Path(folder) / "sources.arrow")
        stored = manifest.read(str(Path(folder) / "sources.arrow"))
        after = ledger(["a", "c", "d"])
        assert after.take_over(stored, ["one", "two"]).tolist() == [False, True]
        assert after.part.tolist() == [-1, 1, 1]


def test_nothing_but_refused_rows_is_an_error(tmp_path: Path) -> None:
    ids = pa.array(["a#13"], pa.string())
    layout = Layout(SPEC, 3200, 4, "none", finite=True, columns=pa.schema([("layer", pa.int64())]))
    ledger = RowLedger(ids, ids, pa.table({"n": [1]}), np.zeros(1, np.float32))
    ctx = context(tmp_path, "cut", "f" * 32)
    with opened_store(ctx) as store, pytest.raises(DataError, match="none of the 1 patches can be converted"):
        make_parts(Making(Patches(), ledger, layout, store, most_refused=5), ctx)
