"""A comparison as files, the page last.

comparison.html    the page, whole in itself
comparison.json    the trainings: what `others` of CompareTrainings on another machine joins
comparison.md      the same tables as text
epochs.png         what an epoch is made of, and the times beside the whitepaper's
curves.png         loss and hardware over time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from engine.storage.files import write_whole
from engine.text import duration, plural
from nodes.comparison.comparison import Comparison, Table, rounded
from nodes.comparison.record import Sample, Training, write_trainings
from nodes.reporting.page import Html, html_page, html_picture, html_table
from nodes.reporting.plots import new_figure, png_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PAGE, JSON, TEXT, EPOCHS, CURVES = "comparison.html", "comparison.json", "comparison.md", "epochs.png", "curves.png"
_COLOURS = {"npy": "#c2571a", "arrow": "#12806f", "petastorm": "#7a5bc0", "tfrecord": "#2f7fc1"}
_OTHER = "#6b7480"
_PARTS = (("computing", "#3b6ea5"), ("waiting for data", "#e0912f"))
_PAPER = "#1d2733"
_DPI = 120


def write_report(comparison: Comparison, folder: Path) -> list[Path]:
    """Write all files into the folder, each whole and durable; gives the pictures' paths."""
    pictures = {EPOCHS: draw_epochs(comparison), CURVES: draw_curves(comparison)}
    drawn = {name: png for name, png in pictures.items() if png}
    for name, png in drawn.items():
        write_whole(folder / name, png, durable=True)
    write_whole(folder / TEXT, comparison.markdown(), durable=True)
    write_trainings(folder / JSON, comparison.trainings)
    page = html_page("Trainings compared", _parts(comparison, drawn), _STYLE)
    write_whole(folder / PAGE, page, durable=True)
    return [folder / name for name in drawn]


_STYLE = """
body { max-width: 76rem; } .lead { font-size: 1.05rem; } .scroll { overflow-x: auto; }
td, th { white-space: nowrap; font-variant-numeric: tabular-nums; vertical-align: top; }
.note { opacity: .75; font-size: .87rem; max-width: 60rem; } img { max-width: 100%; margin: .5rem 0; }
"""


def _parts(comparison: Comparison, pictures: dict[str, bytes]) -> Iterator[str]:
    for sentence in comparison.headline():
        yield f"<p class='lead'>{escape(sentence)}</p>"
    if EPOCHS in pictures:
        yield html_picture(pictures[EPOCHS], "what an epoch is made of, and times beside the whitepaper's")
    for table in comparison.tables():
        yield from _table(table)
    if CURVES in pictures:
        yield "<h2>Curves</h2>"
        yield html_picture(pictures[CURVES], "loss over steps; CPU, network, disk and GPU over time")
    yield "<h2>How to read this</h2>"
    yield from (f"<p class='note'>{escape(note)}</p>" for note in comparison.notes())
    machines = dict.fromkeys((t.device if t.on_gpu else "CPU", t.machine) for t in comparison.trainings if t.machine)
    yield from (f"<p class='note'>{escape(f'{device}: {machine}')}</p>" for device, machine in machines)


def _table(table: Table) -> Iterator[str]:
    if table.rows:
        yield f"<h2>{escape(table.title)}</h2>"
        yield Html(f"<div class='scroll'>{html_table(table.columns, table.rows)}</div>")


# --- pictures ------------------------------------------------------------------------------------


def draw_epochs(comparison: Comparison) -> bytes:
    """A PNG: bars of an epoch's parts on the left; on the right whole times, the whitepaper's as diamonds.

    Empty when nothing was measured.
    """
    rows = [row for row in comparison.rows() if row.training is not None or row.option is not None]
    if not any(row.training is not None and row.training.volumes_per_s for row in rows):
        return b""
    figure = new_figure(11, 1.5 + 0.42 * len(rows))
    parts, whole = figure.subplots(1, 2, sharey=True)
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        if row.training is not None and row.training.steady:
            _bar(parts, place, row.training)
        if row.training is None:
            parts.text(0, place, " not measured here", va="center", fontsize=9, color="#7b8490")
    parts.set_yticks(places, [row.title for row in rows])
    parts.invert_yaxis()
    parts.margins(x=0.15)
    parts.set(title="An epoch of the volumes measured", xlabel="seconds")
    parts.set_xlim(left=0)
    handles: list[Artist] = [parts.barh([0], [0], color=colour) for _, colour in _PARTS]
    labels = [name for name, _ in _PARTS]
    _whole_times(whole, comparison)
    if comparison.beside_whitepaper:
        handles += whole.plot([], [], "D", color=_PAPER)
        labels += ["the whitepaper's ratio"]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    for axes in (parts, whole):
        _plain(axes, "x")
    return png_of(figure, dpi=_DPI)


