"""A table reserved by one run after the other, on a disk and in object stores."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import WAIT_S, wait_for_line, wait_until

from engine.storage import reservation as module
from engine.storage.find_place import place_at
from engine.storage.local_place import LocalPlace
from engine.storage.objects import RemotePath
from engine.storage.place import Place
from engine.storage.remote_place import RemotePlace
from engine.storage.reservation import Reservation
from engine.storage.table_lock import INTERNALS

Make = Callable[..., Reservation]


@pytest.fixture(params=["local", *(pytest.param(n, marks=pytest.mark.slow) for n in ("azure", "s3", "gcs"))])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where a table may come."""
    if request.param == "local":
        return LocalPlace(tmp_path / "table")
    from store_fixtures import container_in

    server = "azure_server" if request.param == "azure" else f"{request.param}_stand_in"
    return place_at(container_in(request.getfixturevalue(server), monkeypatch) + "/table")


@pytest.fixture
def make(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    monkeypatch.setattr(module, "RENEW_S", 0.1)
    made: list[Reservation] = []

    def make_one(run: str, at: Place = place) -> Reservation:
        found = at.reservation(run, Path("/here"))
        assert found is not None
        made.append(found)
        return found

    yield make_one
    for one in made:
        one.release()
        one.wait(WAIT_S)


def taken(reservation: Reservation) -> None:
    wait_until(reservation.take, "the reservation")


def test_one_has_it_and_the_next_gets_it_when_it_is_given_back(make: Make) -> None:
    one, other = make("1-aaa"), make("2-bbb")
    taken(one)
    assert not other.take()
    wait_until(other.holder, "the holder's name")
    assert "run 1-aaa" in other.holder()
    assert one.take()
    one.release()
    taken(other)
    again = make("1-aaa")
    assert not again.take()
    wait_until(lambda: not again.take() and "run 2-bbb" in again.holder(), "the next holder's name")


def test_a_wish_that_was_given_up_takes_nothing(make: Make) -> None:
    one, other, third = make("1"), make("2"), make("3")
    taken(one)
    other.take()
    other.release()
    other.wait(WAIT_S)
    one.release()
    taken(third)


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_process_that_was_killed_has_it_no_longer(place: LocalPlace, make: Make) -> None:
    code = (
        "import sys, time; from pathlib import Path; from engine.storage.find_place import place_at;"
        f"print(place_at({str(place)!r}).reservation('1-aaa', Path('/there')).take(), flush=True); time.sleep(600)"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True) as holder:
        wait_for_line(holder, "^True$")
        other = make("2-bbb")
        assert not other.take()
        assert other.holder() == "run 1-aaa of /there"
        holder.kill()
        holder.wait()
    taken(other)


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_nothing_is_left_in_a_folder_that_is_no_table(place: LocalPlace) -> None:
    place.root.mkdir()
    (place.root / "notes.txt").write_text("mine")
    assert place.reservation("1", Path("/here")) is None
    assert LocalPlace(place.root / "notes.txt").reservation("1", Path("/here")) is None
    assert [p.name for p in place.root.iterdir()] == ["notes.txt"]
    (place.root / "_delta_log").mkdir()
    assert place.reservation("1", Path("/here")) is not None


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_where_it_cannot_be_had_the_task_goes_on_and_reports_what_is_wrong(place: LocalPlace) -> None:
    place.root.mkdir()
    (place.root / INTERNALS).write_text("no folder")
    (place.root / "_delta_log").mkdir()
    found = place.reservation("1", Path("/here"))
    assert found is not None
    assert found.take()
    found.release()


# --- leases ---------------------------------------------------------------------------------------

leases = pytest.mark.parametrize(
    "place", [pytest.param(n, marks=pytest.mark.slow) for n in ("azure", "s3", "gcs")], indirect=True
)


def _dies(reservation: Reservation) -> None:
    """As its process would: it renews its lease no more, and does not give it back."""
    assert isinstance(reservation, module._Lease)
    reservation._version = None
    reservation._over.set()
    reservation.wait(WAIT_S)


def _record(place: Place) -> RemotePath:
    assert isinstance(place, RemotePlace)
    return place.root / INTERNALS / "reserved.json"


@leases
def test_a_lease_that_is_not_renewed_runs_out(place: Place, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_S", 2.0)
    one, other = make("1"), make("2")
    taken(one)
    other.take()
    time.sleep(4)
    assert not other.take(), "it was renewed all the time"
    _dies(one)
    taken(other)
    assert b'"run": "run 2"' in _record(place).read_bytes()


@leases
def test_a_holder_that_slept_for_too_long_asks_again(place: Place, make: Make) -> None:
    one, other = make("1"), make("2")
    taken(one)
    # What a new holder does once the lease has run out; the old one then finds another version than its own.
    record = _record(place)
    record.write_bytes(b'{"run": "run 3", "nonce": "x", "seconds": 1.0}')
    wait_until(lambda: one.holder() == "run 3", "the old holder sees the new one")
    assert one.take(), "its task goes on: commits are safe without"
    record.write_bytes(b'{"run": "run 3", "nonce": "x", "seconds": 0}')
    wait_until(lambda: b'"run": "run 1"' in record.read_bytes(), "it has the lease again")
    assert not other.take()


@leases
def test_a_damaged_record_counts_as_a_lease_that_runs_out(
    place: Place, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_S", 0.5)
    _record(place).write_bytes(b"no JSON")
    one = make("1")
    assert not one.take()
    taken(one)


def test_a_store_that_does_not_answer_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    def refuse(*_: object) -> None:
        raise OSError("unreachable")

    monkeypatch.setattr(RemotePath, "read_version", refuse)
    one = make("1", place_at("az://container/table"))
    taken(one)
