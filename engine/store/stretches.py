"""When the tasks of a run were at work: the stretches between their changes of state, over all attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.store.database import Database

_OPEN = ("waiting", "running")
_ENDS = ("done", "failed", "cancelled")
_NOT_WORK = ("waiting", "cached")


@dataclass(frozen=True)
class Move:
    """A task changed to `state`. Of a run that was resumed `before` is the time of the last event before that, with
    which a task ended that was at work then. Times are seconds since the epoch."""

    time: float
    node: str
    state: str
    attempt: int
    reason: str = ""
    before: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """A task waited or ran from `start` to `end`, in epoch seconds.

    `state` of one that was run is what came of it, "lost" where its process was gone. Else it is "waiting", "running"
    or "cached".
    """

    state: str
    start: float
    end: float
    attempt: int


def stretches(moves: Iterable[Move], until: float, *, active: bool) -> list[Stretch]:
    """The stretches of one task. What is open goes on `until` then, in a run that is `active` or was so until then."""
    out: list[Stretch] = []
    since: Move | None = None
    for move in moves:
        if since is not None:
            state, end = _outcome(since, move)
            out.append(Stretch(state, since.time, max(end, since.time), since.attempt))
        elif move.state == "cached":
            out.append(Stretch("cached", move.time, move.time, move.attempt))
        since = move if move.state in _OPEN else None
    if since is not None:
        state = "lost" if since.state == "running" and not active else since.state
        out.append(Stretch(state, since.time, max(until, since.time), since.attempt))
    return out


def _outcome(since: Move, move: Move) -> tuple[str, float]:
    """What a stretch came to, and when it ended."""
    if since.state != "running" or move.state in _ENDS:
        return (move.state if since.state == "running" else since.state), move.time
    if move.reason.startswith("attempt "):  # failed, and will be tried again
        return "failed", move.time
    # The run's process had died, and another one goes on: no work was done in between.
    return "lost", move.before if move.before >= since.time else move.time


def worked(moves: Iterable[Move], until: float, *, active: bool) -> dict[str, float]:
    """By node, how long it was at work in all of the run's attempts together; of those that began."""
    by_node: dict[str, list[Move]] = {}
    for move in moves:
        by_node.setdefault(move.node, []).append(move)
    found = {node: _work(stretches(of_node, until, active=active)) for node, of_node in by_node.items()}
    return {node: sum(each.end - each.start for each in work) for node, work in found.items() if work}


def _work(found: Sequence[Stretch]) -> list[Stretch]:
    return [each for each in found if each.state not in _NOT_WORK]


@dataclass(frozen=True)
class Moves:
    """What a run's events up to `seq` say of its tasks, oldest first; `before` as that of the next `Move`."""

    seq: int = 0
    found: tuple[Move, ...] = ()
    before: float = 0.0


NO_MOVES = Moves()


def moves_of(database: Database, run_id: str, known: Moves = NO_MOVES) -> Moves:
    """Every change of state of the run's tasks, of which the `known` ones are not read again."""
    last = database.read("SELECT max(seq) AS seq FROM events WHERE run_id = ?", run_id)[0]["seq"] or 0
    rows = database.read(
        "SELECT seq, node, kind, time, body FROM events"
        " WHERE run_id = ? AND seq > ? AND seq <= ? AND kind IN ('task-state', 'run-state') ORDER BY seq",
        run_id, known.seq, last,
    )  # fmt: skip
    out, before = list(known.found), known.before
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] == "task-state":
            attempt, reason = body.get("attempt", 1), body.get("reason", "")
            out.append(Move(row["time"], row["node"] or "", body["state"], attempt, reason, before))
        elif body["state"] == "running":  # a new attempt
            ended = database.read(
                "SELECT time FROM events WHERE run_id = ? AND seq < ? ORDER BY seq DESC LIMIT 1", run_id, row["seq"]
            )
            before = ended[0]["time"] if ended else 0.0
    return Moves(last, tuple(out), before)
