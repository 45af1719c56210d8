"""Below the table of prices: a machine of one's own by a form, and what object storage costs."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine.errors import UsageError
from engine.prices import Machine, MachineTable, add_machines, storage_file, storage_table
from engine.prices.doubts import doubts, own_storage_doubts
from engine.prices.storage import SHOWN
from ui.compute.price_rows import far_from, new_row, price_of
from ui.shell.blocks import notice, show_error, table, tag, text
from ui.studio_context import studio

NEW = "prices_new"
"""What the keys of the form begin with."""
_DOUBTED = "prices_doubted"
"""Key of the session: the machine whose price looks wrong, until a person has said that it is meant."""


def add_by_form(known: MachineTable, done: Callable[[str], None]) -> None:
    """Draw the form. `done` hears in words which machine was added."""
    with st.form(NEW, border=False):
        with st.container(horizontal=True):
            name = st.text_input("Name", key=f"{NEW}_name", placeholder="lab-box", width=190)
            provider = st.text_input("Provider", key=f"{NEW}_provider", placeholder="ours", width=130)
            region = st.text_input("Region", key=f"{NEW}_region", width=130)
            cores = st.number_input("Cores", min_value=1, value=None, step=1, key=f"{NEW}_cores", width=110)
            memory = _amount("Memory, GiB", f"{NEW}_memory")
        with st.container(horizontal=True):
            gpus = st.number_input("GPUs", min_value=0, value=None, step=1, key=f"{NEW}_gpus", width=110)
            gpu = st.text_input("GPU type", key=f"{NEW}_gpu", placeholder="NVIDIA T4", width=160)
            price = _amount("Price an hour", f"{NEW}_price")
            currency = st.text_input("Currency", key=f"{NEW}_currency", placeholder="EUR", width=100)
        pressed = st.form_submit_button("Add machine", key=f"{NEW}_add", icon=":material/add:")
    fields = {
        "name": name.strip(),
        "provider": provider.strip(),
        "region": region.strip(),
        "cores": cores,
        "memory_gib": memory,
        # The name of a GPU alone means one.
        "gpus": 1 if gpus is None and gpu.strip() else gpus,
        "gpu": gpu.strip(),
        "price_per_hour": price,
        "currency": currency.strip(),
    }
    try:
        if pressed:
            st.session_state.pop(_DOUBTED, None)
            machine = new_row(fields, known)
            if not _wrong(machine, known):
                _add(machine, done)
            st.session_state[_DOUBTED] = machine
        doubted = st.session_state.get(_DOUBTED)
        if doubted is not None and doubted.name == fields["name"]:
            wrong = map(text, _wrong(doubted, known))
            st.html(notice("warning", "The price looks wrong. Nothing is added yet.", *wrong))
            if st.button("Add anyway", key="prices_add_anyway"):
                _add(doubted, done)
    except UsageError as error:
        show_error(error)


def _wrong(machine: Machine, known: MachineTable) -> list[str]:
    alike = [other for other in known.machines if other.name.casefold() == machine.name.casefold()]
    return [*doubts([machine], known.machines), *(line for other in alike for line in far_from(machine, other))]


def _amount(title: str, key: str) -> float | None:
    return st.number_input(title, min_value=0.0, value=None, step=None, format="%.6g", key=key, width=130)


def _add(machine: Machine, done: Callable[[str], None]) -> None:
    add_machines([machine], studio().workspace)
    for key in [key for key in st.session_state if str(key).startswith((NEW, _DOUBTED))]:
        del st.session_state[key]
    costs = price_of(machine)
    done(f"{machine.key} is in machines.csv{f', at {costs} an hour' if costs else ', without a price'}.")


def show_storage_prices() -> None:
    """Draw the table of what object storage costs, with what is wrong in the workspace's own rows."""
    workspace = studio().workspace
    found = storage_table(workspace)
    if found.problem is not None:
        show_error(found.problem)
    elif wrong := own_storage_doubts(workspace):
        st.html(notice("warning", "Some prices of storage.csv look wrong.", *map(text, wrong)))
    st.html(table(SHOWN, [row.row() for row in found.prices], "Object storage", numeric=(3, 4, 5)))
    own = text(storage_file(workspace), "vf-mono")
    command = tag("code", "voxelflow prices storage import FILE.csv")
    st.html(
        tag("p", "Predictions take the first class of each store. Rows of your own: ", command, ", into ", own, ".",
            class_="vf-muted")
    )  # fmt: skip
