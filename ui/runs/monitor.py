"""The monitor of a run: one picture of each task with processors, memory, disk, network, GPUs, pace and waiting.

Below are the machine's charts over the whole run (`ui.runs.system`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.history.details import Details
from engine.panels import Curve, Panel, Peak, draw_panels
from engine.store.monitor import FILE, Attempt, Moment, MonitorRecord
from engine.text import duration, number
from ui.runs import system
from ui.runs.charts import thinned
from ui.runs.feed import kept_by_tab
from ui.shell.blocks import Html, chip, heading, svg_image, tag, text
from ui.shell.theme import SURFACE, current_mode
from ui.studio_context import studio

_WIDTH = 1080
_POINTS = 240
"""Of one line: a panel is some 320 pixels wide."""
_PROCESSES = 3
"""Whose lines are drawn; the others of a task are one line."""
_PROGRAMS = {"worker": "main", "java": "Spark (Java)", "python": "Python"}
"""How processes' names begin, and what to call them. Java is here for Spark alone."""
_GAP_S = 60.0
"""A longer silence between two moments means that nothing ran in between."""
_MOST_RECORDS = 4
_STYLE = f"width: 100%; max-width: {_WIDTH * 4 // 3}px; margin: .2rem 0 1rem"
_TRAFFIC = {"disk_read": "disk", "disk_write": "disk", "network_receive": "network", "network_transmit": "network"}


@dataclass(frozen=True)
class Picture:
    """A task's picture as SVG, and the same in words for those who do not see it."""

    svg: str
    words: str


class _Track:
    """A task's moments on an axis of seconds: pauses between attempts are cut out."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self.stretches: list[list[tuple[float, Moment]]] = []
        self.breaks: list[float] = []
        begin = last = moments[0].time - moments[0].seconds
        for moment in moments:
            gap = moment.time - moment.seconds - last
            if gap > max(_GAP_S, 3 * moment.seconds):
                begin += gap
                self.breaks.append(last + gap - begin)
                self.stretches.append([])
            elif not self.stretches:
                self.stretches.append([])
            last = moment.time
            self.stretches[-1].append((moment.time - begin, moment))
        self.end = max(1.0, last - begin)

    def curve(self, label: str, name: str, scale: float = 1.0) -> Curve | None:
        """The line of one figure, thinned to what a panel shows; None when it was never measured."""
        return self.sum_of(label, [name], scale)

    def sum_of(self, label: str, names: Sequence[str], scale: float = 1.0) -> Curve | None:
        """The line of several figures added up."""
        points: list[tuple[float, float | None]] = []
        most = max(8, _POINTS // len(self.stretches))
        for stretch in self.stretches:
            known = [
                (x, sum(moment.values.get(name, 0.0) for name in names) * scale)
                for x, moment in stretch
                if any(name in moment.values for name in names)
            ]
            if known and points:
                points.append((known[0][0], None))
            points += zip(*thinned([x for x, _ in known], [value for _, value in known], most), strict=True)
        return Curve(label, tuple(points)) if points else None

    def highest(self, name: str) -> tuple[float, Moment, float] | None:
        """Where the figure's peak lies: its second on the axis, the moment, the value; None without one above zero."""
        best: tuple[float, Moment, float] | None = None
        for stretch in self.stretches:
            for x, moment in stretch:
                value = moment.peak(name)
                if value is not None and value > (best[2] if best else 0.05):
                    best = x, moment, value
        return best

    def mean(self, name: str) -> float | None:
        """Over the time in which the figure was measured."""
        known = [(m.values[name], m.seconds) for stretch in self.stretches for _, m in stretch if name in m.values]
        seconds = sum(s for _, s in known)
        return sum(value * s for value, s in known) / seconds if seconds else None

    def names(self, prefix: str) -> list[str]:
        """The figures whose names begin so, those with the most in all first."""
        sums: dict[str, float] = {}
        for stretch in self.stretches:
            for _, moment in stretch:
                for name, value in moment.values.items():
                    if name.startswith(prefix):
                        sums[name] = sums.get(name, 0.0) + value * moment.seconds
        return sorted(sums, key=lambda name: -sums[name])


def measured(record: MonitorRecord) -> list[str]:
    """The nodes of which there is something to draw."""
    found: dict[str, int] = {}
    for moment in record.moments:
        for name in moment.values:
            node, dot, figure = name.partition(".")
            if dot and figure == "cpu":
                found[node] = found.get(node, 0) + 1
    return [node for node, moments in found.items() if moments > 1]


