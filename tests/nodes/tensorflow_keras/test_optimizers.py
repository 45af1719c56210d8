"""The fused Adam does what Keras' does, in fewer operations."""

from __future__ import annotations

import forked_programs
import pytest

PARITY = """
import numpy as np
from nodes.tensorflow_keras.runtime import configure, keras, tf
configure(cores=2, deterministic=True, seed=0)
from nodes.tensorflow_keras.optimizers import FusedAdam

def learn(optimizer, *, constraint=None, unused=False, steps=20):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4, 4, 3, 2))
    x = keras.layers.Conv3D(4, 3, use_bias=False, kernel_constraint=constraint)(inputs)
    x = keras.layers.BatchNormalization()(x)
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    variables = list(model.trainable_variables)
    if unused:
        variables.append(keras.Variable(np.ones(2, "float32"), name="unused"))
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, [getattr(v, "value", v) for v in variables]), variables)
        return loss

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 4, 4, 3, 2), np.float32), rng.standard_normal((8, 3), np.float32)
    losses = []
    for number in range(steps):
        optimizer.learning_rate = 0.03 / (1 + number)
        losses.append(float(step(x, y)))
    kinds = [node.type for node in step.get_concrete_function(x, y).graph.get_operations()]
    return losses, variables, optimizer, kinds

ours, theirs = learn(FusedAdam(0.1)), learn(keras.optimizers.Adam(0.1))
assert ours[0][-1] < 0.7 * ours[0][0]
assert np.allclose(ours[0], theirs[0], rtol=1e-4), (ours[0], theirs[0])
for mine, other in zip(ours[1], theirs[1]):
    assert np.allclose(mine, other, rtol=1e-3, atol=1e-4), mine.path
# A checkpoint of one goes on with the other.
assert len(ours[2].variables) == len(theirs[2].variables)
for mine, other in zip(ours[2].variables, theirs[2].variables):
    assert np.allclose(mine, other, rtol=1e-3, atol=1e-4), mine.path
assert int(ours[2].iterations) == 20
assert ours[3].count("ResourceApplyAdam") == len(ours[1]) and not theirs[3].count("ResourceApplyAdam")
assert len(ours[3]) < len(theirs[3]) - 20 * len(ours[1])

# What only Keras can do, Keras does: weights with a constraint, and such that the loss does not depend on.
import warnings
warnings.simplefilter("ignore")
for more in ({"constraint": "non_neg"}, {"unused": True}):
    ours, theirs = learn(FusedAdam(0.1), **more), learn(keras.optimizers.Adam(0.1), **more)
    assert ours[0] == theirs[0], more
    assert all(np.array_equal(a, b) for a, b in zip(ours[1], theirs[1])), more
    assert "ResourceApplyAdam" not in ours[3]
assert np.array_equal(ours[1][-1], [1, 1])
"""


@pytest.mark.slow
def test_the_fused_adam_learns_what_keras_adam_learns() -> None:
    done = forked_programs.run(PARITY, training=True, timeout=280)
    assert done.returncode == 0, done.stderr
