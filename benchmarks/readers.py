"""Everybody who hands out batches of volumes. One epoch is every volume once.

`epoch(n)` gives NumPy batches: numbers or ids of the volumes, float32 (batch, *shape). `tensors(n)` gives the same as
TensorFlow's tensors through tf.data. Where a reader has no way of its own into it, it takes the one that everybody
takes, `from_generator`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Digest, ReadingData
from benchmarks.race import Contender

Batches = Iterator[tuple[Any, np.ndarray]]
SHUFFLE_ROWS = 512
"""Rows that tf.data shuffles among: 184 MB of volumes of 360 kB."""


class Reader(Contender):
    """Reads `data`; `to` is "numpy" or "tensorflow". A round is whole epochs for at least `seconds`."""

    def __init__(self, data: dict[str, Any], to: str = "numpy", seconds: float = 0.0) -> None:
        self.data, self._to, self._seconds = ReadingData.of(data), to, seconds
        self._epochs = 0
        self._built: Any = None
        self.open()

    def open(self) -> None:
        """Whatever is done once before the first epoch."""

    def epoch(self, number: int) -> Batches:
        raise NotImplementedError

    def tensors(self, number: int) -> Any:
        # One for all epochs: to build it takes tens of milliseconds.
        if self._built is None:
            self._built = self.dataset()
        return self._built

    def dataset(self) -> Any:
        """A `tf.data.Dataset` that gives the next epoch each time."""
        tf = tensorflow()
        rows = tf.TensorSpec((None,), tf.int64)
        volumes = tf.TensorSpec((None, *self.data.shape), tf.float32)
        epoch = tf.data.Dataset.from_generator(lambda: self.epoch(self._epochs), output_signature=(rows, volumes))
        return epoch.prefetch(2)

    def order(self, number: int) -> np.ndarray:
        """The epoch's order for readers that can take any."""
        return np.random.default_rng(number).permutation(self.data.count)

    def steps(self, number: int) -> Iterator[np.ndarray]:
        order = self.order(number)
        return (order[at : at + self.data.batch] for at in range(0, len(order), self.data.batch))

    def batches(self) -> Iterable[tuple[Any, Any]]:
        """The next epoch's."""
        self._epochs += 1
        return self.epoch(self._epochs) if self._to == "numpy" else self.tensors(self._epochs)

    def round(self, number: int) -> dict[str, Any]:
        began, used, samples = time.perf_counter(), time.process_time(), 0
        while True:
            for _, volumes in self.batches():
                samples += volumes.shape[0]
            seconds = time.perf_counter() - began
            if seconds >= self._seconds:
                # Of all threads; it stays the same when others want the processors too.
                busy = time.process_time() - used
                return {"amount": samples, "seconds": seconds, "beside": {"CPU us/sample": 1e6 * busy / samples}}

    def digest(self) -> str:
        found = Digest()
        for rows, volumes in self.batches():
            if volumes.shape[1:] != self.data.shape or volumes.dtype != "float32":
                raise ValueError(f"a batch is {volumes.shape} {volumes.dtype}")
            found.add_all(np.asarray(rows), np.asarray(volumes))
        return found.text


def tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow as tf
    return tf


