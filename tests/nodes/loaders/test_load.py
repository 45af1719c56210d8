"""`voxelflow.load`: the loaders for other programs, and what the documents say of them."""

from __future__ import annotations

import hashlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from volume_sets import flip_a_bit, labels_for, make_delta, make_files, make_parquet, some_volumes

import nodes
import voxelflow
from engine.declare.datasets import Selection, VolumeDelta
from engine.errors import DataError, UsageError
from nodes.table.lease import no_new_leases

VOLUMES = some_volumes(40)
LABELS = labels_for(VOLUMES, unlabelled=3)


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, LABELS)


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def ids_of(volumes: Any) -> list[str]:
    return [volume_id for batch in volumes for volume_id in volumes.ids(batch.rows)]


@pytest.mark.slow
def test_a_path_a_reference_and_every_kind_of_dataset(tmp_path: Path, table: VolumeDelta) -> None:
    expected = sorted(i for i, label in LABELS.items() if label is not None)
    kinds: list[tuple[Any, Any]] = [
        (table, "arrow"),
        (table.uri, "arrow"),
        (Path(table.uri), "petastorm"),
        (make_parquet(tmp_path, VOLUMES, LABELS), "arrow"),
        (make_files(tmp_path, VOLUMES, LABELS), "npy"),
    ]
    for data, loader in kinds:
        with voxelflow.load(data, 8, training=False, loader=loader) as volumes:
            assert len(volumes) == 5
            assert volumes.spec.shape == (3, 4, 2)
            assert sorted(ids_of(volumes)) == expected
            for batch in volumes:
                for volume, volume_id in zip(batch.volumes, volumes.ids(batch.rows), strict=True):
                    assert volume.tobytes() == VOLUMES[volume_id].tobytes()


@pytest.mark.slow
def test_without_training_the_order_is_always_the_same(tmp_path: Path) -> None:
    """By id where volumes are read from their place, else as they are stored; `rows` says which each is."""
    mixed = dict(sorted(VOLUMES.items(), key=lambda item: hash_of(item[0])))
    labels = labels_for(mixed)
    assert list(mixed) != sorted(mixed)
    stored = make_delta(tmp_path / "decoded", mixed, labels, rows=40, compression="ZSTD")
    kinds: list[tuple[Any, Any, list[str]]] = [
        (make_delta(tmp_path, mixed, labels, own=True), "arrow", sorted(mixed)),
        (make_files(tmp_path, mixed, labels), "npy", sorted(mixed)),
        (stored, "arrow", list(mixed)),
        (stored, "petastorm", list(mixed)),
    ]
    for data, loader, expected in kinds:
        for seed in range(2):
            with voxelflow.load(data, 8, training=False, loader=loader, seed=seed) as volumes:
                batches = list(volumes)
                assert [i for batch in batches for i in volumes.ids(batch.rows)] == expected
                for batch in batches:
                    for volume, i in zip(batch.volumes, volumes.ids(batch.rows), strict=True):
                        assert volume.tobytes() == mixed[i].tobytes()


@pytest.mark.slow
def test_each_pass_is_an_epoch_and_a_state_goes_on(table: VolumeDelta) -> None:
    with voxelflow.load(table, 8, seed=3) as volumes:
        first, second = ids_of(volumes), ids_of(volumes)
        assert first != second
    with voxelflow.load(table, 8, seed=3) as volumes:
        given = iter(volumes)
        next(given)
        state = volumes.state()
    with voxelflow.load(table, 8, seed=99) as volumes:
        volumes.restore(state)
        assert ids_of(volumes) == first[8:]
        assert ids_of(volumes) == second


@pytest.mark.slow
def test_a_selection_and_ranks_are_honoured(table: VolumeDelta) -> None:
    half = table.model_copy(update={"selections": (Selection(salt="x", low=0, high=0.5),)})
    with voxelflow.load(half, 8, training=False) as volumes:
        some = ids_of(volumes)
        assert 0 < len(some) < 37
    parts = []
    for rank in range(2):
        with voxelflow.load(half, 8, training=False, rank=rank, ranks=2) as volumes:
            parts += ids_of(volumes)
    assert sorted(parts) == some


