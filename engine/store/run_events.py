"""The events of runs in the run store: what was reported while they were at work."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from engine.declare.events import Event, Outputs, Progress, event_from_json
from engine.store.database import Database


class RunEvents(Database):
    """Writes and reads events. `RunStore` is one."""

    def add_events(self, run_id: str, events: Iterable[Event]) -> None:
        """Keep events; progress is kept only as the task's newest."""
        with self.write() as db:
            for event in events:
                self._add_event(db, run_id, event)

    def events(
        self, run_id: str, after: int = 0, kinds: Collection[str] = (), limit: int = 10_000, nodes: Collection[str] = ()
    ) -> list[tuple[int, Event]]:
        """Events with their sequence numbers, those after `after`, oldest first.

        `kinds` and `nodes` are those wanted: all where there are none.
        """
        among = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        among += f" AND node IN ({', '.join('?' * len(nodes))})" if nodes else ""
        rows = self.read(
            f"SELECT seq, body FROM events WHERE run_id = ? AND seq > ? {among} ORDER BY seq LIMIT ?",
            run_id, after, *kinds, *nodes, limit,
        )  # fmt: skip
        return [(r["seq"], self._event(r["body"])) for r in rows]

    def last_event(self, run_id: str) -> int:
        """The sequence number of the run's newest event; 0 when it has none."""
        return int(self.read("SELECT coalesce(max(seq), 0) AS seq FROM events WHERE run_id = ?", run_id)[0]["seq"])

    def _event(self, body: str) -> Event:
        event = event_from_json(body, self.paths)
        return event.model_copy(update={"outputs": self.known(event.outputs)}) if isinstance(event, Outputs) else event

    def _add_event(self, db: sqlite3.Connection, run_id: str, event: Event) -> None:
        body = event.model_dump_json(exclude_none=True, context=self.paths)
        if isinstance(event, Progress):
            db.execute("UPDATE tasks SET progress = ? WHERE run_id = ? AND node = ?", (body, run_id, event.node))
        else:
            db.execute(
                "INSERT INTO events (run_id, node, kind, time, body) VALUES (?, ?, ?, ?, ?)",
                (run_id, event.node, event.event, event.time, body),
            )
