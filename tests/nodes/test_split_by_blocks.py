"""Splits by blocks of space: patches that overlap are never in two parts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from delta_tables import SPEC, context, ids
from hypothesis import given
from hypothesis import strategies as st
from split_tables import ROWS, members, parts_of, table_of

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Selection, Transform
from engine.errors import UsageError
from nodes.split_dataset import split_dataset
from nodes.splitting.expected import clear_share
from nodes.table.selection import held


@pytest.mark.slow
def test_patches_that_overlap_are_never_in_two_parts(tmp_path: Path) -> None:
    # 20 x 20 positions, 2 apart; volumes of 4 x 3 x 2 voxels overlap with their neighbours.
    at = [(2 * (i % 20), 2 * (i // 20)) for i in range(ROWS)]
    table = table_of(tmp_path, {"x": [x for x, _ in at], "y": [float(y) for _, y in at]})
    assert SPEC.shape[:2] == (4, 3)
    place = dict(zip(ids(0, ROWS), at, strict=True))
    for params in ({"test": 0.2}, {"folds": 3}, {"gap": 5.0, "test": 0.2}):
        split = split_dataset(table, by="blocks", column="x,y", block=6, ctx=context(tmp_path), **params)
        train, validation, test = parts_of(split)
        assert train
        assert validation
        near = (params.get("gap", 4.0), params.get("gap", 3.0))
        for one, other in itertools.combinations((train, validation, test), 2):
            assert not one & other
            meeting = [
                (a, b)
                for a in one
                for b in other
                if all(abs(p - q) < g for p, q, g in zip(place[a], place[b], near, strict=True))
            ]
            assert not meeting


@pytest.mark.slow
def test_each_source_has_blocks_of_its_own(tmp_path: Path) -> None:
    """Two surveys of 200 patches at the same 20 x 10 positions, which overlap with their neighbours."""
    half = ROWS // 2
    at = [(2 * (i % 20), 2 * (i % half // 20)) for i in range(ROWS)]
    surveys = ["north" if i < half else "south" for i in range(ROWS)]
    table = table_of(tmp_path, {"x": [x for x, _ in at], "y": [y for _, y in at], "source": surveys})
    place = dict(zip(ids(0, ROWS), zip(surveys, at, strict=True), strict=True))
    params: dict[str, Any] = {"by": "blocks", "column": "x,y", "block": 6.0, "validation": 0.4}
    together, alone = (
        parts_of(split_dataset(table, **params, source_column=column, ctx=context(tmp_path)))
        for column in ("", "source")
    )
    for parts, same in ((together, True), (alone, False)):
        train, validation, test = parts
        assert (bool(train), bool(validation), bool(test)) == (True, True, False)
        places = [{where: {at for name, at in map(place.get, part) if name == where} for where in ("north", "south")}
                  for part in (train, validation)]  # fmt: skip
        assert (places[0]["north"] == places[0]["south"]) is same
        for where in ("north", "south"):
            assert not any(
                abs(a[0] - b[0]) < 4 and abs(a[1] - b[1]) < 3 for a in places[0][where] for b in places[1][where]
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "known"), [("resample", False), ("axes", False), ("orient", False), ("crop-pad", True), ("scale", True)]
)
def test_patches_that_were_resampled_need_a_gap(tmp_path: Path, step: str, known: bool) -> None:
    """Their shape no longer says how near two of them may lie in what they were cut from."""
    made = table_of(tmp_path, {"x": list(range(ROWS))})
    assert made.spec is not None
    transform = Transform(name=step, version=1, parameters={}, words=step)
    table = made.model_copy(update={"spec": made.spec.model_copy(update={"transforms": (transform,)})})
    params: dict[str, Any] = {"by": "blocks", "column": "x"}
    foreseen = Preview(kind="VolumeDelta", columns=("x",), spec=table.spec)
    there = Preview.of(table).model_copy(update={"dataset": table, "columns": ("x",)})
    for shown in (foreseen, there):
        look = CheckContext({p.name: p.default for p in split_dataset.parameters} | params, {"table": shown})
        assert split_dataset.scan_hook is not None
        assert split_dataset.preview_hook is not None
        look.facts = split_dataset.scan_hook(look)
        split_dataset.preview_hook(look)
        assert [(d.code, d.parameter) for d in look.problems] == ([] if known else [("VF442", "gap")])
    if known:
        assert all(parts_of(split_dataset(table, **params, ctx=context(tmp_path)))[:2])
        return
    with pytest.raises(UsageError, match="resampled or turned") as caught:
        split_dataset(table, **params, ctx=context(tmp_path))
    assert caught.value.parameter == "gap"
    assert all(parts_of(split_dataset(table, **params, gap=6.0, ctx=context(tmp_path)))[:2])


@pytest.mark.slow
def test_several_sources_in_one_space_are_reported_before_the_run(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"x": list(range(ROWS)), "source": ["north", "south"] * (ROWS // 2)})
    one = table_of(tmp_path / "one", {"x": list(range(ROWS)), "source": ["north"] * ROWS})
    foreseen = Preview(kind="VolumeDelta", columns=("source", "x"), sources=2)
    params = {p.name: p.default for p in split_dataset.parameters} | {"by": "blocks", "column": "x"}

    def problems(given: Preview, **more: Any) -> list[tuple[str, str | None]]:
        assert split_dataset.scan_hook is not None
        assert split_dataset.preview_hook is not None
        look = CheckContext(params | more, {"table": given})
        look.facts = split_dataset.scan_hook(look)
        split_dataset.preview_hook(look)
        return [(d.code, d.parameter) for d in look.problems]

    there = Preview.of(table).model_copy(update={"dataset": table, "columns": ("source", "x")})
    for known in (there, foreseen):
        assert problems(known) == [("VF447", "source_column")]
        assert problems(known, source_column="source") == []
        assert problems(known, source_column="survey")[0] == ("VF444", "source_column")
        assert problems(known, by="group", source_column="source") == [("VF443", "source_column")]
    assert problems(Preview.of(one).model_copy(update={"dataset": one, "columns": ("source", "x")})) == []
    assert problems(foreseen.model_copy(update={"sources": 1})) == []


@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=2, max_size=40), st.floats(0.1, 0.9))
def test_no_two_volumes_of_different_sides_meet(at: list[tuple[int, int]], end: float) -> None:
    like: dict[str, Any] = {"salt": "s", "by": ("x", "y"), "blocks": (7.0, 9.0), "gap": (3.0, 4.0)}
    one = Selection(low=0, high=end, clear_of=(end, 1.0), **like)
    other = Selection(low=end, high=1, **like)
    places = np.array(at, np.float64)
    columns = {
        "id": pa.array([f"v{i}" for i in range(len(at))]), "x": pa.array(places[:, 0]), "y": pa.array(places[:, 1])
    }  # fmt: skip
    left, right = (places[held([each], columns)] for each in (one, other))
    for p in left:
        assert not (np.abs(right - p) < (3.0, 4.0)).all(axis=1).any()


@given(st.floats(0.1, 3), st.floats(0, 0.5), st.integers(1, 3))
def test_the_gap_between_blocks_is_in_what_is_foreseen(gap: float, taken: float, axes: int) -> None:
    """Against places drawn at random in one block whose neighbours are on the other side with the chance `taken`."""
    length = 3.0
    lengths, gaps = (length,) * axes, (gap,) * axes
    at = np.random.default_rng(0).random((4000, axes)) * length
    blocks = (np.floor((at + gap) / length) - np.floor((at - gap) / length) + 1).prod(axis=1)
    assert clear_share(lengths, gaps, taken) == pytest.approx(float(((1 - taken) ** (blocks - 1)).mean()), abs=0.03)


@pytest.mark.slow
def test_a_split_by_blocks_is_foreseen_without_those_in_the_gap(tmp_path: Path) -> None:
    side = 24
    x, y = (grid.reshape(-1) for grid in np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    assert len(x) >= ROWS
    table = table_of(tmp_path, {"x": x[:ROWS].tolist(), "y": y[:ROWS].tolist()})
    params: dict[str, Any] = {"by": "blocks", "column": "x,y", "block": 4.0, "gap": 1.0, "validation": 0.3}
    given = Preview.of(table).model_copy(update={"columns": ("x", "y")})
    assert split_dataset.preview_hook is not None
    about = split_dataset.preview_hook(CheckContext(params, {"table": given}))
    made = split_dataset(table, **params, ctx=context(tmp_path))
    assert isinstance(about, dict)
    assert made.train.selected == len(members(made.train)) < 0.7 * ROWS
    # Blocks are few here, so their share varies; the part that lies in the gap does not.
    assert about["train"].selected == pytest.approx(made.train.selected, rel=0.2)
    assert about["validation"].selected == 0.3 * ROWS