@pytest.mark.parametrize("rows", [40, 10**6, 10**12])
def test_a_batch_may_be_larger_than_the_table(tmp_path: Path, rows: int) -> None:
    """One batch of all there is, and no memory for more."""
    table = make_delta(tmp_path, VOLUMES, LABELS, own=True)
    for uri in (table.uri, Path(table.uri).as_uri()):
        with voxelflow.load(uri, rows, training=False) as volumes:
            (batch,) = volumes
            assert len(batch.rows) == 37


def test_volumes_are_compared_with_their_checksums_unless_nobody_asks(tmp_path: Path) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, own=True)
    flip_a_bit(Path(table.uri) / "part 0.parquet", "volume")
    with (
        pytest.raises(DataError, match=r"part 0\.parquet: the volume .* does not match its checksum") as refused,
        voxelflow.load(table, 37) as volumes,
    ):
        list(volumes)
    assert f"`voxelflow verify '{table.uri}'`" in refused.value.hint
    with voxelflow.load(table, 8, training=False, verify=False) as volumes:
        read = {i: v.tobytes() for b in volumes for i, v in zip(volumes.ids(b.rows), b.volumes, strict=True)}
    assert [i for i in read if read[i] != VOLUMES[i].tobytes()] == [list(VOLUMES)[3]]


def test_the_version_is_leased_until_it_is_closed(table: VolumeDelta) -> None:
    root = Path(table.uri)
    volumes = voxelflow.load(table, 8)
    with no_new_leases(root) as held:
        assert held == {table.version}
    volumes.close()
    with no_new_leases(root) as held:
        assert held == set()
    with pytest.raises(DataError, match="do not fill"):
        voxelflow.load(table, 64)
    with no_new_leases(root) as held:
        assert held == set()


@pytest.mark.parametrize(
    ("files", "says", "advice"),
    [
        (
            ["a/1.npy", "a/2.npy", "labels.csv", "one.tif"],
            "a folder of .npy files",
            "run volumes-to-resnet --set data=",
        ),
        (["a/1.nii.gz", "patients.csv"], "a folder of NIfTI files", "--template mri-classifier"),
        (["survey.SGY"], "a folder of SEG-Y files", "--template seismic-facies"),
        (["v.zarr/0.0.0", "v.zarr/0.0.1.npy"], "a folder of Zarr files", "run volumes-to-resnet --set data="),
        (["part 0.parquet"], "a folder of Parquet files", "ParquetFolder and ParquetToDelta"),
    ],
)
def test_a_folder_of_volumes_is_told_how_it_becomes_a_table(
    tmp_path: Path, files: list[str], says: str, advice: str
) -> None:
    folder = tmp_path / "my volumes"
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    with pytest.raises(DataError) as refused:
        voxelflow.load(folder, 8)
    assert refused.value.message == f"{folder} is {says} and no Delta table"
    assert "Give the path or URL of a Delta table, or an output of a run" in refused.value.hint
    assert advice in refused.value.hint
    assert "data=" not in advice or f"data='{folder}'" in refused.value.hint
    # In a script nothing but the traceback is printed.
    assert refused.value.__notes__ == [refused.value.hint]


