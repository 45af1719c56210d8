"""The page of where data comes from: a graph across pipelines and runs, and what is known of the item chosen in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from engine.declare.dataset_type import details_of
from engine.history.details import short_id
from engine.lineage import REGISTERED, RESULTS, Item, Lineage, Origin, State, read_lineage
from engine.text import moment, number, plural, safe
from engine.wording import MOST_FIGURES, details_text, figure_name
from ui.build.page import documents_of
from ui.lineage import drawing
from ui.lineage.drawing import MARKS, Kind, kind_of, kinds_of
from ui.lineage.judging import Judged, Judging
from ui.shell import navigation
from ui.shell.blocks import Content, Html, chip, count_line, heading, notice, plain, shortened, tag, text
from ui.shell.canvas import draw_look
from ui.shell.redraw import is_request_waiting
from ui.shell.theme import current_mode, follow_mode
from ui.studio_context import Studio, studio

_EVERYTHING, _BEFORE, _BEHIND = "Everything", "What leads to it", "What was made from it"
_PIPELINE, _KINDS, _SCOPE, _CHOSEN = "lineage_pipeline", "lineage_kinds", "lineage_scope", "lineage_item"
_OLDER, _MOST, _GRAPH, _LIST = "lineage_older", "lineage_most", "lineage_graph", "lineage_list"
_TABLE = "lineage_table"
_ADDRESS = "item"
"""What in the page's address names the chosen item."""
_SETTLED = "lineage_settled"
"""Key of the session state: the page is drawn again because the answer is there, not because somebody opened it."""
_DRAWN = 120
"""Items drawn at first; "Show more" doubles them."""
_TICK_S = 1.0
_FIRST_S = 0.5
"""The page waits as long for its first answer: a graph drawn without it is drawn anew, in another size, right after."""
_STATES: Mapping[State, tuple[str, str]] = {
    "source": ("queued", "source"),
    "current": ("done", "current"),
    "stale": ("waiting", "stale"),
    "older": ("skipped", "older"),
    "removed": ("failed", "removed"),
    "unknown": ("left out", "not checked"),
}
"""For a chip: the state of a run whose colour it has, and the word."""
_MOST_PROBLEMS, _LONGEST_PROBLEM = 3, 200
_ROW_HEIGHT, _TALLEST = 34, 12
"""Pixels of a row of the items' table, and rows that it shows at once."""
_judgings: dict[Path, Judging] = {}


def show() -> None:
    """Draw the page."""
    navigation.set_title("Lineage")
    _follow_address()
    found = studio()
    judged = judging_of(found).now(anew=not st.session_state.pop(_SETTLED, False), first_within_s=_FIRST_S)
    st.fragment(_page, run_every=None if judged.complete else _TICK_S)(judged.complete)
    follow_mode()


def judging_of(found: Studio) -> Judging:
    """What finds out what is stale in the workspace of this process; made on first use."""
    judging = _judgings.get(found.workspace.root)
    if judging is None or judging.studio is not found:
        documents = documents_of(found)
        judging = _judgings[found.workspace.root] = Judging(found, documents.files, documents.catalogue)
    return judging


