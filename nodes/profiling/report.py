"""A profile as files: the table as CSV and JSON, the picture, and a page with both.

profile.html    the page, whole in itself; it comes last
profile.csv     a line for each row
profile.json    the same with figures and machine, workers and epochs
profile.png     the picture
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.advisor.choice import WITHIN
from engine.storage.files import write_whole
from engine.text import duration
from nodes.profiling.profile import Epoch, Row, Scaling, Table, recommend, scaling
from nodes.reporting.page import figure_text, html_page, html_picture, html_table
from nodes.reporting.plots import new_figure, png_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE, CSV, JSON, PLOT = "profile.html", "profile.csv", "profile.json", "profile.png"
_PARTS = (("waiting for data", "waiting_s"), ("computing", "computing_s"), ("rest", "rest_s"))


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
    details = {
        "figures": figures,
        "machine": table.machine.model_dump(mode="json"),
        "rows": lines,
        "workers": [_workers_line(line) for line in scaling(table.rows)],
        "epochs": [_epoch_line(epoch, table) for epoch in table.epochs],
    }
    _write(folder / JSON, json.dumps(details, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    picture = b""
    if chosen is not None:
        picture = draw_profile(table, chosen)
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
    for epoch in table.epochs:
        seconds = epoch.seconds(table.training_volumes)
        if seconds is not None:
            out[f"epoch_s_{epoch.form.replace(' (other)', '_other')}"] = round(seconds, 3)
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


def _workers_line(line: Scaling) -> dict[str, Any]:
    """A number of workers at its best batch size; the efficiency is 1 where n of them are n times as fast as one."""
    row = line.best
    return {
        "workers": row.workers,
        "best_batch_size": row.batch_size,
        "samples_per_s": round(row.samples_per_s, 3),
        "speed_up": None if line.speed_up is None else round(line.speed_up, 3),
        "efficiency": None if line.efficiency is None else round(line.efficiency, 3),
    }


def _epoch_line(epoch: Epoch, table: Table) -> dict[str, Any]:
    row, seconds = epoch.row, epoch.seconds(table.training_volumes)
    spent = row.spent
    return {
        "volumes_from": epoch.form,
        "loader": epoch.loader,
        "batch_size": row.batch_size,
        "workers": row.workers,
        "samples_per_s": round(row.samples_per_s, 3) if seconds is not None else None,
        "waiting_share": round(spent.waiting_s / spent.total_s, 4) if spent is not None else None,
        "epoch_s": None if seconds is None else round(seconds, 3),
        "note": row.note,
    }


def _html_lines(lines: Sequence[dict[str, Any]]) -> str:
    """A table of lines with the same keys."""
    head = [name.replace("_", " ") for name in lines[0]]
    return html_table(head, [["" if v is None else figure_text(v) for v in line.values()] for line in lines])


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
        parts += [
            "<h2>Rate, memory and time</h2>",
            html_picture(picture, "rate and memory over batch size, step parts"),
        ]
    if len(workers := scaling(table.rows)) > 1:
        parts += [
            "<h2>Several workers</h2>",
            _html_lines([_workers_line(line) for line in workers]),
            "<p>Each at its best batch size. The efficiency is the rate of n workers over n times the rate of one;"
            " workers on one machine share its cores.</p>",
        ]
    if table.epochs:
        parts += [
            "<h2>An epoch from each form of the volumes</h2>",
            _html_lines([_epoch_line(epoch, table) for epoch in table.epochs]),
            f"<p>{escape(_saved(table))}</p>",
        ]
    parts.append(
        f"<p>{escape(what)}. Times are those of the leading worker, shares those of a step: waiting for the next batch,"
        " computing with the copy to the device, the rest. Memory is the most that one process had resident, all that"
        " Python and TensorFlow need included.</p>"
    )
    return html_page("What a training step costs", parts, "img { max-width: 100%; }")


def _saved(table: Table) -> str:
    """What is lost to reading, in words."""
    found = [(epoch.form, seconds) for epoch in table.epochs if (seconds := epoch.seconds(table.training_volumes))]
    if not found:
        return "None of them could be measured; the table says why."
    named = [f"{duration(seconds)} from {form}" for form, seconds in found]
    text = (
        f"An epoch of {table.training_volumes:,} volumes takes {', '.join(named)}; the system was asked to drop its"
        " cache of the files before."
    )
    if "memory" in dict(found):
        text += " From memory nothing is read: more than that no form can save."
    read = [(form, seconds) for form, seconds in found if form != "memory"]
    if len(read) == 2:
        (fast, least), (slow, most) = sorted(read, key=lambda pair: pair[1])
        text += f" Reading from {slow} instead of {fast} takes {most / least:.2f} times as long."
    return text


def draw_profile(table: Table, chosen: Row) -> bytes:
    """A PNG: rate and memory over the batch size, a line for each number of workers; the parts of a step for those of
    `chosen`; the efficiency of several workers and the epochs of several forms, where they were measured."""
    rows = [row for row in table.rows if row.spent is not None]
    workers, epochs = scaling(rows), [e for e in table.epochs if e.seconds(table.training_volumes)]
    more = (len(workers) > 1) + bool(epochs)
    figure = new_figure(12, 7.0 if more else 3.6)
    grid = figure.add_gridspec(2 if more else 1, 6)
    places = [grid[0, at : at + 2] for at in (0, 2, 4)]
    rate, memory, split = (figure.add_subplot(place) for place in places)
    _over_batches(rate, rows, chosen, "volumes a second", lambda row: row.samples_per_s)
    device = any(row.spent.device_bytes for row in rows if row.spent is not None)
    title = "most device memory of a worker, GB" if device else "most memory of a worker, GB"
    _over_batches(memory, rows, chosen, title, partial(_gigabytes, device=device))
    _draw_parts(split, [row for row in rows if row.workers == chosen.workers])
    if len(workers) > 1:
        _draw_efficiency(figure.add_subplot(grid[1, :3]), workers)
    if epochs:
        _draw_epochs(figure.add_subplot(grid[1, 3:]), epochs, table.training_volumes)
    return png_of(figure, dpi=110)


def _gigabytes(row: Row, *, device: bool) -> float:
    spent = row.spent
    return 0.0 if spent is None else (spent.device_bytes if device else spent.memory_bytes) / 1e9


def _over_batches(panel: Axes, rows: Sequence[Row], chosen: Row, title: str, value: Callable[[Row], float]) -> None:
    for workers in sorted({row.workers for row in rows}):
        points = [(row.batch_size, value(row)) for row in rows if row.workers == workers]
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        panel.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=label)
    panel.axvline(chosen.batch_size, color="grey", linestyle=":", label="recommended")
    panel.set_xscale("log", base=2)
    sizes = sorted({row.batch_size for row in rows})
    panel.set_xticks(sizes, [str(size) for size in sizes])
    # A single size has no width of its own: its axis would be a hundred ticks at one place.
    panel.set_xlim(sizes[0] / 1.4, sizes[-1] * 1.4)
    panel.set(title=title, xlabel="batch size")
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)


def _draw_parts(panel: Axes, rows: Sequence[Row]) -> None:
    names, base = [str(row.batch_size) for row in rows], [0.0] * len(rows)
    for title, part in _PARTS:
        heights = [1000 * getattr(row.spent, part) / row.spent.steps for row in rows if row.spent is not None]
        panel.bar(names, heights, bottom=base, label=title)
        base = [below + height for below, height in zip(base, heights, strict=True)]
    panel.set(title="milliseconds of a step", xlabel="batch size")
    panel.legend(fontsize=8)


def _draw_efficiency(panel: Axes, lines: Sequence[Scaling]) -> None:
    """Rates as bars beside n times the rate of one, each with its efficiency."""
    names = [str(line.best.workers) for line in lines]
    rates = [line.best.samples_per_s for line in lines]
    bars = panel.bar(names, rates, label="measured")
    if lines[0].efficiency is not None:
        ideal = [line.best.workers * rates[0] for line in lines]
        panel.plot(names, ideal, color="grey", linestyle=":", marker="o", markersize=3, label="n times one worker")
        panel.bar_label(bars, [f"{line.efficiency or 0:.0%}" for line in lines])
    panel.set(title="volumes a second by number of workers, and their efficiency", xlabel="workers")
    panel.margins(y=0.15)
    panel.legend(fontsize=8)


def _draw_epochs(panel: Axes, epochs: Sequence[Epoch], volumes: int) -> None:
    """An epoch of each form as a bar, of which a part is waiting for data."""
    names = [f"{epoch.form}\n{epoch.loader}".strip() for epoch in reversed(epochs)]
    working, waiting = [], []
    for epoch in reversed(epochs):
        seconds, spent = epoch.seconds(volumes) or 0.0, epoch.row.spent
        share = spent.waiting_s / spent.total_s if spent is not None and spent.total_s else 0.0
        working.append(seconds * (1 - share))
        waiting.append(seconds * share)
    panel.barh(names, working, color="C1", label="computing and the rest")
    bars = panel.barh(names, waiting, left=working, color="C0", label="waiting for data")
    ends = [f" {duration(one + two)}" for one, two in zip(working, waiting, strict=True)]
    panel.bar_label(bars, ends)
    panel.set(title=f"seconds of an epoch of {volumes:,} volumes, caches emptied before")
    panel.margins(x=0.25)
    panel.set_ylim(-0.6, len(names) + 0.3)  # the legend has the space above
    panel.legend(fontsize=8, loc="upper right", ncols=2)


def _write(path: Path, data: bytes) -> None:
    write_whole(path, data, durable=True)
