"""Training curves of a run: which metrics share a chart, how they are drawn, and the tab with all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from engine.history.details import Details, read_details, short_id
from engine.store.runs import Run
from engine.text import moment, number, safe
from engine.wording import PER_STEP, SECONDS, SECONDS_TITLE, figure_name
from ui.runs.charts import MIN_CHART_WIDTH, Line, draw_curves, draw_stack
from ui.runs.feed import Feed, Series, feed_of
from ui.shell import navigation
from ui.shell.blocks import notice, plain, tag, text
from ui.studio_context import studio

_SETS = {"val_": "validation", "validation_": "validation", "test_": "test", "train_": "training"}
_OTHERS = 50
"""Earlier runs that can be laid over."""
_MOST_OVER = 4
_OTHERS_WIDTH = 640
"""Pixels: two of them stand beside each other, whatever became of them; of more, the last two are seen."""
_SMOOTHEST = 0.95
_FEW_EPOCHS = 10
"""What one looks at by epochs is few points, each of which counts: so many are not smoothed."""
_NAMED = 3
"""Nodes that a line names; of more it says how many others there are."""


@dataclass(frozen=True)
class Family:
    """Curves that belong on one chart: `loss` and `val_loss`. `axis` says what their steps count."""

    name: str
    axis: str
    lines: tuple[Line, ...]
    stacked: bool = False
    """Parts of a whole, one on top of the other."""

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name if self.stacked else figure_name(self.name)

    @property
    def may_be_logarithmic(self) -> bool:
        """Whether a logarithmic scale makes sense for it."""
        return may_be_logarithmic(self.name, self.lines)


def may_be_logarithmic(name: str, lines: Iterable[Line]) -> bool:
    """Whether a logarithmic scale makes sense for a metric: a loss, with values above zero."""
    return "loss" in name and any(v > 0 for line in lines for v in line.series.values)


def family_name(metric: str) -> str:
    """`val_loss` and `loss` belong to `loss`; `step_loss` counts other steps and is a family of its own."""
    for prefix in _SETS:
        if metric.startswith(prefix) and len(metric) > len(prefix):
            return metric[len(prefix) :]
    return metric


def measured_on(metric: str) -> str:
    """On which volumes a metric was measured: "validation" of `val_loss`, "training" of `loss`."""
    found = next((words for p, words in _SETS.items() if metric.startswith(p) and len(metric) > len(p)), "")
    return found or "training"


def families(metrics: Mapping[tuple[str, str], Series], titles: Mapping[str, str]) -> list[Family]:
    """The charts of a run, from its metrics by node and name: epochs first, then steps, A to Z.

    The parts of an epoch's time make one chart. A line is called by the volumes that it was measured on.
    """
    several = len({node for node, _ in metrics}) > 1
    grouped: dict[str, list[tuple[str, str, Series]]] = {}
    for (node, name), series in sorted(metrics.items(), key=lambda item: (item[0][1], item[0][0])):
        family = SECONDS_TITLE if name.startswith(SECONDS) else family_name(name)
        grouped.setdefault(family, []).append((node, name, series))
    out = []
    for family, members in grouped.items():
        stacked = family == SECONDS_TITLE
        sets = {measured_on(name) for _, name, _ in members}
        alike = Counter((node, measured_on(name)) for node, name, _ in members)
        lines = []
        for node, name, series in members:
            if stacked:
                label = name.removeprefix(SECONDS).replace("_", " ")
            elif sets == {"training"} and not any(n == f"val_{family}" for _, n in metrics):
                label = figure_name(name)  # nothing is held against it: a rate, a norm
            elif alike[node, measured_on(name)] > 1:
                label = name  # `loss` beside `train_loss`: under one word they would be drawn as one curve
            else:
                label = measured_on(name)
            lines.append(Line(safe(f"{titles.get(node, node)}: {label}" if several else label), series))
        axis = "epoch" if stacked or _counts_epochs(family, members, metrics) else "step"
        out.append(Family(family, axis, tuple(lines), stacked))
    return sorted(out, key=lambda f: (f.axis != "epoch", f.stacked, "loss" not in f.name, f.name))


def _counts_epochs(
    family: str, members: Sequence[tuple[str, str, Series]], metrics: Mapping[tuple[str, str], Series]
) -> bool:
    """Where figures of single steps are reported too, what has no more steps than an epoch's figure is of epochs."""
    if axis_of(family, {name for _, name in metrics}) == "epoch":
        return True
    if family.startswith(PER_STEP):
        return False
    for node, _, series in members:
        names = [name for other, name in metrics if other == node]
        epochs = [metrics[node, name] for name in names if f"{PER_STEP}{name}" in names]
        known = {step for each in epochs for step in each.steps}
        if not epochs or not all(step in known for step in series.steps):
            return False
    return True


