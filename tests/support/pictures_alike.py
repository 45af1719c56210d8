"""Whether two pictures of a page look alike, as far as a person sees.

Browsers draw letters and edges a little differently from machine to machine, so single pixels are not compared but the
mean colours of small blocks, in CIELAB, where equal distances look equally far apart; and a block may lie a pixel away.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

BLOCK = 8
"""Pixels of a block's side."""
FAR = 4.0
"""Delta E (1976) between two blocks' means from which they differ; 2.3 is what a person can just see of two areas."""
SHARE = 0.0003
"""Of a picture's blocks that may differ."""
FEW = 2
"""Blocks that may differ in a picture however small: an edge, and no thing."""
_WHITE = (0.95047, 1.0, 1.08883)
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_RED = (220, 30, 60)


@dataclass(frozen=True)
class Difference:
    """Which blocks of a picture differ from what was there before, by row and column."""

    blocks: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """The part of the blocks that differ, 0 to 1."""
        return float(self.blocks.mean())

    @property
    def is_seen(self) -> bool:
        """Whether the pictures look different."""
        return int(self.blocks.sum()) > max(FEW, SHARE * self.blocks.size)

    def drawn(self, now: Image.Image) -> Image.Image:
        """The new picture, pale, with the blocks that differ in red."""
        picture = np.asarray(now.convert("L"), np.float64)[:, :, None].repeat(3, axis=2) * 0.3 + 255 * 0.7
        large = self.blocks.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)
        mask = np.zeros(picture.shape[:2], bool)
        height, width = (min(pair) for pair in zip(mask.shape, large.shape, strict=True))
        mask[:height, :width] = large[:height, :width]
        picture[mask] = picture[mask] * 0.4 + np.array(_RED) * 0.6
        return Image.fromarray(picture.astype(np.uint8))


def difference(before: Image.Image, now: Image.Image) -> Difference:
    """Compare two pictures. In another size all differs, unless by the pixel to which a browser rounds it."""
    if any(abs(a - b) > 1 for a, b in zip(before.size, now.size, strict=True)):
        return Difference(np.ones([-(-side // BLOCK) for side in now.size[::-1]], bool))
    width, height = (min(pair) for pair in zip(before.size, now.size, strict=True))
    wanted, seen = _means(_lab(before.crop((0, 0, width, height)))), _lab(now.crop((0, 0, width, height)))
    far = np.linalg.norm(_means(seen) - wanted, axis=2) > FAR
    if not far.any():
        return Difference(far)
    # Only where blocks differ is it looked at whether they lie a pixel away.
    differing = np.argwhere(far)
    (top, left), (bottom, right) = differing.min(axis=0), differing.max(axis=0) + 1
    y0, y1, x0, x1 = BLOCK * top, min(height, BLOCK * bottom), BLOCK * left, min(width, BLOCK * right)
    around = np.pad(seen, ((1, 1), (1, 1), (0, 0)), mode="edge")
    for y in range(3):
        for x in range(3):
            shifted = _means(around[y0 + y : y1 + y, x0 + x : x1 + x])
            far[top:bottom, left:right] &= np.linalg.norm(shifted - wanted[top:bottom, left:right], axis=2) > FAR
    return Difference(far)


def report(name: str, golden: Path, now: Image.Image, found: Difference, folder: Path, accept: str) -> str:
    """Write the new picture and where it differs into `folder`; gives the message of the failed test.

    `accept` is the command that makes the new picture the committed one.
    """
    new, where = folder / f"{name}-new.png", folder / f"{name}-difference.png"
    now.save(new)
    found.drawn(now).save(where)
    with Image.open(golden) as before:
        size = before.size
    what = f"{100 * found.share:.2f} % of it differs" if size == now.size else f"it was {size} and is {now.size} pixels"
    return (
        f"{name} does not look as before: {what}.\n  before:     {golden}\n  now:        {new}\n  difference: {where}\n"
        f"Look at them. If it shall look so from now on: `{accept}`"
    )


def _lab(picture: Image.Image) -> NDArray[np.float32]:
    """Lightness, green to red, blue to yellow, of each pixel."""
    values = np.asarray(picture.convert("RGB"))
    xyz = _linear()[values] @ (np.array(_TO_XYZ).T / np.array(_WHITE)).astype(np.float32)
    x, y, z = np.moveaxis(np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116), 2, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=2)


def _linear() -> NDArray[np.float32]:
    """The light of each of the 256 levels of sRGB, 0 to 1."""
    level = np.arange(256) / 255
    light = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    return light.astype(np.float32)


def _means(lab: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean colour of each block; those at the right and below are filled up with the last pixels."""
    height, width = lab.shape[:2]
    whole = np.pad(lab, ((0, -height % BLOCK), (0, -width % BLOCK), (0, 0)), mode="edge")
    rows, columns = whole.shape[0] // BLOCK, whole.shape[1] // BLOCK
    means: NDArray[np.float64] = whole.reshape(rows, BLOCK, columns, BLOCK, 3).mean(axis=(1, 3), dtype=np.float64)
    return means
