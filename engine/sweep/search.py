"""Which values to try next, and which trials to give up: Optuna, whose study lies in the sweep's folder.

Only the sweep's process uses Optuna. Its journal is an append-only file, so a kill leaves it whole; results that
the run store has and the journal lacks are reported to it again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from engine.store.sweeps import TrialState
from engine.sweep.options import SweepOptions
from engine.sweep.space import Range

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

JOURNAL = "optuna.log"
_STUDY = "sweep"
NEVER_GIVEN_UP = 4
"""So many trials run to their end before one is judged by them."""


class Search(Protocol):
    """Chooses trials. Numbers are those of the trials in the run store."""

    def next(self) -> tuple[int, dict[str, JsonValue]]:
        """A new trial: its number and values."""
        ...

    def ended(self, number: int, state: TrialState, score: float | None) -> None:
        """Learn how a trial ended; nothing if that is known."""
        ...

    def gives_up(self, number: int, step: int, value: float) -> bool:
        """Learn a value that a running trial has reached; whether to end it now."""
        ...

    def forget_unrecorded(self, known: Collection[int]) -> None:
        """Give up trials that were chosen and never recorded: a kill came between."""
        ...


def open_search(folder: Path, options: SweepOptions) -> Search:
    """The search of a sweep, as far as it came. Raises `MissingPackage` without Optuna."""
    from engine.extras import require

    require("a search", "optuna")
    return _OptunaSearch(folder, options)


class _OptunaSearch:
    def __init__(self, folder: Path, options: SweepOptions) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        assert options.objective is not None
        self._space, self._optuna = options.space, optuna
        # A process that was killed while it wrote has left it, and no other writes: the sweep's own lock is held.
        (folder / f"{JOURNAL}.lock").unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL))),
                study_name=_STUDY,
                load_if_exists=True,
                direction="maximize" if options.objective.maximise else "minimize",
                # The first trials show what is usual, and no trial is judged by its first epoch, which is step 1.
                pruner=optuna.pruners.MedianPruner(n_startup_trials=NEVER_GIVEN_UP, n_warmup_steps=2)
                if options.prune
                else optuna.pruners.NopPruner(),
            )
        self._categories = {name: self._categories_of(name) for name in self._space.lists}
        # Its random numbers begin anew with each process: after a resume they must not be those of the first trials.
        self._study.sampler = optuna.samplers.TPESampler(seed=options.seed + len(self._study.trials))

    def next(self) -> tuple[int, dict[str, JsonValue]]:
        trial = self._study.ask(self._distributions())
        return trial.number, {name: self._value(name, value) for name, value in trial.params.items()}

    def ended(self, number: int, state: TrialState, score: float | None) -> None:
        states = self._optuna.trial.TrialState
        with suppress(ValueError):  # a pruned trial that has no value yet
            if state == "pruned":
                self._study.tell(number, state=states.PRUNED, skip_if_finished=True)
            elif state == "done" and score is not None and math.isfinite(score):
                self._study.tell(number, score, skip_if_finished=True)
            else:
                self._study.tell(number, state=states.FAIL, skip_if_finished=True)

    def gives_up(self, number: int, step: int, value: float) -> bool:
        frozen = self._study.trials[number]
        if frozen.state.is_finished() or not math.isfinite(value):
            return False
        trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
        if step not in frozen.intermediate_values:
            trial.report(value, step)
        return bool(trial.should_prune())

    def forget_unrecorded(self, known: Collection[int]) -> None:
        for trial in self._study.trials:
            if trial.number not in known and not trial.state.is_finished():
                self.ended(trial.number, "failed", None)

    def _distributions(self) -> dict[str, BaseDistribution]:
        choices, out = self._optuna.distributions, {}
        for name, categories in self._categories.items():
            out[name] = choices.CategoricalDistribution(categories)
        for name, within in self._space.ranges.items():
            if within.whole:
                step = int(within.step) if within.step is not None else 1
                out[name] = choices.IntDistribution(int(within.low), int(within.high), within.log, step)
            else:
                out[name] = choices.FloatDistribution(within.low, within.high, within.log, within.step)
        return out

    def _categories_of(self, name: str) -> tuple[Any, ...]:
        """What stands for the listed values in the study: their positions.

        Not the values: a path in the workspace is another one once that was moved, and Optuna refuses other categories
        than those that its journal has. A journal from before keeps its own, in the same order.
        """
        for trial in self._study.trials:
            known = trial.distributions.get(name)
            if isinstance(known, self._optuna.distributions.CategoricalDistribution):
                return tuple(known.choices)
        return tuple(range(len(self._space.lists[name])))

    def _value(self, name: str, chosen: Any) -> JsonValue:
        """The value to run with: rounded to the fewest digits that keep values apart, for people to read and type."""
        within = self._space.ranges.get(name)
        if within is not None:
            if within.whole:
                return int(chosen)
            if within.step is not None:
                # As it was written: in floats 0.1 + 2 * 0.1 is 0.30000000000000004, and -0.3 + 3 * 0.1 is not 0.
                low, step = Decimal(repr(within.low)), Decimal(repr(within.step))
                return float(low + round((chosen - within.low) / within.step) * step)
            return min(within.high, max(within.low, float(f"{chosen:.{_digits(within)}g}")))
        categories = self._categories[name]
        at = next(i for i, each in enumerate(categories) if type(each) is type(chosen) and each == chosen)
        return self._space.lists[name][at]


def _digits(within: Range) -> int:
    """Five, and more in a range that is narrow for its place, such as 0.9999..0.99999."""
    narrow = max(abs(within.low), abs(within.high)) / (within.high - within.low)
    return min(17, 5 + max(0, math.floor(math.log10(narrow))))
