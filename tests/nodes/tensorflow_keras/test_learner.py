"""One step on one device and on two replicas."""

from __future__ import annotations

from pathlib import Path

import forked_programs
import numpy as np
import pytest

PARITY = """
import numpy as np
from nodes.tensorflow_keras.runtime import configure, keras, tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
configure(cores=2, deterministic=True, seed=0)
from keras import layers
from nodes.tensorflow_keras.learner import KerasLearner
from nodes.loaders.interface import Batch
from nodes.tensorflow_keras.models import LOGITS

def make(synchronized):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4, 4, 3, 2))
    x = layers.Conv3D(4, 3)(inputs)
    x = layers.BatchNormalization(synchronized=synchronized)(x)
    x = layers.Flatten()(layers.ReLU()(x))
    return keras.Model(inputs, layers.Activation("softmax")(layers.Dense(3, name=LOGITS)(x)))

rng = np.random.default_rng(0)
batches = [Batch(rng.standard_normal((8, 4, 4, 3, 2), np.float32), (np.arange(8) % 3).astype(np.float32), np.arange(8))
           for _ in range(6)]

def learn(strategy):
    with strategy.scope():
        model, optimizer = make(strategy.num_replicas_in_sync > 1), keras.optimizers.SGD(0.1, momentum=0.9)
    learner = KerasLearner(model, optimizer, strategy=strategy)
    sums = [learner.train(batch, learning_rate=0.1, global_rows=8) for batch in batches]
    part = Batch(batches[0].volumes[:5], batches[0].labels[:5], batches[0].rows[:5])
    return learner, sums, learner.evaluate(part, rows=8)

one, one_sums, one_seen = learn(tf.distribute.get_strategy())
two, two_sums, two_seen = learn(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
assert two.strategy.num_replicas_in_sync == 2
for a, b in zip(one_sums + [one_seen.sums], two_sums + [two_seen.sums]):
    assert abs(a.loss - b.loss) < 1e-4 and a.right == b.right and a.rows == b.rows, (a, b)
for name, value in one.arrays().items():
    assert np.allclose(value, two.arrays()[name], atol=1e-5), name
assert one_seen.sums.rows == len(one_seen.labels) == len(one_seen.logits) == 5
assert np.array_equal(one_seen.labels, batches[0].labels[:5]) and np.array_equal(two_seen.labels, one_seen.labels)
assert np.allclose(one_seen.logits, two_seen.logits, atol=1e-4)
assert sum(s.loss for s in one_sums[-2:]) < sum(s.loss for s in one_sums[:2])

# Compiled with XLA, a step comes to nearly the same.
compiled = KerasLearner(make(False), keras.optimizers.SGD(0.1, momentum=0.9), jit=True)
assert abs(compiled.train(batches[0], learning_rate=0.1, global_rows=8).loss - one_sums[0].loss) < 1e-3

# Class weights multiply the losses of training, not those of evaluation.
def first_loss(weights):
    learner = KerasLearner(make(False), keras.optimizers.SGD(0.1, momentum=0.9), class_weights=weights)
    seen = learner.evaluate(batches[0], rows=8).sums
    return learner.train(batches[0], learning_rate=0.1, global_rows=8).loss, seen
apart = [first_loss(weights) for weights in ((1, 0, 0), (0, 2, 0), (0, 0, 0.5))]
assert all(loss > 0 for loss, _ in apart)
together, seen = first_loss((1, 2, 0.5))
assert abs(sum(loss for loss, _ in apart) - together) < 1e-4
assert {seen for _, seen in apart} == {seen} == {first_loss(None)[1]}
assert abs(first_loss((3, 3, 3))[0] - 3 * one_sums[0].loss) < 1e-3

# What the devices suggest: here neither bfloat16 nor XLA; as many of them as share a batch evenly.
from nodes.tensorflow_keras import runtime as devices
assert not devices.mixed_precision_pays() and not devices.jit_pays(deterministic=False)
told = []
devices.replica_devices = lambda: ["CPU:0", "CPU:1", "CPU:2"]
assert devices.local_strategy(8, told.append).num_replicas_in_sync == 2
assert told == ["3 GPUs cannot share a batch of 8 volumes evenly: 2 of them are used"]
assert devices.local_strategy(7, told.append).num_replicas_in_sync == 1
assert len(told) == 2

# A state taken from one goes into a fresh one, and only there.
fresh = KerasLearner(make(False), keras.optimizers.SGD(0.1, momentum=0.9))
fresh.restore(one.arrays())
assert all(np.array_equal(value, fresh.arrays()[name]) for name, value in one.arrays().items())
from engine.errors import DataError
try:
    KerasLearner(make(False), keras.optimizers.Adam(0.1)).restore(one.arrays())
except DataError as exc:
    assert "another model" in exc.message
else:
    raise AssertionError("a state of another optimizer was taken")
"""


@pytest.mark.slow
def test_two_replicas_learn_what_one_learns() -> None:
    """With SGD, because Adam hides gradients that were summed twice; with batch norm, which must be joined."""
    done = forked_programs.run(PARITY, training=True, timeout=280)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, of its own variables
@pytest.mark.parametrize("named", [True, False])
def test_both_probabilities_are_exact_where_they_are_small(tmp_path: Path, named: bool) -> None:
    """That of class 0 comes from the logit; a model of others, without a layer for it, has 1 minus the other one."""
    from nodes.tensorflow_keras.models import LOGITS, answer
    from nodes.tensorflow_keras.predictor import KerasPredictor
    from nodes.tensorflow_keras.runtime import keras

    inputs = keras.Input((2, 2, 2))
    logits = keras.layers.Flatten()(inputs)
    logits = keras.layers.Dense(1, kernel_initializer="ones", name=LOGITS if named else "other")(logits)
    answer(inputs, logits, None, name="sums").save(tmp_path / "model.keras")
    predictor = KerasPredictor(tmp_path / "model.keras", (2, 2, 2), 2, 4)
    wanted = np.array([20.0, -20.0, 0.0], np.float32)
    scores = predictor.scores(np.ones((3, 2, 2, 2), np.float32) * wanted[:, None, None, None] / 8)
    assert scores[:, 1] == pytest.approx([1, np.exp(-20.0), 0.5], rel=1e-5)
    assert scores[:, 0] == pytest.approx([np.exp(-20.0) if named else 0, 1, 0.5], rel=1e-5)