def _page(was_complete: bool) -> None:
    _correct_address()
    found = studio()
    judged = judging_of(found).now()
    if judged.complete != was_complete and not is_request_waiting():
        st.session_state[_SETTLED] = True
        st.rerun()
    pipelines = found.store.latest_pipelines(500)
    if not pipelines:
        st.html(notice("info", "Nothing was made yet.", "What pipelines make, and what of, is shown here."))
        if st.button("Go to Build", key="lineage_to_build", type="primary"):
            navigation.go_to_build()
        return
    kinds = kinds_of(documents_of(found).catalogue.catalog.datasets)
    with st.container(horizontal=True, vertical_alignment="center", key="lineage_filters"):
        pipeline = st.selectbox(
            "Pipeline", pipelines, index=None, key=_PIPELINE, placeholder="All pipelines", bind="query-params",
            label_visibility="collapsed", width=260,
        )  # fmt: skip
        whole = _read(pipeline or "")
        known = {item.kind for item in whole.items.values()}
        there = [*(kind for kind in kinds if kind in known), *sorted(known - kinds.keys())]
        wanted = st.multiselect(
            "Kinds", there, key=_KINDS, format_func=lambda kind: kinds[kind].title if kind in kinds else kind,
            placeholder="All kinds", label_visibility="collapsed", width=340,
        )  # fmt: skip
        older = st.toggle("Older versions", key=_OLDER, value=False)
        counted = st.container(width="content")
    lineage = whole
    if not older:
        lineage = without_older(lineage, judged)
    chosen = _chosen(whole)
    scope = st.session_state.get(_SCOPE, _EVERYTHING) if chosen is not None else _EVERYTHING
    if chosen is not None and scope != _EVERYTHING:
        lineage = whole.leading_to(chosen) if scope == _BEFORE else whole.made_from(chosen)
    lineage = lineage.of_kinds([*wanted, whole.items[chosen].kind] if wanted and chosen is not None else wanted)
    fitting = len(lineage.items)
    most = st.session_state.get(_MOST, _DRAWN)
    lineage = lineage.newest(most)
    with counted:
        count_line(shown_text(len(lineage.items), fitting, len(whole.items)))
    with st.container():  # always there: were the graph's place among its siblings another, its frame would begin anew
        _warnings(whole, judged, fitting > most, pipeline or "")
    if not lineage.items:
        st.html(notice("info", "Nothing of these kinds was made."))
        return
    with st.container(key="lineage_graph", border=True):
        drawing.draw(lineage, judged.verdicts, kinds, chosen, current_mode(), key=_key(_GRAPH), clicked=_clicked)
    st.html(_legend(lineage, judged, kinds))
    _choice(lineage, whole, chosen, kinds)
    if chosen is not None:
        _item(whole, chosen, judged, kinds)
    else:
        _items(lineage, judged, kinds)


def without_older(lineage: Lineage, judged: Judged) -> Lineage:
    """Without versions that newer ones have followed, and results that are gone, unless something of today is made of
    them."""
    today = [k for k in lineage.items if lineage.state(k, judged.verdicts)[0] in ("current", "stale", "unknown")]
    return lineage.leading_to(*today) if today else lineage


def shown_text(drawn: int, fitting: int, known: int) -> str:
    """`120 of 800 items`"""
    if drawn < fitting:
        return f"the newest {drawn:,} of {fitting:,} items"
    return plural(fitting, "items") if fitting == known else f"{fitting:,} of {known:,} items"


def _read(pipeline: str) -> Lineage:
    """The lineage, read again when results have changed; this browser tab keeps the last one."""
    store = studio().store
    state = (pipeline, store.results.state(), store.latest_pipelines(1))
    kept = st.session_state.get("lineage_kept")
    if kept is None or kept[0] != state:
        kept = st.session_state["lineage_kept"] = (state, read_lineage(store, pipeline))
    found: Lineage = kept[1]
    return found


def _warnings(whole: Lineage, judged: Judged, more: bool, pipeline: str) -> None:
    if whole.read < whole.known:
        st.html(
            notice(
                "info",
                f"These are the {whole.read:,} results used last, and what they were made from, of {whole.known:,}.",
                f"Choose a pipeline to see its own {RESULTS:,} newest.",
            )
        )
    if more:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.html(tag("p", "Narrow the graph by pipeline, by kind, or by what leads to one item.", class_="vf-count"))
            if st.button("Show more", key="lineage_more"):
                st.session_state[_MOST] = 2 * st.session_state.get(_MOST, _DRAWN)
                st.rerun(scope="fragment")
    if not judged.complete:
        st.html(tag("p", f"Checking what is stale: {judged.done} of {judged.of} pipelines.", class_="vf-muted"))
    elif problems := {name: said for name, said in judged.problems.items() if pipeline in ("", name)}:
        st.html(problems_notice(problems))


