"""The pictures of the start page: what each template takes, and what it makes of it.

The volumes are real: slices of what SyntheticVolumes and `pipelines.brain_scans` make, and of the MNI152 brain. Curves
and figures are those of the templates run on two cores: quickstart, volumes-to-predictions with `width=16` on 2,000 of
the patches that `pipelines.brain_volumes` makes, the run in examples/mri, and the experiment in README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nodes.synthetic import class_names
from nodes.synthetic.seismic import SeismicMaker
from pipelines.brain_scans import Scan, scans
from pipelines.brain_volumes import read_brain
from pipelines.seismic_survey import SHAPE as SURVEY
from pipelines.seismic_survey import make as make_survey

SIZE = (640, 280)
_FINER = 2
"""Drawn larger and made smaller: smooth lines."""
_GROUND, _QUIET, _TEXT = "#10141b", "#2b333f", "#c9d1dc"
_BLUE, _ORANGE, _GREEN, _RED = "#6ea2ff", "#f0a35e", "#57c08a", "#f2777f"
_QUICKSTART = ((0.589, 0.144, 0.029), (0.948, 0.535, 0.337))
_BRAIN = (
    (0.653, 0.464, 0.335, 0.276, 0.206, 0.137, 0.086, 0.074, 0.053, 0.043),
    (0.517, 0.491, 0.434, 0.431, 0.419, 0.474, 0.435, 0.451, 0.477, 0.504),
)
_CONFUSION = ((126, 24), (22, 123))
_FACIES = ((246, 3, 0), (20, 21, 0), (2, 0, 48))
_LESIONS = ((16, 0), (0, 8))
_BARS = (("files", 1.0), ("table", 0.38), ("petastorm", 0.43))

Box = tuple[float, float, float, float]


def draw_all(folder: Path) -> list[Path]:
    """Write all of them into `folder`; gives their files."""
    seismic, brain = _seismic(), _brain()
    survey = make_survey(SURVEY, 0)[0]
    heads = list(scans(12, 0))
    pictures = {
        "quickstart": _beside(seismic[:6], _curve(_QUICKSTART)),
        "volumes-to-resnet": _beside(_patches(brain, 6), _curve(_BRAIN)),
        "volumes-to-predictions": _beside(_patches(brain, 6, judged=True), _matrix(_CONFUSION)),
        "mri-classifier": _beside([_head(heads[i], framed=True) for i in (0, 2, 4, 6, 8, 10)], _matrix(_LESIONS)),
        "seismic-facies": _beside(_cut(survey), _matrix(_FACIES)),
        "cross-validation": _beside(_patches(brain, 6), _folds(5)),
        "whitepaper-experiment": _beside(_patches(brain, 6), _bars(_BARS)),
        "volumes-synthetic": _row(seismic, class_names(4)),
        "volumes-brain": _planes(brain),
        "volumes-scans": _row([_head(heads[i]) for i in (2, 4, 7, 10)], [_grid(heads[i]) for i in (2, 4, 7, 10)]),
        "volumes-survey": _grid_of_patches(survey),
        "volumes-own": _files(seismic[4:6] + _patches(brain, 2)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, picture in pictures.items():
        out.append(folder / f"{name}.webp")
        picture.resize(SIZE, Image.Resampling.LANCZOS).save(out[-1], quality=82, method=6)
    return out


# --- volumes ------------------------------------------------------------------------------------


def _seismic() -> list[Image.Image]:
    """Slices of synthetic volumes, the classes in turn; red for positive amplitudes, blue for negative ones."""
    maker = SeismicMaker((64, 64, 8, 1), "float32", 4, 0.15, 0)
    found: dict[int, list[Image.Image]] = {}
    for index in range(40):
        values, kind = maker.volume(index)
        plane = (values[:, :, 4, 0] / 2.2).clip(-1, 1)
        red, blue = plane.clip(0), (-plane).clip(0)
        colours = np.stack([1 - blue, 1 - np.maximum(red, blue) * 0.9, 1 - red], axis=-1)
        found.setdefault(kind, []).append(Image.fromarray((colours * 245).astype(np.uint8)))
    return [found[kind][turn] for turn in range(2) for kind in sorted(found)]


def _amplitudes(plane: Any) -> Image.Image:
    """A plane (X, Z) of a survey with depth downwards; red for positive amplitudes, blue for negative ones."""
    values = (plane.T / 2.6).clip(-1, 1)
    red, blue = values.clip(0), (-values).clip(0)
    colours = np.stack([1 - blue, 1 - np.maximum(red, blue) * 0.9, 1 - red], axis=-1)
    return Image.fromarray((colours * 245).astype(np.uint8))


def _cut(survey: Any) -> list[Image.Image]:
    """Six patches of a survey: layers, the channel and salt."""
    places = ((20, 30, 30), (96, 96, 34), (48, 118, 64), (150, 130, 20), (60, 60, 36), (140, 36, 62))
    out = []
    for x, y, z in places:
        patch = _amplitudes(survey[x : x + 32, y, z : z + 32])
        out.append(patch.resize((112 * _FINER, 112 * _FINER), Image.Resampling.BICUBIC))
    return out


def _grid_of_patches(survey: Any) -> Image.Image:
    """A plane of a survey with the patches that are cut from it."""
    out = _new()
    plane = _amplitudes(survey[:, 100, :]).resize((480 * _FINER, 240 * _FINER), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(plane)
    for x in range(0, plane.width, 80 * _FINER):
        for y in range(0, plane.height, 80 * _FINER):
            pen.rectangle((x, y, x + 80 * _FINER - 1, y + 80 * _FINER - 1), outline=_GROUND, width=2 * _FINER)
    out.paste(plane, (80 * _FINER, 20 * _FINER))
    return out


def _brain() -> Any:
    return read_brain()[0]


def _grey(plane: Any) -> Image.Image:
    return Image.fromarray((np.rot90(plane).clip(0, 1) * 235 + 12).astype(np.uint8)).convert("RGB")


def _patches(brain: Any, count: int, *, judged: bool = False) -> list[Image.Image]:
    """Squares of the brain; `judged` has a frame around each, one of them red."""
    x, y, z = brain.shape
    out = []
    for i in range(count):
        at = (int(x * (0.3 + 0.07 * i)), int(y * (0.68 - 0.08 * i)), z // 2 + 4 * (i % 3))
        # A window in which white and grey matter differ.
        patch = _grey((brain[at[0] - 15 : at[0] + 15, at[1] - 15 : at[1] + 15, at[2]] - 0.3) / 0.62)
        patch = patch.resize((120, 120), Image.Resampling.BICUBIC)
        if judged:
            colour = _RED if i == 4 else _GREEN
            ImageDraw.Draw(patch).rectangle((0, 0, 119, 119), outline=colour, width=5)
        out.append(patch)
    return out


def _head(scan: Scan, *, framed: bool = False) -> Image.Image:
    """A horizontal plane of a scan, through the lesion where there is one, in a square of 200 mm.

    `framed` has an orange frame around scans with a lesion.
    """
    lesion = scan.patient.lesion is not None
    level = np.unravel_index(scan.values.argmax(), scan.values.shape)[2] if lesion else scan.values.shape[2] // 2
    plane = _grey(scan.values[:, :, level] / np.percentile(scan.values, 99.5))
    width, height = (int(n * mm * 1.2) for n, mm in zip(scan.values.shape[:2], scan.spacing[:2], strict=True))
    plane = plane.resize((width, height), Image.Resampling.NEAREST)
    out = Image.new("RGB", (240, 240), "#0c0c0c")
    out.paste(plane, ((240 - width) // 2, (240 - height) // 2))
    if framed and lesion:
        ImageDraw.Draw(out).rectangle((0, 0, 239, 239), outline=_ORANGE, width=8)
    return out


def _grid(scan: Scan) -> str:
    return "x".join(map(str, scan.values.shape))


# --- pictures of them ----------------------------------------------------------------------------


def _new() -> Image.Image:
    return Image.new("RGB", (SIZE[0] * _FINER, SIZE[1] * _FINER), _GROUND)


def _font(size: float) -> Any:
    return ImageFont.load_default(size * _FINER)


def _beside(tiles: Sequence[Image.Image], result: Image.Image) -> Image.Image:
    """Volumes at the left, in two rows; at the right what became of them."""
    out = _new()
    side, gap = 112 * _FINER, 8 * _FINER
    left, top = 20 * _FINER, (SIZE[1] * _FINER - 2 * side - gap) // 2
    for i, tile in enumerate(tiles):
        place = (left + (i % 3) * (side + gap), top + (i // 3) * (side + gap))
        out.paste(tile.resize((side, side), Image.Resampling.BICUBIC), place)
    x = left + 3 * (side + gap) + 4 * _FINER
    middle = SIZE[1] * _FINER // 2
    arrow = [(x, middle - 9 * _FINER), (x + 11 * _FINER, middle), (x, middle + 9 * _FINER)]
    ImageDraw.Draw(out).line(arrow, fill=_TEXT, width=3 * _FINER, joint="curve")
    out.paste(result, (x + 26 * _FINER, (SIZE[1] * _FINER - result.height) // 2))
    return out


def _panel() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    out = Image.new("RGB", (204 * _FINER, 232 * _FINER), _GROUND)
    return out, ImageDraw.Draw(out)


def _curve(losses: Sequence[Sequence[float]]) -> Image.Image:
    """Training and validation loss by epoch."""
    out, pen = _panel()
    left, top, right, bottom = (n * _FINER for n in (14, 14, 192, 196))
    for step in range(4):
        y = top + (bottom - top) * step / 3
        pen.line((left, y, right, y), fill=_QUIET, width=_FINER)
    most = max(max(each) for each in losses) * 1.08
    for each, colour in zip(losses, (_BLUE, _ORANGE), strict=True):
        points = [
            (left + (right - left) * i / (len(each) - 1), bottom - (bottom - top) * value / most)
            for i, value in enumerate(each)
        ]
        pen.line(points, fill=colour, width=4 * _FINER, joint="curve")
        for x, y in points:
            r = 4.5 * _FINER
            pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    for x, word, colour in ((left, "loss", _BLUE), (left + 62 * _FINER, "validation loss", _ORANGE)):
        pen.text((x, bottom + 12 * _FINER), word, fill=colour, font=_font(14))
    return out


def _matrix(counts: Sequence[Sequence[int]]) -> Image.Image:
    """Confusion matrix: rows are the labels, columns what was predicted."""
    out, pen = _panel()
    gap = 6 * _FINER
    side = (178 * _FINER - gap * (len(counts) - 1)) // len(counts)
    most = max(max(row) for row in counts)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            x, y = 10 * _FINER + j * (side + gap), 14 * _FINER + i * (side + gap)
            share = count / most
            ground, full = (0x2B, 0x33, 0x3F), (0x2F, 0x6F, 0xDE)
            colour = tuple(round(a + (b - a) * share) for a, b in zip(ground, full, strict=True))
            pen.rounded_rectangle((x, y, x + side, y + side), 6 * _FINER, fill=colour)
            pen.text(
                (x + side / 2, y + side / 2), str(count), fill="#ffffff", font=_font(28 - 2 * len(counts)), anchor="mm"
            )
    pen.text((10 * _FINER, 206 * _FINER), "label by prediction", fill=_TEXT, font=_font(14))
    return out


def _bars(rows: Sequence[tuple[str, float]]) -> Image.Image:
    """Time of each way to feed the training, the longest as 1."""
    out, pen = _panel()
    for i, (name, value) in enumerate(rows):
        y = (10 + 192 // len(rows) * i) * _FINER
        pen.text((8 * _FINER, y), name, fill=_TEXT, font=_font(14))
        pen.rounded_rectangle(
            (8 * _FINER, y + 20 * _FINER, (8 + 150 * value) * _FINER, y + 36 * _FINER),
            4 * _FINER,
            fill=_ORANGE if value == 1 else _BLUE,
        )
        pen.text(((14 + 150 * value) * _FINER, y + 20 * _FINER), f"{value:g}", fill=_TEXT, font=_font(13))
    pen.text((8 * _FINER, 208 * _FINER), "time of an epoch", fill=_TEXT, font=_font(14))
    return out


def _folds(count: int) -> Image.Image:
    """Which part of the volumes each training is validated on."""
    out, pen = _panel()
    side, gap = 34, 4
    for row in range(count):
        for column in range(count):
            left, top = 8 + column * (side + gap), 12 + row * (side + gap)
            pen.rounded_rectangle(
                (left * _FINER, top * _FINER, (left + side) * _FINER, (top + side) * _FINER),
                5 * _FINER,
                fill=_ORANGE if row == column else _BLUE,
            )
    pen.text((8 * _FINER, 208 * _FINER), f"{count} trainings, validated in turn", fill=_TEXT, font=_font(14))
    return out


def _row(tiles: Sequence[Image.Image], names: Sequence[str]) -> Image.Image:
    """A volume of each class, with its name."""
    out = _new()
    pen = ImageDraw.Draw(out)
    side, gap = 142 * _FINER, 10 * _FINER
    left = (SIZE[0] * _FINER - len(names) * side - (len(names) - 1) * gap) // 2
    for i, name in enumerate(names):
        x = left + i * (side + gap)
        out.paste(tiles[i].resize((side, side), Image.Resampling.BICUBIC), (x, 48 * _FINER))
        pen.text((x + side / 2, 212 * _FINER), name, fill=_TEXT, font=_font(16), anchor="mm")
    return out


def _planes(brain: Any) -> Image.Image:
    """Three planes of the brain, with the crosshair that the viewer has."""
    out = _new()
    pen = ImageDraw.Draw(out)
    middle = [n // 2 for n in brain.shape]
    planes = (brain[:, :, middle[2] + 8], brain[:, middle[1], :], brain[middle[0] + 6, :, :])
    x = 26 * _FINER
    for plane in planes:
        tile = _grey(plane)
        tile = tile.resize((190 * _FINER, 190 * _FINER * tile.height // tile.width))
        tile = tile.crop((0, 0, tile.width, min(tile.height, 240 * _FINER)))
        y = (SIZE[1] * _FINER - tile.height) // 2
        out.paste(tile, (x, y))
        pen.line((x, y + tile.height // 2, x + tile.width, y + tile.height // 2), fill=_GREEN, width=_FINER)
        pen.line((x + tile.width // 2, y, x + tile.width // 2, y + tile.height), fill=_GREEN, width=_FINER)
        x += tile.width + 9 * _FINER
    return out


def _files(tiles: Sequence[Image.Image]) -> Image.Image:
    """A folder: files with what is in them, and their table of labels."""
    out = _new()
    pen = ImageDraw.Draw(out)
    for i, tile in enumerate(tiles):
        y = (22 + 60 * i) * _FINER
        out.paste(tile.resize((52 * _FINER, 52 * _FINER)), (44 * _FINER, y))
        pen.text((112 * _FINER, y + 26 * _FINER), f"scan-{i + 1:03d}.npy", fill=_TEXT, font=_font(19), anchor="lm")
    box: Box = (360 * _FINER, 46 * _FINER, 600 * _FINER, 232 * _FINER)
    pen.rounded_rectangle(box, 8 * _FINER, outline=_QUIET, width=2 * _FINER)
    lines = ("labels.csv", "file,label", "scan-001.npy,fault", "scan-002.npy,salt", "scan-003.npy,grey")
    for i, line in enumerate(lines):
        colour = _BLUE if i == 0 else _TEXT
        pen.text((380 * _FINER, (62 + 33 * i) * _FINER), line, fill=colour, font=_font(18))
    return out
