"""The logs of a run's tasks, once or while they are written."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from engine.cli.wording import safe_log_line
from engine.errors import UsageError
from engine.runs import RunStore
from engine.workspace import Workspace

_POLL_S = 0.2
_PART = 1 << 20
_SUPERVISOR = "(run)"


class _Tail:
    """A growing file, read line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self) -> list[str]:
        """The whole lines since the last call, a megabyte at most; [] when there are none."""
        try:
            with self._path.open("rb") as source:
                source.seek(self._offset)
                data = source.read(_PART)
        except FileNotFoundError:  # the task has not begun
            return []
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def last(self) -> list[str]:
        """What is left without an end of line."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []

    @property
    def used(self) -> bool:
        """Whether there was anything."""
        return self._offset > 0

    @property
    def more(self) -> bool:
        try:
            return self._path.stat().st_size > self._offset
        except FileNotFoundError:
            return False


def print_logs(workspace: Workspace, store: RunStore, run_id: str, node: str | None, *, follow: bool) -> None:
    """Print the logs of all tasks, or of `node`'s; with `follow` until the run has ended.

    Raises `UsageError` when the run has no such node.
    """
    nodes = [t.node for t in store.tasks(run_id)]
    if node is not None and node not in nodes:
        raise UsageError(f"run {run_id} has no node {node}", hint=f"It has: {', '.join(nodes) or 'none'}.")
    tails: dict[str, _Tail] = {}
    while True:
        # The state first: once it says that the run has ended, all that was written is there.
        active = store.run(run_id).active
        # A run that is just starting has no tasks yet.
        for name in [node] if node is not None else [t.node for t in store.tasks(run_id)]:
            tails.setdefault(name, _Tail(workspace.log_file(run_id, name)))
        if node is None:
            # Whatever Voxelflow itself had to say.
            tails.setdefault(_SUPERVISOR, _Tail(workspace.run_folder(run_id) / "supervisor.log"))
        prefix = max(len(n) for n in tails) if node is None else 0
        for name, tail in tails.items():
            _print(name, tail, prefix, to_end=not follow)
        if not follow or not active:
            break
        time.sleep(_POLL_S)
    for name, tail in tails.items():
        _print(name, tail, prefix, to_end=True)
        _write(name, tail.last(), prefix)
    if not any(tail.used for tail in tails.values()):
        print("nothing was written", file=sys.stderr)


def _print(name: str, tail: _Tail, prefix: int, *, to_end: bool) -> None:
    """Print what is new: all of it, or one part so that no log keeps the others waiting."""
    _write(name, tail.lines(), prefix)
    while to_end and tail.more:
        _write(name, tail.lines(), prefix)


def _write(name: str, lines: list[str], prefix: int) -> None:
    for line in lines:
        text = safe_log_line(line)
        print(f"{name:<{prefix}} | {text}" if prefix else text)
    if lines:
        # In time for the person who follows, and to notice a reader that has gone.
        print(end="", flush=True)
