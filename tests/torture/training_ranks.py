"""Killed training ranks: two TensorFlow workers and their driver, killed again and again; the weights are the same."""

from __future__ import annotations

import contextlib
import random
import shutil

from training_scenarios import Place, forking_workers, run_training
from volume_sets import labels_for, make_delta, some_volumes

from tests.torture.judge import Finding
from tests.torture.rounds import Kind, World

PARAMS = {
    "epochs": 2,
    "batch_size": 6,
    "seed": 11,
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "checkpoint_every_s": 0,
    "flips": "XYZ",
    "schedule": "constant",
}
_STEPS = 12
"""About as many as a training reports."""


class TrainingRanks(Kind):
    name = "training-ranks"
    what = "SIGKILL of either of two training processes or their driver, up to three times; equal weights"
    usual = 30

    def __init__(self, world: World) -> None:
        self._folder = world.folder / "training"
        volumes = some_volumes(40, (6, 6, 5, 2))
        self._table = make_delta(world.folder / "table", volumes, labels_for(volumes, unlabelled=2), rows=20)
        self._open = contextlib.ExitStack()
        self._open.enter_context(forking_workers())
        self._wanted = Place(world.folder / "undisturbed")
        if (status := run_training(self._wanted, self._table, workers=2, **PARAMS)) != 0:
            raise Finding(f"an undisturbed training ended with {status}: {self._wanted.events()[-1:]}")

    def close(self) -> None:
        self._open.close()

    def play(self, seed: int) -> str:
        dice = random.Random(f"ranks {seed}")
        shutil.rmtree(self._folder, ignore_errors=True)
        place, killed = Place(self._folder), []
        for _ in range(dice.randint(1, 3)):
            rank, step = dice.choice((-1, 0, 1)), dice.randint(1, _STEPS)
            status = run_training(place, self._table, workers=2, kill_worker=(rank, step), **PARAMS)
            if status == 0:
                break
            killed.append(f"{'the driver' if rank < 0 else f'rank {rank}'} after {step} steps")
            last = place.events()[-1] if place.events() else {}
            if rank >= 0 and (status != 3 or last.get("event") != "failure" or not last.get("message")):
                raise Finding(f"{'; '.join(killed)}: no reason is given: {status} {last}")
        if not (place.root / "result.json").exists():
            status = run_training(place, self._table, workers=2, **PARAMS)
            if status != 0:
                raise Finding(f"{'; '.join(killed)}: the training after it ended with {status}: {place.events()[-1:]}")
        if place.state() != self._wanted.state():
            raise Finding(f"{'; '.join(killed)}: other weights than undisturbed")
        for figure in ("step_loss", "loss", "val_loss"):
            if list(dict.fromkeys(place.metrics(figure))) != self._wanted.metrics(figure):
                raise Finding(f"{'; '.join(killed)}: {figure} is reported otherwise than undisturbed")
        return "; ".join(killed)
