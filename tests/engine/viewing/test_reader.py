"""Questions about datasets and their answers: a dataset type of somebody else's, and what can go wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.declare.dataset_type import Dataset
from engine.declare.datasets import Report
from engine.declare.view import (
    Chart,
    ChartPanel,
    DatasetView,
    Document,
    Gallery,
    GalleryItem,
    Picked,
    Table,
    TableColumn,
    TablePage,
    TableRow,
)
from engine.errors import DataError
from engine.processes.messages import Answer
from engine.viewing.info import has_view
from engine.viewing.kept_volumes import KeptVolumes, OpenVolume
from engine.viewing.reader import PART_BYTES, OpenViews, Question


class _Cubes(Gallery):
    title, shape, dtype = "Cubes", (3, 3, 3), "uint8"

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        rows = range(offset, min(offset + count, 5))
        return Picked(items=tuple(GalleryItem(row=r, id=f"{seed} {chosen.get('kind')} {r}") for r in rows), total=5)

    def volume(self, row: int) -> np.ndarray[Any, Any]:
        if row >= 5:
            raise DataError(f"there is no cube {row}", hint="Take another.")
        return np.full(self.shape, row, np.uint8)

    def spacing(self, row: int) -> tuple[float, float, float] | None:
        return (1, 1, 2.5)


class _Large(Gallery):
    """A volume of two parts and a little, of values about zero."""

    title, shape, dtype = "Large", (PART_BYTES + 3, 1, 1), "int16"
    values = np.random.default_rng(0).integers(-100, 100, shape, np.int16)
    opened: list[int] = []

    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        return Picked(items=(self.item(0),), total=1)

    def volume(self, row: int) -> np.ndarray[Any, Any]:
        self.opened.append(row)
        return self.values


class _Depths(Table):
    title = "Depths"

    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        row = TableRow(cells=("a", 1.5), opens=Report(uri="/r.html"))
        return TablePage(columns=(TableColumn(title="trace"),), rows=(row,), offset=offset, total=1)


class _Curve(ChartPanel):
    title = "Curve"

    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        raise RuntimeError("a fault of somebody's type")


class Surface(Dataset):
    """A dataset type that brings its own pictures."""

    def open_view(self, made_from: Mapping[str, Dataset]) -> DatasetView:
        return _SurfaceView(Path(self.uri), made_from)


class _SurfaceView(DatasetView):
    closed: list[str] = []

    def __init__(self, path: Path, made_from: Mapping[str, Dataset]) -> None:
        self._name = path.name
        self.panels = {
            "cubes": _Cubes(), "large": _Large(), "depths": _Depths(), "curve": _Curve(),
            "page": Document("Page", path),
            **dict.fromkeys(made_from, _Cubes()),
        }  # fmt: skip

    def close(self) -> None:
        self.closed.append(self._name)


class Plain(Dataset):
    """A dataset type without pictures."""


@pytest.fixture
def views() -> OpenViews:
    return OpenViews(lambda dataset, made_from: None)


def _ask(views: OpenViews, panel: str, what: str, dataset: Dataset | None = None, **query: str) -> Answer:
    dataset = dataset or Surface(uri="/there")
    named = {name.replace("_", "-"): value for name, value in query.items()}
    return views.answer(Question(n=7, dataset=dataset, made_from={}, panel=panel, what=what, query=named))


def _said(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_somebodys_type_says_what_there_is_to_see(views: OpenViews) -> None:
    said = _said(_ask(views, "", "info"))
    assert [(p["name"], p["kind"]) for p in said["panels"]] == [
        ("cubes", "gallery"), ("large", "gallery"), ("depths", "table"), ("curve", "charts"), ("page", "document"),
    ]  # fmt: skip
    assert said["kind"] == "Surface"
    assert has_view(Surface(uri="/x"))
    assert not has_view(Plain(uri="/x"))


def test_what_it_was_made_from_reaches_the_view(views: OpenViews) -> None:
    question = Question(
        n=1, dataset=Surface(uri="/there"), made_from={"raw": Plain(uri="/raw")}, panel="raw", what="content", query={}
    )
    assert views.answer(Question.model_validate_json(question.model_dump_json())).status == 200


def test_a_gallery_gives_items_thumbnails_and_volumes(views: OpenViews) -> None:
    picked = _said(_ask(views, "cubes", "content", offset="3", count="9", seed="4", choose_kind="x"))
    assert [item["id"] for item in picked["items"]] == ["4 x 3", "4 x 4"]
    assert _ask(views, "cubes", "thumbnail", row="2", map="viridis").headers["Content-Type"] == "image/png"
    volume = _ask(views, "cubes", "volume", row="2")
    assert volume.body[352:] == bytes([2] * 27)
    assert volume.headers["X-Voxelflow-Shape"] == "3,3,3"
    voxels = _ask(views, "cubes", "voxels", row="2")
    assert (voxels.body, voxels.headers["X-Voxelflow-Size"]) == (bytes([2] * 27), "3,3,3,1")
    assert voxels.headers["X-Voxelflow-Spacing"] == "1,1,2.5"


def test_thumbnails_have_the_colours_that_suit_all_volumes_until_some_are_chosen(views: OpenViews) -> None:
    def picture(row: str, **query: str) -> Image.Image:
        return Image.open(io.BytesIO(_ask(views, "cubes", "thumbnail", row=row, size="3", **query).body)).convert(
            "RGBA"
        )

    darkest, brightest = (picture(row).getpixel((0, 2)) for row in "04")
    assert (darkest, brightest) == ((0, 0, 0, 255), (255, 255, 255, 255))
    assert picture("4", map="auto").tobytes() == picture("4").tobytes()
    assert picture("4", map="seismic").getpixel((0, 2)) == (128, 0, 0, 255)


def test_a_large_volume_comes_reduced(views: OpenViews) -> None:
    answer = _ask(views, "cubes", "volume", row="2", limit="9")
    assert len(answer.body) - 352 <= 9
    assert answer.headers["X-Voxelflow-Steps"] != "1,1,1"


def test_a_volume_comes_in_parts_and_is_opened_once(views: OpenViews) -> None:
    _Large.opened.clear()
    first = _ask(views, "large", "voxels", row="0")
    size = int(first.headers["X-Voxelflow-Bytes"])
    assert (size, len(first.body)) == (2 * PART_BYTES + 6, PART_BYTES)
    rest = [
        _ask(views, "large", "voxels", row="0", start=str(start), stop=str(start + PART_BYTES)).body
        for start in range(PART_BYTES, size, PART_BYTES)
    ]
    assert b"".join([first.body, *rest]) == _Large.values.tobytes()
    assert _Large.opened == [0]
    # All of it has been sent, so it is not kept.
    _ask(views, "large", "voxels", row="0")
    # A coarse one and a part of the whole are of the same volume.
    coarse = _ask(views, "large", "voxels", row="0", limit="1000")
    assert len(coarse.body) <= 1000
    assert _Large.opened == [0, 0]
    assert _ask(views, "large", "voxels", row="0", start=str(size)).body == b""
    assert _ask(views, "large", "voxels", row="0", start="5", stop="3").body == b""


def test_volumes_are_kept_while_the_cache_holds_them_and_somebody_asks() -> None:
    kept, opened = KeptVolumes(), list[str]()

    def get(name: str, kept: KeptVolumes = kept) -> OpenVolume:
        def open_it() -> OpenVolume:
            opened.append(name)
            # Takes no memory: nobody writes to it.
            return OpenVolume(np.zeros((300 << 20, 1, 1), np.uint8), None)

        return kept.get(name, open_it)

    assert get("a") is get("a")
    get("b")
    get("a")
    assert opened == ["a", "b", "a"]
    kept.drop("a")
    get("a")
    assert opened == ["a", "b", "a", "a"]
    impatient = KeptVolumes(kept_s=-1)
    assert get("c", impatient) is not get("c", impatient)


def test_one_map_of_colours_is_chosen_for_all_volumes(views: OpenViews) -> None:
    same = [_ask(views, "cubes", "thumbnail", row="2", map=name).body for name in ("auto", "grey", "seismic")]
    assert same[0] == same[1] != same[2]
    both = [_ask(views, "large", "thumbnail", row="0", map=name).body for name in ("auto", "grey", "seismic")]
    assert both[0] == both[2] != both[1]


def test_a_document_is_the_file(views: OpenViews, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>ü")
    answer = _ask(views, "page", "file", Surface(uri=str(page)))
    assert answer.body.decode() == "<p>ü"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("panel", "what", "query"),
    [
        ("none", "content", {}),
        ("../cubes", "content", {}),
        ("cubes", "file", {}),
        ("page", "volume", {}),
        ("page", "content", {}),
        ("cubes", "thumbnail", {"map": "../../etc"}),
        ("cubes", "nothing", {}),
    ],
)
def test_there_is_nothing_at_a_wrong_address(views: OpenViews, panel: str, what: str, query: dict[str, str]) -> None:
    assert _ask(views, panel, what, **query).status == 404


@pytest.mark.parametrize("row", ["-1", "x", "", "9" * 30, "1e3", "²"])
def test_a_wrong_number_is_refused(views: OpenViews, row: str) -> None:
    answer = _ask(views, "cubes", "volume", row=row)
    assert (answer.status, "whole number" in _said(answer)["message"]) == (422, True)


def test_errors_are_shown_with_what_to_do(views: OpenViews) -> None:
    answer = _ask(views, "cubes", "volume", row="9")
    assert (answer.status, _said(answer)) == (422, {"message": "There is no cube 9", "hint": "Take another."})
    assert "a fault of somebody's type" in _said(_ask(views, "curve", "content"))["message"]
    assert "nothing to look at in a Plain" in _said(_ask(views, "", "info", Plain(uri="/p")))["message"]
    assert "/gone.html" in _said(_ask(views, "page", "file", Surface(uri="/gone.html")))["message"]


def test_the_latest_datasets_stay_open_and_the_others_are_closed(views: OpenViews) -> None:
    _SurfaceView.closed.clear()
    for number in range(12):
        _ask(views, "", "info", Surface(uri=f"/{number}"))
    assert _SurfaceView.closed == ["0", "1", "2", "3"]


def test_an_answer_crosses_as_one_line() -> None:
    answer = Answer(n=1, status=200, headers={"a": "b"}, body=bytes(range(256)))
    assert Answer.model_validate_json(answer.model_dump_json()) == answer
    assert "\n" not in answer.model_dump_json()
