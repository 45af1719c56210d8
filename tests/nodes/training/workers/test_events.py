"""Events through a file: each once and in order, also when either side was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.declare.events import Event, Message, Metrics
from nodes.training.workers.events import EventReader, EventWriter, KnownSteps


def figures(step: int, **values: float) -> Metrics:
    return Metrics(step=step, values=values or {"loss": step / 10})


Open = Callable[[Path], EventWriter]


@pytest.fixture
def writing() -> Iterator[Open]:
    opened: list[EventWriter] = []

    def write(path: Path) -> EventWriter:
        opened.append(EventWriter(path))
        return opened[-1]

    yield write
    for writer in opened:
        writer.close()


def attempt(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder / "events.jsonl"


def test_what_is_new_is_passed_on_once(tmp_path: Path, writing: Open) -> None:
    path, seen = attempt(tmp_path, 1), list[Event]()
    reader = EventReader(path, seen.append, KnownSteps([]))
    assert reader.pass_on() == 0
    writer = writing(path)
    writer.emit(figures(1))
    writer.emit(Message(text="Grüße"))
    assert reader.pass_on() == 2
    writer.emit(figures(2))
    # Half a line is left for the next time.
    with path.open("ab") as file:
        file.write(figures(3).model_dump_json().encode()[:20])
    assert reader.pass_on() == 1
    assert reader.pass_on() == 0
    assert [e.step if isinstance(e, Metrics) else e.text for e in seen if isinstance(e, Metrics | Message)] == [
        1,
        "Grüße",
        2,
    ]


@pytest.mark.parametrize("note", ["", "\0\0"])
def test_a_note_that_a_power_cut_has_emptied_counts_for_nothing(tmp_path: Path, writing: Open, note: str) -> None:
    path, before, after = attempt(tmp_path, 1), list[Event](), list[Event]()
    writing(path).emit(figures(1))
    EventReader(path, before.append, KnownSteps([])).pass_on()
    path.with_name("handed-on").write_text(note)
    EventReader(path, after.append, KnownSteps([])).pass_on()
    assert [e.step for e in after if isinstance(e, Metrics)] == [1]


def test_the_next_driver_goes_on_where_the_last_was_killed(tmp_path: Path, writing: Open) -> None:
    path, before, after = attempt(tmp_path, 1), list[Event](), list[Event]()
    writer = writing(path)
    writer.emit(figures(1))
    EventReader(path, before.append, KnownSteps([])).pass_on()
    writer.emit(figures(2))
    EventReader(path, after.append, KnownSteps([])).pass_on()
    assert [e.step for e in before + after if isinstance(e, Metrics)] == [1, 2]


def test_steps_that_are_taken_again_are_not_reported_again(tmp_path: Path, writing: Open) -> None:
    first = attempt(tmp_path, 1)
    writer = writing(first)
    for step in (1, 2, 3):
        writer.emit(figures(step))
    writer.emit(figures(1, val_loss=0.5))
    with first.open("ab") as file:
        file.write(b'{"event": "metr')
    seen = list[Event]()
    path = attempt(tmp_path, 2)
    again = writing(path)
    for step in (2, 3, 4):
        again.emit(figures(step, loss=step / 10, accuracy=1.0))
    again.emit(figures(2, val_loss=0.4))
    again.emit(Message(text="going on"))
    EventReader(path, seen.append, KnownSteps([first, tmp_path / "missing"])).pass_on()
    # A figure that was not reported before is; the step's others are not repeated.
    assert [(e.step, e.values) for e in seen if isinstance(e, Metrics)] == [
        (2, {"accuracy": 1.0}),
        (3, {"accuracy": 1.0}),
        (4, {"loss": 0.4, "accuracy": 1.0}),
        (2, {"val_loss": 0.4}),
    ]
    assert isinstance(seen[-1], Message)
