"""Row groups that are fetched or decoded: from elsewhere than a local disk, several at a time, large ones in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from ranged_files import RangedFiles
from volume_sets import DeltaLoaderConformance, Labels, Volumes, labels_for, make_delta, some_volumes

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError
from nodes.loaders import open_source
from nodes.loaders.row_groups import RowGroupSource
from nodes.testing.loader import evaluation, ids_in, training
from nodes.volume_file.pages import VolumePages


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> RangedFiles:
    access = RangedFiles()
    monkeypatch.setattr("nodes.loaders.arrow_loader.data_files", access.data_files)
    return access


@pytest.mark.slow
class TestElsewhere(DeltaLoaderConformance):
    """A table whose files can only be read by ranges."""

    @pytest.fixture(autouse=True)
    def _ranged(self, elsewhere: RangedFiles) -> None:
        self.access = elsewhere

    def test_it_is_streamed_from_there(self, source: object) -> None:
        assert isinstance(source, RowGroupSource)
        assert source.read_path == "streamed"
        assert "not on a local disk" in source.reason


@pytest.mark.slow
class TestOwnPagesElsewhere(DeltaLoaderConformance):
    """The same of files in which each volume has a page of its own: they are fetched, and nothing is decoded."""

    @pytest.fixture(autouse=True)
    def _ranged(self, elsewhere: RangedFiles) -> None:
        self.access = elsewhere

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> VolumeDelta:
        return make_delta(folder, volumes, labels, own=True)


def test_a_row_group_of_own_pages_costs_one_read_and_no_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: RangedFiles
) -> None:
    volumes = some_volumes(40)
    table = make_delta(tmp_path, volumes, labels_for(volumes), rows=10, group=5, own=True)
    with closing(open_source("arrow", table, cores=2)) as source:
        monkeypatch.delattr(RowGroupSource, "_decoded")
        opened = sum(elsewhere.reads.values())
        for batch in evaluation(source, 8):
            for volume, volume_id in zip(batch.volumes, source.ids(batch.rows), strict=True):
                assert volume.tobytes() == volumes[volume_id].tobytes()
        assert sum(elsewhere.reads.values()) - opened == 8


def test_pages_of_another_writer_that_add_up_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: RangedFiles
) -> None:
    volumes = some_volumes(30)
    table = make_delta(tmp_path, volumes, labels_for(volumes), group=3)
    with closing(open_source("arrow", table, cores=2)) as source:
        assert isinstance(source, RowGroupSource)
        place = source._volume_pages
        monkeypatch.setattr(source, "_volume_pages", lambda footer, number: place(footer, number) or 4)
        for batch in evaluation(source, 8):
            for volume, volume_id in zip(batch.volumes, source.ids(batch.rows), strict=True):
                assert volume.tobytes() == volumes[volume_id].tobytes()


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7), whole=st.booleans())
def test_any_flipped_bit_in_a_volume_or_before_it_names_the_volume(
    tmp_path_factory: pytest.TempPathFactory, elsewhere: RangedFiles, at: int, bit: int, whole: bool
) -> None:
    volumes = some_volumes(6)
    table = make_delta(tmp_path_factory.mktemp("flip"), volumes, labels_for(volumes), group=3, own=True)
    (path,) = Path(table.uri).glob("*.parquet")
    data = bytearray(path.read_bytes())
    pages = VolumePages(96)
    begins = [data.find(volume.tobytes()) - pages.head_bytes for volume in volumes.values()]
    number = at % 6
    data[begins[number] + at // 6 % pages.stride] ^= 1 << bit
    with pytest.MonkeyPatch.context() as patch, closing(open_source("arrow", table, cores=2)) as source:
        patch.setattr("nodes.loaders.row_groups._WHOLE_BYTES", 1 << 20 if whole else 1)
        patch.setattr("nodes.loaders.row_groups._DECODE_BYTES", 200)
        path.write_bytes(data)
        with pytest.raises(DataError, match=f"the volume {list(volumes)[number]} (does not match|has a damaged)"):
            evaluation(source, 4)


def test_footers_are_read_once_and_a_row_group_costs_few_reads(tmp_path: Path, elsewhere: RangedFiles) -> None:
    volumes = some_volumes(40)
    table = make_delta(tmp_path, volumes, labels_for(volumes), rows=10, group=5)
    with closing(open_source("arrow", table, cores=2)) as source:
        opened = sum(elsewhere.reads.values())
        assert len(elsewhere.reads) == 4
        assert len(evaluation(source, 8)) == 5
        # 8 row groups, one column chunk each, and one read to look at the file's end.
        assert sum(elsewhere.reads.values()) - opened <= 3 * 8


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {"_WHOLE_BYTES": 300, "_DECODE_BYTES": 200}, {"_AHEAD_BYTES": 1}])
@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_the_order_does_not_depend_on_how_much_is_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: RangedFiles, limits: dict[str, int], compression: str
) -> None:
    """Row groups of 2 to 7 rows of 96 bytes: some are held whole, some decoded in parts."""
    volumes = some_volumes(60)
    for name, value in limits.items():
        monkeypatch.setattr(f"nodes.loaders.row_groups.{name}", value)
    table = make_delta(tmp_path, volumes, labels_for(volumes), rows=9, group=7, compression=compression)
    with closing(open_source("arrow", table, cores=2)) as source:
        batches = list(training(source, 6).batches())
        for batch in batches:
            for volume, volume_id in zip(batch.volumes, source.ids(batch.rows), strict=True):
                assert volume.tobytes() == volumes[volume_id].tobytes()
        monkeypatch.undo()
        with closing(open_source("arrow", table, cores=1)) as plain:
            if isinstance(plain, RowGroupSource):
                assert ids_in(plain, training(plain, 6).batches()) == ids_in(source, batches)


def test_memory_for_row_groups_under_way_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.loaders.row_groups._AHEAD_BYTES", 2 * 5 * 96)
    monkeypatch.setattr("nodes.loaders.windows.WINDOW_BYTES", 1)
    volumes = some_volumes(100)
    table = make_delta(tmp_path, volumes, labels_for(volumes), rows=50, group=5, compression="ZSTD")
    with closing(open_source("arrow", table, cores=2)) as source:
        assert isinstance(source, RowGroupSource)
        begun: list[int] = []
        read = source.read

        def counting(group: int) -> Iterator[np.ndarray]:
            begun.append(group)
            return read(group)

        monkeypatch.setattr(source, "read", counting)
        batches = training(source, 5).batches()
        next(batches)
        # At most: the window given, one ready, one in the maker's hand, one that waits, and two row groups ahead.
        assert len(begun) <= 6
        batches.close()  # type: ignore[attr-defined]


def damage(table: VolumeDelta, value: bytes) -> Path:
    """Change one byte in the middle of a volume."""
    for path in sorted(Path(table.uri).glob("*.parquet")):
        data = bytearray(path.read_bytes())
        at = data.find(value)
        if at >= 0:
            data[at + len(value) // 2] ^= 1
            path.write_bytes(data)
            return path
    raise AssertionError("no file holds this volume")


@pytest.mark.slow
@pytest.mark.parametrize("group", [2, 9])
@pytest.mark.parametrize("page", [1, 1 << 20])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_page_with_a_wrong_checksum_is_reported(tmp_path: Path, group: int, page: int, nullable: bool) -> None:
    """Of volumes read by their place, and only once for a page."""
    volumes = some_volumes(30)
    options = {"write_page_checksum": True, "data_page_size": page, "write_batch_size": 1}
    table = make_delta(tmp_path, volumes, labels_for(volumes), group=group, nullable=nullable, **options)
    with closing(open_source("arrow", table, cores=2)) as source:
        assert source.read_path == "mapped"
        for _ in range(2):
            assert len(ids_in(source, evaluation(source, 7))) == 30
        # Found right and not looked at again.
        damage(table, volumes["0/v00000.npy"].tobytes())
        assert len(ids_in(source, evaluation(source, 7))) == 30
    with (
        closing(open_source("arrow", table, cores=2)) as source,
        pytest.raises(DataError, match="does not match its checksum"),
    ):
        evaluation(source, 7)


def test_a_damaged_row_group_is_reported(tmp_path: Path, elsewhere: RangedFiles) -> None:
    volumes = some_volumes(30)
    table = make_delta(tmp_path, volumes, labels_for(volumes), write_page_checksum=True)
    path = damage(table, volumes["0/v00000.npy"].tobytes())
    with (
        closing(open_source("arrow", table, cores=2)) as source,
        pytest.raises(DataError, match=rf"{path.name}: row group \d+ cannot be read"),
    ):
        evaluation(source, 7)


def test_a_vanished_file_is_named(tmp_path: Path, elsewhere: RangedFiles) -> None:
    volumes = some_volumes(30)
    table = make_delta(tmp_path, volumes, labels_for(volumes))
    with closing(open_source("arrow", table, cores=2)) as source:
        (Path(table.uri) / "part 1.parquet").unlink()
        with pytest.raises(DataError, match=r"part 1\.parquet is gone"):
            evaluation(source, 8)
