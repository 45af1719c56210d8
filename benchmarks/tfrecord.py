"""TFRecord as a peer of our loaders: a node that writes it, a loader behind the loaders' interface, a node that trains.

Files are written and read as TensorFlow's documentation shows it (`tf.train.Example`, `TFRecordWriter`,
`TFRecordDataset`), shuffled as far as a buffer reaches. It is here and not among the nodes, since a person has nothing
from a second copy of all volumes that is slower to read than the table. Object storage is one that TensorFlow itself
does not open: there a few files are fetched ahead.

A workspace has the nodes once `NODES` lies in its `my_nodes/` and is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.dataset_type import Dataset
from engine.declare.datasets import TrainedModel, VolumeFiles, VolumeSpec
from engine.storage import is_url
from engine.storage.objects import RemotePath
from nodes.loaders.interface import Batch, Loader, Reading, Source
from nodes.loaders.npy_loader import open_npy
from nodes.loaders.rows import RowNumbers, Rows, shuffled
from nodes.loaders.windows import Chunk, batches_from

if TYPE_CHECKING:
    from nodes.train_resnet3d import TrainParameters

FILE_BYTES = 78_000_000
"""Of a TFRecord file: those of a table's."""
_INDEX = "index.json"
_AT_ONCE = 16
_STREAMS = 4
"""Files fetched at a time."""

NODES = '''
from voxelflow import TaskContext, TrainedModel, VolumeFiles, node

from nodes.training.settings import TrainParameters
from benchmarks import tfrecord
from benchmarks.tfrecord import VolumeRecords


# All cores: so it does not run beside a training, which is timed.
@node("ToTFRecord", version=1, category="Benchmarks", imports=("tensorflow",), uses_all_cores=True)
def to_tfrecord(files: VolumeFiles, *, place: str = "", ctx: TaskContext) -> VolumeRecords:
    """Write the volumes as TFRecord files."""
    return tfrecord.write(files, place or str(ctx.out / "records"), ctx.out)


@node("TrainTFRecord", version=1, category="Benchmarks", imports=("tensorflow",), uses_all_cores=True)
def train_tfrecord(data: VolumeRecords, *, parameters: TrainParameters, ctx: TaskContext) -> TrainedModel:
    """Train as TrainResNet3D does."""
    return tfrecord.train(data, parameters, ctx)
'''


class VolumeRecords(Dataset):
    """TFRecord files of volumes, with the ids and labels of each beside them in `index.json`."""

    counted = "volumes"

    count: int
    bytes: int
    spec: VolumeSpec | None = None
    index: str

    def places(self) -> tuple[str, ...]:
        return (self.uri, self.index)


def _tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return tf


# --- writing -------------------------------------------------------------------------------------


