"""Where the boxes of a lineage lie."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.lineage import Item, Lineage, Link
from ui.lineage.layout import Layout, laid_out, path_of

WIDTH, ACROSS, DOWN = 100.0, 30.0, 10.0


def lineage(count: int, pairs: set[tuple[int, int]]) -> Lineage:
    items = {str(at): Item(str(at), "Report", str(at), "/out") for at in range(count)}
    return Lineage(items, tuple(Link(str(a), str(b), "Make") for a, b in sorted(pairs) if a < b < count))


def places(found: Lineage, heights: dict[str, float]) -> Layout:
    return laid_out(found, heights, width=WIDTH, across=ACROSS, down=DOWN)


@given(
    some.lists(some.floats(20, 90), min_size=1, max_size=15),
    some.sets(some.tuples(some.integers(0, 14), some.integers(0, 14)), max_size=30),
)
def test_no_boxes_overlap_and_all_are_within_the_given_size(tall: list[float], pairs: set[tuple[int, int]]) -> None:
    found, heights = lineage(len(tall), pairs), {str(at): height for at, height in enumerate(tall)}
    drawn = places(found, heights)
    for one, other in combinations(found.items, 2):
        (x, y), (x2, y2) = drawn.places[one], drawn.places[other]
        if found.levels[one] == found.levels[other]:
            assert x == x2
            assert abs(y - y2) >= (heights[one] + heights[other]) / 2 + DOWN - 1e-6
        else:
            assert abs(x - x2) >= WIDTH + ACROSS - 1e-6
    for (_, level), (begin, end) in drawn.passages.items():
        assert begin.y == end.y
        for key, (x, y) in drawn.places.items():
            if found.levels[key] == level:
                assert (begin.x, end.x) == pytest.approx((x - WIDTH / 2, x + WIDTH / 2))
                assert abs(y - begin.y) >= heights[key] / 2 + DOWN - 1e-6
    ends = {key: (y - heights[key] / 2, y + heights[key] / 2) for key, (_, y) in drawn.places.items()}
    ends |= {str(key): (begin.y, begin.y) for key, (begin, _) in drawn.passages.items()}
    assert min(x for x, _ in drawn.places.values()) - WIDTH / 2 == pytest.approx(-drawn.width / 2)
    assert max(x for x, _ in drawn.places.values()) + WIDTH / 2 == pytest.approx(drawn.width / 2)
    assert min(above for above, _ in ends.values()) == pytest.approx(-drawn.height / 2)
    assert max(below for _, below in ends.values()) == pytest.approx(drawn.height / 2)


def test_chains_are_in_rows_and_branches_are_around_their_beginning() -> None:
    chains = places(lineage(6, {(0, 2), (2, 4), (1, 3), (3, 5)}), dict.fromkeys("012345", 40.0))
    assert chains.places["0"].y == chains.places["2"].y == chains.places["4"].y
    assert chains.places["1"].y == chains.places["3"].y == chains.places["5"].y
    branches = places(lineage(4, {(0, 1), (0, 2), (0, 3)}), dict.fromkeys("0123", 40.0))
    assert branches.places["0"].y == pytest.approx(sum(branches.places[each].y for each in "123") / 3)
    assert places(lineage(0, set()), {}) == Layout({}, {}, 0.0, 0.0)


def test_links_past_a_level_share_a_passage_of_their_item_and_end_at_its_neighbours() -> None:
    # 0 is what 1 and 2 are made from, and 3 and 4 with each of them; 5 is made from 3 and 0.
    found = lineage(6, {(0, 1), (0, 2), (1, 3), (2, 4), (0, 3), (0, 4), (3, 5), (0, 5)})
    drawn = places(found, dict.fromkeys("012345", 40.0))
    assert set(drawn.passages) == {("0", 1), ("0", 2)}
    assert path_of(found, "0", "5") == ["0", ("0", 1), ("0", 2), "5"]
    assert path_of(found, "0", "1") == ["0", "1"]
    assert drawn.passages["0", 1][0].y == drawn.places["0"].y, "straight on, between the two"
