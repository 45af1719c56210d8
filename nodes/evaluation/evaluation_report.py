"""The page of an evaluation, its figures as JSON, and its pictures as files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

from nodes.durable_files import flush
from nodes.evaluation.evaluated import Evaluated
from nodes.evaluation.plots import draw_calibration, draw_confusion, draw_roc
from nodes.report_page import figure_text, html_page, html_picture, html_table

PAGE, FIGURES = "evaluation.html", "evaluation.json"
_PLOTS = {
    "roc": ("ROC curve", draw_roc),
    "confusion": ("Confusion matrix", draw_confusion),
    "calibration": ("Calibration", draw_calibration),
}
_CLASSES_SHOWN = 200


def write_report(evaluated: Evaluated, folder: Path) -> list[Path]:
    """Write the pictures, `evaluation.json` and last `evaluation.html` into the folder; gives the pictures' paths."""
    pictures = {name: draw(evaluated) for name, (_, draw) in _PLOTS.items()}
    plots = [_write(folder / f"{name}.png", png) for name, png in pictures.items()]
    details = evaluated.summary() | {
        "classes": evaluated.by_class(),
        "confusion": evaluated.confusion.tolist(),
        "mistakes": [vars(mistake) for mistake in evaluated.rows.mistakes],
    }
    _write(folder / FIGURES, json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    _write(folder / PAGE, _page(evaluated, pictures).encode())
    return plots


def _page(evaluated: Evaluated, pictures: dict[str, bytes]) -> str:
    return html_page(f"Evaluation of {evaluated.predictions.uri}", _parts(evaluated, pictures))


def _parts(evaluated: Evaluated, pictures: dict[str, bytes]) -> Iterable[str]:
    yield html_table(
        ("figure", "value"), [(name.replace("_", " "), figure_text(v)) for name, v in evaluated.summary().items()]
    )
    for name, png in pictures.items():
        title = _PLOTS[name][0]
        yield f"<h2>{escape(title)}</h2>"
        yield html_picture(png, title)
    rows = evaluated.by_class()
    yield "<h2>Classes</h2>"
    columns = ("class", "precision", "recall", "f1", "auc", "volumes")
    shown = [
        tuple("" if row[c] is None else figure_text(row[c] or 0) for c in columns) for row in rows[:_CLASSES_SHOWN]
    ]
    yield html_table(columns, shown)
    if evaluated.rows.mistakes:
        names = evaluated.predictions.classes
        yield "<h2>Surest mistakes</h2>"
        yield html_table(
            ("volume", "label", "predicted", "probability"),
            [(m.id, names[m.label], names[m.predicted], f"{m.score:.4f}") for m in evaluated.rows.mistakes],
        )


def _write(path: Path, data: bytes) -> Path:
    partial = path.with_name(f".{path.name}")
    partial.write_bytes(data)
    flush([partial])
    partial.replace(path)
    return path
