"""The page of an evaluation, its figures as JSON, and its pictures as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from engine.storage.files import write_whole
from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation
from nodes.reporting.page import figure_text, html_page, html_picture, html_table
from nodes.reporting.plots import Picture

PAGE, FIGURES = "evaluation.html", "evaluation.json"
Evaluation = ClassEvaluation | NumberEvaluation


def write_report(evaluation: Evaluation, folder: Path) -> tuple[dict[str, float | int | str], list[Path]]:
    """Write the pictures, `evaluation.json` and last `evaluation.html` into the folder.

    Gives the key figures and the pictures' paths.
    """
    summary = evaluation.summary() | evaluation.tally.figures() | {"model": evaluation.predictions.model}
    pictures = evaluation.pictures()
    plots = [_write(folder / f"{name}.png", picture.png) for name, picture in pictures.items()]
    text = json.dumps(summary | evaluation.details(), indent=2, ensure_ascii=False, allow_nan=False)
    _write(folder / FIGURES, text.encode() + b"\n")
    page = html_page(f"Evaluation of {evaluation.predictions.uri}", _parts(evaluation, summary, pictures))
    _write(folder / PAGE, page.encode())
    return summary | evaluation.figures(), plots


def _parts(
    evaluation: Evaluation, summary: Mapping[str, float | int | str], pictures: Mapping[str, Picture]
) -> Iterable[str]:
    for remark in evaluation.remarks():
        yield f"<p><strong>{escape(remark[0].upper() + remark[1:])}.</strong></p>"
    yield html_table(("figure", "value"), [(name.replace("_", " "), figure_text(v)) for name, v in summary.items()])
    for title, png in pictures.values():
        yield f"<h2>{escape(title)}</h2>"
        yield html_picture(png, title)
    for title, head, rows in evaluation.tables():
        yield f"<h2>{escape(title)}</h2>"
        yield html_table(head, rows)


def _write(path: Path, data: bytes) -> Path:
    write_whole(path, data, durable=True)
    return path
