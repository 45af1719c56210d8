"""A volume in its dialog: three planes and 3-D, by keyboard and pointer, while it is on its way, and without WebGL."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser import SIZE
from building import box, pipeline
from canvas_page import eventually, seed
from page_looks import findings
from playwright.sync_api import Page, ViewportSize, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows
from volume_viewer import (
    SHAPE,
    expected,
    fact,
    loaded,
    open_first,
    opened,
    plane_across,
    shades,
    value_at_crosshair,
)

SHARED_STUDIO = True


@pytest.fixture
def plain_page(page: Page) -> Page:
    """A page whose browser has no WebGL 2."""
    page.add_init_script("OffscreenCanvas.prototype.getContext = () => null;")
    return page


def test_the_keyboard_goes_through_the_planes_and_changes_nothing_else(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    open_first(canvas)
    before, name = value_at_crosshair(canvas)[0], canvas.dialog.locator(".volume-name").inner_text()
    for axis, letter in enumerate("XYZ"):
        plane = plane_across(canvas, letter)
        plane.focus()
        expect(plane).to_have_attribute("aria-valuenow", str(before[axis]))
        for key, by in (("ArrowUp", 1), ("ArrowRight", 2), ("ArrowDown", 1), ("ArrowLeft", 0), ("ArrowLeft", -1)):
            canvas.keys(key)
            voxel = [at + by * (n == axis) for n, at in enumerate(before)]
            eventually(lambda voxel=voxel: value_at_crosshair(canvas)[0] == voxel)  # type: ignore[misc]
        canvas.keys("End")
        expect(plane).to_have_attribute("aria-valuenow", str(SHAPE[axis] - 1))
        expect(plane).to_have_attribute("aria-valuetext", re.compile(r"value [\d,]+(\.\d+)? at \d+, \d+, \d+"))
        canvas.keys("Home")
        eventually(lambda axis=axis: value_at_crosshair(canvas)[0][axis] == 0)  # type: ignore[misc]
        for _ in range(before[axis]):
            canvas.keys("ArrowUp")
        eventually(lambda: value_at_crosshair(canvas)[0] == before)
    assert fact(canvas, "Shape") == "12 x 10 x 8 x 3"
    expect(canvas.dialog.locator(".volume-name")).to_have_text(name)
    assert canvas.dialog.get_by_label("Channel").input_value() == "0"
    canvas.keys("PageDown")
    expect(canvas.dialog.locator(".volume-name")).not_to_have_text(name)
    assert findings(page) == []


def test_planes_are_zoomed_their_window_set_and_the_value_under_the_pointer_shown(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    open_first(canvas)
    plane = plane_across(canvas, "Z")
    box = plane.bounding_box()
    assert box is not None
    crosshair = value_at_crosshair(canvas)[0]
    # What is under the pointer, without a click.
    width, height = box["width"] / SHAPE[0], box["height"] / SHAPE[1]
    page.mouse.move(box["x"] + 2.5 * width, box["y"] + 1.5 * height)
    under = canvas.dialog.locator("[data-under]")
    expect(under).to_contain_text(f"2, {SHAPE[1] - 2}, {crosshair[2]}")
    assert value_at_crosshair(canvas)[0] == crosshair
    value = float(under.locator("strong").inner_text().replace(",", ""))
    assert value == pytest.approx(expected([2, SHAPE[1] - 2, crosshair[2]], 0), abs=0.2)
    # The wheel, over the plane.
    page.mouse.wheel(0, 100)
    eventually(lambda: value_at_crosshair(canvas)[0][2] == crosshair[2] + 1)
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
    at, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected(at, 0), abs=0.2)
    assert at[:2] != [SHAPE[0] - 1, SHAPE[1] - 1]
    canvas.dialog.get_by_role("button", name="Fit").click()
    plane.click(position={"x": box["width"] - 2, "y": 2})
    eventually(lambda: value_at_crosshair(canvas)[0][:2] == [SHAPE[0] - 1, SHAPE[1] - 1])


@pytest.mark.parametrize("size", [SIZE, {"width": 800, "height": 600}], ids=["usual", "small"])
def test_the_zoom_buttons_never_lie_over_a_plane_or_its_slider(
    page: Page, studio: StudioServer, volumes_document: str, size: ViewportSize
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    page.set_viewport_size(size)
    open_first(canvas)
    zoom_in = canvas.dialog.get_by_role("button", name="Zoom in")

    def covered() -> list[str]:
        found: list[str] = page.evaluate(
            """() => {
                let root = document;
                while (root.activeElement?.shadowRoot) root = root.activeElement.shadowRoot;
                const boxes = (query) => [...root.querySelectorAll(query)].map((e) => [e, e.getBoundingClientRect()]);
                const apart = (a, b) =>
                    a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
                const buttons = boxes('.volume-bar button');
                return boxes('.plane-frame, .plane-foot, .rendering').flatMap(([picture, box]) =>
                    buttons.filter(([, button]) => !apart(box, button)).map(() => picture.className));
            }"""
        )
        return found

    for layout in ("planes", "all", "x", "y", "z"):
        canvas.dialog.get_by_label("Layout").select_option(layout)
        expect(zoom_in).to_be_in_viewport(ratio=1)
        for plane in canvas.dialog.locator(".plane").all():
            expect(plane.get_by_role("slider").last).to_be_in_viewport(ratio=1)
        eventually(lambda: covered() == [], lambda: f"the buttons lie over {covered()}")
    canvas.dialog.get_by_label("Layout").select_option("rendering")
    expect(zoom_in).to_have_count(0)


def test_in_3d_it_is_drawn_turned_cut_open_and_pointed_at(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    open_first(canvas)
    canvas.dialog.get_by_label("Colours").select_option("viridis")
    canvas.dialog.get_by_label("Layout").select_option("all")
    picture = canvas.dialog.get_by_role("img", name="Volume in 3-D")
    expect(canvas.dialog.locator(".rendering canvas[data-drawn=fine]")).to_be_visible()
    assert shades(picture) > 200
    first = picture.screenshot()
    picture.focus()
    canvas.keys("ArrowLeft")
    eventually(lambda: picture.screenshot() != first)
    # A click moves the crosshair to what one sees.
    before = value_at_crosshair(canvas)[0]
    box = picture.bounding_box()
    assert box is not None
    picture.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    eventually(lambda: value_at_crosshair(canvas)[0] != before)
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


def test_viewers_that_come_and_go_share_one_graphics_context(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    """A browser gives a page 16, and takes the oldest away for the next: of six, none makes another than the first."""
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    page.evaluate(_CONTEXTS)
    drawn = canvas.dialog.locator(".rendering canvas[data-drawn]")
    for _ in range(3):
        open_first(canvas)
        canvas.dialog.get_by_label("Layout").select_option("all")
        expect(drawn).to_be_visible()
        name = canvas.dialog.locator(".volume-name").inner_text()
        canvas.keys("PageDown")
        expect(canvas.dialog.locator(".volume-name")).not_to_have_text(name)
        opened(canvas)
        expect(drawn).to_be_visible()
        canvas.keys("Escape")
        expect(canvas.dialog).to_have_count(0)
    assert page.evaluate("[window.contexts, window.lost]") == [1, 0]


@pytest.mark.parametrize(
    ("shape", "dtype", "requests"),
    [((30, 30, 10, 10), "float64", 1), ((160, 256, 128), "float32", 2), ((512, 512, 40, 1), "int16", 2)],
    ids=["ten channels", "20 parts of float32", "20 parts of int16"],
)
def test_a_volume_comes_whole_and_a_large_one_is_seen_before(
    page: Page, studio: StudioServer, shape: tuple[int, ...], dtype: str, requests: int
) -> None:
    """Of numbers that each say where they lie; the last part of a large one waits until its preview was looked at."""
    folder = studio.home / f"whole {dtype}"
    folder.mkdir()
    x, y, z, c = np.ogrid[: shape[0], : shape[1], : shape[2], : (*shape, 1)[3]]
    far = x + 200 * y + 60_000 * z + 1_000_000 * c
    whole = (far % 30_011 if dtype == "int16" else far).astype(dtype).reshape(shape)
    if dtype == "float32":
        whole[:, 0, 0] = np.nan
    np.save(folder / "north.npy", whole)
    nodes = pipeline(box("folder", "VolumeFolder", folder=str(folder)), name=f"whole {dtype}")
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, in_rows(nodes)))
    sent: list[str] = []
    page.on("response", lambda response: sent.append(response.url) if "/voxels?" in response.url else None)
    canvas.select("folder")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    loaded(thumbs.locator("img"))
    thumbs.first.click()
    opened(canvas)
    eventually(lambda: len(sent) >= requests)  # the coarse one may be the later one
    assert len(sent) == requests, "the whole one, and before a large one a coarse one"
    expect(canvas.dialog.get_by_role("progressbar", name="Volume on its way")).to_have_count(0)
    assert "every" not in canvas.dialog.locator(".volume-side").inner_text()
    assert (fact(canvas, "Shape"), fact(canvas, "Type")) == (" x ".join(map(str, shape)), dtype)
    four = (*shape, 1)[:4]
    channel = four[3] - 1
    if channel:
        canvas.dialog.get_by_label("Channel").fill(str(channel))
        eventually(lambda: value_at_crosshair(canvas)[1] == float(whole[(*value_at_crosshair(canvas)[0], channel)]))
    plane = plane_across(canvas, "Z")
    box_ = plane.bounding_box()
    assert box_ is not None
    for right, up in ((0.1, 0.2), (0.77, 0.9), (0.995, 0.002)):
        plane.click(position={"x": right * box_["width"], "y": up * box_["height"]})
        voxel, value = value_at_crosshair(canvas)
        assert value == float(whole.reshape(four)[(*voxel, channel)])
    # A value that is none is reported.
    if dtype == "float32":
        plane.focus()
        canvas.keys("Home")
        plane.click(position={"x": 40, "y": box_["height"] - 0.5})
        eventually(lambda: fact(canvas, "Value") == "NaN")
    # The file is whole, too, and comes in parts.
    address = canvas.dialog.get_by_role("link", name="NIfTI").evaluate("link => link.href")
    got = page.request.get(address)
    assert (got.headers["content-encoding"], len(got.body())) == ("identity", 352 + whole.nbytes)
    assert np.array_equal(np.frombuffer(got.body()[352:], whole.dtype), whole.reshape(-1, order="F"), equal_nan=True)


def test_a_volume_on_its_way_is_seen_coarsely_with_how_much_of_it_is_here(
    page: Page, studio: StudioServer, volumes_document: str
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
    loaded(thumbs.locator("img"))
    thumbs.first.click()
    coming = canvas.dialog.get_by_role("progressbar", name="Volume on its way")
    expect(coming).to_be_visible()
    eventually(lambda: 0 < int(coming.get_attribute("aria-valuenow") or 0) < 30)
    assert shades(plane_across(canvas, "Z")) > 20
    expect(canvas.dialog.locator(".volume-side")).to_contain_text(re.compile(r"\d+% of 4\.2 MB is here"))
    page.evaluate("window.letGo()")
    opened(canvas)
    expect(coming).to_have_count(0)


def test_without_webgl_the_planes_are_drawn_and_3d_says_what_is_missing(
    plain_page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(plain_page, studio)
    canvas.open(volumes_document)
    pictures = canvas.card("folder").locator(".card-pictures button")
    expect(pictures).to_have_count(3)
    pictures.first.click()
    opened(canvas)
    plane = plane_across(canvas, "Z")
    assert shades(plane) > 5
    across_z = plane.bounding_box()
    assert across_z is not None
    plane.click(position={"x": 2, "y": across_z["height"] - 2})
    eventually(lambda: value_at_crosshair(canvas)[0][:2] == [0, 0])
    plane.click(position={"x": across_z["width"] - 2, "y": 2})
    eventually(lambda: value_at_crosshair(canvas)[0][:2] == [11, 9])
    voxel, value = value_at_crosshair(canvas)
    assert value == pytest.approx(expected(voxel, 0), rel=1e-3)
    canvas.dialog.get_by_label("Layout").select_option("all")
    expect(canvas.dialog.get_by_role("alert")).to_contain_text("no WebGL 2")
    expect(plane).to_be_visible()