def chart_order(metric: str, axis: str) -> tuple[object, ...]:
    """Epochs before steps, losses before all else, a metric beside its validation; what an epoch's time went into after
    what came of it."""
    family = family_name(metric)
    return (axis != "epoch", metric.startswith(SECONDS), "loss" not in family, family, metric)


def common_axis(metric: str, runs: Sequence[Mapping[tuple[str, str], Series]]) -> str:
    """What a metric's steps count in all runs that have it: what the names in all of them say, else epochs where each
    run's own chart counts them."""
    family = family_name(metric)
    having = []
    for metrics in runs:
        members = [(node, name, series) for (node, name), series in metrics.items() if family_name(name) == family]
        if members:
            having.append((members, metrics))
    if axis_of(family, {name for metrics in runs for _, name in metrics}) == "epoch":
        return "epoch"
    return "epoch" if having and all(_counts_epochs(family, *each) for each in having) else "step"


def axis_of(family: str, names: Iterable[str]) -> str:
    """What a family's steps count, as far as names say: where figures of single steps are reported too, those of the
    same name and those of a validation are epochs'."""
    known = set(names)
    if family.startswith(PER_STEP):
        return "step"
    steps = any(name.startswith(PER_STEP) for name in known)
    validated = steps and any(f"{prefix}{family}" in known for prefix in _SETS)
    return "epoch" if validated or f"{PER_STEP}{family}" in known or family.startswith("epoch_") else "step"


def laid_over(found: Sequence[Family], others: Mapping[str, Sequence[Family]]) -> list[Family]:
    """The charts with the lines of other runs, which are dashed; `others` by the label of the run."""
    out = []
    for family in found:
        lines = list(family.lines)
        for label, theirs in others.items():
            same = next((f for f in theirs if f.name == family.name), None)
            lines += [Line(f"{label}: {line.label}", line.series, dashed=True) for line in same.lines] if same else []
        out.append(family if family.stacked else replace(family, lines=tuple(lines)))
    return out


def draw_family(family: Family, *, key: str, logarithmic: bool = False, smoothing: float = 0.0) -> None:
    """Draw the chart of a family."""
    if family.stacked:
        draw_stack(family.title, family.lines, family.axis, key=key)
        return
    log = logarithmic and family.may_be_logarithmic
    sets = {line.label for line in family.lines}
    # Without a legend, the title says on which volumes it was measured.
    unit = next(iter(sets)) if len(sets) == 1 and sets <= set(_SETS.values()) else ""
    even = smoothing if may_be_smoothed(family.axis, family.lines) else 0.0
    draw_curves(family.title, family.lines, family.axis, key=key, unit=unit, logarithmic=log, smoothing=even)


def may_be_smoothed(axis: str, lines: Iterable[Line]) -> bool:
    """Whether smoothing leaves something to see: a chart by steps, or of enough epochs."""
    return axis == "step" or max((len(line.series) for line in lines), default=0) > _FEW_EPOCHS


def choose_smoothing(key: str) -> float:
    """Ask how much curves are smoothed; 0 is not at all."""
    chosen: float = st.slider(
        "Smoothing",
        0.0,
        _SMOOTHEST,
        0.0,
        0.05,
        key=key,
        width=220,
        bind="query-params",
        help="The values themselves stay faint. "
        f"Charts by epochs are smoothed from {_FEW_EPOCHS + 1} epochs on: of fewer, each point counts.",
    )
    return chosen


def link_to_makers(feed: Feed, names: Mapping[str, str], nodes: Collection[str] | None = None, label: str = "") -> None:
    """Say which curves and files are those of an earlier run, which made the result, with a way to that.

    Of all nodes, or of `nodes`; `names` are the nodes' names. `label` names the run where several are shown.
    """
    of_run: dict[str, list[str]] = {}
    for node, run_id in feed.makers.items():
        if nodes is None or node in nodes:
            of_run.setdefault(run_id, []).append(names.get(node, node))
    for run_id, found in of_run.items():
        shown = [plain(name, 40) for name in found[:_NAMED]]
        if len(found) > _NAMED:
            shown.append(f"{len(found) - _NAMED} more")
        made = "this result" if len(found) == 1 else "these results"
        words = f"{', '.join(shown)}: of run {plain(short_id(run_id))}, which made {made}"
        navigation.link_to_run(run_id, f"{plain(label)}, {words}" if label else words)


