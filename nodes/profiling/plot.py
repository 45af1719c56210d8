"""The picture of a profile: the rate over the batch size, and where a step's time goes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from nodes.profiling.rows import Row

_PARTS = (("waiting for data", "waiting_s"), ("computing", "computing_s"), ("rest", "rest_s"))


def draw_profile(rows: Sequence[Row], chosen: Row) -> bytes:
    """A PNG: a line of volumes a second for each number of workers, and bars of a step's parts for those of `chosen`.

    `rows` hold what was measured. Needs no display.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    rate, split = figure.subplots(1, 2)
    for workers in sorted({row.workers for row in rows}):
        points = [(row.batch_size, row.samples_per_s) for row in rows if row.workers == workers]
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        rate.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=label)
    rate.axvline(chosen.batch_size, color="grey", linestyle=":", label="recommended")
    rate.set_xscale("log", base=2)
    sizes = sorted({row.batch_size for row in rows})
    rate.set_xticks(sizes, [str(size) for size in sizes])
    rate.set(title="volumes a second", xlabel="batch size")
    rate.set_ylim(bottom=0)
    rate.grid(alpha=0.3)
    rate.legend()
    shown = [row for row in rows if row.workers == chosen.workers]
    names, base = [str(row.batch_size) for row in shown], [0.0] * len(shown)
    for title, part in _PARTS:
        heights = [1000 * getattr(row.spent, part) / row.spent.steps for row in shown if row.spent is not None]
        split.bar(names, heights, bottom=base, label=title)
        base = [below + height for below, height in zip(base, heights, strict=True)]
    split.set(title="milliseconds of a step", xlabel="batch size")
    split.legend()
    out = io.BytesIO()
    figure.savefig(out, dpi=120, format="png")
    return out.getvalue()
