"""The tables that a run has reserved: each from the first of its tasks that writes to it until the last has ended.

Which tasks belong together the plan says: one that makes a table, and those that change it in place afterwards. So
another run finds the table as it was before the first of them, or as it is after the last (see
`engine.storage.reservation`). Where two tasks of one run make the same table, it is reserved for one after the other.

No two runs wait for each other: one that has to wait for a table, and has nothing else at work, gives back those that
it holds; before it goes on with one of those it looks whether the table is still as it left it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.catalog import Catalog
from engine.declare.datasets import Dataset
from engine.document.plan import Plan, PlannedTask
from engine.storage.find_place import place_at
from engine.storage.reservation import Reservation
from engine.workspace import Workspace

_GIVING_BACK_S = 5.0
"""How long the end of a run waits for a store to take a lease back; without an answer it runs out by itself."""


@dataclass
class _Table:
    """A table that the run has reserved, or waits for, for the tasks that follow `maker`, itself among them."""

    name: str
    maker: str
    reservation: Reservation | None
    is_held: bool = False
    is_as_left: bool = False
    """Whether the newest version is what one of these tasks has left there, under this reservation."""


class Reservations:
    """Those of one run."""

    def __init__(self, workspace: Workspace, run_id: str, plan: Plan, catalog: Catalog) -> None:
        self._workspace, self._run_id = workspace, run_id
        self._data = plan.data_root(workspace)
        self._types = {t.node: catalog.find(t.node_type, t.version) for t in plan.tasks}
        self._tables: dict[str, _Table] = {}
        self._given_back: list[Reservation] = []
        self._makers: dict[str, str] = {}
        for task in plan.tasks:
            source = self.changes_table_of(task)
            node_type = self._types[task.node]
            if source is not None:
                self._makers[task.node] = self._makers.get(source, source)
            elif node_type is not None and node_type.writes_hook is not None:
                self._makers[task.node] = task.node

    def changes_table_of(self, task: PlannedTask) -> str | None:
        """The node whose table the task changes in place; None when it changes none."""
        node_type = self._types[task.node]
        source = None if node_type is None else task.inputs.get(node_type.mutates or "")
        return None if source is None else source.node

    def take(self, task: PlannedTask, inputs: Mapping[str, Dataset]) -> str | None:
        """Reserve the table that the task writes to; None when it may start. Does not wait: ask again.

        Else why it must wait, for people; "" while that is not known yet.
        """
        table = self._table_of(task, inputs)
        if table is None:
            return None
        if table.maker != self._makers[task.node]:
            return f"waits for {table.maker}, which writes to {table.name} too"
        if table.is_held or table.reservation is None or table.reservation.take():
            table.is_held = True
            return None
        holder = table.reservation.holder()
        return f"waits for {holder}, which writes to {table.name}" if holder else ""

    def is_as_left(self, task: PlannedTask, inputs: Mapping[str, Dataset]) -> bool:
        """Whether the table that the task writes to is as the task that made it, or one between the two, left it."""
        table = self._table_of(task, inputs)
        return table is None or table.is_as_left

    def left(self, task: PlannedTask, inputs: Mapping[str, Dataset]) -> None:
        """The task has ended well: what its table holds now is its work."""
        table = self._table_of(task, inputs)
        if table is not None and table.maker == self._makers[task.node]:
            table.is_as_left = True

    def is_wanted(self, task: PlannedTask) -> bool:
        """Whether other runs may be waiting for this task."""
        maker = self._makers.get(task.node)
        return maker is not None and any(t.is_held and t.maker == maker for t in self._tables.values())

    def give_back_unneeded(self, has_ended: Callable[[str], bool]) -> None:
        """Give back the tables that no task of those they were reserved for will write to any more."""
        for key, table in list(self._tables.items()):
            if all(has_ended(node) for node, maker in self._makers.items() if maker == table.maker):
                self._drop(key)

    def give_back_idle(self) -> None:
        """Give back what is held while no task is at work: another run may need it to make way for this one."""
        for key in [key for key, table in self._tables.items() if table.is_held]:
            self._drop(key)

    def give_back_all(self) -> None:
        """At the end of the run. Waits some seconds for a store's answer."""
        for key in list(self._tables):
            self._drop(key)
        for reservation in self._given_back:
            reservation.wait(_GIVING_BACK_S)

    def _drop(self, key: str) -> None:
        reservation = self._tables.pop(key).reservation
        if reservation is not None:
            reservation.release()
            self._given_back.append(reservation)

    def _table_of(self, task: PlannedTask, inputs: Mapping[str, Dataset]) -> _Table | None:
        maker, node_type = self._makers.get(task.node), self._types[task.node]
        if maker is None or node_type is None:
            return None
        try:
            text = node_type.table_written(inputs, task.params, self._data / task.shared)
            place = place_at(text).resolved() if text else None
            if place is None:
                return None
            key = str(place)
            if key not in self._tables:
                reservation = place.reservation(self._run_id, self._workspace.root)
                self._tables[key] = _Table(text, maker, reservation)
        except Exception:  # whatever a node's author's hook, or a place of a package, raises: the task reports it
            return None
        return self._tables[key]