def test_a_place_with_no_table_is_said_as_it_is(tmp_path: Path) -> None:
    nothing, file = tmp_path / "nothing", tmp_path / "one.npy"
    file.touch()
    with pytest.raises(DataError, match=f"no Delta table at {nothing}: nothing of this name is there"):
        voxelflow.load(nothing, 8)
    nothing.mkdir()
    with pytest.raises(DataError, match=f"^{nothing} is no Delta table"):
        voxelflow.load(str(nothing), 8)
    with pytest.raises(DataError, match=r"one\.npy is a file \(\.npy\) and no Delta table") as refused:
        voxelflow.load(file, 8)
    assert f"--set data={tmp_path} " in refused.value.hint
    (nothing / "_delta_log").mkdir()
    (nothing / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(DataError, match=r"00000\.json"):
        voxelflow.load(nothing, 8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, not 0"),
        ({"batch_size": "8"}, "batch_size must be a whole number of at least 1, not '8'"),
        ({"batch_size": 8.0}, "batch_size must be a whole number of at least 1, not 8.0"),
        ({"batch_size": True}, "batch_size must be a whole number of at least 1, not True"),
        ({"seed": None}, "seed must be a whole number, not None"),
        ({"training": "no"}, "training must be True or False, not 'no'"),
        ({"rank": 2, "ranks": 2}, "rank must be a whole number from 0 to 1, not 2"),
        ({"ranks": 0}, "ranks must be a whole number of at least 1, not 0"),
        ({"ranks": "2"}, "ranks must be a whole number of at least 1, not '2'"),
        ({"cores": -1}, "cores must be a whole number of at least 1, not -1"),
        ({"verify": 2}, "verify must be True or False, not 2"),
        ({"loader": ["npy"]}, "there is no loader ['npy']"),
        ({"data": 5}, "data must be a dataset, a path or a URL, not of type int"),
    ],
)
def test_a_value_that_a_parameter_cannot_have_is_named(table: VolumeDelta, given: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"data": table, "batch_size": 8} | given
    with pytest.raises(UsageError) as refused:
        voxelflow.load(**values)
    assert refused.value.message == message
    assert refused.value.parameter == next(iter(given))
    assert refused.value.hint


def test_numbers_of_numpy_are_whole_numbers(table: VolumeDelta) -> None:
    with voxelflow.load(table, np.int64(8), seed=np.int32(3), training=np.bool_(False)) as volumes:  # type: ignore[arg-type]
        assert len(ids_of(volumes)) == 37


@pytest.fixture
def torch_like(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of PyTorch as the example uses, with the rules of its real counterparts."""
    workers: list[Any] = [None]

    class IterableDataset:
        pass

    class DataLoader:
        def __init__(self, dataset: Any, *, batch_size: int | None, num_workers: int) -> None:
            assert batch_size is None, "the dataset makes whole batches"
            self.dataset, self.workers = dataset, num_workers

        def __iter__(self) -> Iterator[Any]:
            streams = []
            for number in range(self.workers):
                workers[0] = types.SimpleNamespace(id=number, num_workers=self.workers)
                streams.append(list(self.dataset))
            workers[0] = None
            for round_ in zip(*streams, strict=True):
                yield from round_

    class Tensor:
        def __init__(self, array: Any) -> None:
            assert array.flags.writeable, "torch.from_numpy warns of arrays that cannot be written"
            self.array = array

    torch = types.ModuleType("torch")
    data = types.ModuleType("torch.utils.data")
    data.IterableDataset, data.DataLoader = IterableDataset, DataLoader  # type: ignore[attr-defined]
    data.get_worker_info = lambda: workers[0]  # type: ignore[attr-defined]
    torch.utils = types.SimpleNamespace(data=data)  # type: ignore[attr-defined]
    torch.from_numpy = Tensor  # type: ignore[attr-defined]
    for name, module in {"torch": torch, "torch.utils": types.ModuleType("x"), "torch.utils.data": data}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return torch


@pytest.mark.slow
def test_the_readmes_dataset_for_pytorch(table: VolumeDelta, torch_like: Any) -> None:
    readme = (Path(nodes.__file__).parent / "README.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "IterableDataset" in c)
    names: dict[str, Any] = {}
    exec(compile(code, "nodes/README.md", "exec"), names)
    made = names["VolumeBatches"](table.uri, 8, seed=3)
    epochs = []
    for epoch in range(2):
        made.epoch = epoch
        batches = list(torch_like.utils.data.DataLoader(made, batch_size=None, num_workers=2))
        assert [len(volumes.array) for volumes, _ in batches] == [4] * 8
        epochs.append(np.concatenate([volumes.array for volumes, _ in batches]))
    with voxelflow.load(table, 8, seed=3) as volumes:
        for epoch in epochs:
            whole = np.concatenate([batch.volumes for batch in volumes])
            assert sorted(v.tobytes() for v in whole) == sorted(v.tobytes() for v in epoch)
            assert len({v.tobytes() for v in epoch}) == 32
