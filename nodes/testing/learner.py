"""What every learner promises, as a pytest class to subclass (the contract is in `nodes.training.learner`).

    class TestMyLearner(LearnerConformance):
        def framework(self):
            return MyFramework()

Each test makes its learners anew from `spec`. A framework whose process-wide set-up cannot be repeated sets it up once
in `framework`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DataError
from nodes.loaders.interface import Batch
from nodes.training.learner import WEIGHT, Arrays, Framework, Learner, LearnerSpec
from nodes.training.settings import Settings

ROWS = 12
STEPS = 3


class LearnerConformance:
    """Subclass as `TestMyLearner(LearnerConformance)` and give its framework; `spec` is for a classifier of three."""

    learning_rate = 0.05
    tolerance = 1e-4
    """How far the logits of a row may differ between batches of different sizes."""

    def framework(self) -> Framework:
        """The framework, loaded and set up for one process with seed 0."""
        raise NotImplementedError

    def spec(self, shape: Sequence[int] = (4, 4, 3, 2)) -> LearnerSpec:
        """What the learners under test are made from: volumes of this shape, three classes."""
        channels = shape[3]
        settings = Settings(depth=18, width=16, optimizer="sgd", batch_size=ROWS)
        return LearnerSpec(settings, tuple(shape), 3, None, (1.0,) * channels, (4.0,) * channels)

    # --- fixtures ----------------------------------------------------------------------------------

    @pytest.fixture
    def made(self) -> Framework:
        """The framework under test."""
        return self.framework()

    @pytest.fixture
    def learner(self, made: Framework) -> Learner:
        """A learner that has not been trained."""
        return self.new(made)

    def new(self, made: Framework) -> Learner:
        """Make another, from `spec`."""
        return made.learner(self.spec(), warn)

    def batch(self, number: int = 0, rows: int = ROWS) -> Batch:
        """Volumes whose first channel is brighter the higher the label."""
        rng = np.random.default_rng(number)
        labels = np.arange(rows) % 3
        volumes = rng.standard_normal((rows, *self.spec().shape)).astype(np.float32)
        volumes[..., 0] += 2 * labels[:, None, None, None]
        return Batch(volumes, labels.astype(np.float32), np.arange(rows))

    def step(self, learner: Learner, number: int = 0) -> float:
        """Train with one batch; gives its loss."""
        rate = self.learning_rate
        return learner.train(self.batch(number), learning_rate=rate, global_rows=ROWS).loss

    # --- promises ----------------------------------------------------------------------------------

    def test_it_learns(self, learner: Learner) -> None:
        losses = [self.step(learner) for _ in range(8 * STEPS)]
        assert np.isfinite(losses).all()
        assert min(losses[-STEPS:]) < losses[0]

    def test_sums_are_over_the_global_batch(self, learner: Learner) -> None:
        sums = learner.train(self.batch(), learning_rate=self.learning_rate, global_rows=ROWS)
        assert sums.rows == ROWS
        assert sums.loss > 0
        assert sums.right == int(sums.right)
        assert 0 <= sums.right <= ROWS

    def test_a_loss_that_is_no_number_is_returned(self, learner: Learner) -> None:
        batch = self.batch()
        batch.volumes[0] = np.nan
        assert not np.isfinite(learner.train(batch, learning_rate=0.01, global_rows=ROWS).loss)

    def test_the_rate_is_that_of_the_call(self, made: Framework) -> None:
        learner, moved = self.new(made), []
        start = learner.arrays()
        for rate in (1e-6, self.learning_rate):
            learner.restore(start)
            learner.train(self.batch(), learning_rate=rate, global_rows=ROWS)
            after = weights_of(learner)
            moved.append(sum(float(np.abs(array.astype(float) - start[n]).sum()) for n, array in after.items()))
        assert moved[0] < moved[1]

    def test_evaluation_changes_nothing(self, learner: Learner) -> None:
        self.step(learner)
        before = learner.arrays()
        first = learner.evaluate(self.batch(1), rows=ROWS)
        again = learner.evaluate(self.batch(1), rows=ROWS)
        assert equal(before, learner.arrays())
        assert first.sums == again.sums
        assert first.logits.tobytes() == again.logits.tobytes()

    def test_evaluation_gives_every_row_in_order(self, learner: Learner) -> None:
        whole = self.batch(1)
        seen = learner.evaluate(whole, rows=ROWS)
        assert seen.logits.shape == (ROWS, 3)
        assert seen.logits.dtype == seen.labels.dtype == np.float32
        assert seen.labels.tolist() == whole.labels.tolist()
        assert seen.sums.right == (seen.logits.argmax(axis=1) == seen.labels).sum()
        exact = seen.logits.astype(np.float64)
        chances = np.exp(exact - exact.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        loss = -np.log(chances[np.arange(ROWS), whole.labels.astype(int)]).sum()
        assert seen.sums.loss == pytest.approx(loss, rel=1e-3)

    @pytest.mark.parametrize("rows", [5, 1, 0])
    def test_a_smaller_batch_is_evaluated_alike(self, learner: Learner, rows: int) -> None:
        whole = self.batch(1)
        part = Batch(whole.volumes[:rows].copy(), whole.labels[:rows], whole.rows[:rows])
        seen = learner.evaluate(part, rows=ROWS)
        assert (seen.sums.rows, len(seen.labels)) == (rows, rows)
        wanted = learner.evaluate(whole, rows=ROWS).logits[:rows]
        assert np.allclose(seen.logits.reshape(wanted.shape), wanted, atol=self.tolerance)

    def test_a_restored_state_continues_bit_for_bit(self, made: Framework, learner: Learner) -> None:
        for number in range(STEPS):
            self.step(learner, number)
        saved = learner.arrays()
        copies = {name: array.copy() for name, array in saved.items()}
        expected = [self.step(learner, number) for number in range(STEPS)]
        assert equal(saved, copies), "the arrays are copies, which later steps do not change"
        other = self.new(made)
        self.step(other, 7)
        other.restore(saved)
        assert [self.step(other, number) for number in range(STEPS)] == expected
        assert equal(other.arrays(), learner.arrays())
        assert other.digest() == learner.digest()

    def test_a_state_of_another_model_is_refused(self, made: Framework, learner: Learner) -> None:
        other = made.learner(self.spec((4, 4, 3, 1)), warn)
        for take in (other.restore, other.set_weights):
            with pytest.raises(DataError):
                take(learner.arrays())

    def test_weights_alone_decide_what_it_predicts(self, made: Framework, learner: Learner) -> None:
        self.step(learner)
        weights = weights_of(learner)
        assert weights
        assert len(weights) < len(learner.arrays()) or set(weights) == set(learner.arrays())
        other = self.new(made).single()
        other.set_weights(weights)
        assert other.digest() == learner.digest()
        one, two = (it.evaluate(self.batch(1), rows=ROWS).logits for it in (learner, other))
        assert np.allclose(one, two, atol=self.tolerance)
        before = learner.digest()
        self.step(learner)
        assert learner.digest() != before

    def test_it_describes_itself(self, learner: Learner) -> None:
        described = learner.describe()
        counts = described["parameters"]
        assert described["format"] == 1
        assert counts["total"] == counts["trainable"] + counts["non_trainable"]
        assert described["software"]
        assert described.get("file", "model.keras") == learner.model_file

    def test_the_saved_model_predicts_what_the_learner_does(
        self, made: Framework, learner: Learner, tmp_path: Path
    ) -> None:
        for number in range(STEPS):
            self.step(learner, number)
        metadata = {"task": "classification", "class_names": ["a", "b", "c"]}
        shape = self.spec().shape
        for _ in range(2):  # as after a kill
            learner.single().save(tmp_path, shape=shape, metadata=metadata)
        batch = self.batch(1)
        logits = learner.evaluate(batch, rows=ROWS).logits
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        predictor = made.predictor(tmp_path / learner.model_file, shape, 3, ROWS)
        predictor.warm_up()
        scores = predictor.scores(batch.volumes)
        assert scores.dtype == np.float32
        assert np.allclose(scores, chances, atol=self.tolerance)
        assert predictor.scores(batch.volumes[:5]).tobytes() == scores[:5].tobytes()
        (tmp_path / learner.model_file).write_bytes(b"cut short")
        with pytest.raises(DataError):
            made.predictor(tmp_path / learner.model_file, shape, 3, ROWS)


def warn(text: str) -> None:
    """Fail: nothing here should cause a warning."""
    raise AssertionError(text)


def weights_of(learner: Learner) -> Arrays:
    """The arrays of a learner that a prediction needs."""
    return {name: array for name, array in learner.arrays().items() if name.startswith(WEIGHT)}


def equal(a: Arrays, b: Arrays) -> bool:
    """Whether both have the same arrays, bit for bit."""
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and a[n].tobytes() == b[n].tobytes() for n in a)
