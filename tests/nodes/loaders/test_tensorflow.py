"""Batches for TensorFlow, by our loaders and by petastorm: both in one process, since importing it takes longest."""

from __future__ import annotations

import subprocess

import forked_programs
import pytest
from volume_sets import labels_for, make_delta, some_volumes, write_file

VOLUMES = some_volumes(40)
OURS = """
import numpy as np
import voxelflow
from nodes.tensorflow_keras.batches import tensor_of

with voxelflow.load(sys.argv[1], 8, seed=3) as volumes:
    expected = [[(b.volumes.copy(), b.labels.copy()) for b in volumes] for _ in range(2)]
    begin = type(volumes.state())(3)
    volumes.restore(begin)
    dataset = volumes.tf_dataset()
    assert dataset.element_spec[0].shape.as_list() == [None, 3, 4, 2], dataset.element_spec
    for epoch in expected:
        seen = list(dataset.prefetch(2))
        assert len(seen) == len(epoch) == 4
        for (a, b), (x, y) in zip(seen, epoch):
            assert np.array_equal(a.numpy(), x) and np.array_equal(b.numpy(), y)
    assert volumes.state() == type(begin)(3, epoch=2)

    # Left in the middle, the next time gives the rest; the last batch once more gives nothing.
    volumes.restore(begin)
    for _, (a, _) in zip(range(3), dataset):
        pass
    assert volumes.state() == type(begin)(3, step=3)
    (last,) = dataset
    assert np.array_equal(last[0].numpy(), expected[0][3][0])
    volumes.restore(type(begin)(3, step=4))
    assert list(dataset) == []
    assert volumes.state() == type(begin)(3, epoch=1)

    # A tensor shares the batch's memory, and keeps it when the batch is gone.
    volumes.restore(begin)
    batches = list(volumes)
    shared = [tensor_of(b.volumes) for b in batches]
    batches[0].volumes[0, 0, 0, 0] = 77
    assert shared[0][0, 0, 0, 0] == 77
    batches[0].volumes[:] = expected[0][0][0]
    del batches
    more = [list(volumes) for _ in range(3)]
    for tensor, (x, _) in zip(shared, expected[0]):
        assert np.array_equal(tensor.numpy(), x)

# What TensorFlow cannot take as it is, is copied.
odd = np.frombuffer(bytearray(4 * 33), np.float32)[1:]
assert np.array_equal(tensor_of(odd).numpy(), odd)
frozen = np.ones(64, np.float32)
frozen.setflags(write=False)
assert np.array_equal(tensor_of(frozen).numpy(), frozen)
assert tensor_of(np.empty((0, 3), np.float32)).shape == (0, 3)
"""
PETASTORM = """
import numpy as np
import pyarrow.parquet as pq
from nodes.loaders.petastorm_bridge import open_reader, tf_dataset

path = sys.argv[2]
table = pq.read_table(path).to_pydict()
reader = open_reader([path], ("id", "label", "volume"), seed=1, shuffle=False)
dataset = tf_dataset(reader)
assert {name: spec.dtype.name for name, spec in dataset.element_spec._asdict().items()} == {
    "id": "string", "label": "float32", "volume": "string"}
volumes = dataset.unbatch().map(lambda row: (tf.reshape(tf.io.decode_raw(row.volume, tf.float32), (3, 4, 2)), row.id))
seen = list(volumes.batch(6))
assert [len(ids) for _, ids in seen] == [6, 6, 6, 2]
ids = [i.decode() for _, part in seen for i in part.numpy()]
assert ids == table["id"]
assert b"".join(part.numpy().tobytes() for part, _ in seen) == b"".join(table["volume"])
reader.stop()
reader.join()
assert not hasattr(np, "string_") and sys.modules["numpy"] is np
"""
BOTH = f"""
import sys, traceback
from nodes.tensorflow_keras.runtime import tf

for name, code in {{"ours": {OURS!r}, "petastorm": {PETASTORM!r}}}.items():
    try:
        exec(compile(code, name, "exec"))
        print("passed", name)
    except Exception:
        traceback.print_exc()
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    folder = tmp_path_factory.mktemp("tensorflow")
    table = make_delta(folder, VOLUMES, labels_for(VOLUMES, unlabelled=3))
    # Five row groups of four rows, in a file whose name must be quoted.
    write_file(folder / "a b.parquet", dict(list(VOLUMES.items())[:20]), labels_for(VOLUMES), group=4)
    given = [table.uri, str(folder / "a b.parquet")]
    return forked_programs.run(f"import sys\nsys.argv[1:] = {given!r}\n{BOTH}", training=True, timeout=240)


@pytest.mark.slow
@pytest.mark.parametrize("made_by", ["ours", "petastorm"])
def test_batches_reach_tensorflow_as_they_are(done: subprocess.CompletedProcess[str], made_by: str) -> None:
    assert f"passed {made_by}" in done.stdout, done.stderr