def picture(record: MonitorRecord, node: str, title: str = "") -> Picture | None:
    """The picture of one task; None while there is too little of it."""
    moments = [moment for moment in record.moments if f"{node}.cpu" in moment.values]
    if len(moments) < 2:
        return None
    track = _Track(moments)
    about = _about(record.attempts, moments[-1].time)
    disk = _traffic(track, "Disk of the node", {"read": f"{node}.read", "written": f"{node}.write"})
    disk = disk or _traffic(track, "Disk of the machine", {"read": "disk_read", "written": "disk_write"})
    network = {"received": "network_receive", "sent": "network_transmit"}
    pace = _pace(track, node)
    gpus = sorted((n for n in track.names("gpu_") if not n.endswith("_memory")), key=lambda n: int(n[4:]))
    panels = [
        _processors(track, node),
        _memory(track, node),
        disk,
        _traffic(track, "Network of the machine", network),
        *pace,
        _panel("GPU, %", [track.curve(n.replace("gpu_", "GPU "), n) for n in gpus], full=100.0),
        _panel("GPU memory, GB", [track.curve(n.replace("gpu_", "GPU "), f"{n}_memory", 1e-3) for n in gpus]),
    ]
    drawn = [panel for panel in panels if panel is not None]
    foot = ". ".join(_foot(about, record.every_s, moments, has_gpu=bool(gpus), has_pace=bool(pace)))
    notes = "; ".join(f"{panel.title}: {panel.note}" for panel in drawn if panel.note)
    words = f"{title}: {len(moments)} moments over {duration(track.end)}. {notes}. {foot}."
    svg = draw_panels("", drawn, track.end, width=_WIDTH, breaks=track.breaks, foot=f"{foot}.")
    return Picture(svg, words)


def _panel(
    title: str, curves: Iterable[Curve | None], full: float | None = None, note: str = "", peaks: Sequence[Peak] = ()
) -> Panel | None:
    known = tuple(curve for curve in curves if curve is not None)
    return Panel(title, known, full, note, peaks) if known else None


