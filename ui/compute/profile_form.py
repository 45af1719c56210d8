"""The form of a profile on the page Compute: its widgets, and what is wrong with a field beneath it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from engine.errors import UsageError
from engine.prices import machine_table
from engine.prices.dbu import dbu_table
from engine.profiles import Profile
from engine.profiles.find import READY
from engine.profiles.profile import KEEP_WARM_MINUTES
from engine.text import number, safe, size
from ui.compute.form import (
    CLUSTERS,
    EXAMPLES,
    PLACES,
    TITLES,
    WHOLE_NUMBERS,
    Form,
    example_form,
    field_problems,
    fields_of,
    figures_of,
    place_of,
    settings_of,
)
from ui.shell.blocks import Html, heading, notice, show_error, tag, text
from ui.studio_context import studio

DRAFT, DRAFT_FOR, EXAMPLE = "compute_draft", "compute_draft_for", "compute_example"
"""Keys of the session: what the widgets' own begin with; the profile and the file's revision that they are a draft for;
the machine that a new profile begins with."""

_HELP = {
    "machine": "Its price an hour is that of `voxelflow prices`, which has sources and dates. On a cluster it is the"
    " driver's, and each executor costs as much.",
    "executor_machine": "Of each executor, where it is another one than the driver's. Runs cost what all of them do.",
    "dbu_per_hour": "Units that an hour of the machine takes. They are known of many of Azure's machine types.",
    "executor_dbu_per_hour": "Units that an hour of an executor's machine takes, where it is of a type of its own.",
}


def forget_draft() -> None:
    """Have the widgets show what the file says when they are drawn next."""
    for key in [k for k in st.session_state if str(k).startswith(DRAFT)]:
        del st.session_state[key]
    st.session_state.pop(DRAFT_FOR, None)


def begin_with(start: Form, names: Sequence[str]) -> Form:
    """The form of a new profile: empty, or with the figures of a machine that others have measured."""
    titles = ["An empty profile", *(example.title for example in EXAMPLES)]
    title = st.selectbox("Begin with", titles, key=EXAMPLE, on_change=forget_draft, width=320)
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


def draw_form(start: Form, name: str | None, profile: Profile | None, saving: Mapping[str, UsageError]) -> Form:
    """Draw the widgets, those of `start` before a person changes them; returns what they say.

    `profile` is the one in use, whose values are shown where a field is empty; `saving` what a save has found wrong,
    by the name of the field.
    """
    ready = name in READY

    def problems(*keys: str) -> None:
        said = {key: value for key, value in fields_of(form).items() if key in keys}
        found = {**field_problems(said), **{key: saving[key] for key in keys if key in saving}}
        for key in keys:
            if key in found:
                show_error(found[key])

    form = Form(name=start.name)
    if not ready:
        form.name = st.text_input("Name", start.name, key=f"{DRAFT}_name", width=320).strip()
    choices = [k for k in PLACES if not ready or k in (place_of(str(READY[name].get("backend", "")), "local"),)]  # type: ignore[index]
    form.place = start.place
    if len(choices) > 1:
        form.place = st.segmented_control(
            "Where it runs",
            choices,
            default=start.place,
            format_func=lambda key: PLACES[key].title,
            key=f"{DRAFT}_place",
            required=True,
        )
    place = PLACES[form.place]
    st.html(tag("p", place.help, class_="vf-muted"))
    if place.example:
        shown = start.master if start.place == form.place else ""
        form.master = st.text_input(
            TITLES["master"], shown, placeholder=place.example, key=f"{DRAFT}_master_{form.place}", width=420
        )
    else:
        form.master = start.master
    problems("master")
    whose = "of the driver" if form.place in CLUSTERS else "that runs may use"
    st.html(_part("Resources", whose))
    with st.container(key="compute_numbers", horizontal=True):
        for key, (title, least, help_text) in WHOLE_NUMBERS.items():
            form.numbers[key] = st.number_input(
                title,
                min_value=least,
                value=start.numbers.get(key),
                step=1,
                placeholder=str(getattr(profile, key)) if profile else "all" if key == "cores" else "",
                help=help_text,
                key=f"{DRAFT}_{key}",
                width=150,
            )
        form.memory = st.text_input(
            TITLES["memory"],
            start.memory,
            placeholder=size(profile.memory_bytes) if profile else "3/4 of what is free",
            help="For tasks that run on this machine: 16 GB, 16 GiB or 16g.",
            key=f"{DRAFT}_memory",
            width=150,
        )
        form.keep_warm_minutes = start.keep_warm_minutes
        if form.place == "spark-local":
            form.keep_warm_minutes = st.number_input(
                TITLES["keep_warm_minutes"],
                min_value=0.0,
                value=start.keep_warm_minutes,
                placeholder=number(KEEP_WARM_MINUTES),
                step=None,
                format="%.4g",
                help="Spark's Java waits so long for the next run, which then starts at once. It takes some 0.8 GB"
                " meanwhile, and ends when the app stops or memory is short. 0: it ends with its run.",
                key=f"{DRAFT}_warm",
                width=190,
            )
    problems(*WHOLE_NUMBERS, "memory", "keep_warm_minutes")
    # Without Databricks' units, which have fields of their own.
    of_machines = None if profile is None else profile.model_copy(update={"price_per_dbu": None}).hourly_price
    st.html(_part("Price", "with one, runs and estimates show what they cost"))
    with st.container(key="compute_money", horizontal=True):
        form.machine = _machine_type("machine", start.machine, profile.machine if profile else "")
        form.executor_machine = start.executor_machine
        if form.place in CLUSTERS:
            form.executor_machine = _machine_type(
                "executor_machine", start.executor_machine, profile.executor_machine if profile else ""
            )
        form.price_per_hour = st.number_input(
            TITLES["price_per_hour"],
            min_value=0.0,
            value=start.price_per_hour,
            placeholder="" if of_machines is None else number(of_machines),
            step=None,
            format="%.4g",
            help="Your own price of all machines together, before those of their types. Runs show what they have cost.",
            key=f"{DRAFT}_price",
            width=150,
        )
        form.currency = st.text_input(
            TITLES["currency"],
            start.currency,
            placeholder="" if profile is None else safe(profile.currency),
            help="Of that price and of cost limits: EUR, for example. Amounts in different currencies are not added.",
            key=f"{DRAFT}_currency",
            width=100,
        )
    form.spot = st.checkbox(
        "A machine that may be taken back, at its spot price",
        start.spot,
        help="Runs then cost what machines.csv of the workspace says (spot_per_hour), where no price stands above. On"
        " Databricks that is said of the executors; the driver stays on demand.",
        key=f"{DRAFT}_spot",
    )
    problems("machine", "executor_machine", "price_per_hour", "currency", "spot")
    _units(form, start, profile)
    problems("price_per_dbu", "dbu_per_hour", "executor_dbu_per_hour")
    st.html(_part("Each run", "where its data is kept, and when it is stopped"))
    _storage_and_limits(form, start)
    problems("storage_root", "stop_after", "stop_at_cost")
    # What is known of the price in use says nothing of another machine, which is looked up when it is saved.
    as_in_use = _of_price(form) == _of_price(start)
    unpriced_in_use = profile is not None and profile.machine and profile.hourly_price is None
    if profile is not None and unpriced_in_use and as_in_use and form.price_per_hour is None:
        said = f"What an hour costs is not known: {profile.unpriced}."
        if form.stop_at_cost is None:
            st.html(tag("p", text(said), class_="vf-muted"))
        else:
            st.html(notice("warning", text(said), "Runs with a limit of cost cannot start."))
    # A machine's own price, and that of its units, are looked up when the profile is saved.
    known = form.price_per_hour or form.machine or form.price_per_dbu
    if form.stop_at_cost is not None and not known:
        unpriced = "an hour costs 0" if form.price_per_hour is not None else "what an hour costs is not known"
        advice = "Choose a machine type with a price or write a price an hour; or stop after a time."
        st.html(
            notice("warning", f"{TITLES['stop_at_cost']}: {unpriced}, so runs with this limit cannot start.", advice)
        )
    form.spark = dict(start.spark)
    if place.backend == "spark":
        form.spark = _spark_settings(start)
    return form


def _of_price(form: Form) -> tuple[object, ...]:
    """What the price of the machine itself is looked up by."""
    units = (form.price_per_dbu, form.dbu_per_hour, form.executor_dbu_per_hour)
    return (form.machine, form.executor_machine, form.spot, *units)


def _part(title: str, about: str) -> Html:
    """The heading of a part of the form."""
    return heading(Html(title + tag("span", " ", about, class_="vf-muted")))


def _units(form: Form, start: Form, profile: Profile | None) -> None:
    form.price_per_dbu, form.dbu_per_hour = start.price_per_dbu, start.dbu_per_hour
    # Units of a type that is taken out go with it; those of a profile that names none stay.
    taken_out = bool(start.executor_machine) and not form.executor_machine
    form.executor_dbu_per_hour = None if taken_out else start.executor_dbu_per_hour
    if not form.shows_units:
        return
    with st.container(key="compute_units", horizontal=True):
        form.price_per_dbu = st.number_input(
            TITLES["price_per_dbu"],
            min_value=0.0,
            value=start.price_per_dbu,
            step=None,
            format="%.4g",
            help="What one of Databricks' units costs under your plan, in the currency above. An hour costs these"
            " beside the machine.",
            key=f"{DRAFT}_dbu_price",
            width=150,
        )
        in_use = profile.dbu_per_hour if profile is not None and profile.machine == form.machine else None
        form.dbu_per_hour = _units_of("dbu_per_hour", start.dbu_per_hour, form.machine, in_use, key=f"{DRAFT}_dbu")
        if form.shows_executor_units:
            same = profile is not None and profile.executor_machine == form.executor_machine
            form.executor_dbu_per_hour = _units_of(
                "executor_dbu_per_hour",
                start.executor_dbu_per_hour,
                form.executor_machine,
                profile.executor_dbu_per_hour if profile is not None and same else None,
                key=f"{DRAFT}_executor_dbu",
            )


def _storage_and_limits(form: Form, start: Form) -> None:
    with st.container(key="compute_limits", horizontal=True):
        form.storage_root = st.text_input(
            TITLES["storage_root"],
            start.storage_root,
            placeholder="the workspace",
            help="A folder for the data of runs. On a cluster: one that this machine and all executors have mounted.",
            key=f"{DRAFT}_root",
            width=306,
        )
        form.stop_after = st.text_input(
            TITLES["stop_after"],
            start.stop_after,
            placeholder="no limit",
            help="Each run is stopped then, as a cancel does: 3h, 90min, 1h30min or 2d. A run may have a limit of its"
            " own.",
            key=f"{DRAFT}_stop_after",
            width=150,
        )
        form.stop_at_cost = st.number_input(
            TITLES["stop_at_cost"],
            min_value=0.0,
            value=start.stop_at_cost,
            placeholder="no limit",
            step=None,
            format="%.4g",
            help="Each run is stopped once it has cost so much, by the price above.",
            key=f"{DRAFT}_stop_cost",
            width=150,
        )


def _units_of(field: str, written: float | None, machine: str, in_use: float | None, *, key: str) -> float | None:
    """Databricks' units of a machine type; where the field is empty it shows those that are known of it."""
    known = dbu_table().get(machine.partition("@")[0].casefold())
    usual = known.dbu_per_hour if known is not None else in_use
    return st.number_input(
        TITLES[field],
        min_value=0.0,
        value=written,
        placeholder="" if usual is None else number(usual),
        step=None,
        format="%.4g",
        help=_HELP[field],
        key=key,
        width=150 if field == "dbu_per_hour" else 190,
    )