def write(files: VolumeFiles, place: str, folder: Path, per_file: int = 0) -> VolumeRecords:
    """Write the volumes below `place`, a folder or a URL, and the index into `folder`; `per_file` volumes in each."""
    tf = _tensorflow()
    source = open_npy(files, cores=_AT_ONCE)
    each = per_file or max(1, FILE_BYTES // source.spec.volume_bytes)
    numbers, index, total = np.arange(len(source.rows)), [], 0
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool, tempfile.TemporaryDirectory() as scratch:
            for first in range(0, len(numbers), each):
                rows, name = numbers[first : first + each], f"{first:07d}.tfrecord"
                path = Path(scratch) / name
                with tf.io.TFRecordWriter(str(path)) as sink:
                    for row, volume in zip(rows, pool.map(lambda row: _volume(source, row), rows), strict=True):
                        sink.write(_example(tf, int(row), volume))
                total += path.stat().st_size
                _place(path, place)
                labels = [None if np.isnan(x) else float(x) for x in source.rows.labels[rows]]
                index.append({"file": name, "ids": source.ids(rows), "labels": labels})
    finally:
        source.close()
    found = folder / _INDEX
    found.write_text(json.dumps(index))
    stored = source.spec.model_copy(update={"dtype": "float32"})
    return VolumeRecords(uri=place, count=len(numbers), bytes=total, spec=stored, index=str(found))


def _volume(source: Any, row: int) -> np.ndarray:
    out = np.empty((1, *source.spec.shape), np.float32)
    source.fill(np.array([row]), out)
    return out


def _example(tf: Any, row: int, volume: np.ndarray) -> bytes:
    features = {
        "row": tf.train.Feature(int64_list=tf.train.Int64List(value=[row])),
        "volume": tf.train.Feature(bytes_list=tf.train.BytesList(value=[volume.tobytes()])),
    }
    serialised: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return serialised


def _place(path: Path, place: str) -> None:
    if is_url(place):
        (RemotePath.at(place) / path.name).upload(path)
        return
    Path(place).mkdir(parents=True, exist_ok=True)
    (Path(place) / path.name).write_bytes(path.read_bytes())


# --- reading -------------------------------------------------------------------------------------


class RecordSource(Source):
    """TFRecord files whose rows are known from their index."""

    name = "tfrecord"
    read_path = "streamed"
    order_survives_rewrite = False

    def __init__(self, dataset: VolumeRecords) -> None:
        index = json.loads(Path(dataset.index).read_text())
        ids = pa.array([i for file in index for i in file["ids"]], pa.string())
        labels = np.array([np.nan if x is None else x for file in index for x in file["labels"]], np.float32)
        assert dataset.spec is not None
        super().__init__(dataset.uri, dataset.spec, Rows.by_id(ids, labels, dataset.uri))
        self.files = [file["file"] for file in index]
        self._counts = [len(file["ids"]) for file in index]
        # The number of each stored row: `Rows.stored` the other way round.
        self.number = np.empty(len(self.rows), np.int64)
        self.number[self.rows.stored] = np.arange(len(self.rows))
        self.starts = np.cumsum([0, *self._counts])

    @property
    def order_identity(self) -> str:
        layout = hashlib.blake2b(repr(self._counts).encode() + self.rows.stored.tobytes(), digest_size=16).hexdigest()
        return f"by-tfrecord {self.rows.identity()} {layout}"

    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        return RecordLoader(self, chosen, reading)


class RecordLoader(Loader):
    """Files in a shuffled order, their records shuffled in windows."""

    source: RecordSource

    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        chunks = self._chunks(seed, epoch)
        return batches_from(self, chunks, begins_at=0, seed=seed, epoch=epoch, first=first)

    def _chunks(self, seed: int, epoch: int) -> Iterator[Chunk]:
        tf, source = _tensorflow(), self.source
        chosen = np.zeros(len(source.rows), bool)
        chosen[self.chosen] = True
        count = len(source.files)
        order = shuffled(count, seed, epoch) if self.reading.training else np.arange(count)
        with tempfile.TemporaryDirectory() as scratch:
            for number, path in self._fetched(order.tolist(), Path(scratch)):
                for at, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
                    row = source.number[source.starts[number] + at]
                    if chosen[row]:
                        value = tf.train.Example.FromString(record).features.feature["volume"].bytes_list.value[0]
                        yield Chunk(np.array([row]), np.frombuffer(value, np.uint8).reshape(1, -1))
                if path.parent == Path(scratch):
                    path.unlink()

    def _fetched(self, order: list[int], scratch: Path) -> Iterator[tuple[int, Path]]:
        """The files in this order; from object storage several at a time, as tf.data interleaves them."""
        where, files = self.source.where, self.source.files
        if not is_url(where):
            yield from ((number, Path(where) / files[number]) for number in order)
            return

        def fetch(number: int) -> tuple[int, Path]:
            path = scratch / files[number]
            path.write_bytes((RemotePath.at(where) / path.name).read()[0])
            return number, path

        with ThreadPoolExecutor(_STREAMS) as pool:
            waiting: deque[Future[tuple[int, Path]]] = deque()
            for number in order:
                waiting.append(pool.submit(fetch, number))
                if len(waiting) > _STREAMS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def train(data: VolumeRecords, parameters: TrainParameters, ctx: TaskContext) -> TrainedModel:
    """Train as TrainResNet3D does, with this loader in the place of its own."""
    from nodes.training.learner import framework_named
    from nodes.training.session import train_and_publish
    from nodes.training.settings import Settings

    def opened(loader: str, dataset: Dataset, **_: Any) -> Source:
        assert isinstance(dataset, VolumeRecords)
        return RecordSource(dataset)

    with mock.patch("nodes.training.rows.open_source", opened):
        return train_and_publish(data, None, Settings.of(parameters), ctx, framework_named("keras"))
