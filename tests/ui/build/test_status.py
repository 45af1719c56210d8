"""What is known of a dataset before it exists, as wires and ports show it."""

from __future__ import annotations

from engine.cli.plan import _foreseen
from engine.declare.datasets import Preview, VolumeSpec
from ui.build.status import preview_in_words

WHOLE = Preview(
    kind="VolumeDelta", count=2000, bytes=720_000_000, spec=VolumeSpec(shape=(30, 30, 10, 10), dtype="float32")
)


def test_a_whole_table() -> None:
    assert preview_in_words(WHOLE) == "2,000 volumes, 30x30x10x10 float32, 720 MB"
    assert list(_foreseen(WHOLE)) == ["about 2,000 volumes", "720 MB", "30x30x10x10 float32"]


def test_a_part_of_it_has_its_own_count_and_takes_no_space() -> None:
    part = WHOLE.model_copy(update={"selected": 400})
    assert preview_in_words(part) == "about 400 of 2,000 volumes, 30x30x10x10 float32"
    assert list(_foreseen(part)) == ["about 400 of 2,000 volumes", "30x30x10x10 float32"]
    counted = part.model_copy(update={"selected": 397, "selected_exactly": True})
    assert preview_in_words(counted) == "397 of 2,000 volumes, 30x30x10x10 float32"


def test_what_is_not_known_is_left_out() -> None:
    assert preview_in_words(Preview(kind="VolumeDelta")) == ""
    assert list(_foreseen(Preview(kind="VolumeDelta", selected=3))) == []