class OurLoader(Reader):
    """A loader of ours through the interface that TrainResNet3D uses, on what our nodes have made.

    Into TensorFlow it goes as `tf.data`, or with `eager` as the training step takes its batches. `verify` as in
    `voxelflow.load`.
    """

    def __init__(
        self, data: dict[str, Any], loader: str, eager: bool = False, verify: bool = True, **more: Any
    ) -> None:
        self._name, self._eager, self._verify = loader, eager, verify
        super().__init__(data, **more)

    def open(self) -> None:
        from nodes.loaders import open_source
        from nodes.loaders.interface import Reading

        dataset = self.data.npy if self._name == "npy" else self.data.delta
        cores = len(os.sched_getaffinity(0))
        self._source = open_source(self._name, dataset, cores=cores, verify=self._verify)  # type: ignore[arg-type]
        self._loader = self._source.loader(self._source.rows_in(), Reading(self.data.batch, seed=0, training=True))

    def files(self) -> Iterable[str | Path]:
        if self._name == "npy":
            return self.data.npy_paths
        return Path(self.data.delta.uri).rglob("*.parquet")

    def _begin(self) -> None:
        """Stand at the start of an epoch: the last one may have been left in the middle."""
        from nodes.loaders.interface import LoaderState

        state = self._loader.state()
        if state.step:
            self._loader.restore(LoaderState(state.seed, state.epoch + 1))

    def epoch(self, number: int) -> Batches:
        self._begin()
        return ((batch.rows, batch.volumes) for batch in self._loader.batches())

    def tensors(self, number: int) -> Any:
        from nodes.loaders.rows import shuffled
        from nodes.tensorflow_keras.batches import tensor_of

        self._begin()
        if self._eager:
            yield from ((batch.rows, tensor_of(batch.volumes)) for batch in self._loader.batches())
            return
        # The dataset has labels and no numbers; their order is known.
        state, size = self._loader.state(), self.data.batch
        order = self._loader.chosen[shuffled(len(self._loader), state.seed, state.epoch)]
        for step, (volumes, _) in enumerate(super().tensors(number)):
            yield order[step * size : (step + 1) * size], volumes

    def dataset(self) -> Any:
        from nodes.tensorflow_keras.batches import tf_dataset

        return tf_dataset(self._loader)

    def close(self) -> None:
        self._source.close()


class NpLoad(Reader):
    """The loop people write by hand."""

    def open(self) -> None:
        self._paths = self.data.npy_paths

    def files(self) -> Iterable[str | Path]:
        return self._paths

    def epoch(self, number: int) -> Batches:
        for rows in self.steps(number):
            yield rows, np.stack([np.load(self._paths[row]) for row in rows])


class Memcpy(Reader):
    """From an array in memory, row by row in random order, into a batch that is used again (`fresh`: a new one)."""

    def __init__(self, data: dict[str, Any], fresh: bool = False, **more: Any) -> None:
        self._fresh = fresh
        super().__init__(data, **more)

    def open(self) -> None:
        self._array: np.ndarray = np.load(self.data.array)

    def epoch(self, number: int) -> Batches:
        array, shape = self._array, (self.data.batch, *self.data.shape)
        batch = np.empty(shape, np.float32)
        for rows in self.steps(number):
            if self._fresh:
                batch = np.empty(shape, np.float32)
            for place, row in enumerate(rows):
                batch[place] = array[row]
            yield rows, batch[: len(rows)]

    def tensors(self, number: int) -> Any:
        """The limit stays the same copy; what it costs to make tensors is the contenders' to pay."""
        return self.epoch(number)


class Memmap(Memcpy):
    """The same from one file with all volumes, mapped into memory."""

    def open(self) -> None:
        self._array = np.load(self.data.array, mmap_mode="r")

    def files(self) -> Iterable[str | Path]:
        self.open()  # pages that are mapped would stay in the cache
        return [self.data.array]


