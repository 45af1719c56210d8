"""The loss of the trainings of a run, as far as they have come: a line small enough for a card."""

from __future__ import annotations

from engine.declare.events import Metrics
from engine.store.runs import RunStore

POINTS = 48
"""Points of a line on a card, which is as many pixels wide as four of each."""
_PAGE, _PAGES = 5_000, 20
_LARGEST = 1e300
"""Values beyond it are left out, as what is no number: the sum of several could be infinite, which JSON cannot hold."""
_NAMES = ("step_loss", "loss")
"""The figure that is drawn: the first one of these that a node reports."""


class LossCurves:
    """Follows the figures of one run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._cursor = 0
        self._values: dict[str, dict[str, dict[int, float]]] = {}

    def read(self, store: RunStore) -> None:
        """Take in what was reported since; of a very long history its beginning."""
        for _ in range(_PAGES):
            page = store.events(self.run_id, self._cursor, ("metrics",), _PAGE)
            for number, event in page:
                self._cursor = number
                if isinstance(event, Metrics) and event.node is not None:
                    self._take(event.node, event)
            if len(page) < _PAGE:
                return

    def _take(self, node: str, event: Metrics) -> None:
        for name in _NAMES:
            if (value := event.values.get(name)) is not None:
                # A resumed run reports some steps again: the last value counts.
                self._values.setdefault(node, {}).setdefault(name, {})[event.step] = value

    def of(self, node: str) -> list[float]:
        """At most `POINTS` values in the order of their steps: means of equally many, where there are more."""
        found = self._values.get(node, {})
        curve = next((found[name] for name in _NAMES if len(found.get(name, {})) > 1), {})
        values = [curve[step] for step in sorted(curve) if abs(curve[step]) < _LARGEST]
        size = max(1, -(-len(values) // POINTS))
        parts = [values[at : at + size] for at in range(0, len(values), size)]
        return [float(f"{sum(part) / len(part):.4g}") for part in parts]
