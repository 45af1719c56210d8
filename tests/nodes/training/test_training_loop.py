"""The loop with a learner that only pretends: what it says of a loss that is not a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from volume_sets import labels_for, make_delta, some_volumes

from engine.context import TaskContext
from engine.errors import DataError
from nodes.loaders import open_source
from nodes.loaders.interface import Batch, LoaderState, Reading
from nodes.training.checkpoints import Checkpoint, Checkpoints
from nodes.training.learning_rate import Schedule
from nodes.training.running_sums import Sums
from nodes.training.team import Team
from nodes.training.training_loop import Training, train


class Diverges:
    """Every worker gets the sums of all, so every worker sees the same loss."""

    def __init__(self, after: int) -> None:
        self.left = after

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        self.left -= 1
        return Sums(np.nan if self.left < 0 else 1.0, 1.0, global_rows)

    def arrays(self) -> dict[str, Any]:
        return {}


def message(tmp_path: Path, team: Team, *, bad: bool) -> str:
    volumes = some_volumes(24, (3, 3, 2, 1))
    data = make_delta(tmp_path, volumes, labels_for(volumes))
    source = open_source("arrow", data, cores=1)
    with pytest.MonkeyPatch.context() as patch:
        loader = source.loader(source.rows_in(), Reading(6, seed=1, rank=team.rank, ranks=team.ranks))
        if bad:
            # The third batch's second row, in the part of worker 0 of 2.
            whole = source.loader(source.rows_in(), Reading(6, seed=1))
            row = [batch.rows for batch in whole.batches()][2][1]
            fill = cast(Any, source).fill

            def spoilt(rows: Any, out: Any) -> None:
                fill(rows, out)
                out[rows == row, 0, 0, 0] = np.inf

            patch.setattr(source, "fill", spoilt)
        training = Training(
            cast(Any, Diverges(2)), loader, None, epochs=1, schedule=Schedule("constant", 0.1), team=team
        )
        folder = tmp_path / "scratch"
        ctx = TaskContext("run", "train", "0" * 64, folder, folder, folder)
        checkpoints = Checkpoints(folder, "x", every_s=1000)
        with pytest.raises(DataError) as caught:
            train(training, Checkpoint(LoaderState(1), {}, (0.0,), (1.0,)), checkpoints, ctx)
    source.close()
    return caught.value.line()


@pytest.mark.parametrize("bad", [True, False])
def test_every_worker_says_what_one_would(tmp_path: Path, bad: bool) -> None:
    """The volume to blame is named, in whoever's part of the batch it is."""
    teams = (Team(), Team(0, 2), Team(1, 2))
    told = {message(tmp_path / str(number), team, bad=bad) for number, team in enumerate(teams)}
    assert len(told) == 1
    assert "the loss at step 3 is not a number" in told.pop()


def test_a_bad_volume_is_named(tmp_path: Path) -> None:
    assert "holds values that are not finite" in message(tmp_path, Team(1, 2), bad=True)
    assert "though the volumes are fine" in message(tmp_path / "other", Team(1, 2), bad=False)
