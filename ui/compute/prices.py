"""The section Prices of the page Compute: machine types with their prices, one's own, CSV files, object storage."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import streamlit as st

from engine.errors import UsageError
from engine.prices import COLUMNS, Machine, MachineTable, add_machines, machine_table, machines_file, remove_machine
from engine.prices.doubts import doubts, own_doubts
from engine.prices.machines import own_machines
from engine.text import plural, short_source
from ui.compute.benchmarks import best_measured
from ui.compute.more_prices import add_by_form, show_storage_prices
from ui.compute.price_rows import (
    SENT_MB,
    SHOWN,
    PriceRow,
    base_of,
    far_from,
    frame_of,
    links_of,
    matching,
    own_row,
    price_of,
    price_rows,
    read_sent,
    sent_in_words,
    sent_row,
)
from ui.shell.blocks import Html, count_line, facts, heading, notice, search_box, show_error, table, tag, text
from ui.studio_context import studio

_TABLE, _KEYS, _SELECTED = "prices_table", "prices_shown", "prices_selected"
_NOTE, _ROUND, _PENDING, _OWN = "prices_note", "prices_round", "prices_pending", "prices_own"
_FROM = "built in: comes with Voxelflow, read from the source on that day; own: machines.csv; measured: voxelflow bench"
_ROW_HEIGHT, _TALLEST = 34, 11
_LISTED = 10
_KEPT = 4


def show_prices() -> None:
    """Draw the section."""
    st.fragment(_section)()


def _section() -> None:
    workspace = studio().workspace
    st.html(
        heading(Html("Prices" + tag("span", " on demand, without discounts, taxes, disks, traffic", class_="vf-muted")))
    )
    known = machine_table(workspace)
    if known.problem is not None:
        show_error(known.problem)
    elif wrong := _own_doubts(str(machines_file(workspace)), _state(machines_file(workspace))):
        st.html(_doubtful("Some prices of machines.csv look wrong.", wrong))
    rows = price_rows(known, best_measured())
    row = _chosen(_found(rows))
    # In a place of its own: what comes and goes there does not move the parts below, whose contents would stand
    # for a moment in their neighbours.
    with st.container():
        _show_note("one")
        if row is not None and known.problem is None:
            _one(row, known)
    with st.expander("Add a machine", key="prices_add", icon=":material/add:"):
        _show_note("add")
        if known.problem is None:
            add_by_form(known, partial(_done, "add"))
    with st.expander("Import a CSV file", key="prices_import", icon=":material/upload_file:"):
        _show_note("import")
        _import(known)
    with st.expander("Object storage", key="prices_storage", icon=":material/cloud:"):
        show_storage_prices()


def _show_note(place: str) -> None:
    """What was done there, where a person looks at that moment."""
    at, said = st.session_state.get(_NOTE, ("", ""))
    if at == place:
        del st.session_state[_NOTE]
        st.html(notice("info", text(said)))


# --- the table -----------------------------------------------------------------------------------


def _found(rows: Sequence[PriceRow]) -> list[PriceRow]:
    with st.container(key="prices_bar", horizontal=True, vertical_alignment="center"):
        typed = search_box(
            "Search prices", key="prices_search", placeholder="Name, region, GPU: azure westeurope t4", width=320
        )
        with_gpu = st.toggle("Has a GPU", key="prices_gpu")
        found = matching(rows, typed, with_gpu=with_gpu)
        count_line(
            f"{len(found):,} of {plural(len(rows), 'prices')}"
            if len(found) < len(rows)
            else plural(len(rows), "prices")
        )
    if len(found) > SHOWN:
        st.html(tag("p", f"The {SHOWN:,} cheapest are listed. Search for the others.", class_="vf-muted"))
    return found[:SHOWN]


def _chosen(found: Sequence[PriceRow]) -> PriceRow | None:
    """Draw the table; returns the row that is ticked."""
    keys = [row.machine.key for row in found]
    if not found:
        st.session_state[_KEYS] = keys
        st.session_state.pop(_TABLE, None)
        st.html(tag("p", "No machine has all of that.", class_="vf-muted"))
        return None
    st.session_state[_KEYS] = keys
    selected = st.session_state.get(_SELECTED)
    rows = [keys.index(selected)] if selected in keys else []
    before = st.session_state.get(_TABLE)
    if before is not None and before["selection"]["rows"] != rows:
        # Another search moves the rows: the tick goes with its machine.
        st.session_state[_TABLE] = {"selection": {"rows": rows}}
    config = st.column_config
    st.dataframe(
        frame_of(found),
        key=_TABLE,
        hide_index=True,
        on_select=_select,
        selection_mode="single-row",
        selection_default=None if before is not None else {"selection": {"rows": rows}},
        column_config={
            "machine": config.TextColumn("Machine", width=185),
            "place": config.TextColumn("Provider, region", width=135),
            "cores": config.NumberColumn("Cores", width=60),
            "memory": config.NumberColumn("GiB", width=65, help="Memory"),
            "gpus": config.TextColumn("GPUs", width=145),
            "disk": config.NumberColumn("Disk MB/s", width=80, help="At most, all day"),
            "network": config.NumberColumn("Net MB/s", width=80, help="At most, all day"),
            "price": config.NumberColumn("An hour", width=95),
            "date": config.TextColumn("As of", width=90),
            "source": config.LinkColumn("Source", width=150, display_text=r"https?://(?:www\.)?([^/?#]+(?:/[^/?#]+)?)"),
            "from": config.TextColumn("From", width=75, help=_FROM),
            "rate": config.NumberColumn("Volumes/s", width=80, help="Of its fastest training"),
        },
        row_height=_ROW_HEIGHT,
        height="content" if len(found) <= _TALLEST else (_TALLEST + 1) * _ROW_HEIGHT,
        placeholder="",
        alt="Prices, the cheapest first",
    )
    if not rows:
        st.html(tag("p", "Tick a machine to see its sources and to set a price of your own.", class_="vf-count"))
    return found[rows[0]] if rows else None


def _select() -> None:
    rows, keys = st.session_state[_TABLE]["selection"]["rows"], st.session_state[_KEYS]
    st.session_state[_SELECTED] = keys[rows[0]] if rows and rows[0] < len(keys) else None
    st.session_state.pop(_PENDING, None)


# --- one machine ---------------------------------------------------------------------------------


def _one(row: PriceRow, known: MachineTable) -> None:
    workspace, machine = studio().workspace, row.machine
    with st.container(border=True, key="prices_one"):
        st.html(heading(text(machine.key)))
        st.html(facts(_facts(row)))
        price, spot, currency, date, source, pressed = _own_form(row)
        pending = st.session_state.get(_PENDING)
        try:
            if pressed:
                st.session_state.pop(_PENDING, None)
                new = own_row(base_of(row, own_machines(workspace)), price, spot, currency, date, source)
                if not _wrong(new, row, known):
                    _keep(new)
                pending = st.session_state[_PENDING] = new
            if pending is not None and pending.key == machine.key:
                st.html(_doubtful("The price looks wrong.", _wrong(pending, row, known)))
                if st.button("Save anyway", key="prices_anyway"):
                    _keep(pending)
            if row.origin == "own":
                with st.popover("Take out", key="prices_out"):
                    st.html(
                        tag("p", "Take the row out of machines.csv? The built-in price counts again, if there is one.")
                    )
                    if st.button("Take out", key="prices_out_sure", icon=":material/delete:"):
                        remove_machine(machine.key, workspace)
                        _done("one", f"{machine.key} is taken out of machines.csv.")
        except UsageError as error:
            show_error(error)


def _wrong(new: Machine, row: PriceRow, known: MachineTable) -> list[str]:
    return [*far_from(new, row.machine), *doubts([new], known.machines)]


def _facts(row: PriceRow) -> list[tuple[str, Html | str]]:
    """What the table does not show, or not whole."""
    machine = row.machine
    out: list[tuple[str, Html | str]] = [("an hour", price_of(machine) or "not known")]
    if machine.source:
        out.append(("price from", _sources(machine.source)))
    if machine.specs_source:
        out.append(("figures from", _sources(machine.specs_source)))
    return out


def _sources(source: str) -> Html:
    """The text with its addresses as links, in short."""
    links = set(links_of(source))
    parts = [
        tag("a", text(short_source(part)), href=part, target="_blank", rel="noopener", class_="vf-link")
        if part in links
        else text(part)
        for part in source.split()
    ]
    return Html(" ".join(parts))


def _own_form(row: PriceRow) -> tuple[float | None, float | None, str, str, str, bool]:
    machine = row.machine
    own = row.origin == "own"
    key = f"{_OWN}_{machine.key}"
    with st.form(f"{key}_form", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        price = _amount("Your price an hour", machine.price_per_hour, f"{key}_price")
        spot = _amount("Spot price an hour", machine.spot_per_hour, f"{key}_spot")
        currency = st.text_input("Currency", machine.currency, key=f"{key}_currency", width=90)
        # What is typed over a built-in price is of today.
        as_of = machine.date if own else datetime.date.today().isoformat()
        date = st.text_input("As of", as_of, placeholder="2026-06-18", key=f"{key}_date", width=130)
        source = st.text_input("Source", machine.source if own else "", key=f"{key}_source", width=240)
        pressed = st.form_submit_button("Save price", key=f"{key}_save", icon=":material/save:")
    return price, spot, currency.strip(), date.strip(), source.strip(), pressed


def _amount(title: str, value: float | None, key: str) -> float | None:
    return st.number_input(title, min_value=0.0, value=value, step=None, format="%.6g", key=key, width=135)


def _keep(new: Machine) -> None:
    add_machines([new], studio().workspace)
    st.session_state.pop(_PENDING, None)
    _done("one", f"{new.key} costs {price_of(new)} an hour, by machines.csv.")


def _done(place: str, said: str) -> None:
    """Draw the whole page anew: profiles have these prices, too."""
    st.session_state[_NOTE] = place, said
    for key in [key for key in st.session_state if str(key).startswith(_OWN)]:
        del st.session_state[key]
    st.rerun()


# --- a CSV file ----------------------------------------------------------------------------------


def _import(known: MachineTable) -> None:
    workspace = studio().workspace
    into = text(machines_file(workspace), "vf-mono")
    columns = f" The first line names the columns: name, and any of {', '.join(c for c in COLUMNS if c != 'name')}."
    st.html(tag("p", "Its rows go into ", into, " and count instead of built-in ones.", columns, class_="vf-muted"))
    sent = st.file_uploader(
        "CSV file of machines",
        type="csv",
        key=f"prices_file_{st.session_state.setdefault(_ROUND, 0)}",
        max_upload_size=SENT_MB,
        label_visibility="collapsed",
    )
    if sent is None:
        return
    try:
        new = _read(sent.name, sent.getvalue())
        if known.problem is not None:
            raise known.problem
        wrong = _doubts_of(new, known.machines, sent.file_id, _state(machines_file(workspace)))
        st.html(tag("p", tag("b", text(Path(sent.name).name)), f" has {sent_in_words(new, known)}.", style="margin: 0"))
        by_key = {machine.key.casefold(): machine for machine in known.machines}
        shown = [sent_row(machine, by_key) for machine in new[:_LISTED]]
        st.html(table(("machine", "region", "an hour now", "an hour in the file", "as of"), shown, "Found in the file"))
        if len(new) > len(shown):
            st.html(tag("p", f"and {len(new) - len(shown):,} more", class_="vf-muted"))
        if wrong:
            st.html(_doubtful(f"{plural(len(wrong), 'prices')} may be wrong. Nothing is imported yet.", wrong))
        with st.container(horizontal=True):
            label = "Import anyway" if wrong else f"Import {plural(len(new), 'machines')}"
            if st.button(
                label, key="prices_take", type="secondary" if wrong else "primary", icon=":material/download_done:"
            ):
                added, replaced = add_machines(new, workspace)
                _next_file()
                _done("import", f"{plural(added, 'machines')} added, {replaced:,} replaced in machines.csv.")
            st.button("Cancel", key="prices_leave", on_click=_next_file)
    except UsageError as error:
        show_error(error)


def _next_file() -> None:
    """Empty the box of the file, which by a new key is a new one."""
    st.session_state[_ROUND] += 1


def _doubtful(title: str, wrong: Sequence[str]) -> Html:
    lines = [text(line) for line in wrong[:_LISTED]]
    if len(wrong) > _LISTED:
        lines.append(text(f"and {len(wrong) - _LISTED:,} more"))
    return notice("warning", title, *lines, "Look the prices up, and correct them where they are wrong.")


# Each rerun of the section comes here again, and a large file takes seconds.


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _read(name: str, data: bytes) -> list[Machine]:
    return read_sent(name, data)


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _doubts_of(_new: Sequence[Machine], _known: Sequence[Machine], file: str, state: object) -> list[str]:
    """What looks wrong in what was sent; looked at again when the workspace's own prices have changed."""
    return doubts(_new, _known)


# --- what is known -------------------------------------------------------------------------------


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _own_doubts(path: str, state: object) -> list[str]:
    """What looks wrong in the workspace's own prices; looked at again when the file has changed."""
    return own_doubts(studio().workspace)
