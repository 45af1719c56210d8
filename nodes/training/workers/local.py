"""A group of workers on this machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nodes.training.workers.folder import GroupFolder
from nodes.training.workers.watcher import watch

HOST = "127.0.0.1"


class LocalGroup:
    """Workers as children of this process, each watched by a thread, with an equal part of `cores`."""

    def __init__(self, folder: GroupFolder, ranks: int, *, program: Sequence[str], cores: int) -> None:
        self._folder, self._problem = folder, ""
        self._words: dict[int, str] = {}
        self._all_told = threading.Condition()
        self._ranks, self._program, self._cores = ranks, program, max(1, cores // ranks)
        self._threads = [threading.Thread(target=self._watch, args=(rank,), daemon=True) for rank in range(ranks)]
        for thread in self._threads:
            thread.start()

    def problem(self) -> str:
        """Why the group cannot go on, when its watchers know; else empty."""
        return self._problem

    def stop(self) -> None:
        """End all workers; none of them lives afterwards."""
        self._folder.end.touch()
        for thread in self._threads:
            thread.join()

    def _watch(self, rank: int) -> None:
        try:
            watch(
                self._folder,
                rank,
                program=self._program,
                host=HOST,
                cores=self._cores,
                gather=lambda word: self._gather(rank, word),
                environment={},
            )
        except Exception as exc:
            self._problem = f"worker {rank + 1} could not be started: {exc}"
            # The others may wait for its address.
            self._gather(rank, "")

    def _gather(self, rank: int, word: str) -> Sequence[str]:
        with self._all_told:
            self._words.setdefault(rank, word)
            self._all_told.notify_all()
            self._all_told.wait_for(lambda: len(self._words) == self._ranks)
            return [self._words[place] for place in range(self._ranks)]
