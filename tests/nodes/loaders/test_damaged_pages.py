"""A flipped bit in a page with a checksum is delivered by no loader that says it compares checksums."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from volume_sets import flip_a_bit, labels_for, make_delta, make_parquet, some_volumes, write_file
from waiting import WAIT_S

from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError
from nodes.loaders import LOADERS, LoaderName, open_source
from nodes.loaders.interface import Reading, Source
from nodes.loaders.petastorm_bridge import open_reader

VOLUMES = some_volumes(24)
LABELS = labels_for(VOLUMES)
COMPARING = [name for name, kind in LOADERS.items() if kind.compares_checksums]
LAYOUTS: dict[str, dict[str, Any]] = {
    "a page for each volume": {"own": True},
    "plain pages": {},
    "compressed": {"compression": "ZSTD"},
    "nullable": {"nullable": True},
}


def test_all_loaders_of_tables_compare() -> None:
    assert [name for name, kind in LOADERS.items() if VolumeDelta in kind.reads] == COMPARING


def _read(source: Source, *, training: bool) -> dict[str, bytes]:
    loader = source.loader(source.rows_in(), Reading(4, seed=3, training=training))
    given: dict[str, bytes] = {}
    for batch in loader.batches():
        for volume_id, volume in zip(source.ids(batch.rows), batch.volumes, strict=True):
            given[volume_id] = volume.tobytes()
            assert given[volume_id] == VOLUMES[volume_id].tobytes()
    return given


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loader", COMPARING)
def test_rot_is_refused_with_the_file_and_what_to_do(
    loader: LoaderName, layout: str, training: bool, tmp_path: Path
) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, rows=12, **LAYOUTS[layout])
    damaged = sorted(Path(table.uri).glob("*.parquet"))[0]
    with closing(open_source(loader, table, cores=2)) as source:
        assert len(_read(source, training=training)) == len(VOLUMES)
    flip_a_bit(damaged, "volume")
    with closing(open_source(loader, table, cores=2)) as source, pytest.raises(DataError) as caught:
        _read(source, training=training)
    assert str(damaged) in caught.value.message
    assert f"`voxelflow verify '{table.uri}'`" in (caught.value.hint or "")


@pytest.mark.parametrize("loader", COMPARING)
def test_parquet_files_are_compared_too(loader: LoaderName, tmp_path: Path) -> None:
    parts: VolumeParquet = make_parquet(tmp_path, VOLUMES, LABELS)
    flip_a_bit(Path(parts.uri) / "part-0.parquet", "volume")
    with closing(open_source(loader, parts, cores=1)) as source, pytest.raises(DataError, match=r"part-0\.parquet"):
        _read(source, training=False)


@pytest.mark.parametrize("loader", COMPARING)
def test_what_is_not_to_be_compared_is_delivered(loader: LoaderName, tmp_path: Path) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, rows=12)
    flip_a_bit(sorted(Path(table.uri).glob("*.parquet"))[0], "volume")
    with closing(open_source(loader, table, cores=1, verify=False)) as source:
        batches = source.loader(source.rows_in(), Reading(4, training=False)).batches()
        wrong = [
            volume_id
            for batch in batches
            for volume_id, volume in zip(source.ids(batch.rows), batch.volumes, strict=True)
            if volume.tobytes() != VOLUMES[volume_id].tobytes()
        ]
    assert len(wrong) == 1


def test_a_file_that_goes_while_petastorm_reads_is_named(tmp_path: Path) -> None:
    table = make_delta(tmp_path, VOLUMES, LABELS, rows=12)
    with closing(open_source("petastorm", table, cores=1)) as source:
        file = Path(source.paths[-1])  # type: ignore[attr-defined]
        batches = source.loader(source.rows_in(), Reading(4, training=False)).batches()
        file.rename(file.with_suffix(".gone"))
        with pytest.raises(DataError) as caught:
            list(batches)
    assert str(file) in caught.value.message


def test_an_epoch_that_is_left_beside_damage_ends(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """petastorm's own thread waits for ever with an error that nobody takes while its queue of five is full."""
    ids = list(VOLUMES)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(paths, (ids[:3], ids[3:6]), strict=True):
        write_file(path, {i: VOLUMES[i] for i in part}, LABELS, group=1)
    flip_a_bit(paths[1], "volume")
    reader = open_reader([str(path) for path in paths], ("id", "volume"), seed=1, shuffle=False)
    next(reader)
    for _ in range(100):
        if reader.diagnostics["output_queue_size"] == 5:
            break
        time.sleep(0.01)
    time.sleep(0.1)  # it reads the fourth row group
    reader.stop()
    joining = threading.Thread(target=reader.join, daemon=True)
    joining.start()
    joining.join(WAIT_S)
    assert not joining.is_alive()
    assert "Traceback" not in capfd.readouterr().err
