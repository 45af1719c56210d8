"""Two pictures of a page differ where a person sees it, and not where two machines only draw differently."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pictures_alike import FEW, Difference, difference, report
from PIL import Image, ImageChops, ImageDraw, ImageFont

pytestmark = pytest.mark.slow
SIZE = (1280, 800)
_FINER = 4
"""Drawn larger and made smaller: edges are smooth, as a browser's."""
_DONE, _FAILED = ("#e4f1ea", "#1f8a53"), ("#f9e6e8", "#c8323f")


@cache
def a_page(
    *,
    card: tuple[int, int] = (400, 200),
    pill: tuple[str, str] = _DONE,
    icon: bool = True,
    styled: bool = True,
    edge: float = 700.0,
) -> Image.Image:
    """A page of the editor's size with one card on it: an icon, a title, a line and a state; and an edge beside it."""
    picture = Image.new("RGB", SIZE, "#f4f6f8")
    x, y = card
    body = Image.new("RGB", (220 * _FINER, 96 * _FINER), "#f4f6f8")
    pen = ImageDraw.Draw(body)
    pen.rounded_rectangle(_finer(0, 0, 219, 95), 8 * _FINER, fill="#ffffff", outline="#dfe3e8", width=_FINER)
    if icon:
        pen.ellipse(_finer(10, 10, 26, 26), outline="#7a3fae", width=2 * _FINER)
        pen.line(_finer(18, 12, 18, 24), fill="#7a3fae", width=2 * _FINER)
    pen.rounded_rectangle(_finer(10, 66, 66, 84), 9 * _FINER, fill=pill[0])
    picture.paste(body.resize((220, 96), Image.Resampling.LANCZOS), (x, y))
    write = ImageDraw.Draw(picture)
    fonts = [ImageFont.load_default(size) if styled else ImageFont.load_default_imagefont() for size in (13, 11)]
    write.text((x + 34, y + 10), "Train ResNet-18", fill="#1c2430", font=fonts[0])
    write.text((x + 34, y + 30), "TrainResNet3D, two inputs", fill="#68727f", font=fonts[1])
    write.text((x + 18, y + 68), "Done", fill=pill[1], font=fonts[1])
    line = Image.new("RGB", (SIZE[0] * _FINER, _FINER * 100), "#f4f6f8")
    ImageDraw.Draw(line).rectangle((edge * _FINER, 0, (edge + 1) * _FINER - 1, line.height), fill="#68727f")
    picture.paste(line.resize((SIZE[0], 100), Image.Resampling.BOX), (0, 650))
    return picture


def _finer(*places: float) -> tuple[float, ...]:
    return tuple(place * _FINER for place in places)


def _one_level_apart(picture: Image.Image) -> Image.Image:
    noise = np.random.default_rng(0).integers(-1, 2, (*SIZE[::-1], 3))
    return Image.fromarray((np.asarray(picture, np.int16) + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"card": (412, 200)},
        {"card": (400, 204)},
        {"pill": _FAILED},
        {"icon": False},
        {"styled": False},
    ],
    ids=["moved aside", "moved down", "another state", "no icon", "no font"],
)
def test_what_a_person_sees_is_a_difference(change: dict[str, object]) -> None:
    assert difference(a_page(), a_page(**change)).is_seen  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        lambda: a_page(),
        lambda: _one_level_apart(a_page()),
        lambda: a_page(edge=700.5),
        lambda: ImageChops.offset(a_page(), 1, 0),
        lambda: a_page().crop((0, 0, SIZE[0], SIZE[1] - 1)),
    ],
    ids=["the same", "one level", "one edge", "one pixel", "one row less"],
)
def test_what_machines_draw_differently_is_none(other: Callable[[], Image.Image]) -> None:
    found = difference(a_page(), other())
    assert not found.is_seen, found.share


def test_a_small_picture_may_have_an_edge_that_differs_and_no_more() -> None:
    blocks = np.zeros((4, 10), bool)
    blocks.flat[:FEW] = True
    assert not Difference(blocks).is_seen
    blocks.flat[FEW] = True
    assert Difference(blocks).is_seen
    assert Difference(blocks).share == (FEW + 1) / 40


def test_another_size_is_another_picture() -> None:
    page = a_page()
    assert difference(page, page.crop((0, 0, 1280, 790))).share == 1


@pytest.mark.slow
def test_the_report_names_the_picture_what_differs_where_to_look_and_how_to_accept_it(tmp_path: Path) -> None:
    golden = tmp_path / "editor.png"
    a_page().save(golden)
    now = a_page(icon=False)
    found = difference(a_page(), now)
    text = report("editor", golden, now, found, tmp_path, "UPDATE_GOLDEN=1 pytest here")
    assert text.startswith(f"editor does not look as before: {100 * found.share:.2f} % of it differs.")
    assert text.endswith("`UPDATE_GOLDEN=1 pytest here`")
    assert f"{tmp_path}/editor-new.png" in text
    assert f"{tmp_path}/editor-difference.png" in text
    with Image.open(tmp_path / "editor-new.png") as new:
        assert not difference(now, new).is_seen
    with Image.open(tmp_path / "editor-difference.png") as drawn:
        red = np.asarray(drawn, np.int16)
        rows, columns = np.nonzero(red[:, :, 0] - red[:, :, 1] > 80)
    # Only where the icon was.
    assert 400 <= columns.min() <= columns.max() < 440
    assert 200 <= rows.min() <= rows.max() < 240


@pytest.mark.slow
def test_the_report_says_another_size(tmp_path: Path) -> None:
    golden = tmp_path / "editor.png"
    a_page().save(golden)
    now = a_page().crop((0, 0, 1280, 700))
    text = report("editor", golden, now, difference(a_page(), now), tmp_path, "accept")
    assert "it was (1280, 800) and is (1280, 700) pixels" in text