def problems_notice(problems: Mapping[str, str]) -> Html:
    """Which pipelines could not be planned, a line each with what is wrong with it."""
    lines: list[Content] = [
        Html(tag("b", text(shortened(name, 40))) + " " + text(shortened(said, _LONGEST_PROBLEM)))
        for name, said in list(problems.items())[:_MOST_PROBLEMS]
    ]
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"and {plural(len(problems) - _MOST_PROBLEMS, 'more pipelines')}")
    title = f"What is stale is not known of {plural(len(problems), 'pipelines')} that cannot run as they are."
    if len(problems) == 1:
        title = "What is stale is not known of a pipeline that cannot run as it is."
    return notice("warning", title, *lines)


def _legend(lineage: Lineage, judged: Judged, kinds: Mapping[str, Kind]) -> Html:
    mode = current_mode()
    there = {item.kind: kind_of(item, kinds) for item in lineage.items.values()}
    states = {lineage.state(key, judged.verdicts)[0] for key in lineage.items}
    out = [
        tag("span", kind.title, class_="vf-key", style=f"--vf-key: {kind.colour_in(mode)}") for kind in there.values()
    ]
    meanings = {
        "current": "used by a pipeline as it is",
        "stale": "its pipeline's next run would make it again",
        "older": "followed by a newer one",
        "removed": "its files were freed",
    }
    out += [
        tag("span", f"{MARKS[state]}: {meaning}", class_="vf-muted")
        for state, meaning in meanings.items()
        if state in states
    ]
    return tag("div", *out, class_="vf-legend", role="note", aria_label="Legend")


def _chosen(whole: Lineage) -> str | None:
    wanted: str | None = st.session_state.get(_CHOSEN)
    return wanted if wanted in whole.items else None


# --- what is chosen: on the page, in this visit, in the address ---------------------------------------------------


def _follow_address() -> None:
    """Choose what the address names: the page was opened, or loaded again, or the browser went back or forward. From
    the menu it is opened with nothing chosen: to name the last choice again would be a step more to go back.

    Only the whole page follows: what is chosen on it draws the fragment, which is asked for with the address of before.
    """
    named, run = st.query_params.get(_ADDRESS), get_script_run_ctx()
    went_there = navigation.just_opened() or (run is not None and run.is_history_navigation)
    if named != st.session_state.get(_CHOSEN) and (named is not None or went_there):
        _choose(named)
        _begin_anew(_GRAPH, _LIST)
    _correct_address()


def _correct_address() -> None:
    """Name what is chosen. A timer's question may leave the browser before the last choice's answer is there: it then
    has the address of before, which would come back with the next whole page."""
    if st.query_params.get(_ADDRESS) != st.session_state.get(_CHOSEN):
        _choose(st.session_state.get(_CHOSEN))


def _choose(item: str | None) -> None:
    st.session_state[_CHOSEN] = item
    if item is None:
        st.query_params.pop(_ADDRESS, None)
        st.session_state.pop(_SCOPE, None)
    elif st.query_params.get(_ADDRESS) != item:
        st.query_params[_ADDRESS] = item


def _key(part: str) -> str:
    """That of the graph or the list which is on the page now."""
    return f"{part}-{st.session_state.get(part, 0)}"


def _begin_anew(*parts: str) -> None:
    """Draw the graph or the list as a new one, which has heard no click: an old list would say what it held before, and
    an old graph say nothing when the item that was clicked last in it is clicked again."""
    for part in parts:
        st.session_state[part] = st.session_state.get(part, 0) + 1


def _clicked(item: str) -> None:
    _choose(item)
    _begin_anew(_LIST)


def _listed(key: str) -> None:
    if key == _key(_LIST):  # else an event of one that is gone, as in `drawing.draw`
        _choose(st.session_state[key])
        _begin_anew(_GRAPH)


def _led_to(item: str | None) -> None:
    _choose(item)
    _begin_anew(_GRAPH, _LIST)


