from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodes.delta.compaction_plan import plan_bins
from nodes.delta.delta_table import TableFile


def _files(*sizes: int) -> list[TableFile]:
    return [TableFile(f"{i:03d}", size, 1, 1, 0, f"{i:03d}", f"{i:03d}") for i, size in enumerate(sizes)]


def _paths(*sizes: int, fill: float = 0.75, odd: tuple[str, ...] = ()) -> list[list[str]]:
    return [[f.path for f in b.files] for b in plan_bins(_files(*sizes), 100, fill, odd)]


def test_small_files_are_packed_in_their_order() -> None:
    assert _paths(40, 40, 40, 10, 30) == [["000", "001"], ["002", "003", "004"]]


def test_files_of_a_good_size_stay() -> None:
    assert _paths(90, 10, 75, 20, 300) == [["001", "003"]]
    assert _paths(90, 10, 75, 20, 300, fill=0.1) == []


def test_a_file_alone_is_not_written_again() -> None:
    assert _paths(90, 10) == []
    assert _paths(60, 60, 60) == []


def test_odd_files_are_written_again_whatever_their_size() -> None:
    assert _paths(90, 10, 300, odd=("000", "002")) == [["000", "001"], ["002"]]


@given(
    st.lists(st.integers(1, 250), max_size=40),
    st.floats(0.05, 1),
    st.sets(st.integers(0, 39), max_size=5),
)
def test_planning_ends_and_loses_nothing(sizes: list[int], fill: float, odd_places: set[int]) -> None:
    files = _files(*sizes)
    odd = {f"{i:03d}" for i in odd_places}
    for _ in range(len(files) + 2):
        bins = plan_bins(files, 100, fill, odd)
        taken = [f for b in bins for f in b.files]
        assert len(taken) == len({f.path for f in taken})
        assert {f.path for f in taken} <= {f.path for f in files}
        for b in bins:
            assert b.odd or b.bytes <= 100
            assert b.odd == any(f.path in odd for f in b.files)
        if not bins:
            break
        paths = {f.path for f in taken}
        merged = [TableFile(b.files[0].path + "+", b.bytes, b.rows, 0, 0, b.files[0].id_min, "") for b in bins]
        files = sorted([f for f in files if f.path not in paths] + merged, key=lambda f: (f.id_min, f.path))
        assert sum(f.bytes for f in files) == sum(sizes)
    else:
        raise AssertionError("planning went on for ever")
