"""Other programs that are at work while a place is measured are noticed, and said."""

from __future__ import annotations

from collections import namedtuple

import pytest
from pretended_benches import probe

from nodes.storage_probe.others import OtherPrograms

_Times = namedtuple("_Times", "user nice system idle iowait guest guest_nice")


@pytest.mark.parametrize(
    ("later", "own", "share"),
    [
        (_Times(14, 1, 5, 60, 20, 0, 0), 20.0, 0.0),  # all of it is ours
        (_Times(44, 1, 5, 30, 20, 9, 0), 10.0, 0.4),  # what guests took is in `user`, too, and waiting is not work
        (_Times(10, 0, 0, 0, 0, 0, 0), 50.0, 0.0),  # clocks that differ
        (_Times(0, 0, 0, 0, 0, 0, 0), 0.0, None),
    ],
)
def test_the_part_of_others(monkeypatch: pytest.MonkeyPatch, later: _Times, own: float, share: float | None) -> None:
    times, process = iter([_Times(0, 0, 0, 0, 0, 0, 0), later]), iter([0.0, own])
    monkeypatch.setattr("psutil.cpu_times", lambda: next(times))
    monkeypatch.setattr("time.process_time", lambda: next(process))
    assert OtherPrograms().share() == share


def test_a_measurement_beside_other_programs_says_so() -> None:
    found = probe("az://container/folder")
    said = "Other programs had 40% of the cores meanwhile"
    assert any(line.startswith(said) for line in found.model_copy(update={"others_share": 0.4}).meaning())
    for quiet in (None, 0.1):
        assert "Other programs" not in " ".join(found.model_copy(update={"others_share": quiet}).meaning())
