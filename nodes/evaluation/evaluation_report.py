"""The page of an evaluation, its figures as JSON, and its pictures as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from nodes.durable_files import flush
from nodes.evaluation.class_evaluation import ClassEvaluation
from nodes.evaluation.number_evaluation import NumberEvaluation
from nodes.evaluation.plots import Picture
from nodes.report_page import figure_text, html_page, html_picture, html_table

PAGE, FIGURES = "evaluation.html", "evaluation.json"
Evaluation = ClassEvaluation | NumberEvaluation


def write_report(evaluation: Evaluation, folder: Path) -> tuple[dict[str, float | int | str], list[Path]]:
    """Write the pictures, `evaluation.json` and last `evaluation.html` into the folder.

    Gives the key figures and the pictures' paths.
    """
    summary = evaluation.summary() | evaluation.tally.figures() | {"model": evaluation.predictions.model}
    pictures = evaluation.pictures()
    plots = [_write(folder / f"{name}.png", picture.png) for name, picture in pictures.items()]
    told = json.dumps(summary | evaluation.details(), indent=2, ensure_ascii=False, allow_nan=False)
    _write(folder / FIGURES, told.encode() + b"\n")
    page = html_page(f"Evaluation of {evaluation.predictions.uri}", _parts(evaluation, summary, pictures))
    _write(folder / PAGE, page.encode())
    return summary | evaluation.figures(), plots


def _parts(
    evaluation: Evaluation, summary: Mapping[str, float | int | str], pictures: Mapping[str, Picture]
) -> Iterable[str]:
    yield html_table(("figure", "value"), [(name.replace("_", " "), figure_text(v)) for name, v in summary.items()])
    for title, png in pictures.values():
        yield f"<h2>{escape(title)}</h2>"
        yield html_picture(png, title)
    for title, head, rows in evaluation.tables():
        yield f"<h2>{escape(title)}</h2>"
        yield html_table(head, rows)


def _write(path: Path, data: bytes) -> Path:
    partial = path.with_name(f".{path.name}")
    partial.write_bytes(data)
    flush([partial])
    partial.replace(path)
    return path
