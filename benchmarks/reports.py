"""What a benchmark found: printed as tables, written as JSON, drawn."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.race import Race, Ratio

_PACKAGES = ("deltalake", "numpy", "petastorm", "polars", "pyarrow", "pyspark", "tensorflow")


@dataclass(frozen=True)
class Table:
    """Figures that are no race: one row each."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Aim:
    """What should be reached: `measured` at least `least` (or at most, with `at_most`)."""

    what: str
    measured: float
    least: float
    at_most: bool = False
    spread: str = ""

    @property
    def met(self) -> bool:
        return self.measured <= self.least if self.at_most else self.measured >= self.least


def aim_of(race: Race, one: str, other: str, least: float) -> Aim:
    """That the rate of `one` is at least `least` times that of `other`."""
    ratio: Ratio = race.ratio(one, other)
    return Aim(f"{race.title}: {one} / {other}", ratio.median, least, spread=f"{ratio.least:.2f}..{ratio.most:.2f}")


@dataclass(frozen=True)
class Report:
    """All that one benchmark found."""

    title: str
    races: Sequence[Race] = ()
    tables: Sequence[Table] = ()
    aims: Sequence[Aim] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def show(report: Report) -> None:
    """Print the tables."""
    for table in (*map(_results, report.races), *report.tables):
        print(f"\n{table.title}\n")
        _print(table)
    if report.aims:
        print("\naims\n")
        rows = [[a.what, f"{a.measured:.2f}", a.spread, _wanted(a), "met" if a.met else "MISSED"] for a in report.aims]
        _print(Table("aims", ["what", "measured", "spread", "wanted", ""], rows))
    for note in report.notes:
        print(f"\n{note}")
    print()


def _wanted(aim: Aim) -> str:
    return f"{'<=' if aim.at_most else '>='} {aim.least:g}"


def _results(race: Race) -> Table:
    """Ratios are the median over the rounds, with the least and the most."""
    ours, rows = race.ours, []
    extras = sorted({key for s in race.results for a in s.answers for key in a.get("beside", {})})
    for result in sorted(race.results, key=lambda s: -s.rate):
        row = [result.name, f"{result.rate:,.0f}" if result.rate >= 10 else f"{result.rate:.3f}"]
        row += [str(race.ratio(result.name, race.limit)), str(race.ratio(ours, result.name))]
        row += [f"{result.peak / 1e6:,.0f}" if result.peak else ""]
        for key in extras:
            values = [a["beside"][key] for a in result.answers if key in a.get("beside", {})]
            row += [f"{sorted(values)[len(values) // 2]:,.2f}" if values else ""]
        rows.append(row)
    title = f"{race.title} ({race.unit}; {len(race.results[0].rates)} rounds)"
    return Table(title, ["", race.unit, f"of {race.limit}", f"{ours} is x times", "peak MB", *extras], rows)


def _print(table: Table) -> None:
    cells = [list(map(str, table.columns)), *([_cell(v) for v in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    for number, row in enumerate(cells):
        print("| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def keep(report: Report, out: Path, name: str, options: Mapping[str, Any]) -> list[Path]:
    """Write `NAME.json`, and `NAME.png` when there is something to draw, into `out`. Gives the paths."""
    out.mkdir(parents=True, exist_ok=True)
    document = {
        "name": name,
        "title": report.title,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in options.items()},
        "machine": _machine(),
        "races": [_race_json(race) for race in report.races],
        "tables": [{"title": t.title, "columns": list(t.columns), "rows": list(t.rows)} for t in report.tables],
        "aims": [
            {"what": a.what, "measured": a.measured, "wanted": _wanted(a), "met": a.met, "spread": a.spread}
            for a in report.aims
        ],
        "notes": list(report.notes),
    }
    path = out / f"{name}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return [path, *_draw(report, out / f"{name}.png")]


def _race_json(race: Race) -> dict[str, Any]:
    def of(name: str, other: str) -> dict[str, float]:
        return vars(race.ratio(name, other)).copy()

    return {
        "title": race.title,
        "unit": race.unit,
        "limit": race.limit,
        "contenders": [
            {
                "name": s.name,
                "kind": s.kind,
                "rates": list(s.rates.values()),
                "of_limit": of(s.name, race.limit),
                "ours_to_it": of(race.ours, s.name),
                "peak_bytes": s.peak,
                "answers": list(s.answers),
            }
            for s in race.results
        ],
    }


def _machine() -> dict[str, Any]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": versions,
    }


_COLOURS = {"ours": "#1f6f8b", "peer": "#b8b8b8", "limit": "#444444"}


def _draw(report: Report, path: Path) -> list[Path]:
    if not report.races:
        return []
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [len(race.results) for race in report.races]
    figure = Figure(figsize=(9, 1.2 + 0.34 * sum(heights) + 0.7 * len(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, race in zip(axes, report.races, strict=True):
        results = sorted(race.results, key=lambda s: s.rate)
        ratios = [race.ratio(s.name, race.limit) for s in results]
        middle = [r.median for r in ratios]
        spread = [[r.median - r.least for r in ratios], [r.most - r.median for r in ratios]]
        axis.barh(range(len(middle)), middle, xerr=spread, color=[_COLOURS[s.kind] for s in results], ecolor="#888")
        axis.set_yticks(range(len(middle)), [s.name for s in results])
        axis.set_xlabel(f"times the rate of: {race.limit}")
        axis.set_title(race.title, loc="left", fontsize=10)
    figure.savefig(path, dpi=120)
    return [path]