def _bar(axes: Axes, place: int, training: Training) -> None:
    whole, waiting = training.epoch_s or 0.0, training.waiting_share or 0.0
    seconds = (whole * (1 - waiting), whole * waiting)
    for (_, colour), value, left in zip(_PARTS, seconds, (0.0, seconds[0]), strict=True):
        axes.barh(place, value, left=left, height=0.6, color=colour)
    axes.text(whole, place, f" {duration(whole)}", va="center", fontsize=9)


def _whole_times(axes: Axes, comparison: Comparison) -> None:
    """As ratios: the whitepaper's machines are others, so that its times say nothing beside these."""
    for place, row in enumerate(comparison.rows()):
        ratio = comparison.ratio(row.training)
        if ratio is not None and row.training is not None:
            axes.barh(place, ratio, height=0.6, color=_colour(row.training))
            text = f"{rounded(ratio, 2)} ({duration(comparison.whole_s(row.training) or 0)})"
            # Beside the diamond, where that stands at the bar's end.
            axes.annotate(text, (ratio, place), (9, 0), textcoords="offset points", va="center", fontsize=9)
        if row.option is not None:
            theirs = comparison.paper_ratio(row.option)
            axes.plot(theirs, place, "D", color=_PAPER, markersize=7, markeredgecolor="white", zorder=3)
    # A place for the text beside the longest bar.
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    what = f"{plural(comparison.epochs, 'epochs')} of {comparison.volumes:,}, extrapolated"
    axes.set(title=what, xlabel=f"times as long as {comparison.base_title}")


def draw_curves(comparison: Comparison) -> bytes:
    """A PNG with a panel each for the loss and for what the machine's samples have; empty when there is none."""
    panels: list[tuple[str, str, Callable[[Training], tuple[list[float], list[float]]]]] = [
        ("loss", "step", lambda t: ([float(step) for step, _ in t.losses], [loss for _, loss in t.losses])),
        ("volumes/s", "epoch", lambda t: ([float(e.number) for e in t.epochs], [e.volumes_per_s for e in t.epochs])),
        ("CPU, %", _TIME, _samples("cpu_percent")),
        ("network received, Mbit/s", _TIME, _samples("network_mbit_s")),
        ("disk read, MB/s", _TIME, _samples("disk_read_mb_s")),
        ("memory of the run, MB", _TIME, _samples("memory_mb")),
        ("GPU, %", _TIME, _samples("gpu_percent")),
    ]
    filled = [(t, x, f) for t, x, f in panels if any(len(f(training)[0]) > 0 for training in comparison.trainings)]
    if not filled:
        return b""
    columns = min(3, len(filled))
    lines = -(-len(filled) // columns)
    figure = new_figure(11, 0.5 + 2.5 * lines)
    axes = [one for line in figure.subplots(lines, columns, squeeze=False) for one in line]
    handles: dict[str, Line2D] = {}
    for panel, (title, label, values) in zip(axes, filled, strict=False):
        for place, training in enumerate(comparison.trainings):
            x, y = values(training)
            if x:
                # The first is the widest: where two are equal, as the losses of equal steps, both are seen.
                width = max(1.2, 2.8 - 0.8 * place)
                style = {"color": _colour(training), "linestyle": "--" if training.on_gpu else "-"}
                (line,) = panel.plot(x, y, linewidth=width, solid_capstyle="round", **style)
                if len(x) == 1:
                    panel.plot(x, y, "o", color=_colour(training))
                handles.setdefault(comparison.title(training), line)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel(label, fontsize=8)
        panel.tick_params(labelsize=8)
        panel.set_ylim(0, 105 if title.endswith("%") else None)
        if label == "epoch":
            _whole_numbers(panel)
        _plain(panel, "both")
    for panel in axes[len(filled) :]:
        panel.set_visible(False)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), fontsize=9, frameon=False
    )
    return png_of(figure, dpi=_DPI)


_TIME = "seconds since its start"


def _samples(name: str) -> Callable[[Training], tuple[list[float], list[float]]]:
    def values(training: Training) -> tuple[list[float], list[float]]:
        found: Sequence[Sample] = [sample for sample in training.samples if getattr(sample, name) is not None]
        return [sample.at_s for sample in found], [getattr(sample, name) for sample in found]

    return values


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plain(axes: Axes, grid: str) -> None:
    axes.grid(alpha=0.25, axis=grid)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _colour(training: Training) -> str:
    return _COLOURS.get(training.loader, _OTHER)
