"""What every loader promises (the laws in `nodes.loaders.interface`), as a pytest class to subclass.

    from voxelflow import LoaderConformance

    class TestMyLoader(LoaderConformance):
        def make(self, folder, volumes, labels):
            return write_my_dataset(folder, volumes, labels)

        def rewrite(self, dataset, volumes):
            return compact_my_dataset(dataset)

        def open(self, dataset, cores):
            return MySource(dataset, cores)

A loader keeps every law here. Only one is optional, `Source.order_survives_rewrite`: without it, the test checks what
the loader must do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, Dataset, Selection
from engine.errors import DataError, UsageError
from nodes.loaders import LoaderName, open_source
from nodes.loaders.interface import Batch, Loader, LoaderState, Reading, Source

COUNT, UNLABELLED = 53, 4
"""Volumes of the dataset that most tests read, and how many of them have no label."""
Volumes = Mapping[str, NDArray[Any]]
"""Volumes by id, all of one shape and dtype."""
Labels = Mapping[str, float | None]
"""The label of each volume by id, None for none."""


class LoaderConformance:
    """Subclass as `TestMyLoader(LoaderConformance)` and give `make`, `rewrite` and `loader` or `open`."""

    loader: LoaderName
    """The name of a built-in loader; unused where `open` is overridden."""

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        """A dataset of these volumes below `folder`, of files and row groups of several sizes."""
        raise NotImplementedError

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        """The same rows, stored in other files or in another order."""
        raise NotImplementedError

    def open(self, dataset: Dataset, cores: int) -> Source:
        """The dataset, opened by the loader under test."""
        return open_source(self.loader, dataset, cores=cores)

    @pytest.fixture
    def volumes(self) -> Volumes:
        """The volumes of the dataset, by id."""
        return some_volumes(COUNT)

    @pytest.fixture
    def labels(self, volumes: Volumes) -> Labels:
        """Their labels, by id; some have none."""
        return labels_for(volumes, unlabelled=UNLABELLED)

    @pytest.fixture
    def dataset(self, tmp_path: Path, volumes: Volumes, labels: Labels) -> Dataset:
        """The dataset that `make` made of them."""
        return self.make(tmp_path, volumes, labels)

    @pytest.fixture
    def source(self, dataset: Dataset) -> Iterator[Source]:
        """The dataset, opened for two cores."""
        with closing(self.open(dataset, 2)) as source:
            yield source

    def test_evaluation_gives_every_labelled_row_once(self, source: Source, labels: Labels) -> None:
        ids = ids_in(source, evaluation(source, 8))
        assert sorted(ids) == sorted(i for i, label in labels.items() if label is not None)
        assert source.unlabelled == UNLABELLED

    def test_a_training_epoch_gives_whole_batches_and_no_row_twice(self, source: Source) -> None:
        batches = list(training(source, 8).batches())
        assert [len(batch.rows) for batch in batches] == [8] * ((COUNT - UNLABELLED) // 8)
        assert len(set(ids_in(source, batches))) == 8 * len(batches)

    @pytest.mark.parametrize("dtype", ["float32", "int16", "float64", "uint8"])
    @pytest.mark.parametrize("shape", [(3, 4, 2), (5, 3, 2, 3)])
    def test_batches_hold_the_bytes_of_the_source(self, tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
        assert dtype in DTYPES
        volumes = some_volumes(23, shape, dtype)
        labels = labels_for(volumes, classes=3)
        with closing(self.open(self.make(tmp_path, volumes, labels), 2)) as source:
            for batch in [*training(source, 4).batches(), *evaluation(source, 5)]:
                assert batch.volumes.dtype == np.float32
                assert batch.volumes.shape == (len(batch.rows), *shape)
                for volume, label, volume_id in zip(batch.volumes, batch.labels, source.ids(batch.rows), strict=True):
                    assert volume.tobytes() == volumes[volume_id].astype(np.float32).tobytes()
                    assert label == labels[volume_id]

    def test_the_same_seed_gives_the_same_batches(self, dataset: Dataset, source: Source) -> None:
        first = ids_in(source, training(source, 8).batches())
        with closing(self.open(dataset, 1)) as again:
            assert ids_in(again, training(again, 8).batches()) == first

    def test_epochs_and_seeds_differ(self, source: Source) -> None:
        loader = training(source, 8, seed=1)
        first, second = ids_in(source, loader.batches()), ids_in(source, loader.batches())
        other = ids_in(source, training(source, 8, seed=2).batches())
        assert first != second
        assert first != other
        assert first != sorted(first)

    @pytest.mark.parametrize("ranks", [2, 3])
    def test_ranks_share_every_global_batch(self, source: Source, ranks: int) -> None:
        whole = list(training(source, 8).batches())
        parts = [list(training(source, 8, rank=rank, ranks=ranks).batches()) for rank in range(ranks)]
        assert {len(batches) for batches in parts} == {len(whole)}
        for step, batch in enumerate(whole):
            joined = np.concatenate([batches[step].rows for batches in parts])
            assert joined.tolist() == batch.rows.tolist()
            volumes = np.concatenate([batches[step].volumes for batches in parts])
            assert volumes.tobytes() == batch.volumes.tobytes()

    def test_ranks_share_an_evaluation_too(self, source: Source) -> None:
        whole = ids_in(source, evaluation(source, 8))
        readings = [Reading(8, training=False, rank=rank, ranks=3) for rank in range(3)]
        parts = [list(source.loader(source.rows_in(), reading).batches()) for reading in readings]
        assert len({len(batches) for batches in parts}) == 1
        assert sorted(i for batches in parts for i in ids_in(source, batches)) == sorted(whole)

    @pytest.mark.parametrize("stop", [1, 3, 6])
    def test_a_restored_loader_goes_on_at_the_next_batch(self, dataset: Dataset, source: Source, stop: int) -> None:
        undisturbed = training(source, 8, seed=5)
        expected = ids_in(source, [*undisturbed.batches(), *undisturbed.batches()])
        loader = training(source, 8, seed=5)
        given: list[Batch] = []
        for batch in loader.batches():
            given.append(batch)
            if len(given) == stop:
                break
        state = loader.state()
        assert state == LoaderState(seed=5, epoch=0, step=stop)
        with closing(self.open(dataset, 2)) as later:
            restored = training(later, 8, seed=99)
            restored.restore(state)
            given += [*restored.batches(), *restored.batches()]
            assert ids_in(later, given) == expected

    def test_a_state_may_be_restored_with_another_number_of_ranks(self, source: Source) -> None:
        whole = list(training(source, 8, seed=3).batches())
        parts = []
        for rank in range(4):
            loader = training(source, 8, rank=rank, ranks=4)
            loader.restore(LoaderState(seed=3, epoch=0, step=2))
            parts.append(list(loader.batches()))
        for step, batch in enumerate(whole[2:]):
            assert np.concatenate([batches[step].rows for batches in parts]).tolist() == batch.rows.tolist()

    def test_the_state_after_an_epoch_is_the_next_ones_start(self, source: Source) -> None:
        loader = training(source, 8, seed=5)
        for _ in loader.batches():
            last = loader.state()
        assert last == LoaderState(5, 0, loader.steps)
        assert loader.state() == LoaderState(5, 1, 0)
        loader.restore(last)
        assert list(loader.batches()) == []
        assert loader.state() == LoaderState(5, 1, 0)

    def test_steps_limit_an_epoch(self, source: Source) -> None:
        every = ids_in(source, training(source, 8).batches())
        limited = source.loader(source.rows_in(), Reading(8, seed=7, steps=2))
        assert limited.steps == 2
        assert ids_in(source, limited.batches()) == every[:16]

    def test_selections_are_honoured(self, source: Source, labels: Labels) -> None:
        low, high = Selection(salt="split", low=0, high=0.4), Selection(salt="split", low=0.4, high=1)
        parts = []
        for selection in (low, high):
            chosen = source.rows_in(selection)
            ids = ids_in(source, source.loader(chosen, Reading(5, training=False)).batches())
            assert ids
            assert all(selection.holds(volume_id) for volume_id in ids)
            parts.append(ids)
        assert sorted(parts[0] + parts[1]) == sorted(i for i, label in labels.items() if label is not None)

    def test_a_column_that_the_dataset_lacks_is_named(self, source: Source) -> None:
        """Not a `KeyError`: a training looks for the columns of patches in any volumes."""
        with pytest.raises(DataError, match="no column no such column"):
            source.rows.columns(("id", "no such column"))

    def test_leaving_an_epoch_early_and_beginning_again(self, source: Source) -> None:
        loader = training(source, 8)
        for _ in range(3):
            batches = loader.batches()
            next(batches)
            batches.close()
        assert loader.state() == LoaderState(7, 0, 3)
        assert len(list(loader.batches())) == loader.steps - 3

    def test_the_order_and_its_identity_after_a_rewrite(
        self, dataset: Dataset, source: Source, volumes: Volumes
    ) -> None:
        with closing(self.open(self.rewrite(dataset, volumes), 2)) as other:
            before, after = list(training(source, 8).batches()), list(training(other, 8).batches())
            if source.order_survives_rewrite:
                assert source.order_identity == other.order_identity
                assert ids_in(source, before) == ids_in(other, after)
                assert [b.volumes.tobytes() for b in before] == [b.volumes.tobytes() for b in after]
            else:
                # A state from before must be known to be worthless; the rows are the same all the same.
                assert source.order_identity != other.order_identity
                assert sorted(ids_in(source, evaluation(source, 8))) == sorted(ids_in(other, evaluation(other, 8)))

    def test_the_identity_covers_labels(self, tmp_path: Path, source: Source, volumes: Volumes, labels: Labels) -> None:
        changed = {**labels, next(iter(labels)): 1.0 - float(next(iter(labels.values())) or 0)}
        with closing(self.open(self.make(tmp_path / "other", volumes, changed), 2)) as other:
            assert other.order_identity != source.order_identity

    def test_too_few_rows_for_a_batch_are_an_error(self, source: Source) -> None:
        with pytest.raises(DataError, match="do not fill one batch of 64"):
            training(source, 64)

    def test_a_state_beyond_the_epoch_is_refused(self, source: Source) -> None:
        with pytest.raises(UsageError, match="outside an epoch"):
            training(source, 8).restore(LoaderState(7, 0, 1000))


def some_volumes(
    count: int, shape: tuple[int, ...] = (3, 4, 2), dtype: str = "float32", *, seed: int = 0
) -> dict[str, NDArray[Any]]:
    """`count` different volumes of this shape and dtype by id; ids are spread so that file order is not id order."""
    rng = np.random.default_rng(seed)
    ids = [f"{(7 * i) % 10}/v{i:05d}.npy" for i in range(count)]
    return {i: (100 * rng.standard_normal(shape)).astype(dtype) for i in ids}


def labels_for(volumes: Volumes, classes: int = 2, unlabelled: int = 0) -> dict[str, float | None]:
    """Labels 0, 1, ... in turn; the last `unlabelled` volumes have none."""
    ids = list(volumes)
    end = len(ids) - unlabelled
    return {volume_id: float(i % classes) if i < end else None for i, volume_id in enumerate(ids)}


def training(source: Source, batch_size: int, *, seed: int = 7, rank: int = 0, ranks: int = 1) -> Loader:
    """A loader over all labelled rows, shuffled."""
    return source.loader(source.rows_in(), Reading(batch_size, seed=seed, rank=rank, ranks=ranks))


def evaluation(source: Source, batch_size: int) -> list[Batch]:
    """All batches of the labelled rows, not shuffled."""
    return list(source.loader(source.rows_in(), Reading(batch_size, training=False)).batches())


def ids_in(source: Source, batches: Iterator[Batch] | Sequence[Batch]) -> list[str]:
    """The ids of the batches' rows, in their order."""
    return [volume_id for batch in batches for volume_id in source.ids(batch.rows)]