def beginnings(feed: Feed, names: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """What is to be said of curves some of whose epochs are not of this run: the words, and the id of the run that they
    are of; None for epochs of which no curve is here: it may be that they were lost, or that it is not known which
    run did them. `names` are the nodes' names."""
    out: list[tuple[str, str | None]] = []
    for node in dict.fromkeys(node for node, _ in feed.metrics):
        own = {name: series for (of, name), series in feed.metrics.items() if of == node}
        counted = [name for name in own if f"{PER_STEP}{name}" in own]
        title, ends_before = names.get(node, node), [0.0]
        for found in feed.beginnings.get(node, []):
            ends = [step for name, step in found.steps.items() if name in counted]
            begins = [step for name, step in found.since.items() if name in counted]
            if begins:
                which = _epochs(min(begins), max(ends))
            elif found.since:
                which = "in between"
            else:
                which = f"up to epoch {number(max(ends))}" if ends else "at first"
            words = f"{title}, {which}: of run {short_id(found.run_id)}, which it went on from"
            if (words, found.run_id) not in out:  # from another turn of the run; without epochs the two look alike
                out.append((words, found.run_id))
            ends_before += [max(ends)] if ends else []
        for end in () if feed.is_behind else sorted(ends_before):
            following = [own[name].steps[bisect_right(own[name].steps, end) :] for name in counted]
            first = min((steps[0] for steps in following if steps), default=0.0)
            if first > end + 1:
                missing = _epochs(end + 1, first - 1)
                out.append((f"{title}: its curves lack {missing}, which a run before it may have done.", None))
    return out


def _epochs(first: float, last: float) -> str:
    return f"epoch {number(first)}" if first == last else f"epochs {number(first)} to {number(last)}"


def say_beginnings(feed: Feed, names: Mapping[str, str], label: str = "") -> None:
    """Say it beside charts, as `link_to_makers` does; `label` names the run where several are shown."""
    for words, run_id in beginnings(feed, names):
        said = f"{label}, {words}" if label else words
        if run_id is None:
            st.html(tag("p", text(said), class_="vf-muted vf-small"))
        else:
            navigation.link_to_run(run_id, plain(said))


def show(details: Details) -> None:
    """Draw the tab."""
    found = families(feed_of(details.run.run_id).metrics, details.titles)
    if not found:
        coming = "They appear here as soon as a node reports some."
        st.html(notice("info", "This run has no metrics.", coming if details.run.active else None))
        return
    with st.container(key="metric_bar", horizontal=True, vertical_alignment="center", gap="medium"):
        logarithmic = False
        if any(family.may_be_logarithmic for family in found):
            logarithmic = st.toggle("Logarithmic loss", key="log_loss", bind="query-params")
        smoothing = choose_smoothing("smoothing")
        others = _others(details)
    link_to_makers(feed_of(details.run.run_id), details.names)
    say_beginnings(feed_of(details.run.run_id), details.names)
    for label, other in others.items():
        feed = feed_of(other.run.run_id)
        link_to_makers(feed, other.names, {node for node, _ in feed.metrics}, label)
        say_beginnings(feed, other.names, label)
    found = laid_over(found, {k: families(feed_of(o.run.run_id).metrics, o.titles) for k, o in others.items()})
    st.html(tag("p", "Shift and the wheel zoom, dragging moves, a double click goes back.", class_="vf-muted vf-small"))
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="metric_charts") as grid:
        for family in found:
            with grid.cell():
                draw_family(family, key=f"metric-{family.name}", logarithmic=logarithmic, smoothing=smoothing)


def _others(details: Details) -> dict[str, Details]:
    """Ask for runs to lay over these charts; gives those by their labels."""
    runs = {r.run_id: r for r in studio().store.runs(_OTHERS, details.run.pipeline) if r.run_id != details.run.run_id}
    if not runs:
        return {}
    chosen = st.multiselect(
        "Compare with",
        list(runs),
        key=f"over-{details.run.run_id}",
        format_func=lambda run_id: _label(runs[run_id]),
        max_selections=_MOST_OVER,
        placeholder="Lay other runs over these",
        width=_OTHERS_WIDTH,
    )
    return {short_id(run_id): read_details(studio().workspace, studio().store, run_id) for run_id in chosen}


def _label(run: Run) -> str:
    return safe(f"{short_id(run.run_id)}, {run.state}, {moment(run.started or run.created)}")