def process_labels(names: Iterable[str]) -> dict[str, str]:
    """What a person calls the processes of a task, by the names that the monitor gave them: `main` for `worker`,
    `Spark (Java)` for `java 4711`, `Python` for `python3.12 4712`; several of one kind are numbered, oldest first."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        program, _, number_of = name.rpartition(" ")
        known = next(
            (kind for begin, kind in _PROGRAMS.items() if (program or name).startswith(begin)), program or name
        )
        kinds.setdefault(known, []).append((int(number_of) if number_of.isdecimal() else 0, name))
    return {
        name: kind if len(found) == 1 else f"{kind} {at}"
        for kind, found in kinds.items()
        for at, (_, name) in enumerate(sorted(found), 1)
    }


def _processors(track: _Track, node: str) -> Panel | None:
    names = track.names(f"{node}.cpu:")
    shown, others = names[:_PROCESSES], names[_PROCESSES:]
    labels = process_labels([name.partition(":")[2] for name in names])
    curves = [track.curve(labels[name.partition(":")[2]], name) for name in shown]
    if others:
        curves.append(track.sum_of(f"{len(others)} others", others))
    highest = track.highest(f"{node}.cpu")
    mean = track.mean(f"{node}.cpu") or 0.0
    most = highest[2] if highest else 0.0
    return _panel(
        "CPU, % of a core",
        curves,
        full=100.0 * max(1, math.ceil(most / 100)),
        note=f"in all {mean:.0f}% on average, {most:.0f}% at most",
    )


def _memory(track: _Track, node: str) -> Panel | None:
    highest = track.highest(f"{node}.memory")
    note = f"the node {number(_short(highest[2] / 1000))} GB at most" if highest else ""
    curves = (track.curve("node", f"{node}.memory", 1e-3), track.curve("machine", "memory", 1e-3))
    return _panel("Memory, GB", curves, note=note)


def _traffic(track: _Track, title: str, names: Mapping[str, str]) -> Panel | None:
    """Megabytes a second both ways, the highest of each named with its moment."""
    peaks, said = [], []
    for place, (label, name) in enumerate(names.items()):
        if (highest := track.highest(name)) is not None:
            second, moment, value = highest
            peaks.append(Peak(place, second, value))
            said.append(f"{label} {number(_short(value))} at {_clock(moment.time)}")
    note = f"peak: {', '.join(said)}" if said else "none"
    curves = [track.curve(label, name) for label, name in names.items()]
    return _panel(f"{title}, MB/s", curves, note=note, peaks=peaks)


def _pace(track: _Track, node: str) -> list[Panel]:
    panels = []
    for name in track.names(f"{node}.rate:")[:1]:
        mean = track.mean(name) or 0.0
        unit = name.partition(":")[2]
        panels.append(_panel(f"{unit[:1].upper()}{unit[1:]} a second", [track.curve(unit, name)], note=_average(mean)))
    waiting = f"{node}.waiting"
    if (mean_waiting := track.mean(waiting)) is not None:
        note = f"{mean_waiting:.0f}% of the time on average"
        panels.append(_panel("Waiting for data, %", [track.curve("waiting", waiting)], full=100.0, note=note))
    return [panel for panel in panels if panel is not None]


def _average(value: float) -> str:
    return f"{number(_short(value))} on average"


def _short(value: float) -> float:
    return round(value) if value >= 100 else float(f"{value:.3g}")


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def _about(attempts: Sequence[Attempt], until: float) -> Mapping[str, Any]:
    """What is known of the machine of the attempt at that time."""
    begun = [attempt.about for attempt in attempts if attempt.time <= until]
    return begun[-1] if begun else {}


def _foot(
    about: Mapping[str, Any], every_s: int, moments: Sequence[Moment], *, has_gpu: bool, has_pace: bool
) -> list[str]:
    """What the picture does not show by itself: how often and where was measured, and what was not."""
    cores = f", {about['cores']} cores" if "cores" in about else ""
    where = f" on {about['host']}{cores}" if "host" in about else ""
    out = [f"A value every {every_s} s{where}" if every_s > 1 else f"A value a second{where}"]
    if elsewhere := about.get("elsewhere"):
        out.append(f"The work is done on {elsewhere}; these figures are of the driver's machine alone")
    missing = []
    if not has_gpu:
        missing.append(f"GPU ({about.get('gpu') or 'no figures'})")
    missing += sorted({_TRAFFIC[n] + " of the machine" for n in about.get("unknown", ()) if n in _TRAFFIC})
    if not has_pace:
        missing.append("pace (this node reports none)")
    if missing:
        out.append(f"Not measured: {', '.join(missing)}")
    return out


# --- the tab --------------------------------------------------------------------------------------


def show(details: Details) -> None:
    """Draw the tab: what runs now, another task of the person's choice, the machine over the whole run."""
    record = record_of(details.run.run_id)
    found = [task for task in details.tasks if task.node in measured(record)]
    running = [task for task in found if task.state == "running" and details.run.active]
    for task in running:
        _draw(details, record, task.node)
    ended = [task for task in found if task not in running]
    if ended:
        longest = max(range(len(ended)), key=lambda at: ended[at].seconds or 0.0)
        nodes = [task.node for task in ended]
        chosen = _choice("Another node" if running else "Node", nodes, longest, lambda node: details.names[node])
        _draw(details, record, chosen)
    if found:
        st.html(heading("The machine, over the whole run"))
    system.show(details)


def _choice(label: str, nodes: list[str], index: int, name: Callable[[str], str]) -> str:
    if len(nodes) == 1:
        return nodes[0]
    chosen = st.selectbox(label, nodes, index=index, format_func=name, key="monitor_task", width=360)
    return str(chosen)


def record_of(run_id: str) -> MonitorRecord:
    """What the run's monitor has kept, up to date; this browser tab remembers what it has read."""
    path = studio().workspace.run_folder(run_id) / FILE
    record = kept_by_tab("run_monitors", run_id, lambda: MonitorRecord(path), _MOST_RECORDS)
    record.read()
    return record


def _draw(details: Details, record: MonitorRecord, node: str) -> None:
    task, title = details.task(node), details.titles.get(node, node)
    drawn = picture(record, node, title)
    if drawn is None or task is None:
        return
    took = duration(task.seconds) if task.seconds is not None else ""
    st.html(
        heading(Html(f"{text(title)} {chip(task.state)} {tag('span', took, class_='vf-muted')}"))
        + svg_image(drawn.svg, SURFACE[current_mode()]["text"], drawn.words, _STYLE)
    )
