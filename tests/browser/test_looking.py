"""Looking at data: pictures on the cards, the gallery, tables, and all that is written beside them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from building import box, pipeline
from canvas_page import box as box_of
from canvas_page import eventually, seed
from page_looks import findings
from playwright.sync_api import FloatRect, Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows
from volume_viewer import (
    SHAPE,
    coloured,
    expected,
    fact,
    loaded,
    opened,
    plane_across,
    shades,
    value_at_crosshair,
    write_volumes,
)

SHARED_STUDIO = True


def test_a_folder_is_seen_before_any_run_and_its_volumes_in_three_planes(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    # The card has three volumes of the folder; what has no data yet has none.
    pictures = canvas.card("folder").locator(".card-pictures img")
    loaded(pictures)
    expect(pictures).to_have_count(3)
    expect(canvas.card("convert").locator(".card-pictures")).to_have_count(0)
    canvas.card("folder").evaluate("card => { card.kept = true }")
    # All of them, and those of one class.
    canvas.select("folder")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    expect(thumbs).to_have_count(13)
    canvas.dialog.get_by_label("Label").select_option("1")
    expect(thumbs).to_have_count(6)
    assert findings(page) == []
    # One of them.
    loaded(thumbs.locator("img"))
    thumbs.first.click()
    scene = opened(canvas)
    voxel, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected(voxel, 0), rel=1e-3)
    assert (fact(canvas, "Shape"), fact(canvas, "Type")) == ("12 x 10 x 8 x 3", "float64")
    assert shades(scene) > 20
    canvas.dialog.get_by_label("Channel").fill("2")
    eventually(
        lambda: value_at_crosshair(canvas)[1] == pytest.approx(expected(value_at_crosshair(canvas)[0], 2), rel=1e-3)
    )
    canvas.dialog.get_by_label("Colours").select_option("viridis")
    eventually(lambda: coloured(scene))
    plane_across(canvas, "Z").click(position={"x": 3, "y": 3})
    eventually(lambda: value_at_crosshair(canvas)[0] == [0, SHAPE[1] - 1, voxel[2]])
    before = canvas.dialog.locator(".volume-name").inner_text()
    canvas.keys("PageDown")
    expect(canvas.dialog.locator(".volume-name")).not_to_have_text(before)
    # Back at all of them, those that were chosen are still the ones that are shown.
    canvas.dialog.get_by_role("button", name="All volumes").click()
    expect(canvas.dialog.get_by_label("Label")).to_have_value("1")
    expect(thumbs).to_have_count(6)
    canvas.keys("Escape")
    expect(canvas.dialog).to_have_count(0)
    # The canvas has not been drawn anew meanwhile.
    assert canvas.card("folder").evaluate("card => card.kept") is True


def test_transformed_volumes_are_seen_before_any_run(page: Page, studio: StudioServer, volumes_document: str) -> None:
    """The card says what is done and shows what comes of it, and a step that is changed changes both."""
    nodes = pipeline(
        box("folder", "VolumeFolder", folder=str(studio.home / "volumes")),
        box("change", "TransformVolumes", size=[8, 8, 8], channels=[0], normalise="z-score"),
        box("convert", "NumpyToParquet", max_bad_files=3),
        wires="folder.out>change.volumes change.out>convert.files",
        name="changed",
    )
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    card = canvas.card("change")
    expect(card).to_contain_text("channel 0, crop 8x8x8, z-score")
    pictures = card.locator(".card-pictures img")
    loaded(pictures)
    canvas.select("change")
    expect(canvas.field("Size")).to_be_visible()
    canvas.field("Normalise").select_option("min-max")
    expect(card).to_contain_text("min-max")
    assert findings(page) == []
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    loaded(thumbs.locator("img"))
    thumbs.nth(1).click()
    opened(canvas)
    assert (fact(canvas, "Shape"), fact(canvas, "Type")) == ("8 x 8 x 8 x 1", "float64")
    assert 0 <= value_at_crosshair(canvas)[1] <= 1


def test_a_large_volume_is_cut_and_its_patches_are_shown(page: Page, studio: StudioServer) -> None:
    folder = studio.home / "cubes"
    folder.mkdir()
    x, y, z = np.meshgrid(np.arange(24), np.arange(20), np.arange(16), indexing="ij")
    np.save(folder / "north.npy", (x + 100 * y + 10_000 * z).astype(np.float32))
    nodes = pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("cut", "CutVolumes", size=[8, 8, 8]),
        wires="folder.out>cut.files",
        name="cubes",
    )
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    canvas.set("cut", "Size", "8, 10, 8")
    canvas.run()
    canvas.expect_run("Done")
    expect(canvas.card("cut")).to_contain_text("12 volumes")
    canvas.select("cut")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    expect(thumbs).to_have_count(12)
    loaded(thumbs.locator("img"))
    thumbs.nth(1).click()
    opened(canvas)
    # A patch is named after its first voxel.
    named = canvas.dialog.locator(".volume-name")
    expect(named).to_have_text(re.compile(r"^north\.npy/x\d{5}-y\d{5}-z\d{5}$"))
    first = [int(number) for number in re.findall(r"\d{5}", named.inner_text())]
    assert fact(canvas, "Shape") == "8 x 10 x 8 x 1"
    voxel, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected([a + b for a, b in zip(first, voxel, strict=True)], 0), rel=1e-3)


def overlap(one: FloatRect, other: FloatRect) -> bool:
    return all(
        one[side] < other[side] + other[length] and other[side] < one[side] + one[length]
        for side, length in (("x", "width"), ("y", "height"))
    )


def test_a_table_is_seen_after_a_run_with_its_versions_and_what_was_left_out(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    canvas.run()
    canvas.expect_run("Done")
    loaded(canvas.card("table").locator(".card-pictures img"))
    # A run that has trained nothing says what table it made, and covers no card.
    result = page.get_by_role("complementary", name="Result of the run")
    expect(result).to_have_attribute("data-shown", "true")
    expect(result.locator("li").first).to_have_text("Volumes12")
    expect(result.locator(".run-summary-name")).to_have_text(["Volumes", "Files", "Size"])
    expect(result).to_contain_text("ParquetToDelta")
    for card in canvas.cards.all():
        assert not overlap(box_of(result), box_of(card))
    result.get_by_role("button", name="Open table").click()
    expect(canvas.dialog.locator(".thumb")).to_have_count(12)
    canvas.keys("Escape")
    result.get_by_role("button", name="Close").click()
    canvas.select("table")
    canvas.frame_keys("d")
    canvas.dialog.get_by_role("tab", name="Versions").click()
    rows = canvas.dialog.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("this one")
    canvas.dialog.get_by_role("tab", name="Values").click()
    expect(canvas.dialog.get_by_role("img", name="Labels: volumes")).to_be_visible()
    expect(canvas.dialog.locator("figure")).to_have_count(4)
    canvas.dialog.get_by_role("tab", name="Rows").click()
    expect(rows).to_have_count(13)
    assert findings(page) == []
    canvas.dialog.get_by_role("button", name="class 1/v05.npy").click()
    expect(canvas.dialog.locator(".volume-name")).to_have_text("class 1/v05.npy")
    voxel, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected(voxel, 0) + 0.05, rel=1e-3)
    canvas.keys("Escape")
    # From the wire: what travels on it, and what did not come along.
    canvas.wire("convert.out", "table.parquet").click()
    canvas.inspector.get_by_role("button", name="Look at data").click()
    canvas.dialog.get_by_role("tab", name="Quarantine").click()
    expect(rows.nth(1)).to_contain_text("class 0/bad.npy")
    expect(rows.nth(1)).to_contain_text("not-npy")


def test_predictions_their_model_and_the_table_as_it_was_before(page: Page, studio: StudioServer) -> None:
    studio.install_probes("judged_nodes")
    folder = studio.home / "judged"
    write_volumes(folder)
    (folder / "class 0" / "bad.npy").unlink()
    nodes = pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("judge", "Judge"),
        wires="folder.out>convert.files convert.out>table.parquet table.out>judge.data",
        name="judged",
    )
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    canvas.run()
    canvas.expect_run("Done")
    # What the model is surest of and wrong; then what it is least sure of, by label and by score.
    canvas.select("judge")
    canvas.frame_keys("d")
    canvas.dialog.get_by_role("button", name="predictions").click()
    thumbs = canvas.dialog.locator(".thumb")
    expect(thumbs).to_have_count(6)
    expect(thumbs.first).to_contain_text("says 1 (75%), is 0")
    loaded(thumbs.locator("img"))
    canvas.dialog.get_by_label("Show").select_option("unsure")
    expect(thumbs).to_have_count(12)
    expect(thumbs.first).to_contain_text("says 1 (54%), is 0")
    canvas.dialog.get_by_label("Label").select_option("1")
    expect(thumbs).to_have_count(6)
    canvas.dialog.get_by_label("Score").select_option("0.9")
    expect(thumbs).to_have_count(3)
    expect(thumbs.first).to_contain_text("says 1 (91%)")
    assert findings(page) == []
    thumbs.first.click()
    opened(canvas)
    expect(canvas.dialog.locator(".volume-name")).to_have_text("class 1/v07.npy")
    voxel, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected(voxel, 0) + 0.07, rel=1e-3)
    canvas.keys("Escape")
    # The model: how it learned, what it confuses, its layers, and the volumes as it gets them.
    canvas.frame_keys("d")
    tab = canvas.dialog.get_by_role("tab")
    expect(tab).to_have_text(["Curves", "Confusion", "ROC", "Layers", "What the network sees"])
    expect(canvas.dialog.locator("figure").filter(has_text="Loss").locator("polyline")).to_have_count(2)
    tab.get_by_text("Confusion").click()
    expect(canvas.dialog.locator(".matrix td")).to_have_text(["0", "6", "0", "6"])
    tab.get_by_text("ROC").click()
    expect(canvas.dialog.locator(".chart-legend")).to_contain_text("chance")
    tab.get_by_text("Layers").click()
    expect(canvas.dialog.get_by_role("row").nth(1)).to_contain_text(re.compile("conv.*filters 4.*324"))
    assert findings(page) == []
    tab.get_by_text("What the network sees").click()
    expect(thumbs).to_have_count(12)
    loaded(thumbs.locator("img"))
    canvas.keys("Escape")
    # A volume more: the table has another version, and the one before can still be looked at.
    np.save(folder / "class 1" / "v13.npy", np.full(SHAPE, 13.0))
    canvas.run()
    canvas.expect_run("Done")
    canvas.select("table")
    canvas.frame_keys("d")
    expect(thumbs).to_have_count(13)
    tab.get_by_text("Versions").click()
    expect(canvas.dialog.get_by_role("row").nth(1)).to_contain_text("2 (this one)")
    canvas.dialog.get_by_role("button", name="1", exact=True).click()
    expect(thumbs).to_have_count(12)
    expect(canvas.dialog).to_have_accessible_name(re.compile("version 1$"))
    canvas.dialog.get_by_role("button", name="Back").click()
    expect(thumbs).to_have_count(13)


def test_what_cannot_be_read_is_reported_with_what_to_do(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    page.route(re.compile("/thumbnail.*map=grey"), lambda route: route.fulfill(body="no picture"))
    canvas.select("folder")
    canvas.frame_keys("d")
    # A picture that is missing in some colours is shown in others.
    good = canvas.dialog.get_by_title("class 0/v00.npy")
    loaded(good.locator("img"))
    canvas.dialog.get_by_label("Colours").select_option("grey")
    expect(good).to_contain_text("Cannot be read")
    canvas.dialog.get_by_label("Colours").select_option("viridis")
    loaded(good.locator("img"))
    bad = canvas.dialog.get_by_title("class 0/bad.npy")
    expect(bad).to_contain_text("Cannot be read")
    bad.click()
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("does not start like a .npy file")


def test_the_route_knows_no_paths(page: Page, studio: StudioServer, volumes_document: str) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    loaded(canvas.card("folder").locator(".card-pictures img"))
    address = canvas.card("folder").locator("img").first.evaluate("image => image.src")
    key = address.split("/voxelflow/view/")[1].split("/")[0]
    for path in (f"{key}/..%2f..%2fetc/passwd", f"{key}/volumes/..%2f..%2fpasswd", f"{key}x", "etc/passwd/file"):
        assert page.request.get(f"/voxelflow/view/{path}").status in (400, 404)
    elsewhere = page.request.get(address, headers={"Origin": "https://elsewhere.example"})
    assert elsewhere.status == 403
    part = page.request.get(
        address.replace("thumbnail", "volume").split("&")[0], headers={"Range": "bytes=0-351", "Accept-Encoding": ""}
    )
    assert (part.status, len(part.body())) == (206, 352)
    assert json.loads(page.request.get(f"/voxelflow/view/{key}").body())["kind"] == "VolumeFiles"
