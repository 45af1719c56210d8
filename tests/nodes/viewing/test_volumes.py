"""Looking at volumes of every kind: the right bytes, every volume once, and no scan for the first one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from npy_folders import convert, hostile_folder
from volume_sets import (
    Labels,
    Volumes,
    compact,
    labels_for,
    make_delta,
    make_files,
    make_listed_parquet,
    make_parquet,
    some_volumes,
    spec_for,
)

from engine.declare.datasets import Dataset, Selection, VolumeDelta
from engine.declare.view import DatasetView, Gallery, Panel, Table, TablePage
from engine.errors import DataError
from engine.viewing.info import info_of
from engine.viewing.scales import GalleryScales
from engine.viewing.thumbnails import thumbnail
from nodes.table.snapshot import TableVersion
from nodes.viewing import open_view, volume_rows
from nodes.viewing.histograms import histogram
from nodes.viewing.volumes import Values
from nodes.viewing.volumes import volume_rows as rows_of

Make = Callable[[Path, Volumes, Labels], Dataset]


def _compressed(folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
    return make_delta(folder, volumes, labels, compression="ZSTD")


def _compacted(folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
    return compact(make_delta(folder, volumes, labels), volumes)


KINDS: dict[str, Make] = {
    "delta": make_delta, "compacted": _compacted, "compressed": _compressed, "parquet": make_parquet,
    "listed": make_listed_parquet, "files": make_files,
}  # fmt: skip


@pytest.fixture(scope="module")
def volumes() -> Volumes:
    return some_volumes(40)


@pytest.fixture(scope="module")
def labels(volumes: Volumes) -> Labels:
    return labels_for(volumes)


@pytest.fixture(params=KINDS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path, volumes: Volumes, labels: Labels) -> Dataset:
    return KINDS[request.param](tmp_path, volumes, labels)


def _view(dataset: Dataset) -> DatasetView:
    view = open_view(dataset, {})
    assert view is not None
    return view


def _gallery(view: DatasetView) -> Gallery:
    panel: Panel = view.panels["volumes"]
    assert isinstance(panel, Gallery)
    return panel


def _page(view: DatasetView, name: str, offset: int = 0, count: int = 100, **chosen: str) -> TablePage:
    panel = view.panels[name]
    assert isinstance(panel, Table)
    return panel.page(offset, count, chosen)


@pytest.mark.slow
def test_each_volume_comes_once_with_its_bytes_and_label(dataset: Dataset, volumes: Volumes, labels: Labels) -> None:
    gallery = _gallery(_view(dataset))
    items = [item for at in range(0, 60, 7) for item in gallery.pick(at, 7, 3, {}).items]
    assert sorted(item.id for item in items) == sorted(volumes)
    for item in items:
        assert (gallery.volume(item.row) == volumes[item.id]).all()
        assert (item.label or None) == (None if labels[item.id] is None else f"{labels[item.id]:g}")


@pytest.mark.slow
def test_where_nobody_says_how_far_apart_voxels_are_it_is_not_made_up(dataset: Dataset) -> None:
    assert _gallery(_view(dataset)).spacing(0) is None


@pytest.mark.slow
def test_the_order_is_the_seeds(dataset: Dataset) -> None:
    def ids(seed: int, **chosen: str) -> list[str]:
        return [item.id for item in _gallery(_view(dataset)).pick(0, 40, seed, chosen).items]

    assert ids(1) == ids(1) != ids(2)
    assert ids(1, order="stored") == ids(2, order="stored")


def test_by_label(dataset: Dataset, labels: Labels) -> None:
    gallery = _gallery(_view(dataset))
    choice = next(c for c in gallery.choices() if c.name == "label")
    for option in choice.options[1:]:
        wanted = sorted(i for i, label in labels.items() if label is not None and f"{label:g}" == option.value)
        picked = gallery.pick(0, 40, 1, {"label": option.value})
        assert sorted(item.id for item in picked.items) == wanted
        assert option.text.endswith(f"({len(wanted)})")


def test_the_rows_are_all_there_a_page_at_a_time(dataset: Dataset, volumes: Volumes) -> None:
    view = _view(dataset)
    pages = [_page(view, "rows", at, 9) for at in range(0, 40, 9)]
    rows = [row for page in pages for row in page.rows]
    assert sorted(str(row.cells[0]) for row in rows) == sorted(volumes)
    assert {page.total for page in pages} == {40}
    row = rows[17]
    assert row.volume is not None
    assert (_gallery(view).volume(row.volume) == volumes[str(row.cells[0])]).all()


@pytest.mark.slow
def test_charts_count_every_label_and_every_voxel(dataset: Dataset, volumes: Volumes, labels: Labels) -> None:
    charts = _view(dataset).panels["values"].charts({})  # type: ignore[attr-defined]
    counts = Counter(label for label in labels.values() if label is not None)
    assert sum(charts[0].series["volumes"]) == sum(counts.values())
    voxels = sum(volume.size for volume in volumes.values())
    assert sum(sum(chart.series["voxels"]) for chart in charts[1:]) == voxels


def test_a_channel_of_a_fill_value_has_a_picture_and_a_chart(tmp_path: Path) -> None:
    filled = some_volumes(4, shape=(4, 4, 4, 2))
    for volume in filled.values():
        volume[..., 1] = 9.96921e36  # what NetCDF writes where nothing is
    view = _view(make_files(tmp_path, filled, labels_for(filled)))
    labels, ordinary, filling = view.panels["values"].charts({})  # type: ignore[attr-defined]
    assert [chart.title for chart in (labels, ordinary, filling)] == ["Labels", "Channel 0", "Channel 1"]
    assert max(filling.series["voxels"]) == 4 * 64
    scale = GalleryScales(_gallery(view)).of(1)
    assert thumbnail(_gallery(view).volume(0), 1, 16, scale).startswith(b"\x89PNG")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
@example([0.3, 0.1 + 0.2])
@example([-1.7e308, 1.7e308])
@example([1e17, 1e17 + 16 * 45])
@example([0.0, 5e-324])
def test_every_finite_value_is_counted_in_a_histogram(values: list[float]) -> None:
    counts, edges = histogram(np.array(values))
    assert (int(counts.sum()), len(counts)) == (len(values), len(edges) - 1)
    assert np.isfinite(edges).all()
    assert (np.diff(edges / 4) > 0).all()


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_a_selection_shows_its_rows_alone(
    tmp_path: Path, volumes: Volumes, labels: Labels, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.viewing.volumes._RARE", 0.02)
    selection = Selection(salt="s", low=0.0, high=share)
    dataset = make_delta(tmp_path, volumes, labels).select(selection)
    wanted = sorted(volume for volume in volumes if selection.holds(volume))
    view = _view(dataset)
    assert sorted(item.id for item in _gallery(view).pick(0, 100, 1, {}).items) == wanted
    assert sorted(str(row.cells[0]) for row in _page(view, "rows").rows) == wanted
    others = _gallery(view).pick(0, 100, 1, {"split": "others"})
    assert sorted(item.id for item in others.items) == sorted(volumes.keys() - set(wanted))
    assert [choice.name for choice in _gallery(view).choices()][:2] == ["order", "split"]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_the_first_thumbnail_reads_few_rows(
    tmp_path: Path, volumes: Volumes, labels: Labels, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    group = volume_rows.TableRows._read_group

    def counted(self: volume_rows.TableRows, key: tuple[int, int]) -> Any:
        read.append(key)
        return group(self, key)

    monkeypatch.setattr(volume_rows.TableRows, "_read_group", counted)
    monkeypatch.setattr(volume_rows.TableRows, "_columns", lambda *_: pytest.fail("all rows were read"))
    gallery = _gallery(_view(KINDS[kind](tmp_path, volumes, labels)))
    picked = gallery.pick(0, 1, 1, {})
    gallery.volume(picked.items[0].row)
    gallery.sample(16)
    assert len(read) == 1


def test_of_very_many_files_the_classes_are_offered_without_opening_them(
    tmp_path: Path, volumes: Volumes, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.viewing.volumes._COUNTED_FILES", 4)
    parts = make_parquet(tmp_path, volumes, labels)
    spec = spec_for(volumes).model_copy(update={"classes": ("cat", "dog", "hen")})
    named = parts.model_copy(update={"spec": spec})

    def offered(view: DatasetView) -> dict[str, str]:
        choice = next(choice for choice in _gallery(view).choices() if choice.name == "label")
        return {option.value: option.text for option in choice.options}

    with monkeypatch.context() as patch:
        patch.setattr(volume_rows.TableRows, "_columns", lambda *_: pytest.fail("all files were opened"))
        view = _view(named)
        assert offered(view) == {"": "Any", "0": "cat", "1": "dog", "2": "hen"}
    # What was read for another reason is counted.
    dogs = [item.id for item in _gallery(view).pick(0, 40, 1, {"label": "1"}).items]
    assert sorted(dogs) == sorted(volume for volume, label in labels.items() if label == 1)
    assert offered(view)["1"] == f"dog ({len(dogs)})"


@pytest.mark.slow
def test_a_scale_is_found_from_volumes_at_equal_distances(dataset: Dataset, volumes: Volumes) -> None:
    gallery = _gallery(_view(dataset))
    found = gallery.sample(4)
    stored = [item.row for item in gallery.pick(0, 40, 0, {"order": "stored"}).items]
    assert stored == list(range(40))
    for volume, row in zip(found, (0, 10, 20, 30), strict=True):
        assert (volume == gallery.volume(row)).all()


@pytest.mark.slow
def test_a_split_has_the_scale_of_its_table(tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
    table = make_delta(tmp_path, volumes, labels)
    split = table.select(Selection(salt="s", low=0.0, high=0.1))
    scales = [GalleryScales(_gallery(_view(each))).of(0) for each in (table, split)]
    assert scales[0] == scales[1]


def test_volumes_that_cannot_be_read_have_no_part_in_the_scale(tmp_path: Path) -> None:
    files = make_files(tmp_path, volumes := some_volumes(8), labels_for(volumes))
    next(Path(files.uri).rglob("*.npy")).write_bytes(b"no volume")
    assert len(_gallery(_view(files)).sample(8)) == 7


class TestVeryManyFiles:
    """Here of more than three files two are a sample."""

    @pytest.fixture(params=["delta", "parquet"])
    def many(
        self, request: pytest.FixtureRequest, tmp_path: Path, volumes: Volumes, labels: Labels,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Dataset:  # fmt: skip
        monkeypatch.setattr("nodes.viewing.volumes._MOST_FILES", 3)
        monkeypatch.setattr("nodes.viewing.volumes._SAMPLED_FILES", 2)
        return KINDS[request.param](tmp_path, volumes, labels)

    def test_a_sample_is_shown_and_named_as_one(self, many: Dataset, volumes: Volumes) -> None:
        view = _view(many)
        assert view.note.startswith("a sample: 2 of 5 files")
        items = _gallery(view).pick(0, 100, 0, {}).items
        assert len(items) == _page(view, "rows").total < len(volumes)
        for item in items:
            assert (_gallery(view).volume(item.row) == volumes[item.id]).all()
        said = info_of(many, view).facts
        assert (said["volumes"], said["note"]) == (40, view.note)
        assert _page(view, "rows").note == view.note
        assert not any("(" in option.text for choice in _gallery(view).choices() for option in choice.options)

    def test_no_other_file_is_opened(self, many: Dataset) -> None:
        view = _view(many)
        shown = {str(row.cells[-1]) for row in _page(view, "rows").rows}
        for path in Path(many.uri).rglob("*.parquet"):
            if path.name not in shown:
                path.unlink()
        again = _view(many)
        again.panels["values"].charts({})  # type: ignore[attr-defined]
        assert len(_gallery(again).choices()) > 1

    def test_a_log_that_cannot_be_sampled_is_opened_whole(
        self, tmp_path: Path, volumes: Volumes, labels: Labels, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = make_delta(tmp_path, volumes, labels)

        def refused(*_: object) -> TableVersion:
            raise DataError("a kind of checkpoint that it does not know")

        monkeypatch.setattr("nodes.viewing.volumes._MOST_FILES", 3)
        monkeypatch.setattr("nodes.viewing.volumes.sample_table", refused)
        view = _view(table)
        assert (view.note, len(_gallery(view).pick(0, 100, 0, {}).items)) == ("", 40)

    def test_few_files_are_no_sample(self, dataset: Dataset) -> None:
        assert _view(dataset).note == ""


class TestDamage:
    @pytest.mark.slow
    @pytest.mark.parametrize("row", [-1, 40, 10**12])
    def test_no_such_row(self, dataset: Dataset, row: int) -> None:
        with pytest.raises(DataError, match="no volume"):
            _gallery(_view(dataset)).volume(row)

    def test_a_flipped_bit_is_reported_with_the_volumes_name(self, tmp_path: Path) -> None:
        hostile = tmp_path / "source"
        for number in range(4):
            hostile.mkdir(exist_ok=True)
            np.save(hostile / f"{number}.npy", np.full((4, 4, 4, 2), number, np.float32))
        made = convert(hostile, tmp_path / "out")
        part = next(Path(made.uri).glob("*.parquet"))
        data = bytearray(part.read_bytes())
        at = data.index(np.full(16, 2, np.float32).tobytes())
        data[at] ^= 1
        part.write_bytes(data)
        gallery = _gallery(_view(made))
        with pytest.raises(DataError, match=r"2\.npy is damaged"):
            gallery.volume(2)
        gallery.volume(1)

    def test_a_file_that_is_gone(self, dataset: Dataset) -> None:
        view = _view(dataset)
        for path in Path(dataset.uri).rglob("*"):
            if path.suffix in (".parquet", ".npy"):
                path.unlink()
        with pytest.raises(DataError, match="gone"):
            _gallery(view).volume(0)

    def test_a_folder_that_never_had_a_listing(self, tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
        files = make_files(tmp_path, volumes, labels)
        Path(files.manifest).unlink()
        with pytest.raises(DataError, match="is gone"):
            open_view(files, {})


def test_what_was_left_out_is_listed_with_reasons(tmp_path: Path) -> None:
    _, refused, _ = hostile_folder(tmp_path / "hostile")
    made = convert(tmp_path / "hostile", tmp_path / "out", max_bad_files=1000)
    view = _view(made)
    page = _page(view, "quarantine", 0, 1000)
    assert {str(row.cells[0]): row.cells[1] for row in page.rows} == refused
    choice = view.panels["quarantine"].choices()[0]
    reason = choice.options[1].value
    some = _page(view, "quarantine", 0, 1000, reason=reason)
    assert {row.cells[1] for row in some.rows} == {reason}
    assert some.total == sum(r == reason for r in refused.values())


class TestVersions:
    def test_each_version_says_what_it_did_and_opens(self, tmp_path: Path, volumes: Volumes, labels: Labels) -> None:
        from deltalake import DeltaTable

        first = make_delta(tmp_path, volumes, labels)
        newest = compact(first, volumes)
        page = _page(_view(newest), "versions")
        assert [row.cells[1] for row in page.rows] == ["OPTIMIZE", "SET TBLPROPERTIES", "CONVERT"]
        assert [row.cells[3:5] for row in page.rows] == [(40, 1), (40, 5), (40, 5)]
        older = page.rows[1].opens
        assert isinstance(older, VolumeDelta)
        assert (older.version, older.files, older.count) == (1, 5, 40)
        assert len(_gallery(_view(older)).pick(0, 100, 0, {}).items) == 40
        assert page.rows[0].opens is None
        assert page.total == DeltaTable(newest.uri).version() + 1

    def test_a_split_opens_the_same_part_of_an_older_version(
        self, tmp_path: Path, volumes: Volumes, labels: Labels
    ) -> None:
        newest = compact(make_delta(tmp_path, volumes, labels), volumes)
        split = newest.select(Selection(salt="s", low=0.0, high=0.5), selected=19)
        older = _page(_view(split), "versions").rows[1].opens
        assert isinstance(older, VolumeDelta)
        assert (older.version, older.count, older.selections, older.selected) == (1, 40, split.selections, None)

        def held(dataset: Dataset) -> set[str]:
            return {item.id for item in _gallery(_view(dataset)).pick(0, 100, 0, {}).items}

        assert held(older) == held(split)

    def test_an_older_version_without_the_column_of_a_split_says_so(
        self, tmp_path: Path, volumes: Volumes, labels: Labels
    ) -> None:
        table = make_delta(tmp_path, volumes, labels)
        split = table.select(Selection(salt="s", low=0.0, high=0.5, by=("patient",)))
        with pytest.raises(DataError, match="no column patient"):
            _gallery(_view(split)).pick(0, 100, 0, {})

    def test_sizes_lead_from_the_version_that_is_known_to_newer_ones(
        self, tmp_path: Path, volumes: Volumes, labels: Labels
    ) -> None:
        first = make_delta(tmp_path, volumes, labels)
        compact(first, volumes)
        assert [row.cells[4] for row in _page(_view(first), "versions").rows] == [1, 5, 5]

    def test_a_commit_too_large_to_read_leaves_sizes_unknown(
        self, tmp_path: Path, volumes: Volumes, labels: Labels, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        newest = compact(make_delta(tmp_path, volumes, labels), volumes)
        monkeypatch.setattr("nodes.viewing.table_versions._LARGEST_COMMIT", 10)
        assert [row.cells[3] for row in _page(_view(newest), "versions").rows] == [40, None, None]


@pytest.mark.slow
def test_a_view_is_json(dataset: Dataset) -> None:
    gallery = _gallery(_view(dataset))
    assert json.loads(gallery.pick(0, 3, 0, {}).model_dump_json())["items"]


@pytest.mark.parametrize("different", [2, 40, 41, 60, 61, 100, 256, 1000])
@pytest.mark.parametrize("least", [0, -1024])
def test_whole_numbers_that_are_equally_frequent_make_no_comb(different: int, least: int) -> None:
    values = np.repeat(np.arange(least, least + different, dtype=np.float64), 3)
    counts, edges = histogram(values)
    assert len(counts) <= 40
    assert len(set(counts[:-1].tolist())) == 1
    assert 0 < counts[-1] <= counts[0]
    assert counts.sum() == len(values)
    assert np.allclose(np.diff(edges), np.diff(edges)[0])


def test_of_many_classes_the_chart_says_what_its_numbers_are(tmp_path: Path) -> None:
    many = some_volumes(50, (2, 2, 2))
    files = make_files(tmp_path, many, {name: float(at) for at, name in enumerate(many)})
    view = _view(files)
    assert view.panels["values"].charts({})[0].x_title == "value"  # type: ignore[attr-defined]
    (tmp_path / "files" / "labels.csv").write_text("file,label\n" + "".join(f"{n},c{n}\n" for n in many))
    assert _view(files).panels["values"].charts({})[0].x_title == "number of the class"  # type: ignore[attr-defined]


def test_a_damaged_file_does_not_hide_the_values_of_the_others(tmp_path: Path) -> None:
    some = some_volumes(6)
    files = make_files(tmp_path, some, labels_for(some))
    paths = sorted(Path(files.uri).rglob("*.npy"))
    paths[0].write_bytes(b"no volume")
    labels, values = _view(files).panels["values"].charts({})  # type: ignore[attr-defined]
    assert (labels.title, values.note) == ("Labels", "1 volume could not be read")
    assert sum(values.series["voxels"]) == 5 * next(iter(some.values())).size
    for path in paths:
        path.write_bytes(b"no volume")
    with pytest.raises(DataError, match=r"does not start like a \.npy file"):
        _view(files).panels["values"].charts({})  # type: ignore[attr-defined]


def test_where_none_can_be_read_not_all_are_tried(tmp_path: Path) -> None:
    """Each may take long, as of a store without a connection."""
    some = some_volumes(30, (2, 2, 2))
    files = make_files(tmp_path, some, labels_for(some))
    rows, tried = rows_of(files), list[int]()

    def lost(number: int) -> NoReturn:
        tried.append(number)
        raise DataError("no connection", hint="Connect.")

    rows.volume = lost  # type: ignore[method-assign]
    with pytest.raises(DataError, match="no connection"):
        Values(rows).charts({})
    assert len(tried) == 8


def test_where_channels_are_too_many_to_be_drawn_the_charts_say_so(tmp_path: Path) -> None:
    wide = some_volumes(3, (2, 2, 2, 40))
    _, *channels = _view(make_files(tmp_path, wide, labels_for(wide))).panels["values"].charts({})  # type: ignore[attr-defined]
    assert [chart.note for chart in channels] == 32 * ["the first 32 of 40 channels"]