def _machine_type(field: str, written: str, in_use: str) -> str:
    """The price table has some hundred types: typing into the box finds one."""
    known = [m.key for m in machine_table(studio().workspace).machines]
    shown = in_use or written
    choices = ["", *dict.fromkeys(filter(None, [shown, *known]))]
    chosen = st.selectbox(
        TITLES[field],
        choices,
        index=choices.index(shown),
        format_func=lambda key: safe(key) if key else "none" if field == "machine" else "as the driver's",
        help=_HELP[field],
        key=f"{DRAFT}_{field}",
        width=306,
    )
    # A name without its region, as somebody may have written it, stays as it is.
    return written if chosen == shown else chosen


def _spark_settings(start: Form) -> dict[str, str]:
    import pandas as pd

    st.html(_part("Spark settings", "as spark-submit takes them"))
    rows = pd.DataFrame([{"name": k, "value": v} for k, v in start.spark.items()], columns=["name", "value"], dtype=str)
    edited = st.data_editor(
        rows,
        num_rows="dynamic",
        hide_index=True,
        key=f"{DRAFT}_spark",
        column_config={
            "name": st.column_config.TextColumn("Setting", width="medium"),
            "value": st.column_config.TextColumn("Value", width="medium"),
        },
        placeholder="",
    )
    secrets = 'Secrets only as names of environment variables: "${CLUSTER_SECRET}".'
    st.html(tag("p", secrets, class_="vf-muted"))
    return settings_of(edited.to_dict("records"))
