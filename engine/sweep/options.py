"""What was asked for in a sweep, as it is kept in the run store with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.document.pipeline import Pipeline, dump
from engine.limit import Limit
from engine.profiles import Profile
from engine.store.sweeps import Trial
from engine.sweep.score import Objective
from engine.sweep.space import Space

_LEAST_MEMORY = 1 << 28


@dataclass(frozen=True)
class SweepOptions:
    """A sweep of `space`. With `trials` that many are searched for by `seed`; None tries every combination.

    `jobs` trials run at a time. With `prune` a search gives up trials that do badly. Relative paths in the document
    start at `base`. `end` is the node to stop at; None runs all. `limit` is that of all trials together.
    """

    space: Space
    objective: Objective | None = None
    trials: int | None = None
    jobs: int = 1
    prune: bool = True
    seed: int = 0
    base: Path = Path(".")
    end: str | None = None
    source: str = ""
    """How the person called the pipeline: a name or a file."""
    limit: Limit = field(default_factory=Limit)

    @property
    def count(self) -> int:
        """How many trials there are to be."""
        return self.space.count if self.trials is None else self.trials

    def is_left(self, trials: Sequence[Trial]) -> bool:
        """Whether a resumed sweep with these trials has more to do. A search tries nothing again that failed."""
        well = ("done", "pruned") if self.trials is None else ("done", "pruned", "failed")
        return len(trials) < self.count or any(trial.state not in well for trial in trials)

    def as_json(self, pipeline: Pipeline, profile: str) -> dict[str, Any]:
        """For the run store, with the key by which the same command finds an unfinished sweep again."""
        return {
            "space": self.space.as_json(),
            **objective_as_json(self.objective),
            "trials": self.trials,
            "jobs": self.jobs,
            "prune": self.prune,
            "seed": self.seed,
            "base": str(self.base),
            "end": self.end,
            "source": self.source,
            "key": self.key(pipeline, profile),
            **self.limit.as_options(),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> SweepOptions:
        """What `as_json` wrote."""
        objective = kept.get("objective")
        return cls(
            Space.from_json(kept["space"]),
            None if objective is None else Objective(objective["figure"], objective["maximise"]),
            kept["trials"],
            kept["jobs"],
            kept["prune"],
            kept["seed"],
            Path(kept["base"]),
            kept["end"],
            kept.get("source", ""),
            Limit.of(kept),
        )

    def key(self, pipeline: Pipeline, profile: str) -> str:
        """The same for the same work, however many trials run at a time and wherever it is stopped."""
        objective = None if self.objective is None else (self.objective.figure, self.objective.maximise)
        what = [dump(pipeline), self.space.as_json(), objective, self.trials, self.prune, self.seed, self.end, profile]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=16).hexdigest()


def objective_as_json(objective: Objective | None) -> dict[str, Any]:
    """The option that names it."""
    if objective is None:
        return {"objective": None}
    return {"objective": {"figure": objective.figure, "maximise": objective.maximise}}


def share_of(profile: Profile, jobs: int) -> Profile:
    """What each trial may use when so many run at a time: its part of cores and memory. GPUs are not divided."""
    if jobs == 1:
        return profile
    return profile.model_copy(
        update={
            "cores": max(1, profile.cores // jobs),
            "memory_bytes": max(_LEAST_MEMORY, profile.memory_bytes // jobs),
        }
    )
