"""Looking at data: pictures on the cards, the gallery, a volume in three planes, and all that is said beside them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import Troubles
from building import box, pipeline
from canvas_page import eventually, seed
from page_looks import findings
from PIL import Image
from playwright.sync_api import Locator, Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows

SHARED_STUDIO = True
_SHAPE = (12, 10, 8, 3)


def _write(folder: Path) -> None:
    """Twelve volumes in two classes; the value says where it lies: x + 100 y + 10,000 z, and a million a channel."""
    x, y, z, c = np.meshgrid(*(np.arange(n) for n in _SHAPE), indexing="ij")
    for number in range(12):
        path = folder / f"class {number % 2}" / f"v{number:02d}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, (x + 100 * y + 10_000 * z + 1_000_000 * c + number / 100).astype(np.float64))
    (folder / "class 0" / "bad.npy").write_bytes(b"no volume")


@pytest.fixture(scope="module")
def document(_module_studio: StudioServer) -> str:
    folder = _module_studio.home / "volumes"
    _write(folder)
    nodes = pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet", max_bad_files=3),
        box("table", "ParquetToDelta"),
        wires="folder.out>convert.files convert.out>table.parquet",
        name="seen",
    )
    return seed(_module_studio, in_rows(nodes))


@pytest.fixture(autouse=True)
def _bad_file(troubles: Troubles) -> None:
    """Its thumbnail cannot be made, and browsers report that."""
    troubles.allow(r"status of 422 .*/volumes/(thumbnail|voxels)")


@pytest.fixture
def plain_page(page: Page) -> Page:
    """A page whose browser has no WebGL 2."""
    page.add_init_script("OffscreenCanvas.prototype.getContext = () => null;")
    return page


def _fact(canvas: StudioPage, name: str) -> str:
    return canvas.dialog.locator(f"[data-fact={name}]").inner_text()


def _value(canvas: StudioPage) -> tuple[list[int], float]:
    """The voxel under the crosshair, and the value that is shown for it."""
    voxel = [int(part) for part in _fact(canvas, "Voxel").split(", ")]
    return voxel, float(_fact(canvas, "Value").replace(",", ""))


def _expected(voxel: list[int], channel: int) -> float:
    x, y, z = voxel
    return x + 100 * y + 10_000 * z + 1_000_000 * channel


def _plane(canvas: StudioPage, axis: str) -> Locator:
    return canvas.dialog.get_by_role("slider", name=f"Plane across {axis}")


def _opened(canvas: StudioPage) -> Locator:
    """Wait until all of the volume is there; the part of the page that its pictures are in."""
    expect(canvas.dialog.locator(".volume-body[data-whole]:not([data-waiting])")).to_be_visible()
    expect(_plane(canvas, "Z")).to_be_visible()
    return canvas.dialog.locator(".volume-stage")


def _shades(picture: Locator) -> int:
    """How many different colours a part of the page has."""
    image = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
    return len(image.getcolors(1 << 24) or [])


def _loaded(images: Locator) -> None:
    """Wait until the first picture is there."""
    expect(images.first).to_be_visible()
    eventually(lambda: images.first.evaluate("image => image.complete && image.naturalWidth > 0"))


def test_a_folder_is_seen_before_any_run_and_its_volumes_in_three_planes(
    page: Page, studio: StudioServer, document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    # The card has three volumes of the folder; what has no data yet has none.
    pictures = canvas.card("folder").locator(".card-pictures img")
    _loaded(pictures)
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
    _loaded(thumbs.locator("img"))
    thumbs.first.click()
    scene = _opened(canvas)
    voxel, value = _value(canvas)
    assert value == pytest.approx(_expected(voxel, 0), rel=1e-3)
    assert (_fact(canvas, "Shape"), _fact(canvas, "Type")) == ("12 x 10 x 8 x 3", "float64")
    assert _shades(scene) > 20
    canvas.dialog.get_by_label("Channel").fill("2")
    eventually(lambda: _value(canvas)[1] == pytest.approx(_expected(_value(canvas)[0], 2), rel=1e-3))
    canvas.dialog.get_by_label("Colours").select_option("viridis")
    eventually(lambda: _coloured(scene))
    _plane(canvas, "Z").click(position={"x": 3, "y": 3})
    eventually(lambda: _value(canvas)[0] == [0, _SHAPE[1] - 1, voxel[2]])
    before = canvas.dialog.locator(".volume-name").inner_text()
    canvas.keys("PageDown")
    expect(canvas.dialog.locator(".volume-name")).not_to_have_text(before)
    canvas.keys("Escape")
    expect(canvas.dialog).to_have_count(0)
    # The canvas has not been drawn anew meanwhile.
    assert canvas.card("folder").evaluate("card => card.kept") is True


def test_transformed_volumes_are_seen_before_any_run(page: Page, studio: StudioServer, document: str) -> None:
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
    _loaded(pictures)
    canvas.select("change")
    expect(canvas.field("Size")).to_be_visible()
    canvas.field("Normalise").select_option("min-max")
    expect(card).to_contain_text("min-max")
    assert findings(page) == []
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    _loaded(thumbs.locator("img"))
    thumbs.nth(1).click()
    _opened(canvas)
    assert (_fact(canvas, "Shape"), _fact(canvas, "Type")) == ("8 x 8 x 8 x 1", "float64")
    assert 0 <= _value(canvas)[1] <= 1


def test_a_large_volume_is_cut_and_its_patches_looked_at(page: Page, studio: StudioServer) -> None:
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
    _loaded(thumbs.locator("img"))
    thumbs.nth(1).click()
    _opened(canvas)
    # A patch is named after its first voxel.
    named = canvas.dialog.locator(".volume-name")
    expect(named).to_have_text(re.compile(r"^north\.npy/x\d{5}-y\d{5}-z\d{5}$"))
    first = [int(number) for number in re.findall(r"\d{5}", named.inner_text())]
    assert _fact(canvas, "Shape") == "8 x 10 x 8 x 1"
    voxel, value = _value(canvas)
    assert value == pytest.approx(_expected([a + b for a, b in zip(first, voxel, strict=True)], 0), rel=1e-3)


def _coloured(picture: Locator) -> bool:
    """Whether it has more than greys and the crosshair's blue."""
    image = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
    return any(green > 150 and blue < 100 for _, (_, green, blue) in image.getcolors(1 << 24) or [])  # type: ignore[misc]


