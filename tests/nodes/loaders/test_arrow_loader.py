from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, convert_to_deltalake, write_deltalake
from volume_sets import (
    DeltaLoaderConformance,
    Labels,
    Volumes,
    compact,
    labels_for,
    make_delta,
    make_parquet,
    parts_of,
    reference,
    some_volumes,
    spec_for,
    write_file,
)

from engine.declare.datasets import Dataset, VolumeDelta
from engine.errors import DataError
from nodes.loaders import open_source
from nodes.loaders.arrow_loader import PageIndexedSource
from nodes.loaders.interface import Reading, Source
from nodes.loaders.row_groups import RowGroupSource
from nodes.testing.loader import UNLABELLED, LoaderConformance, evaluation, ids_in, training
from nodes.volume_file.layout import properties
from nodes.volume_file.pages import VolumePages


@pytest.mark.slow
class TestPageIndex(DeltaLoaderConformance):
    """The volume layout: read through the page index."""

    def test_this_is_the_page_index(self, source: object) -> None:
        assert isinstance(source, PageIndexedSource)


class TestRowGroups(LoaderConformance):
    """A compressed table: read by row groups."""

    loader = "arrow"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return make_delta(folder, volumes, labels, compression="ZSTD")

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        assert isinstance(dataset, VolumeDelta)
        DeltaTable(dataset.uri).optimize.compact(
            writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=6)
        )
        return reference(Path(dataset.uri), volumes)

    def test_the_reason_is_reported(self, source: object) -> None:
        assert isinstance(source, RowGroupSource)
        assert "compressed (zstd)" in source.reason


class TestSmallWindows(TestRowGroups):
    """Windows of one batch each, decoded two rows at a time: every boundary is met."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nodes.loaders.windows.WINDOW_BYTES", 1)
        monkeypatch.setattr("nodes.loaders.row_groups._DECODE_BYTES", 200)


@pytest.mark.slow
class TestParquetFolder(LoaderConformance):
    loader = "arrow"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return make_parquet(folder, volumes, labels)

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        return make_parquet(
            Path(dataset.uri).parent / "again", volumes, labels_for(volumes, unlabelled=UNLABELLED), rows=20
        )


VOLUMES = some_volumes(30)


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, labels_for(VOLUMES))


def test_only_the_files_of_the_pinned_version_are_read(table: VolumeDelta) -> None:
    compact(table, VOLUMES)
    write_file(Path(table.uri) / "left-behind.parquet", some_volumes(3, seed=9), {})
    with closing(open_source("arrow", table, cores=2)) as source:
        assert len(source.rows) == 30
        batches = list(source.loader(source.rows_in(), Reading(7, training=False)).batches())
        assert sorted(ids_in(source, batches)) == sorted(VOLUMES)


def test_a_vanished_file_is_named(table: VolumeDelta) -> None:
    with closing(open_source("arrow", table, cores=2)) as source:
        (Path(table.uri) / "part 1.parquet").unlink()
        with pytest.raises(DataError, match=r"part 1\.parquet is gone"):
            list(training(source, 30).batches())
    with pytest.raises(DataError, match=r"part 1\.parquet is gone"):
        open_source("arrow", table, cores=2)


def _fill(source: Source) -> None:
    """Read all volumes; this thread keeps their files open."""
    assert isinstance(source, PageIndexedSource)
    rows = np.arange(len(source.rows))
    source.fill(rows, np.empty((len(rows), *source.spec.shape), np.float32))


def test_a_file_cut_short_after_opening_is_reported_not_read(table: VolumeDelta) -> None:
    with closing(open_source("arrow", table, cores=2)) as source:
        _fill(source)
        path = Path(table.uri) / "part 2.parquet"
        path.write_bytes(path.read_bytes()[:600])
        with pytest.raises(DataError, match=r"part 2\.parquet: the volume .* is cut short"):
            _fill(source)
        # Other threads open it now.
        with pytest.raises(DataError, match=r"part 2\.parquet was changed while the table was read: cannot be read"):
            list(training(source, 30).batches())


def test_a_shifted_file_never_gives_other_bytes(table: VolumeDelta) -> None:
    """The length in front of each value is compared with every read."""
    with closing(open_source("arrow", table, cores=2)) as source:
        _fill(source)
        path = Path(table.uri) / "part 0.parquet"
        path.write_bytes(b"\x01\x02\x03" + path.read_bytes())
        with pytest.raises(DataError, match="is not 96 bytes long"):
            _fill(source)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("all_own", [True, False])
def test_a_flipped_bit_in_a_volume_is_found_unless_nobody_asks(tmp_path: Path, dtype: str, all_own: bool) -> None:
    """In a local table of Voxelflow's own files, alone and beside those of another writer."""
    volumes = some_volumes(12, dtype=dtype)
    labels = labels_for(volumes)
    make_delta(tmp_path, volumes, labels, rows=6, own=True)
    root = tmp_path / "a table"
    if not all_own:
        write_file(root / "part 1.parquet", parts_of(volumes, 6)[1], labels)
        shutil.rmtree(root / "_delta_log")
        convert_to_deltalake(str(root))
        DeltaTable(root).alter.set_table_properties(properties(spec_for(volumes)), raise_if_not_exists=False)
    table = reference(root, volumes)
    path, (name, *_) = root / "part 0.parquet", volumes
    pages = VolumePages(volumes[name].nbytes)
    whole = path.read_bytes()
    begin = whole.index(volumes[name].tobytes()) - pages.head_bytes
    with (
        closing(open_source("arrow", table, cores=1)) as asking,
        closing(open_source("arrow", table, cores=1, verify=False)) as trusting,
    ):
        assert isinstance(asking, PageIndexedSource)
        for at in (*range(pages.head_bytes + 1), pages.stride - 2, pages.stride - 1):
            rotten = bytearray(whole)
            rotten[begin + at] ^= 1 << at % 8
            path.write_bytes(rotten)
            with pytest.raises(DataError, match=rf"part 0\.parquet: the volume {name} (does not match|has a damaged)"):
                evaluation(asking, 12)
            if at < pages.head_bytes:
                continue
            # What the disk has now, and nothing but this bit of it.
            (batch,) = evaluation(trusting, 12)
            assert trusting.ids(batch.rows)[0] == name
            now = np.frombuffer(rotten, dtype, volumes[name].size, begin + pages.head_bytes)
            assert batch.volumes[0].tobytes() == now.astype(np.float32).tobytes()
            for volume, volume_id in zip(batch.volumes[1:], trusting.ids(batch.rows)[1:], strict=True):
                assert volume.tobytes() == volumes[volume_id].astype(np.float32).tobytes()


def test_doubled_rows_are_refused(tmp_path: Path) -> None:
    volumes = some_volumes(12)
    labels = labels_for(volumes)
    make_delta(tmp_path, volumes, labels)
    root = tmp_path / "a table"
    write_deltalake(str(root), pq.read_table(root / "part 0.parquet"), mode="append")
    with pytest.raises(DataError, match="9 ids come more than once"):
        open_source("arrow", reference(root, volumes), cores=1)


def test_many_files_do_not_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.loaders.arrow_loader.OPEN_FILES", 2)
    volumes = some_volumes(40)
    table = make_parquet(tmp_path, volumes, labels_for(volumes), rows=2)

    def open_here() -> int:
        return sum(
            str(tmp_path) in str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
        )

    with closing(open_source("arrow", table, cores=2)) as source:
        loader = training(source, 8)
        for _ in range(3):
            for batch in loader.batches():
                assert np.isfinite(batch.volumes).all()
                assert open_here() <= 4
    assert open_here() == 0
