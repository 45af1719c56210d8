"""Where to train: time against cost of a pipeline's training on every known machine, as a picture with the reasons."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import streamlit as st

from engine.advisor.advice import Advice, Estimate, frontier, usual_currency
from engine.advisor.report import COLUMNS as TABLE_COLUMNS
from engine.advisor.report import (
    changes,
    chosen_few,
    elsewhere,
    in_a_line,
    missing,
    reasons,
    row,
    source_of,
    span,
    subject,
)
from engine.advisor.sources import advise_training, read_known, trainings
from engine.bench.result import bench_folder
from engine.catalog import Catalog
from engine.document.checks import preview_outputs
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, read_pipeline
from engine.document.resolve import resolve
from engine.errors import VoxelflowError
from engine.observe.observe import observe
from engine.prices import machines_file, storage_file
from engine.probes import FOLDER as PROBES
from engine.profiles import Profile
from engine.text import duration, money, safe
from ui.runs.charts import specification
from ui.shell.blocks import Html, facts, heading, notice, show_error, table, tag, text, with_commands
from ui.shell.theme import SERIES, SURFACE, Mode, current_mode
from ui.start.gallery import templates
from ui.studio_context import studio

_HEIGHT = 340
_FRESH_S = 60
_BOUND_WORDS = {"input": "waits for input", "compute": "limited by computing"}
_NAMED = 6
"""Machines with a name on the picture."""


@dataclass(frozen=True)
class Advised:
    """The advice for one training of a pipeline; None with the reason where too little is known."""

    title: str
    place: str
    advice: Advice | None
    unknown: str = ""


def show_advice(profile: Profile | None) -> None:
    """Draw the section for the profile that is shown; nothing without one."""
    if profile is not None:
        st.fragment(_section)(profile)


def _section(profile: Profile) -> None:
    st.html(heading("Where to train"))
    found = _with_training()
    if not found:
        st.html(tag("p", "No pipeline of the workspace has a node that trains.", class_="vf-muted"))
        return
    name = st.selectbox("Pipeline", list(found), format_func=safe, key="advice_pipeline", width=306)
    try:
        with st.spinner("Looking at its data"):
            advised = _advised(str(found[name]), found[name].stat().st_mtime, profile.model_dump_json(), _state())
    except VoxelflowError as error:
        show_error(error)
        return
    unknown: dict[str, list[str]] = {}
    for each in advised:
        if each.advice is None:
            unknown.setdefault(each.unknown, []).append(each.title)
        else:
            _show(each, each.advice)
    for why, titles in unknown.items():
        st.html(notice("info", text(", ".join(titles)), f"No prediction yet: {why}."))


def _show(each: Advised, advice: Advice) -> None:
    if not advice.estimates:
        st.html(notice("info", "No machine was measured yet.", *map(with_commands, missing(advice, each.place))))
        return
    st.html(tag("p", tag("b", text(each.title)), " ", subject(advice), class_="vf-muted"))
    best = advice.recommended
    if best is not None:
        st.html(facts(_facts(best)))
    pictures = [("as it is", advice.estimates)]
    if advice.from_table:
        pictures = [("from files, one each", advice.estimates), ("from a table", advice.from_table)]
    ends = _ends([e for _, estimates in pictures for e in estimates])
    if ends is not None:
        for column, (title, estimates) in zip(st.columns(len(pictures)), pictures, strict=True):
            with column:
                _picture(title if len(pictures) > 1 else "", estimates, advice, ends, key=f"{each.title}-{title}")
    st.html(_sentences(advice, each.place))
    with st.expander("All figures"):
        st.html(table(TABLE_COLUMNS, [row(e) for e in chosen_few(advice, 40)], "Machines", numeric=(1, 3, 5)))


def _facts(best: Estimate) -> list[tuple[str, Html | str]]:
    out: list[tuple[str, Html | str]] = [
        ("recommended", best.machine.name),
        ("time", f"{duration(best.seconds)} ({span(best)})"),
    ]
    if best.cost is not None:
        out.append(("cost", money(best.cost, best.machine.currency)))
    return [
        *out,
        ("its steps", _BOUND_WORDS[best.bound]),
        ("known from", source_of(best)),
    ]


def _sentences(advice: Advice, place: str) -> Html:
    parts: list[Html] = []
    groups = [
        ("Here", [in_a_line(advice)]),
        ("Why", reasons(advice)),
        ("What would change it", changes(advice)),
        ("With the data elsewhere", elsewhere(advice)),
        ("Better settings", [f"{s.name} = {s.advised} instead of {s.now}: {s.why}" for s in advice.settings]),
        ("Not known", missing(advice, place)),
    ]
    for title, lines in groups:
        if lines:
            parts += [tag("dt", title), *(tag("dd", with_commands(line)) for line in lines)]
    return tag("dl", *parts, class_="vf-advice")


# --- the picture ---------------------------------------------------------------------------------


_Ends = tuple[tuple[float, float], tuple[float, float]]
"""Of the axes: the least and the most cost, and seconds."""
_TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 360_000: "100 h"}


def _ends(estimates: Iterable[Estimate]) -> _Ends | None:
    drawn = [e for e in estimates if e.fits and e.cost]
    if not drawn:
        return None
    costs, times = [e.cost or 0.0 for e in drawn], [e.seconds for e in drawn]
    return (min(costs) / 1.5, max(costs) * 2), (min(times) / 2.5, max(times) * 2)


def _picture(title: str, estimates: Sequence[Estimate], advice: Advice, ends: _Ends, *, key: str) -> None:
    import pandas as pd

    if title:
        st.html(heading(title))
    points = chart_points(estimates, advice)
    if not points:
        st.html(tag("p", "Nothing here has a price.", class_="vf-muted"))
        return
    own = own_line(estimates, advice, ends)
    # In the same table: a second one inside the specification would keep Streamlit from putting new points into it.
    points = [{**point, "own": False} for point in points] + ([{**_NOWHERE, **own}] if own else [])
    chart = time_against_cost(usual_currency(estimates), ends, current_mode())
    st.vega_lite_chart(pd.DataFrame(points), chart, key=f"advice-{key}", alt=f"Time against cost {title}".strip())


_NOWHERE: dict[str, Any] = {"own": True, "prominent": False, "recommended": False, "efficient": False}


def own_line(estimates: Sequence[Estimate], advice: Advice, ends: _Ends) -> dict[str, Any] | None:
    """The time of the profile's own machine where no point is drawn of it: its cost is unknown, 0, or in
    another currency than those of the others."""
    own = next((e for e in estimates if advice.own is not None and e.machine == advice.own.machine), None)
    # What costs nothing has no place on an axis of logarithms.
    priced = own is not None and bool(own.cost) and own.machine.currency == usual_currency(estimates)
    if own is None or priced or not own.fits or not ends[1][0] < own.seconds < ends[1][1] * 3:
        return None
    price = "no price" if own.cost is None else money(own.cost, own.machine.currency)
    label = f"{own.machine.name}: {duration(own.seconds)}, {price}"
    return {"time": min(own.seconds, ends[1][1]), "label": label}


def chart_points(estimates: Sequence[Estimate], advice: Advice) -> list[dict[str, Any]]:
    """A record for each machine that has a price and memory enough; the prominent ones have a name and an error bar.

    Prices in another currency than most have are left out.
    """
    drawn = [e for e in estimates if e.fits and e.cost]
    usual = usual_currency(drawn)
    drawn = [e for e in drawn if e.machine.currency == usual]
    best = advice.recommended.machine.name if advice.recommended is not None else ""
    efficient = [e.machine.name for e in frontier(drawn)]
    own = advice.own.machine.name if advice.own is not None else ""
    named = _named(drawn, [best, own], efficient)
    out = []
    for e in sorted(drawn, key=lambda e: e.cost or 0.0):
        name = e.machine.name
        out.append(
            {
                "machine": name,
                "cost": e.cost,
                "time": e.seconds,
                "low": e.low,
                "high": e.high,
                "bound": _BOUND_WORDS[e.bound],
                "label": name.partition("@")[0],
                "prominent": name in named,
                "recommended": name == best,
                "efficient": name in efficient,
                "took": duration(e.seconds),
                "range": span(e),
                "price": money(e.cost or 0.0, usual),
                "known": source_of(e),
            }
        )
    return out


def _named(drawn: Sequence[Estimate], first: Sequence[str], efficient: Sequence[str]) -> set[str]:
    """The machines with a name on the picture: those to be found, then efficient ones that lie apart from these."""
    by_name = {e.machine.name: e for e in drawn}
    measured = [e.machine.name for e in drawn if e.machine.origin == "bench"]
    out: dict[str, Estimate] = {name: by_name[name] for name in (*first, *measured) if name in by_name}
    for name in efficient:
        e = by_name[name]
        near = any(_close(e.cost, o.cost, 3) and _close(e.seconds, o.seconds, 1.7) for o in out.values())
        if not near and len(out) < _NAMED:
            out[name] = e
    return set(out)


def _close(one: float | None, other: float | None, times: float) -> bool:
    return bool(one and other) and abs(math.log((one or 1.0) / (other or 1.0))) < math.log(times)


def time_against_cost(currency: str, ends: _Ends, mode: Mode) -> dict[str, Any]:
    """The specification. The data has the columns that `chart_points` gives; both axes are logarithmic."""
    surface = SURFACE[mode]
    x = alt.X(
        "cost:Q",
        title=f"cost of the training, {currency}" if currency else "cost of the training",
        scale=alt.Scale(type="log", domain=list(ends[0]), nice=False),
        axis=alt.Axis(format="~g", tickCount=5, grid=False),
    )
    y = alt.Y(
        "time:Q",
        title="time",
        scale=alt.Scale(type="log", domain=list(ends[1]), nice=False),
        axis=alt.Axis(
            values=[tick for tick in _TICKS if ends[1][0] <= tick <= ends[1][1]],
            labelExpr=f"{json.dumps({str(k): v for k, v in _TICKS.items()})}[datum.value]",
        ),
    )
    words = list(_BOUND_WORDS.values())
    legend = alt.Legend(orient="top", direction="horizontal", title=None, symbolSize=90)
    colours = alt.Scale(domain=words, range=[SERIES[mode][1], SERIES[mode][0]])
    colour = alt.Color("bound:N", scale=colours, legend=legend, title=None)
    shapes = alt.Scale(domain=words, range=["triangle-up", "circle"])
    shape = alt.Shape("bound:N", scale=shapes, legend=legend, title=None)
    tooltip = [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in (
            ("machine", "machine"), ("took", "time"), ("range", "from - to"), ("price", "cost"),
            ("bound", "its steps"), ("known", "known from"),
        )
    ]  # fmt: skip
    base = alt.Chart().encode(x=x, y=y)
    prominent, chosen = base.transform_filter("datum.prominent"), base.transform_filter("datum.recommended")
    written = alt.value(surface["text"])
    layers = [
        base.transform_filter("datum.efficient")
        .mark_line(strokeDash=[4, 4], strokeWidth=1.2, color=surface["muted"], opacity=0.8)
        .encode(order="cost:Q"),
        prominent.mark_rule(strokeWidth=1.4, clip=True, opacity=0.75).encode(y="low:Q", y2="high:Q", color=colour),
        base.transform_filter("!datum.prominent && !datum.own")
        .mark_point(size=40, filled=True, opacity=0.4)
        .encode(color=colour, shape=shape, tooltip=tooltip),
        prominent.mark_point(size=110, filled=True, opacity=1).encode(color=colour, shape=shape, tooltip=tooltip),
        chosen.mark_point(size=420, filled=False, strokeWidth=2.2, color=surface["text"], shape="circle"),
        prominent.mark_text(align="left", dx=12, dy=-10, fontSize=11).encode(text="label:N", color=written),
        chosen.transform_calculate(text="'recommended'")
        .mark_text(align="left", dx=12, dy=-24, fontSize=11, fontWeight="bold")
        .encode(text="text:N", color=written),
    ]
    place = alt.Chart().encode(y=y).transform_filter("datum.own")
    layers += [
        place.mark_rule(strokeDash=[1, 3], strokeWidth=1.5, color=surface["muted"]),
        place.mark_text(align="right", baseline="bottom", dy=-3, fontSize=11).encode(
            x=alt.value("width"), text="label:N", color=written
        ),
    ]
    return specification(alt.layer(*layers).properties(height=_HEIGHT), mode)


# --- what it is made of --------------------------------------------------------------------------


def _with_training() -> dict[str, Path]:
    """The files of pipelines that train, by name: the workspace's, the newest first, then the templates."""
    own = studio()
    catalog = own.make_catalog(own.workspace)
    files = sorted(own.workspace.pipelines.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    out: dict[str, Path] = {}
    shipped = shipped_pipelines()
    for path in (*files, *(shipped[template.name] for template in templates())):
        try:
            document = read_pipeline(path)
        except VoxelflowError:
            continue
        if _trains(document, catalog):
            out.setdefault(document.name, path)
    return out


def _trains(document: Pipeline, catalog: Catalog) -> bool:
    types = (catalog.find(node.type, node.version) for node in document.nodes)
    return any(found is not None and found.workload_hook is not None for found in types)


def _state() -> tuple[int, ...]:
    """Changes whenever a benchmark or a probe is kept, or a price of the workspace's own is another."""
    workspace = studio().workspace
    looked_at = bench_folder(workspace), workspace.root / PROBES, machines_file(workspace), storage_file(workspace)
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in looked_at)


@st.cache_data(ttl=_FRESH_S, show_spinner=False, max_entries=16)
def _advised(path: str, modified: float, profile: str, state: tuple[int, ...]) -> list[Advised]:
    """The trainings of the pipeline in a file. What is given beside it only says when to look again."""
    own = studio()
    workspace = own.workspace
    resolved = resolve(read_pipeline(Path(path)), own.make_catalog(workspace), base=own.base)
    observation = observe(resolved, workspace, own.store)
    previews, _ = preview_outputs(resolved, observation)
    known, where = read_known(workspace), Profile.model_validate_json(profile)
    return [
        Advised(
            title=each.title,
            place=(each.work.uri if each.work is not None else "") or str(workspace.root),
            advice=advise_training(each, known, workspace, where),
            unknown=each.unknown,
        )
        for each in trainings(resolved, previews, observation)
    ]
