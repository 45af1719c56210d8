"""The page of compute profiles: a list, the chosen one's form, its test; advice, prices and the machine below.

/compute?profile=NAME shows that profile.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

from engine.errors import UsageError
from engine.profiles import Listed, Profile, default_profile, list_profiles, profiles_file, unreadable
from engine.profiles.edit import Written, delete_profile, read_written, save_profile, set_default
from engine.profiles.find import READY
from engine.text import duration, hourly, number, plural, size
from ui.compute.advice import show_advice
from ui.compute.benchmarks import show_benchmarks
from ui.compute.checks import ProfileTest, ProfileTests
from ui.compute.form import CLUSTERS, Form, field_problem, fields_of, form_of, place_of, unique_name
from ui.compute.machine import EVERY_S, MachineHistory
from ui.compute.prices import show_prices
from ui.compute.profile_form import DRAFT_FOR, EXAMPLE, begin_with, draw_form, forget_draft
from ui.runs.charts import MIN_CHART_WIDTH, draw_curves
from ui.runs.feed import Series
from ui.runs.system import rates, system_charts
from ui.runs.timeline import time_unit
from ui.shell.blocks import Html, chip, facts, heading, notice, plain, show_error, tag, text, with_commands
from ui.shell.place_in_turn import is_shown, place_in_turn
from ui.shell.redraw import is_request_waiting
from ui.studio_context import studio

_ADDRESS = "profile"
_SHOWN, _NOTE, _WRONG = "compute_shown", "compute_note", "compute_wrong"
_PLACE = "compute_profile"
_LOOK_S = 0.5
_NEW = "compute_is_new"


def show() -> None:
    """Draw the page."""
    workspace = studio().workspace
    listed = list_profiles(workspace)
    names = [item.name for item in listed]
    default = default_profile(workspace)
    with st.container(key="compute_lists"):
        left, right = st.columns([1, 2.4], gap="large")
    with left:
        chosen = _list(listed, default)
    shown = None if st.session_state.get(_NEW) else chosen
    with right, place_in_turn(_PLACE, shown):
        if (broken := unreadable(workspace)) is not None:
            show_error(broken)
        elif st.session_state.get(_NEW):
            _edit(None, None, names, default)
        else:
            _edit(chosen, next((p for p in listed if p.name == chosen), None), names, default)
    advised = default if shown is None else shown
    show_advice(next((item.profile for item in listed if item.name == advised), None))
    show_prices()
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
        st.session_state.pop(EXAMPLE, None)
        forget_draft()
        st.rerun()
    st.html(tag("p", "Kept in ", text(profiles_file(studio().workspace), "vf-mono"), class_="vf-muted"))
    return chosen


def _summary(item: Listed, default: str) -> list[Html | str]:
    profile = item.profile
    if profile is None:
        return ["cannot be used: ", text(item.problem.message if item.problem else "")]
    here = [plural(profile.cores, "cores"), size(profile.memory_bytes)]
    if profile.gpus:
        here.append(plural(profile.gpus, "GPUs"))
    # Of a cluster, these are not what it has.
    on_cluster = place_of(profile.backend, profile.master) in CLUSTERS
    parts = [profile.where, *([f"driver: {', '.join(here)}"] if on_cluster else here)]
    if profile.hourly_price is not None:
        parts.append(hourly(profile.hourly_price, profile.currency))
    if item.name == default:
        parts.append("default")
    return [text(" · ".join(parts))]


def _open(name: str) -> None:
    st.session_state.pop(_NEW, None)
    forget_draft()
    st.query_params[_ADDRESS] = name
    st.rerun()


# --- one profile ----------------------------------------------------------------------------------


def _edit(name: str | None, item: Listed | None, names: Sequence[str], default: str) -> None:
    workspace = studio().workspace
    written = read_written(name, workspace) if name else Written(revision=read_written("", workspace).revision)
    ready = READY.get(name) if name else None
    draft_for = (name, written.revision)
    if st.session_state.get(DRAFT_FOR, (None,))[0] != name or DRAFT_FOR not in st.session_state:
        forget_draft()
        st.session_state[DRAFT_FOR] = draft_for
    revision = st.session_state[DRAFT_FOR][1]
    start = form_of(name or unique_name("cluster", names), written, ready)
    st.html(tag("div", tag("h1", text(name or "New profile")), class_="vf-title"))
    if name is None:
        start = begin_with(start, names)
    # A place of their own, here and below the buttons: what comes after would move by one when they go, and be there
    # twice until all of the page is drawn.
    with st.empty().container():
        if item is not None and item.problem is not None:
            show_error(item.problem)
        if note := st.session_state.pop(_NOTE, None):
            st.html(notice("info", note))
    wrong = st.session_state.pop(_WRONG, {})
    form = draw_form(start, name, item.profile if item else None, wrong)
    pressed = _buttons(name, form, start, ready, default, item.profile if item is not None else None)
    refused = st.empty()
    try:
        if pressed == "save":
            _save(form, name, ready, written, revision)
        elif pressed == "delete" and name is not None:
            delete_profile(name, workspace, revision=revision)
            _tests.forget(name, workspace)
            st.session_state[_NOTE] = f"{name} is as it was at first." if ready is not None else f"{name} is deleted."
            _open(name if ready is not None else default if default != name else "local")
        elif pressed == "default" and name is not None:
            set_default(name, workspace)
            _open(name)
    except UsageError as error:
        field, problem = field_problem(error, form.name)
        if pressed == "save" and field:
            # It belongs at the field, which is drawn already.
            st.session_state[_WRONG] = {field: problem}
            st.rerun()
        with refused.container():
            show_error(error)
    if name is not None:
        test = _tests.newest(name, workspace)
        st.fragment(_test, run_every=_LOOK_S if test is not None and test.running else None)(name)


def _buttons(
    name: str | None, form: Form, start: Form, ready: Mapping[str, Any] | None, default: str, profile: Profile | None
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
        # Pipelines run on Databricks as jobs, never from here: a choice of it would fail each run.
        on_databricks = profile is not None and profile.on_databricks
        if not on_databricks and st.button(
            "Use by default",
            key="compute_default",
            icon=":material/check_circle:",
            disabled=name == default or profile is None or changed,
            help="New tabs of the editor, and `voxelflow run` without --profile, run here.",
        ):
            out = "default"
        label = "Reset" if ready is not None else "Delete"
        with st.popover(label, key="compute_delete", disabled=ready is not None and start == Form(name, start.place)):
            st.html(tag("p", f"Take [{name}] out of the file?" if ready is None else "Forget all changes?"))
            if st.button(label, key="compute_delete_sure", icon=":material/delete:"):
                out = "delete"
    return out


def _save(form: Form, name: str | None, ready: Mapping[str, Any] | None, written: Written, revision: str) -> None:
    fields = fields_of(form, ready)
    if form.stop_at_cost is None and form_of(form.name, written, ready).stop_at_cost is None:
        # One that is badly written is an empty field: it stays, and the save is refused. Runs would have no limit.
        del fields["stop_at_cost"]
    save_profile(
        form.name,
        fields,
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
    if not is_shown(_PLACE, name):
        return  # by the timer of a profile that is shown no more: what it drew goes
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
    of, was_running = st.session_state.get(_SHOWN, ("", False))
    if of != name:
        st.session_state[_SHOWN] = (name, running)  # the page has been drawn for this profile, at its pace
    elif running != was_running and not is_request_waiting():
        st.session_state[_SHOWN] = (name, running)
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
                tag("p", with_commands(check.hint), class_="vf-hint") if check.hint else None,
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
    if history.gpu_problem:
        st.html(tag("p", text(f"No GPU is measured: {history.gpu_problem}."), class_="vf-muted"))
    start = time.time()
    unit, second = _unit_of_time(series, start)
    wanted = ("CPU", "Memory", "Disk", "Network", "GPU", "GPU memory")
    charts = [c for c in system_charts(series, start, second) if c.title in wanted]
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="machine_charts") as grid:
        for chart in charts:
            with grid.cell():
                key = f"machine-{chart.title}"
                draw_curves(chart.title, chart.lines, f"{unit} from now", key=key, unit=chart.unit, bounds=chart.bounds)


def _unit_of_time(series: Mapping[str, Series], now: float) -> tuple[str, float]:
    """The unit of the curves' axis, which grows with them, and how many seconds it has."""
    return time_unit(now - min((measured.steps[0] for measured in series.values() if len(measured)), default=now))


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
    out += _gpus_now(last)
    for what, ways in _TRAFFIC.items():
        found = [(word, rates(series[name], 0.0).last) for word, name in ways if name in series]
        now = [f"{_rate(rate)} {word}" for word, rate in found if rate is not None and math.isfinite(rate)]
        if now:
            out.append((f"{what}, MB/s", ", ".join(now)))
    free = last.get("disk_available_megabytes")
    if free is not None:
        out.append(("disk free", size(free * 1e6)))
    import psutil

    with suppress(Exception):
        out.append(("up for", duration(time.time() - psutil.boot_time())))
    return out


_GPU = re.compile(r"gpu_([0-9]+)_utilization_percentage")
_TRAFFIC = {
    "disk": (("read", "disk_read_megabytes"), ("written", "disk_write_megabytes")),
    "network": (("received", "network_receive_megabytes"), ("sent", "network_transmit_megabytes")),
}


def _gpus_now(last: Mapping[str, float]) -> list[tuple[str, str]]:
    numbers = sorted(int(match[1]) for name in last if (match := _GPU.fullmatch(name)))
    out = []
    for device in numbers:
        said = f"{last[f'gpu_{device}_utilization_percentage']:.0f}%"
        if (used := last.get(f"gpu_{device}_memory_usage_megabytes")) is not None:
            said += f", {size(used * 1e6)} used"
        out.append((f"GPU {device}" if len(numbers) > 1 else "GPU", said))
    return out


def _rate(mb_s: float) -> str:
    return number(float(f"{mb_s:.2g}"))