class Petastorm(Reader):
    """The package as its documentation shows it: batch reader, thread pool, shuffled row groups, tf.data."""

    def files(self) -> Iterable[str | Path]:
        return Path(self.data.delta.uri).rglob("*.parquet")

    def _reader(self, number: int) -> Any:
        # petastorm does not run on this Arrow without the bridge; all its settings are its own defaults.
        from nodes.loaders import petastorm_bridge

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from petastorm import make_batch_reader

            return make_batch_reader(
                [f"file://{path}" for path in sorted(self.files())],
                schema_fields=["id", "volume"],
                shuffle_row_groups=True,
                seed=number,
                filesystem=petastorm_bridge._Files(),
            )

    def epoch(self, number: int) -> Batches:
        rng, size = np.random.default_rng(number), self.data.batch
        ids: list[Any] = []
        volumes: list[np.ndarray] = []
        with self._reader(number) as reader:
            for group in reader:
                order = rng.permutation(len(group.id))
                ids += [group.id[i] for i in order]
                volumes += [np.frombuffer(group.volume[i], np.float32).reshape(self.data.shape) for i in order]
                while len(ids) >= size:
                    yield ids[:size], np.stack(volumes[:size])
                    ids, volumes = ids[size:], volumes[size:]
        if ids:
            yield ids, np.stack(volumes)

    def tensors(self, number: int) -> Any:
        tf = tensorflow()

        def decode(row: Any) -> Any:
            return row.id, tf.reshape(tf.io.decode_raw(row.volume, tf.float32), self.data.shape)

        def generate() -> Iterator[Any]:
            from nodes.loaders import petastorm_bridge

            with self._reader(number) as reader:
                dataset = petastorm_bridge.tf_dataset(reader).unbatch().shuffle(SHUFFLE_ROWS, seed=number)
                yield from dataset.map(decode, tf.data.AUTOTUNE).batch(self.data.batch).prefetch(tf.data.AUTOTUNE)

        return generate()


class TFRecord(Reader):
    """TFRecord files through tf.data, in order or shuffled as far as its buffer reaches."""

    def __init__(self, data: dict[str, Any], shuffled: bool, **more: Any) -> None:
        self._shuffled = shuffled
        super().__init__(data, **more)

    def files(self) -> Iterable[str | Path]:
        return self.data.records

    def dataset(self) -> Any:
        tf = tensorflow()
        features = {"row": tf.io.FixedLenFeature((), tf.int64), "volume": tf.io.FixedLenFeature((), tf.string)}

        def parse(record: Any) -> Any:
            found = tf.io.parse_single_example(record, features)
            return found["row"], tf.reshape(tf.io.decode_raw(found["volume"], tf.float32), self.data.shape)

        if self._shuffled:
            files = tf.data.Dataset.from_tensor_slices(list(self.data.records)).shuffle(1000, seed=0)
            records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
            records = records.shuffle(SHUFFLE_ROWS, seed=0)
        else:
            records = tf.data.TFRecordDataset(list(self.data.records))
        return records.map(parse, tf.data.AUTOTUNE).batch(self.data.batch).prefetch(tf.data.AUTOTUNE)

    def epoch(self, number: int) -> Batches:
        return self.tensors(number).as_numpy_iterator()  # type: ignore[no-any-return]


class _InOrder(Reader):
    """A table's rows in their order, by a reader of tables."""

    def files(self) -> Iterable[str | Path]:
        return Path(self.data.delta.uri).rglob("*.parquet")

    def batches_of(self, ids: Callable[[], Any], values: Iterable[Any]) -> tuple[Any, np.ndarray]:
        return ids(), np.stack([np.frombuffer(v, np.float32).reshape(self.data.shape) for v in values])


class Polars(_InOrder):
    def epoch(self, number: int) -> Batches:
        import polars

        table = polars.scan_delta(self.data.delta.uri, version=self.data.delta.version).select("id", "volume")
        for frame in table.collect_batches(chunk_size=self.data.batch):
            for part in frame.iter_slices(self.data.batch):
                yield self.batches_of(part["id"].to_list, part["volume"])


class ArrowDataset(_InOrder):
    def open(self) -> None:
        from deltalake import DeltaTable

        self._dataset = DeltaTable(self.data.delta.uri, version=self.data.delta.version).to_pyarrow_dataset()

    def epoch(self, number: int) -> Batches:
        for part in self._dataset.to_batches(columns=["id", "volume"], batch_size=self.data.batch):
            if len(part):
                yield self.batches_of(part["id"].to_pylist, (value.as_buffer() for value in part["volume"]))
