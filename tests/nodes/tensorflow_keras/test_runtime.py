"""Workers import TensorFlow without what it can do without; programs of others are not touched."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("child", [True, False], ids=["worker", "program"])
def test_tensorflow_in_a_worker_loads_none_of_them_and_trains(child: bool) -> None:
    program = f"""
import os, sys
child = {child}
if child:
    from engine.processes.parent import Parent
    Parent(os.pipe()[1])
from nodes.tensorflow_keras.runtime import keras
import numpy as np
print(*sorted({{"matplotlib", "pandas", "scipy", "sklearn"}} & set(sys.modules)), file=sys.stdout)
model = keras.Sequential([keras.layers.Conv3D(2, 3), keras.layers.GlobalAveragePooling3D(), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.zeros((4, 4, 4, 4, 1), "float32"), np.ones((4, 1), "float32"), verbose=0)
import pandas
print(len(pandas.DataFrame({{"a": [1]}})))
"""
    # Standard input stays open: where it closes, a child takes its parent for gone.
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout is not None
        first, rows = it.stdout.read().splitlines()
    assert it.returncode == 0
    assert rows == "1"
    assert first.split() == ([] if child else ["matplotlib", "pandas", "scipy", "sklearn"])
