"""The dialog that shows a volume, and a folder of volumes whose values say where they lie."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from building import box, pipeline
from canvas_page import eventually, seed
from PIL import Image
from playwright.sync_api import Locator, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows

SHAPE = (12, 10, 8, 3)
"""Of each volume."""


def write_volumes(folder: Path) -> None:
    """Twelve volumes in two classes; the value says where it lies: x + 100 y + 10,000 z, and a million a channel."""
    x, y, z, c = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    for number in range(12):
        path = folder / f"class {number % 2}" / f"v{number:02d}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, (x + 100 * y + 10_000 * z + 1_000_000 * c + number / 100).astype(np.float64))
    (folder / "class 0" / "bad.npy").write_bytes(b"no volume")


def seed_volumes(studio: StudioServer) -> str:
    """The document of a pipeline from a folder of such volumes to a table."""
    folder = studio.home / "volumes"
    write_volumes(folder)
    nodes = pipeline(
        box("folder", "VolumeFolder", folder=str(folder)),
        box("convert", "NumpyToParquet", max_bad_files=3),
        box("table", "ParquetToDelta"),
        wires="folder.out>convert.files convert.out>table.parquet",
        name="seen",
    )
    return seed(studio, in_rows(nodes))


def fact(canvas: StudioPage, name: str) -> str:
    return canvas.dialog.locator(f"[data-fact={name}]").inner_text()


def value_at_crosshair(canvas: StudioPage) -> tuple[list[int], float]:
    """The voxel under the crosshair, and the value that is shown for it."""
    voxel = [int(part) for part in fact(canvas, "Voxel").split(", ")]
    return voxel, float(fact(canvas, "Value").replace(",", ""))


def expected(voxel: list[int], channel: int) -> float:
    x, y, z = voxel
    return x + 100 * y + 10_000 * z + 1_000_000 * channel


def plane_across(canvas: StudioPage, axis: str) -> Locator:
    return canvas.dialog.get_by_role("slider", name=f"Plane across {axis}")


def opened(canvas: StudioPage) -> Locator:
    """Wait until all of the volume is there; the part of the page that its pictures are in."""
    expect(canvas.dialog.locator(".volume-body[data-whole]:not([data-waiting])")).to_be_visible()
    expect(plane_across(canvas, "Z")).to_be_visible()
    return canvas.dialog.locator(".volume-stage")


def shades(picture: Locator) -> int:
    """How many different colours a part of the page has."""
    image = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
    return len(image.getcolors(1 << 24) or [])


def coloured(picture: Locator) -> bool:
    """Whether it has more than greys and the crosshair's blue."""
    image = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
    return any(green > 150 and blue < 100 for _, (_, green, blue) in image.getcolors(1 << 24) or [])  # type: ignore[misc]


def loaded(images: Locator) -> None:
    """Wait until the first picture is there."""
    expect(images.first).to_be_visible()
    eventually(lambda: images.first.evaluate("image => image.complete && image.naturalWidth > 0"))


def open_first(canvas: StudioPage, node: str = "folder") -> Locator:
    """Open the first volume that there is to see of the node."""
    canvas.select(node)
    canvas.frame_keys("d")
    canvas.dialog.get_by_label("Order").select_option("stored")
    # Until they are there those of the random order stay, and can be opened.
    expect(canvas.dialog.locator(".thumbs:not([data-waiting])")).to_be_visible()
    thumbs = canvas.dialog.locator(".thumb")
    loaded(thumbs.locator("img"))
    thumbs.nth(1 if node == "folder" else 0).click()
    return opened(canvas)
