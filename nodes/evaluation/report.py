"""The page of an evaluation, its figures as JSON, and its pictures as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from engine.storage.files import write_whole
from engine.text import number
from engine.wording import figure_name
from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation
from nodes.reporting.page import figure_text, html_page, html_picture, html_table
from nodes.reporting.plots import Picture

_MADE_FROM = ("data", "model")
"""What identifies the volumes and the model: for a later comparison, and no figure."""
_STYLE = ".exact td { text-align: left; font: .8rem ui-monospace, monospace; overflow-wrap: anywhere; }"
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
    page = html_page("Evaluation", _parts(evaluation, summary, pictures), _STYLE)
    _write(folder / PAGE, page.encode())
    return summary | evaluation.figures(), plots


def _parts(
    evaluation: Evaluation, summary: Mapping[str, float | int | str], pictures: Mapping[str, Picture]
) -> Iterable[str]:
    for remark in evaluation.remarks():
        yield f"<p><strong>{escape(remark[0].upper() + remark[1:])}.</strong></p>"
    figures = [(figure_name(name), _text(v)) for name, v in summary.items() if name not in _MADE_FROM]
    yield html_table(("figure", "value"), figures)
    for title, png in pictures.values():
        yield f"<h2>{escape(title)}</h2>"
        yield html_picture(png, title)
    for title, head, rows in evaluation.tables():
        yield f"<h2>{escape(title)}</h2>"
        yield html_table(head, rows)
    yield "<h2>What was evaluated</h2>"
    made_from = [(name, str(summary[name])) for name in _MADE_FROM if name in summary]
    yield f"<div class='exact'>{html_table(('', ''), [('predictions', evaluation.predictions.uri), *made_from])}</div>"


def _text(value: float | int | str) -> str:
    """A figure in four digits: more say nothing of so few volumes; `evaluation.json` has them all."""
    return number(value) if isinstance(value, float) else figure_text(value)


def _write(path: Path, data: bytes) -> Path:
    write_whole(path, data, durable=True)
    return path
