"""What was expected of a run, kept with it: to be put beside what it was, and for the estimates of later runs."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.store.database import Database
from engine.text import money, safe

_NEWEST = 300
"""Tasks that are looked at."""
_RUNS_AT_ONCE = 300


@dataclass(frozen=True)
class RequestCost:
    """What a training's requests to a container cost, or cost at most; `amount` is None where that is not known."""

    place: str
    amount: float | None
    currency: str = ""
    at_most: bool = False

    @property
    def words(self) -> str:
        """`1.43 USD for requests to az://data`."""
        if self.amount is None:
            return safe(f"the unknown cost of requests to {self.place}")
        up_to = "up to " if self.at_most else ""
        return safe(f"{up_to}{money(self.amount, self.currency)} for requests to {self.place}")


@dataclass(frozen=True)
class Estimated:
    """The time that was expected of a run, from `low` to `high` seconds; None where nothing was known.

    The nodes in `unknown` are not in it. `amounts` is how much work each node had that was to do all of it, in a unit
    of its node type; None where that was not known. `requests` are paid for besides the machine's time.
    """

    low: float | None = None
    high: float | None = None
    unknown: tuple[str, ...] = ()
    amounts: Mapping[str, float | None] = field(default_factory=dict)
    requests: tuple[RequestCost, ...] = ()

    def in_sum(self, currency: str) -> tuple[RequestCost, ...]:
        """The requests that can be added to amounts in that currency."""
        return tuple(each for each in self.requests if each.amount is not None and each.currency == currency)

    def cost(self, price: float | None, currency: str) -> tuple[float, float] | None:
        """The least and the most that it costs at a price an hour, with the requests `in_sum`; None: not known."""
        if price is None or self.low is None or self.high is None:
            return None
        asked = self.in_sum(currency)
        least = sum(each.amount or 0.0 for each in asked if not each.at_most)
        most = sum(each.amount or 0.0 for each in asked)
        return price * self.low / 3600 + least, price * self.high / 3600 + most

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Estimated | None:
        """What the options of a run have of it; None of a run before there were estimates."""
        kept = options.get("estimate")
        if not isinstance(kept, Mapping):
            return None
        requests = tuple(RequestCost(**each) for each in kept.get("requests", ()))
        return cls(kept["low"], kept["high"], tuple(kept["unknown"]), dict(kept["amounts"]), requests)

    def as_options(self) -> dict[str, Any]:
        """What `of` reads."""
        kept = {"low": self.low, "high": self.high, "unknown": [*self.unknown], "amounts": dict(self.amounts)}
        return {"estimate": kept | {"requests": [vars(each) for each in self.requests]}}


@dataclass(frozen=True)
class Sample:
    """How long a node took in an earlier run that did all of its `amount` of work at once."""

    pipeline: str
    node: str
    node_type: str
    seconds: float
    amount: float | None


def samples(database: Database, profile: str, *, here: bool) -> list[Sample]:
    """How long nodes took under a profile, the newest first; those that were begun anew or did only the rest of
    their work are left out, and with `here` what ran on another machine."""
    # Some runs at a time, whose order an index says: else SQLite goes through the tasks of all runs.
    runs = [row["rowid"] for row in database.read("SELECT rowid FROM runs ORDER BY created DESC")]
    rows: list[sqlite3.Row] = []
    for at in range(0, len(runs), _RUNS_AT_ONCE):
        if len(rows) == _NEWEST:
            break
        rows += database.read(
            "SELECT pipeline, node, node_type, tasks.ended - tasks.started AS seconds, options, host FROM tasks"
            " JOIN runs USING (run_id) WHERE runs.rowid IN (SELECT value FROM json_each(?)) AND profile = ?"
            " AND tasks.state = 'done' AND tasks.attempt = 1 AND runs.attempt = 1 AND tasks.started IS NOT NULL"
            " AND tasks.ended >= tasks.started ORDER BY runs.created DESC LIMIT ?",
            json.dumps(runs[at : at + _RUNS_AT_ONCE]), profile, _NEWEST - len(rows),
        )  # fmt: skip
    out = []
    for row in rows:
        estimated = Estimated.of(json.loads(row["options"]))
        elsewhere = here and row["host"] != socket.gethostname()
        if estimated is None or elsewhere or row["node"] not in estimated.amounts:
            continue
        amount = estimated.amounts[row["node"]]
        out.append(Sample(row["pipeline"], row["node"], row["node_type"], row["seconds"], amount))
    return out