def _choice(lineage: Lineage, whole: Lineage, chosen: str | None, kinds: Mapping[str, Kind]) -> None:
    """Draw the list of the items, and how much of the graph is shown around the chosen one."""

    keys = sorted({*lineage.items, *([chosen] if chosen else [])}, key=lambda k: (-whole.items[k].created, k))
    names = names_of(whole, keys, kinds)
    key = _key(_LIST)
    with st.container(horizontal=True, vertical_alignment="center", key="lineage_choice"):
        st.selectbox(
            "Item", keys, index=keys.index(chosen) if chosen else None, key=key,
            format_func=lambda item: names.get(item, item),
            placeholder="Choose an item here or in the graph", on_change=_listed, args=(key,),
            label_visibility="collapsed", width=420,
        )  # fmt: skip
        if chosen is not None:
            st.segmented_control(
                "Show", [_EVERYTHING, _BEFORE, _BEHIND], key=_SCOPE, default=_EVERYTHING, required=True,
                label_visibility="collapsed",
            )  # fmt: skip
            # A list that begins with a choice cannot be cleared, and the table is there only while nothing is chosen.
            st.button("All items", key="lineage_all", icon=":material/arrow_back:", on_click=_led_to, args=(None,))


def names_of(whole: Lineage, keys: Iterable[str], kinds: Mapping[str, Kind]) -> dict[str, str]:
    """By item, what the list calls it. Streamlit knows the entries of a list by their words, and chooses the last of
    those that are alike: two folders of one name also have their places, one folder that was read in two states the
    time at which something was first made from it."""

    def name(key: str) -> str:
        item = whole.items[key]
        made = f", {moment(item.created)}" if item.origins else ""
        return f"{shortened(item.title, 60)} ({kind_of(item, kinds).title}{made})"

    def read(key: str) -> str:
        first = min((whole.items[other].created for other in whole.targets[key]), default=0.0)
        return f"read {moment(first)}" if first else ""

    out = {key: name(key) for key in keys}
    for more in (lambda key: shortened(whole.items[key].place), read, lambda key: key):
        count = Counter(out.values())
        out = {
            key: f"{text}, {words}" if count[text] > 1 and (words := more(key)) else text for key, text in out.items()
        }
    return out


def item_rows(lineage: Lineage, judged: Judged, kinds: Mapping[str, Kind]) -> dict[str, tuple[str, ...]]:
    """What the table says of each item, by its id, the newest first: title, kind, state, what made it and when."""
    rows: dict[str, tuple[str, ...]] = {}
    for key, item in sorted(lineage.items.items(), key=lambda pair: (-pair[1].created, pair[0])):
        made = item.origins[-1] if item.origins else None
        rows[key] = (
            safe(item.title),
            safe(kind_of(item, kinds).title),
            _STATES[lineage.state(key, judged.verdicts)[0]][1],
            safe(made_by(made)) if made else "",
            moment(item.created) if made else "",
        )
    return rows


def _items(lineage: Lineage, judged: Judged, kinds: Mapping[str, Kind]) -> None:
    """Draw the table of what the graph shows; a row that is ticked is chosen."""
    import pandas as pd

    rows = item_rows(lineage, judged, kinds)
    key, config = _key(_TABLE), st.column_config
    columns = ("item", "kind", "state", "made by", "made")
    st.dataframe(
        pd.DataFrame(list(rows.values()), columns=list(columns)),
        key=key,
        hide_index=True,
        on_select=partial(_ticked, key, tuple(rows)),
        selection_mode="single-row",
        column_config={
            "item": config.TextColumn("Item", width="large"),
            "kind": config.TextColumn("Kind", width=140),
            "state": config.TextColumn("State", width=90),
            "made by": config.TextColumn("Made by", width="large"),
            "made": config.TextColumn("Made", width=150),
        },
        row_height=_ROW_HEIGHT,
        height="content" if len(rows) <= _TALLEST else (_TALLEST + 1) * _ROW_HEIGHT,
        alt="Items of the graph, newest first",
    )


def _ticked(key: str, items: Sequence[str]) -> None:
    rows = st.session_state[key]["selection"]["rows"]
    if key == _key(_TABLE) and rows and rows[0] < len(items):
        _choose(items[rows[0]])
        _begin_anew(_GRAPH, _LIST, _TABLE)


