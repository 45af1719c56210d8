"""The page of compute profiles: a list, the chosen one's form, its test, and the machine below.

/compute?profile=NAME shows that profile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

from engine.errors import UsageError
from engine.prices import machine_table
from engine.profiles import Listed, Profile, default_profile, list_profiles, profiles_file, unreadable
from engine.profiles.edit import Written, delete_profile, read_written, save_profile, set_default
from engine.profiles.find import READY
from engine.profiles.profile import KEEP_WARM_MINUTES
from engine.text import duration, hourly, number, plural, safe, size
from ui.compute.advice import show_advice
from ui.compute.benchmarks import show_benchmarks
from ui.compute.checks import ProfileTest, ProfileTests
from ui.compute.form import (
    EXAMPLES,
    PLACES,
    WHOLE_NUMBERS,
    Form,
    example_form,
    fields_of,
    figures_of,
    form_of,
    place_of,
    settings_of,
    unique_name,
)
from ui.compute.machine import EVERY_S, MachineHistory
from ui.runs.charts import MIN_CHART_WIDTH, draw_curves
from ui.runs.system import system_charts
from ui.shell.blocks import Html, chip, facts, heading, notice, plain, show_error, tag, text
from ui.shell.redraw import is_request_waiting
from ui.studio_context import studio

_ADDRESS = "profile"
_SHOWN, _DRAFT, _FOR, _NOTE = "compute_shown", "compute_draft", "compute_draft_for", "compute_note"
_LOOK_S = 0.5
_NEW, _EXAMPLE = "compute_is_new", "compute_example"


def show() -> None:
    """Draw the page."""
    workspace = studio().workspace
    listed = list_profiles(workspace)
    names = [item.name for item in listed]
    default = default_profile(workspace)
    left, right = st.columns([1, 2.4], gap="large")
    with left:
        chosen = _list(listed, default)
    with right:
        if (broken := unreadable(workspace)) is not None:
            show_error(broken)
        elif st.session_state.get(_NEW):
            _edit(None, None, names, default)
        else:
            _edit(chosen, next((p for p in listed if p.name == chosen), None), names, default)
    shown = chosen if not st.session_state.get(_NEW) else default
    show_advice(next((item.profile for item in listed if item.name == shown), None))
    show_benchmarks()
    st.html(heading("This machine"))
    st.fragment(_machine, run_every=EVERY_S)()


# --- the list ------------------------------------------------------------------------------------


def _list(listed: Sequence[Listed], default: str) -> str:
    names = [item.name for item in listed]
    wanted = st.query_params.get(_ADDRESS, default)
    chosen = wanted if wanted in names else names[0]
    st.html(heading("Profiles"))
    with st.container(key="compute_profiles", gap="small"):
        for item in listed:
            shown = item.name == chosen and not st.session_state.get(_NEW)
            icon = ":material/error:" if item.problem else ":material/check_circle:" if item.name == default else None
            if st.button(
                plain(item.name, 40),
                key=f"compute_open_{item.name}",
                type="primary" if shown else "secondary",
                icon=icon,
                width="stretch",
            ):
                _open(item.name)
            st.html(tag("p", *_summary(item, default), class_="vf-profile-line"))
    if st.button("New profile", key="compute_new", icon=":material/add:", width="stretch"):
        st.session_state[_NEW] = True
        st.session_state.pop(_EXAMPLE, None)
        _forget_draft()
        st.rerun()
    st.html(tag("p", "Kept in ", text(profiles_file(studio().workspace), "vf-mono"), class_="vf-muted"))
    return chosen


def _summary(item: Listed, default: str) -> list[Html | str]:
    profile = item.profile
    if profile is None:
        return ["cannot be used: ", text(item.problem.message if item.problem else "")]
    parts = [profile.where, plural(profile.cores, "cores"), size(profile.memory_bytes)]
    if profile.gpus:
        parts.append(plural(profile.gpus, "GPUs"))
    if profile.hourly_price is not None:
        parts.append(hourly(profile.hourly_price, profile.currency))
    if item.name == default:
        parts.append("default")
    return [text(" · ".join(parts))]


def _open(name: str) -> None:
    st.session_state.pop(_NEW, None)
    _forget_draft()
    st.query_params[_ADDRESS] = name
    st.rerun()


def _forget_draft() -> None:
    for key in [k for k in st.session_state if str(k).startswith(_DRAFT)]:
        del st.session_state[key]
    st.session_state.pop(_FOR, None)


# --- one profile ----------------------------------------------------------------------------------


def _edit(name: str | None, item: Listed | None, names: Sequence[str], default: str) -> None:
    workspace = studio().workspace
    written = read_written(name, workspace) if name else Written(revision=read_written("", workspace).revision)
    ready = READY.get(name) if name else None
    draft_for = (name, written.revision)
    if st.session_state.get(_FOR, (None,))[0] != name or _FOR not in st.session_state:
        _forget_draft()
        st.session_state[_FOR] = draft_for
    revision = st.session_state[_FOR][1]
    start = form_of(name or unique_name("cluster", names), written, ready)
    st.html(tag("div", tag("h1", text(name or "New profile")), class_="vf-title"))
    if name is None:
        start = _begin_with(start, names)
    if item is not None and item.problem is not None:
        show_error(item.problem)
    if note := st.session_state.pop(_NOTE, None):
        st.html(notice("info", note))
    form = _form(start, name, item.profile if item else None)
    pressed = _buttons(name, form, start, ready, default, usable=item is not None and item.profile is not None)
    try:
        if pressed == "save":
            _save(form, name, ready, revision)
        elif pressed == "delete" and name is not None:
            delete_profile(name, workspace, revision=revision)
            _tests.forget(name, workspace)
            st.session_state[_NOTE] = f"{name} is as it was at first." if ready is not None else f"{name} is deleted."
            _open(name if ready is not None else default if default != name else "local")
        elif pressed == "default" and name is not None:
            set_default(name, workspace)
            _open(name)
    except UsageError as error:
        show_error(error)
    if name is not None:
        test = _tests.newest(name, workspace)
        st.fragment(_test, run_every=_LOOK_S if test is not None and test.running else None)(name)


def _begin_with(start: Form, names: Sequence[str]) -> Form:
    """The form of a new profile: empty, or with the figures of a machine that others have measured."""
    titles = ["An empty profile", *(example.title for example in EXAMPLES)]
    title = st.selectbox("Begin with", titles, key=_EXAMPLE, on_change=_forget_draft, width=320)
    chosen = next((example for example in EXAMPLES if example.title == title), None)
    if chosen is None:
        return start
    try:
        machine = machine_table(studio().workspace).find(chosen.machine)
    except UsageError as error:
        show_error(error)
        return start
    line = f"{figures_of(machine)}. {chosen.measured} (DeepIQ, Deep Learning on Cloud)."
    st.html(tag("p", text(line), class_="vf-muted"))
    return example_form(chosen, machine, names)


def _form(start: Form, name: str | None, profile: Profile | None) -> Form:
    ready = name in READY
    form = Form(name=start.name)
    if not ready:
        form.name = st.text_input("Name", start.name, key=f"{_DRAFT}_name", width=320).strip()
    choices = [k for k in PLACES if not ready or k in (place_of(str(READY[name].get("backend", "")), "local"),)]  # type: ignore[index]
    form.place = start.place
    if len(choices) > 1:
        form.place = st.segmented_control(
            "Where it runs",
            choices,
            default=start.place,
            format_func=lambda key: PLACES[key].title,
            key=f"{_DRAFT}_place",
            required=True,
        )
    place = PLACES[form.place]
    st.html(tag("p", place.help, class_="vf-muted"))
    if place.example:
        shown = start.master if start.place == form.place else ""
        form.master = st.text_input(
            "Spark master", shown, placeholder=place.example, key=f"{_DRAFT}_master_{form.place}", width=420
        )
    else:
        form.master = start.master
    with st.container(key="compute_numbers", horizontal=True):
        for key, (title, least, help_text) in WHOLE_NUMBERS.items():
            form.numbers[key] = st.number_input(
                title,
                min_value=least,
                value=start.numbers.get(key),
                step=1,
                placeholder=str(getattr(profile, key)) if profile else "all" if key == "cores" else "",
                help=help_text,
                key=f"{_DRAFT}_{key}",
                width=150,
            )
        form.memory = st.text_input(
            "Memory",
            start.memory,
            placeholder=size(profile.memory_bytes) if profile else "3/4 of what is free",
            help="For tasks that run on this machine: 16 GB, 16 GiB or 16g.",
            key=f"{_DRAFT}_memory",
            width=150,
        )
        form.keep_warm_minutes = start.keep_warm_minutes
        if form.place == "spark-local":
            form.keep_warm_minutes = st.number_input(
                "Keep Java warm, minutes",
                min_value=0.0,
                value=start.keep_warm_minutes,
                placeholder=number(KEEP_WARM_MINUTES),
                step=None,
                format="%.4g",
                help="Spark's Java waits so long for the next run, which then starts at once. It takes some 0.8 GB"
                " meanwhile, and ends when the app stops or memory is short. 0: it ends with its run.",
                key=f"{_DRAFT}_warm",
                width=190,
            )
    with st.container(key="compute_money", horizontal=True):
        form.machine = _machine_type(start, profile)
        form.price_per_hour = st.number_input(
            "Price an hour",
            min_value=0.0,
            value=start.price_per_hour,
            placeholder="" if profile is None or profile.machine_price is None else number(profile.machine_price),
            step=None,
            format="%.4g",
            help="Your own price, before that of the machine type. Runs show what they have cost.",
            key=f"{_DRAFT}_price",
            width=150,
        )
        form.currency = st.text_input(
            "Currency",
            start.currency,
            placeholder="" if profile is None else safe(profile.currency),
            help="Of that price and of cost limits: EUR, for example. Amounts in different currencies are not added.",
            key=f"{_DRAFT}_currency",
            width=100,
        )
        form.storage_root = st.text_input(
            "Storage root",
            start.storage_root,
            placeholder="the workspace",
            help="A folder for the data of runs. On a cluster: one that this machine and all executors have mounted.",
            key=f"{_DRAFT}_root",
            width=192,
        )
    form.spot = st.checkbox(
        "A machine that may be taken back, at its spot price",
        start.spot,
        help="Runs then cost what machines.csv of the workspace says (spot_per_hour), where no price stands above.",
        key=f"{_DRAFT}_spot",
    )
    form.spark = dict(start.spark)
    if place.backend == "spark":
        form.spark = _spark_settings(start)
    return form


def _machine_type(start: Form, profile: Profile | None) -> str:
    """The price table has some hundred types: typing into the box finds one."""
    known = [m.key for m in machine_table(studio().workspace).machines]
    shown = (profile.machine if profile else "") or start.machine
    choices = ["", *dict.fromkeys(filter(None, [shown, *known]))]
    chosen = st.selectbox(
        "Machine type",
        choices,
        index=choices.index(shown),
        format_func=lambda key: safe(key) if key else "none",
        help="Its price an hour is that of `voxelflow prices`, which has sources and dates.",
        key=f"{_DRAFT}_machine",
        width=306,
    )
    # A name without its region, as somebody may have written it, stays as it is.
    return start.machine if chosen == shown else chosen


def _spark_settings(start: Form) -> dict[str, str]:
    import pandas as pd

    st.html(heading(Html("Spark settings" + tag("span", " as spark-submit takes them", class_="vf-muted"))))
    rows = pd.DataFrame([{"name": k, "value": v} for k, v in start.spark.items()], columns=["name", "value"], dtype=str)
    edited = st.data_editor(
        rows,
        num_rows="dynamic",
        hide_index=True,
        key=f"{_DRAFT}_spark",
        column_config={
            "name": st.column_config.TextColumn("Setting", width="medium"),
            "value": st.column_config.TextColumn("Value", width="medium"),
        },
        placeholder="",
    )
    secrets = 'Secrets only as names of environment variables: "${CLUSTER_SECRET}".'
    st.html(tag("p", secrets, class_="vf-muted"))
    return settings_of(edited.to_dict("records"))


def _buttons(
    name: str | None, form: Form, start: Form, ready: Mapping[str, Any] | None, default: str, *, usable: bool
) -> str | None:
    out = None
    changed = form != start or name is None
    with st.container(key="compute_actions", horizontal=True):
        if st.button("Save", key="compute_save", type="primary", icon=":material/save:", disabled=not changed):
            out = "save"
        if name is None:
            if st.button("Cancel", key="compute_cancel"):
                _open(default)
            return out
        if st.button(
            "Use by default",
            key="compute_default",
            icon=":material/check_circle:",
            disabled=name == default or not usable or changed,
            help="New tabs of the editor, and `voxelflow run` without --profile, run here.",
        ):
            out = "default"
        label = "Reset" if ready is not None else "Delete"
        with st.popover(label, key="compute_delete", disabled=ready is not None and start == Form(name, start.place)):
            st.html(tag("p", f"Take [{name}] out of the file?" if ready is None else "Forget all changes?"))
            if st.button(label, key="compute_delete_sure", icon=":material/delete:"):
                out = "delete"
    return out


def _save(form: Form, name: str | None, ready: Mapping[str, Any] | None, revision: str) -> None:
    save_profile(
        form.name,
        fields_of(form, ready),
        form.spark,
        studio().workspace,
        revision=revision,
        instead_of=name,
    )
    if name is not None:
        _tests.forget(name, studio().workspace)
    st.session_state[_NOTE] = f"Saved {form.name}."
    _open(form.name)


# --- its test -------------------------------------------------------------------------------------

_tests = ProfileTests()
"""For all who look."""


def _test(name: str) -> None:
    workspace = studio().workspace
    test = _tests.newest(name, workspace)
    running = test is not None and test.running
    st.html(heading("What it needs"))
    with st.container(key="compute_test_bar", horizontal=True, vertical_alignment="center"):
        if running and st.button("Stop", key="compute_stop", icon=":material/stop_circle:"):
            assert test is not None
            test.stop()
        elif not running and st.button("Test", key="compute_test", icon=":material/fact_check:"):
            _tests.start(name, workspace)
            st.rerun()
        if test is None:
            st.html(tag("span", "Looks whether everything is there. For Spark it starts a session.", class_="vf-muted"))
        elif running:
            st.html(tag("span", text(test.doing or "Testing"), class_="vf-muted"))
    if running != st.session_state.setdefault(_SHOWN, running) and not is_request_waiting():
        st.session_state[_SHOWN] = running
        st.rerun()  # the pace changes
    if test is None:
        return
    if test.checks:
        st.html(_checks(test))
    if test.problem:
        st.html(notice("error", "The test could not be made.", text(test.problem)))
    elif not running:
        failed = sum(not c.ok for c in test.checks)
        if test.passed:
            st.html(notice("info", f"{name} can be used."))
        elif failed:
            st.html(notice("error", f"{plural(failed, 'things')} missing of {len(test.checks)} looked at."))


def _checks(test: ProfileTest) -> Html:
    rows = []
    for check in test.checks:
        sign = chip("done", "ok") if check.ok else chip("failed", "missing")
        rows.append(
            tag(
                "li",
                sign,
                tag("b", check.name),
                text(check.said),
                tag("p", text(check.hint), class_="vf-hint") if check.hint else None,
            )
        )
    return tag("ul", *rows, class_="vf-checks", aria_label="Checks")


# --- the machine -----------------------------------------------------------------------------------

_history: dict[Path, MachineHistory] = {}
"""One for the process, by the workspace whose disk it looks at: everybody looks at the same machine."""


def _machine() -> None:
    root = studio().workspace.root
    history = _history.get(root)
    if history is None:
        _history.clear()
        history = _history[root] = MachineHistory(root)
    # There is no run whose processes could be counted.
    series = {name: s for name, s in history.series().items() if not name.startswith("run_")}
    if not any(len(s) for s in series.values()):
        st.html(tag("p", "Measuring", class_="vf-muted"))
        return
    st.html(facts(_now(series)))
    start = time.time()
    wanted = ("CPU", "Memory", "Disk", "Network", "GPU", "GPU memory")
    charts = [c for c in system_charts(series, start, 60.0) if c.title in wanted]
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="machine_charts") as grid:
        for chart in charts:
            with grid.cell():
                key = f"machine-{chart.title}"
                draw_curves(chart.title, chart.lines, "minutes from now", key=key, unit=chart.unit, bounds=chart.bounds)


def _now(series: Mapping[str, Any]) -> list[tuple[str, str]]:
    last = {name: s.last for name, s in series.items() if len(s)}
    # A container's /proc may lack any of these.
    out = []
    cpu = last.get("cpu_utilization_percentage")
    if cpu is not None:
        out.append(("CPU", f"{cpu:.0f}%"))
    used = last.get("system_memory_usage_megabytes")
    if used is not None:
        out.append(("memory used", f"{size(used * 1e6)} ({last['system_memory_usage_percentage']:.0f}%)"))
    free = last.get("disk_available_megabytes")
    if free is not None:
        out.append(("disk free", size(free * 1e6)))
    import psutil

    with suppress(Exception):
        out.append(("up for", duration(time.time() - psutil.boot_time())))
    return out