def test_a_table_is_seen_after_a_run_with_its_versions_and_what_was_left_out(
    page: Page, studio: StudioServer, document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    canvas.run()
    canvas.expect_run("Done")
    _loaded(canvas.card("table").locator(".card-pictures img"))
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
    voxel, value = _value(canvas)
    assert value == pytest.approx(_expected(voxel, 0) + 0.05, rel=1e-3)
    canvas.keys("Escape")
    # From the wire: what travels on it, and what did not come along.
    canvas.wire("convert.out", "table.parquet").click()
    canvas.inspector.get_by_role("button", name="Look at data").click()
    canvas.dialog.get_by_role("tab", name="Quarantine").click()
    expect(rows.nth(1)).to_contain_text("class 0/bad.npy")
    expect(rows.nth(1)).to_contain_text("not-npy")


def _open_first(canvas: StudioPage, node: str = "folder") -> Locator:
    """Open the first volume that there is to see of the node."""
    canvas.select(node)
    canvas.frame_keys("d")
    canvas.dialog.get_by_label("Order").select_option("stored")
    thumbs = canvas.dialog.locator(".thumb")
    _loaded(thumbs.locator("img"))
    thumbs.nth(1 if node == "folder" else 0).click()
    return _opened(canvas)


def test_the_keyboard_goes_through_the_planes_and_changes_nothing_else(
    page: Page, studio: StudioServer, document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    _open_first(canvas)
    before, name = _value(canvas)[0], canvas.dialog.locator(".volume-name").inner_text()
    for axis, letter in enumerate("XYZ"):
        plane = _plane(canvas, letter)
        plane.focus()
        expect(plane).to_have_attribute("aria-valuenow", str(before[axis]))
        for key, by in (("ArrowUp", 1), ("ArrowRight", 2), ("ArrowDown", 1), ("ArrowLeft", 0), ("ArrowLeft", -1)):
            canvas.keys(key)
            voxel = [at + by * (n == axis) for n, at in enumerate(before)]
            eventually(lambda voxel=voxel: _value(canvas)[0] == voxel)  # type: ignore[misc]
        canvas.keys("End")
        expect(plane).to_have_attribute("aria-valuenow", str(_SHAPE[axis] - 1))
        expect(plane).to_have_attribute("aria-valuetext", re.compile(r"value [\d,]+(\.\d+)? at \d+, \d+, \d+"))
        canvas.keys("Home")
        eventually(lambda axis=axis: _value(canvas)[0][axis] == 0)  # type: ignore[misc]
        for _ in range(before[axis]):
            canvas.keys("ArrowUp")
        eventually(lambda: _value(canvas)[0] == before)
    assert _fact(canvas, "Shape") == "12 x 10 x 8 x 3"
    expect(canvas.dialog.locator(".volume-name")).to_have_text(name)
    assert canvas.dialog.get_by_label("Channel").input_value() == "0"
    canvas.keys("PageDown")
    expect(canvas.dialog.locator(".volume-name")).not_to_have_text(name)
    assert findings(page) == []


def test_planes_are_zoomed_their_window_set_and_what_is_under_the_pointer_said(
    page: Page, studio: StudioServer, document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    _open_first(canvas)
    plane = _plane(canvas, "Z")
    box = plane.bounding_box()
    assert box is not None
    crosshair = _value(canvas)[0]
    # What is under the pointer, without a click.
    width, height = box["width"] / _SHAPE[0], box["height"] / _SHAPE[1]
    page.mouse.move(box["x"] + 2.5 * width, box["y"] + 1.5 * height)
    under = canvas.dialog.locator("[data-under]")
    expect(under).to_contain_text(f"2, {_SHAPE[1] - 2}, {crosshair[2]}")
    assert _value(canvas)[0] == crosshair
    value = float(under.locator("strong").inner_text().replace(",", ""))
    assert value == pytest.approx(_expected([2, _SHAPE[1] - 2, crosshair[2]], 0), abs=0.2)
    # The wheel, over the plane.
    page.mouse.wheel(0, 100)
    eventually(lambda: _value(canvas)[0][2] == crosshair[2] + 1)
    # The right button sets the window, numbers do so exactly, and there is a way back.
    low, high = canvas.dialog.get_by_label("Lowest", exact=True), canvas.dialog.get_by_label("Highest", exact=True)
    usual = low.input_value(), high.input_value()
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 2.5 * width + 60, box["y"] + 1.5 * height)
    page.mouse.up(button="right")
    eventually(lambda: float(high.input_value()) > float(usual[1]) > float(usual[0]) > float(low.input_value()))
    low.fill("-12.5")
    low.press("Enter")
    high.fill("no number")
    high.press("Enter")
    assert low.input_value() == "-12.5"
    assert float(high.input_value()) > float(usual[1])
    canvas.dialog.get_by_role("button", name="Reset window").click()
    eventually(lambda: (low.input_value(), high.input_value()) == usual)
    # Zoomed, a voxel is larger, and what is pointed at is still what is there.
    for _ in range(3):
        canvas.dialog.get_by_role("button", name="Zoom in").click()
    drawn = plane.locator("canvas").bounding_box()
    assert drawn is not None
    assert drawn["width"] == pytest.approx(box["width"] * 1.5**3, rel=0.01)
    plane.click(position={"x": box["width"] - 2, "y": 2})
    at, value = _value(canvas)
    assert value == pytest.approx(_expected(at, 0), abs=0.2)
    assert at[:2] != [_SHAPE[0] - 1, _SHAPE[1] - 1]
    canvas.dialog.get_by_role("button", name="Fit").click()
    plane.click(position={"x": box["width"] - 2, "y": 2})
    eventually(lambda: _value(canvas)[0][:2] == [_SHAPE[0] - 1, _SHAPE[1] - 1])


def test_in_3d_it_is_drawn_turned_cut_open_and_pointed_at(page: Page, studio: StudioServer, document: str) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    _open_first(canvas)
    canvas.dialog.get_by_label("Colours").select_option("viridis")
    canvas.dialog.get_by_label("Layout").select_option("all")
    picture = canvas.dialog.get_by_role("img", name="Volume in 3-D")
    expect(canvas.dialog.locator(".rendering canvas[data-drawn=fine]")).to_be_visible()
    assert _shades(picture) > 200
    first = picture.screenshot()
    picture.focus()
    canvas.keys("ArrowLeft")
    eventually(lambda: picture.screenshot() != first)
    # A click moves the crosshair to what one sees.
    before = _value(canvas)[0]
    box = picture.bounding_box()
    assert box is not None
    picture.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    eventually(lambda: _value(canvas)[0] != before)
    canvas.dialog.get_by_label("Cut open at the crosshair").check()
    turned = picture.screenshot()
    canvas.dialog.get_by_label("Density").fill("1")
    eventually(lambda: picture.screenshot() != turned)
    assert findings(page) == []


_CONTEXTS = """() => {
    window.lost = 0;
    const made = OffscreenCanvas.prototype.getContext;
    window.contexts = 0;
    OffscreenCanvas.prototype.getContext = function (kind, ...rest) {
        if (kind.startsWith('webgl')) {
            window.contexts += 1;
            this.addEventListener('webglcontextlost', () => { window.lost += 1; });
        }
        return made.call(this, kind, ...rest);
    };
}"""


def test_viewers_that_come_and_go_share_one_graphics_context(page: Page, studio: StudioServer, document: str) -> None:
    """A browser gives a page 16, and takes the oldest away for the next."""
    canvas = StudioPage(page, studio)
    canvas.open(document)
    page.evaluate(_CONTEXTS)
    drawn = canvas.dialog.locator(".rendering canvas[data-drawn]")
    for _ in range(10):
        _open_first(canvas)
        canvas.dialog.get_by_label("Layout").select_option("all")
        expect(drawn).to_be_visible()
        name = canvas.dialog.locator(".volume-name").inner_text()
        canvas.keys("PageDown")
        expect(canvas.dialog.locator(".volume-name")).not_to_have_text(name)
        _opened(canvas)
        expect(drawn).to_be_visible()
        canvas.keys("Escape")
        expect(canvas.dialog).to_have_count(0)
    assert page.evaluate("[window.contexts, window.lost]") == [1, 0]


def test_a_large_volume_comes_whole_and_is_seen_before(page: Page, studio: StudioServer) -> None:
    """40 MB of numbers that each say where they lie; the last part waits until its preview was looked at."""
    folder = studio.home / "large"
    folder.mkdir()
    shape = (160, 256, 256)
    x, y, z = np.ogrid[: shape[0], : shape[1], : shape[2]]
    whole = (x + 200 * y + 60_000 * z).astype(np.float32)
    whole[:, 0, 0] = np.nan
    np.save(folder / "north.npy", whole)
    nodes = pipeline(box("folder", "VolumeFolder", folder=str(folder)), name="large")
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    sent: list[str] = []
    page.on("response", lambda response: sent.append(response.url) if "/voxels?" in response.url else None)
    canvas.select("folder")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    _loaded(thumbs.locator("img"))
    thumbs.first.click()
    _opened(canvas)
    assert len(sent) == 2, "the whole one, and a coarse one"
    expect(canvas.dialog.get_by_role("progressbar", name="Volume on its way")).to_have_count(0)
    assert "every" not in canvas.dialog.locator(".volume-side").inner_text()
    plane = _plane(canvas, "Z")
    box_ = plane.bounding_box()
    assert box_ is not None
    for right, up in ((0.1, 0.2), (0.77, 0.9), (0.995, 0.002)):
        plane.click(position={"x": right * box_["width"], "y": up * box_["height"]})
        voxel, value = _value(canvas)
        assert value == float(whole[tuple(voxel)])
    # A value that is none is said.
    plane.focus()
    canvas.keys("Home")
    plane.click(position={"x": 40, "y": box_["height"] - 0.5})
    eventually(lambda: _fact(canvas, "Value") == "NaN")
    # The file is whole, too, and comes in parts.
    address = canvas.dialog.get_by_role("link", name="NIfTI").evaluate("link => link.href")
    got = page.request.get(address)
    assert (got.headers["content-encoding"], len(got.body())) == ("identity", 352 + whole.nbytes)
    assert np.array_equal(np.frombuffer(got.body()[352:], "<f4"), whole.reshape(-1, order="F"), equal_nan=True)


def test_a_volume_on_its_way_is_seen_coarsely_with_how_much_of_it_is_here(
    page: Page, studio: StudioServer, document: str
) -> None:
    folder = studio.home / "slow"
    folder.mkdir()
    np.save(folder / "north.npy", np.arange(64 * 64 * 256, dtype=np.float32).reshape(64, 64, 256))
    nodes = pipeline(box("folder", "VolumeFolder", folder=str(folder)), name="slow")
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    # The body stops at a quarter until it is let go.
    page.evaluate(
        """() => {
        const ask = window.fetch;
        const open = new Promise((resolve) => { window.letGo = resolve; });
        window.fetch = async (url, ...rest) => {
            const response = await ask(url, ...rest);
            if (!/voxels.*limit=536870912/.test(url)) return response;
            let sent = 0;
            const slow = new TransformStream({
                async transform(part, out) {
                    const room = Math.max(0, 1048576 - sent);
                    if (room > 0) out.enqueue(part.subarray(0, room));
                    sent += part.length;
                    if (part.length <= room) return;
                    await open;
                    out.enqueue(part.subarray(room));
                },
            });
            return new Response(response.body.pipeThrough(slow), { headers: response.headers });
        };
    }"""
    )
    canvas.select("folder")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    _loaded(thumbs.locator("img"))
    thumbs.first.click()
    coming = canvas.dialog.get_by_role("progressbar", name="Volume on its way")
    expect(coming).to_be_visible()
    eventually(lambda: 0 < int(coming.get_attribute("aria-valuenow") or 0) < 30)
    assert _shades(_plane(canvas, "Z")) > 20
    expect(canvas.dialog.locator(".volume-side")).to_contain_text(re.compile(r"\d+% of 4\.2 MB is here"))
    page.evaluate("window.letGo()")
    _opened(canvas)
    expect(coming).to_have_count(0)


def test_without_webgl_the_planes_are_drawn_and_3d_says_what_is_missing(
    plain_page: Page, studio: StudioServer, document: str
) -> None:
    canvas = StudioPage(plain_page, studio)
    canvas.open(document)
    pictures = canvas.card("folder").locator(".card-pictures button")
    expect(pictures).to_have_count(3)
    pictures.first.click()
    _opened(canvas)
    plane = _plane(canvas, "Z")
    assert _shades(plane) > 5
    across_z = plane.bounding_box()
    assert across_z is not None
    plane.click(position={"x": 2, "y": across_z["height"] - 2})
    eventually(lambda: _value(canvas)[0][:2] == [0, 0])
    plane.click(position={"x": across_z["width"] - 2, "y": 2})
    eventually(lambda: _value(canvas)[0][:2] == [11, 9])
    voxel, value = _value(canvas)
    assert value == pytest.approx(_expected(voxel, 0), rel=1e-3)
    canvas.dialog.get_by_label("Layout").select_option("all")
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("no WebGL 2")
    expect(plane).to_be_visible()


def test_what_cannot_be_read_is_said_with_what_to_do(page: Page, studio: StudioServer, document: str) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    canvas.select("folder")
    canvas.frame_keys("d")
    bad = canvas.dialog.get_by_title("class 0/bad.npy")
    expect(bad).to_contain_text("Cannot be read")
    bad.click()
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("does not start like a .npy file")


def test_the_route_knows_no_paths(page: Page, studio: StudioServer, document: str) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(document)
    _loaded(canvas.card("folder").locator(".card-pictures img"))
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
