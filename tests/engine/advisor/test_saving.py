"""The time of checkpoints: what is written in an epoch, how fast, and what is said where nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended_advice import HERE, known, one, work
from pretended_benches import bench_result, probe

from engine.advisor.advice import advise
from engine.advisor.machines import Candidate
from engine.advisor.report import as_json, left_out, missing
from engine.advisor.saving import saving_s, write_mb_s
from engine.advisor.sources import Known, Training, advise_training
from engine.declare.workload import Saving
from engine.profiles import Profile
from engine.workspace import Workspace
from nodes.train_resnet3d import train_resnet3d

TABLE_ROW = Candidate("a type", 4, 16 * 10**9, price_per_hour=0.2, currency="USD", disk_mb_s=50.0)


def test_a_checkpoint_holds_the_weights_and_the_optimizers_values_of_each() -> None:
    """As float32: 400 MB of a ResNet-18 with Adam's two, 267 MB with the momentum's one."""
    weights = 4 * work().network.parameters
    assert work().saving == Saving(3 * weights, 0, 120, 0)
    assert work(optimizer="sgd", keep="best").saving == Saving(2 * weights, weights, 120, 0)
    often = work(checkpoint_every_s=7, checkpoint_every_steps=5).saving
    assert often == Saving(3 * weights, 0, 7, 5)


def test_a_training_that_says_nothing_of_saving_saves_nothing() -> None:
    silent = replace(work(), saving=None)
    assert one(silent, checkpoint_mb_s=1.0).seconds == one(silent).seconds
    assert one(silent).saving_s == 0.0
    assert left_out(advise(silent, "table", known(HERE))) == ["the start of a machine or cluster"]


@pytest.mark.parametrize(
    ("saving", "steps", "training_s", "written_mb"),
    [
        (Saving(100_000_000), 10, 119.0, 100),
        (Saving(100_000_000), 10, 120.0, 200),
        (Saving(100_000_000), 1000, 1200.0, 1100),
        (Saving(100_000_000, every_s=600.0), 1000, 1200.0, 300),
        # Where by time and by steps, the more frequent of both; never more than one a step.
        (Saving(100_000_000, every_steps=100), 1000, 1200.0, 1100),
        (Saving(100_000_000, every_steps=10), 1000, 1200.0, 10_100),
        (Saving(100_000_000, every_s=0.0), 10, 1.0, 1100),
        (Saving(100_000_000), 3, 1200.0, 400),
        # The best weights are a file of their own.
        (Saving(100_000_000, best_bytes=30_000_000), 10, 1.0, 130),
    ],
)
def test_an_epoch_writes_a_checkpoint_at_its_end_and_others_as_its_time_passes(
    saving: Saving, steps: int, training_s: float, written_mb: float
) -> None:
    assert saving_s(saving, 20.0, steps, training_s) == pytest.approx(written_mb / 20)


@given(st.floats(1, 5000), st.floats(1, 5000), st.integers(1, 20))
def test_a_faster_disk_is_never_slower_and_saving_is_in_each_epoch(slow: float, fast: float, epochs: int) -> None:
    slow, fast = sorted((slow, fast))
    training = work(epochs=epochs)
    never, late, soon = (one(training, checkpoint_mb_s=rate) for rate in (None, slow, fast))
    assert never.seconds < soon.seconds <= late.seconds
    assert never.saving_s is None
    assert late.saving_s is not None
    assert late.seconds - never.seconds == pytest.approx(epochs * late.saving_s)
    assert late.later_epoch_s - never.later_epoch_s == pytest.approx(late.saving_s)
    assert (late.step_s, late.bound) == (never.step_s, never.bound)
    assert never.low < soon.low <= late.low
    assert never.high < soon.high <= late.high


def test_a_probe_says_how_fast_a_disk_writes_and_elsewhere_the_machines_own_limits_it() -> None:
    for candidate, probed, found in (
        (HERE, 200.0, 200.0),
        (replace(HERE, disk_mb_s=50.0), 200.0, 200.0),
        (replace(HERE, disk_mb_s=50.0), None, 50.0),
        (replace(HERE, disk_mb_s=50.0, remote=True), 200.0, 50.0),
        (TABLE_ROW, 200.0, 50.0),
        (TABLE_ROW, 20.0, 20.0),
        (TABLE_ROW, None, 50.0),
        (replace(TABLE_ROW, disk_mb_s=None), 20.0, 20.0),
        (replace(TABLE_ROW, disk_mb_s=None), None, None),
        (replace(TABLE_ROW, disk_mb_s=0.0), None, None),
        (HERE, 0.0, None),
    ):
        assert write_mb_s(candidate, probed) == found, (candidate, probed)


def test_what_is_left_out_is_named() -> None:
    start = "the start of a machine or cluster"
    unknown = "checkpoints on disks of unknown speed"
    for knowledge, names in (
        (known(HERE), [start, unknown]),
        (known(HERE, TABLE_ROW), [start, unknown]),
        (known(TABLE_ROW), [start]),
        (known(HERE, TABLE_ROW, checkpoint_mb_s=100.0), [start]),
    ):
        advice = advise(work(), "table", knowledge)
        assert left_out(advice) == names
        assert as_json(advice, "/data")["left_out"] == names
    # Nothing is asked of a machine that it does not fit into.
    tight = advise(work(batch_size=512), "table", known(replace(HERE, memory_bytes=10**9)))
    assert left_out(tight) == [start]
    known_one = advise(work(), "table", known(HERE, checkpoint_mb_s=100.0))
    (estimate,) = as_json(known_one, "/data")["estimates"]
    assert estimate["saving_s"] == pytest.approx(one(work(), checkpoint_mb_s=100.0).saving_s, abs=0.1)
    (estimate,) = as_json(advise(work(), "table", known(HERE)), "/data")["estimates"]
    assert estimate["saving_s"] is None


def test_the_place_of_checkpoints_is_the_workspace_or_the_profiles_storage_root(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Not the place of the data, which may be an object store."""
    training = Training("train", "Train", train_resnet3d, replace(work(), uri="az://c/table"))
    profile = Profile(name="mine", cores=2, memory_bytes=16 * 10**9)
    far, here = probe("az://c/x"), probe(str(workspace.root))
    said = {}
    for name, probes in (("none", [far]), ("both", [far, here])):
        advice = advise_training(training, Known([bench_result("mine")], probes), workspace, profile)
        assert advice is not None
        assert advice.own is not None
        lines = [line for line in missing(advice, "az://c/table") if "checkpoints" in line]
        said[name] = (advice.own.saving_s is None, lines)
    line = (
        f"How fast checkpoints are written is not known: `voxelflow probe {workspace.root}` measures it. Until then the"
        " times are without them."
    )
    assert said == {"none": (True, [line]), "both": (False, [])}
    elsewhere = profile.model_copy(update={"storage_root": tmp_path / "shared"})
    found = advise_training(training, Known([bench_result("mine")], [far]), workspace, elsewhere)
    assert found is not None
    assert found.saved_in == str(tmp_path / "shared")
    # Said once where the data lies there too.
    both = replace(found, saved_in="/data", assumed_input=True)
    assert not any("checkpoints" in each for each in missing(both, "/data"))