def _item(whole: Lineage, key: str, judged: Judged, kinds: Mapping[str, Kind]) -> None:
    """Draw what is known of an item, and the ways to its run and its data."""
    item = whole.items[key]
    state, reason = whole.state(key, judged.verdicts)
    colour, word = _STATES[state]
    st.html(
        tag(
            "div",
            tag("h2", text(item.title), title=item.title),
            chip(colour, word),
            tag("span", kind_of(item, kinds).title, class_="vf-id"),
            class_="vf-title",
        )
    )
    if reason:
        st.html(notice("warning", text(f"Its pipeline's next run would make it again: {reason}.")))
    elif state == "removed":
        st.html(notice("info", "Its files were freed.", "A run makes them again where something needs them."))
    items = [part for name, value in facts_of(item) for part in (tag("dt", name), tag("dd", text(value)))]
    st.html(tag("dl", *items, class_="vf-advice", aria_label="Facts"))
    with st.container(horizontal=True, vertical_alignment="center", key="lineage_actions"):
        for run_id in list(dict.fromkeys(o.run_id for o in reversed(item.origins) if o.run_id))[:5]:
            if st.button(f"Open run {short_id(run_id)}", key=f"lineage-run-{run_id}", icon=":material/open_in_full:"):
                navigation.go_to_run(run_id)
        if item.dataset is not None and not item.removed:
            view = studio().shown.key(item.dataset, item.made_from)
            if view:
                draw_look(view, item.title, key=f"lineage-look-{key}")
    left, right = st.columns(2, gap="medium")
    with left:
        nothing = "Nothing else went into it." if item.origins else "Nothing: no pipeline made it."
        _neighbours("Made from", nothing, ":material/arrow_back:", whole, whole.sources[key], kinds)
    with right:
        nothing = "Nothing uses it yet."
        _neighbours("Used by", nothing, ":material/arrow_forward:", whole, whole.targets[key], kinds)


def facts_of(item: Item) -> list[tuple[str, str]]:
    """What is known of an item, with names: where it lies, its figures, what made it, which pipelines have it."""
    rows = [("location", item.place)] if item.place else []
    if item.dataset is not None and (figures := details_text(details_of(item.dataset), MOST_FIGURES, figure_name)):
        rows.append(("figures", figures))
    if item.origins:
        origin = item.origins[-1]
        rows.append(("made by", made_by(origin)))
        rows.append(("made", moment(item.created)))
    if item.pipelines:
        rows.append(("pipelines", ", ".join(item.pipelines)))
    if item.kind == REGISTERED and item.dataset is not None:
        rows.append(("load it as", f"models:/{_registered_name(item)}"))
    return rows


def made_by(origin: Origin) -> str:
    """The node by its name on the canvas, with its type where the name does not say it, and the pipeline."""
    name = origin.name or origin.node_type or "a node"
    says = not origin.node_type or name in (origin.node_type, f"{origin.node_type} ({origin.node})")
    return f"{name if says else f'{name} ({origin.node_type})'} of {origin.pipeline}"


def _registered_name(item: Item) -> str:
    figures = getattr(item.dataset, "figures", {})
    return f"{figures.get('name', '')}/{figures.get('version', '')}"


def _neighbours(
    title: str, nothing: str, icon: str, whole: Lineage, keys: tuple[str, ...], kinds: Mapping[str, Kind]
) -> None:
    """Draw the items of one side as buttons; `nothing` is said where there are none."""
    st.html(heading(title))
    if not keys:
        st.html(tag("p", nothing, class_="vf-muted"))
    for key in keys[:20]:
        item = whole.items[key]
        name = f"{plain(item.title, 60)} · {plain(kind_of(item, kinds).title)}"
        st.button(name, key=f"lineage-{title}-{key}", type="tertiary", icon=icon, on_click=partial(_led_to, key))
    if len(keys) > 20:
        st.html(tag("p", f"and {number(len(keys) - 20)} more", class_="vf-muted"))
