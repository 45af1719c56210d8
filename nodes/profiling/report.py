"""A profile as files: the table as CSV and JSON, the picture, and a page with both.

profile.html    the page, whole in itself; it comes last
profile.csv     a line for each row
profile.json    the same with figures and machine
profile.png     the picture
"""

from __future__ import annotations

import csv
import io
import json
from html import escape
from pathlib import Path
from typing import Any

from nodes.durable_files import flush
from nodes.profiling.measurements import Table
from nodes.profiling.plot import draw_profile
from nodes.profiling.rows import WITHIN, Row, recommend
from nodes.report_page import figure_text, html_page, html_picture, html_table

PAGE, CSV, JSON, PLOT = "profile.html", "profile.csv", "profile.json", "profile.png"


def write_report(table: Table, what: str, folder: Path) -> dict[str, float | int | str]:
    """Write all files into the folder; gives the figures. `what` names the model and the data in a line."""
    chosen = recommend(table.rows)
    figures = _figures(table, chosen)
    lines = [_line(row) for row in table.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    _write(folder / CSV, text.getvalue().encode())
    details = {"figures": figures, "machine": table.machine.model_dump(mode="json"), "rows": lines}
    _write(folder / JSON, json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    picture = b""
    if chosen is not None:
        picture = draw_profile([row for row in table.rows if row.spent is not None], chosen)
        _write(folder / PLOT, picture)
    _write(folder / PAGE, _page(table, what, figures, picture).encode())
    return figures


def _figures(table: Table, chosen: Row | None) -> dict[str, float | int | str]:
    out: dict[str, float | int | str] = {}
    if chosen is not None:
        out |= {
            "recommended_batch_size": chosen.batch_size,
            "recommended_workers": chosen.workers,
            "recommended_samples_per_s": round(chosen.samples_per_s, 3),
            "best_samples_per_s": round(max(row.samples_per_s for row in table.rows), 3),
        }
    short = [row.batch_size for row in table.rows if row.outcome == "out of memory"]
    if short:
        out["out_of_memory_at"] = min(short)
    return out | {"training_volumes": table.training_volumes, "machine": table.machine.describe()}


def _line(row: Row) -> dict[str, Any]:
    """A row of the table. Shares are of the time of a step; megabytes are 10**6 bytes."""
    spent = row.spent
    measured = {
        "samples_per_s": round(row.samples_per_s, 3),
        "step_ms": round(1000 * spent.total_s / spent.steps, 3),
        "waiting_share": round(spent.waiting_s / spent.total_s, 4),
        "computing_share": round(spent.computing_s / spent.total_s, 4),
        "rest_share": round(spent.rest_s / spent.total_s, 4),
        "peak_memory_mb": round(spent.memory_bytes / 1e6, 1),
        "peak_device_memory_mb": round(spent.device_bytes / 1e6, 1),
        "steps": spent.steps,
    } if spent is not None else dict.fromkeys(_MEASURED)  # fmt: skip
    both: dict[str, Any] = {"workers": row.workers, "batch_size": row.batch_size, "outcome": row.outcome}
    return both | measured | {"note": row.note}


_MEASURED = (
    "samples_per_s",
    "step_ms",
    "waiting_share",
    "computing_share",
    "rest_share",
    "peak_memory_mb",
    "peak_device_memory_mb",
    "steps",
)


def _page(table: Table, what: str, figures: dict[str, float | int | str], picture: bytes) -> str:
    chosen = recommend(table.rows)
    shown = [("workers", *(name.replace("_", " ") for name in ("batch_size", "outcome", *_MEASURED)), "note")]
    rows = [tuple("" if value is None else figure_text(value) for value in _line(row).values()) for row in table.rows]
    parts = [html_table(("figure", "value"), [(k.replace("_", " "), figure_text(v)) for k, v in figures.items()])]
    if chosen is None:
        parts.append("<p>Nothing could be measured; the table says why.</p>")
    else:
        parts.append(
            f"<p>Recommended: <b>batch size {chosen.batch_size}</b> with {chosen.workers}"
            f" worker{'s' if chosen.workers > 1 else ''}. It is the smallest batch within {WITHIN:.0%} of the best rate"
            " among those that fit into memory, with the fewest workers of which that is true.</p>"
        )
    parts += ["<h2>Measured</h2>", html_table(shown[0], rows)]
    if picture:
        parts += ["<h2>Rate and time</h2>", html_picture(picture, "rate over batch size, parts of a step")]
    parts.append(
        f"<p>{escape(what)}. Times are those of the leading worker, shares those of a step: waiting for the next batch,"
        " computing with the copy to the device, the rest. Memory is the most that one process had resident, all that"
        " Python and TensorFlow need included.</p>"
    )
    return html_page("What a training step costs", parts)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_bytes(data)
    flush([partial])
    partial.replace(path)
    flush([path.parent])
