"""The first tab of a run's page: what it came to, how, and what was different from the run before."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.history.details import Details, read_details, short_id
from engine.history.summary import Change, Tile, changes, run_before, tiles
from engine.store.runs import Run
from engine.text import duration, moment, numbers
from engine.wording import made as made_text
from ui.runs.artifacts import (
    MIN_PICTURE_WIDTH,
    draw_file,
    draw_picture,
    each_once,
    is_picture,
    picture_title,
    titles_of,
)
from ui.runs.feed import feed_of
from ui.runs.metrics import Family, draw_family, families, link_to_makers, say_beginnings
from ui.runs.node_panel import progress_block
from ui.runs.outputs import made_in, pictured
from ui.shell.blocks import Content, Html, chip, heading, notice, plain, shortened, table, tag, text
from ui.shell.canvas import show_datasets
from ui.studio_context import studio

_CURVES = 2
_CHANGES = 12
_PILL = 48
_LONGEST_SAID = 200


def show(details: Details) -> None:
    """Draw the tab."""
    run = details.run
    before = _before(run)
    figures = tiles(details.tasks, before.tasks if before else ())
    _tiles(figures, before)
    if run.active:
        _at_work(details)
    feed = feed_of(run.run_id)
    found = families(feed.metrics, details.titles)
    chosen = first_curves(found)
    if chosen or before is not None:
        columns = st.columns(len(chosen) + (before is not None), gap="medium")
        for column, family in zip(columns, chosen, strict=False):
            with column, st.container(border=True):
                draw_family(family, key=f"overview-{family.name}")
        if before is not None:
            # Framed as the charts are: their tops are in line.
            with columns[-1], st.container(border=True, key="overview_changes"):
                _changes(details, before)
    if not figures and not chosen and details.tasks:
        # Without figures it is the nodes that say how far the run came.
        st.html(heading("Nodes"))
        st.html(nodes_table(details))
    link_to_makers(feed, details.names)
    say_beginnings(feed, details.names)
    if not run.active:
        _pictures(details)
    _artifacts(details)


def _before(run: Run) -> Details | None:
    found = run_before(studio().store, run)
    return read_details(studio().workspace, studio().store, found.run_id) if found is not None else None


# --- figures -----------------------------------------------------------------------------------


def _tiles(found: Sequence[Tile], before: Details | None) -> None:
    if not found:
        return
    several = len({tile.node for tile in found}) > 1
    st.html(tag("div", *[tile_block(tile, several=several) for tile in found], class_="vf-tiles"))
    if before is not None and any(tile.before is not None for tile in found):
        when = moment(before.run.started or before.run.created)
        line = f"compared with run {short_id(before.run.run_id)} of {when}, the one before of this pipeline"
        st.html(tag("p", line, class_="vf-muted vf-small"))


def tile_block(tile: Tile, *, several: bool) -> Html:
    """A figure, large, with what it was before: in words and with an arrow, not by colour alone."""
    change = None
    value, *before = numbers([tile.value] if tile.before is None else [tile.value, tile.before])
    if tile.before is not None:
        if tile.better is None or before == [value]:
            change = tag("span", "as before", class_="vf-tile-change vf-muted")
        else:
            arrow = "↑" if tile.value > tile.before else "↓"
            words = f"{arrow} {'better' if tile.better else 'worse'}, was {before[0]}"
            change = tag("span", words, class_=f"vf-tile-change vf-{'better' if tile.better else 'worse'}")
    return tag(
        "div",
        tag("span", text(tile.text), class_="vf-tile-name"),
        tag("span", value, class_="vf-tile-value"),
        change,
        tag("span", text(tile.title), class_="vf-tile-node vf-muted") if several else None,
        class_="vf-tile",
    )


def _at_work(details: Details) -> None:
    running = [task for task in details.tasks if task.state == "running"]
    titles = details.titles
    for task in running:
        passed = tag("span", f" for {duration(task.seconds or 0)}", class_="vf-muted")
        st.html(
            tag(
                "div",
                tag("div", chip("running"), text(titles[task.node]), passed, class_="vf-at-work"),
                progress_block(task.progress) if task.progress is not None else None,
            )
        )
    if not running:
        st.html(notice("info", "No node is at work at the moment."))


# --- curves ------------------------------------------------------------------------------------


def first_curves(found: Sequence[Family]) -> list[Family]:
    """The charts that say most: the loss, and the figure by which models are compared."""
    loss = next((f for f in found if f.name == "loss"), next((f for f in found if "loss" in f.name), None))
    wanted = ("auc", "accuracy", "f1", "mae", "rmse")
    judged = next((f for name in wanted for f in found if f.name == name and f.axis == "epoch"), None)
    chosen = [f for f in (loss, judged) if f is not None]
    return (chosen or [f for f in found if not f.stacked])[:_CURVES]


# --- what changed ------------------------------------------------------------------------------


def _changes(details: Details, before: Details) -> None:
    st.html(heading(f"Changed since run {short_id(before.run.run_id)}"))
    found = changes(before, details)
    if not found:
        if details.plan is None or before.plan is None:
            waits = details.plan is None and details.run.active
            said = "Not known yet." if waits else "Not known: there is no record of what one of the runs used."
            st.html(notice("info", said))
        else:
            st.html(notice("info", "Nothing: the same parameters, code and data."))
        return
    st.html(changes_table(found[:_CHANGES]))
    if len(found) > _CHANGES:
        st.html(tag("p", f"and {len(found) - _CHANGES} more; Compare shows all.", class_="vf-muted vf-small"))


def changes_table(found: Sequence[Change]) -> Html:
    """The changes as a table."""
    rows = [
        [
            tag("span", change.kind, class_="vf-muted"),
            _what(change),
            change.before,
            tag("span", text(change.now), class_="vf-differs"),
        ]
        for change in found
    ]
    return table(("", "what", "before", "now"), rows, "Changes", narrow=(0,))


def _what(change: Change) -> Html:
    """The name of what changed, then where; of data the node first, since most ports are called alike."""
    first, beside = (change.where, change.name) if change.kind == "Data" else (change.name, change.where)
    return Html(text(first) + (tag("span", f" {beside}", class_="vf-muted") if beside else ""))


# --- nodes -------------------------------------------------------------------------------------


def nodes_table(details: Details) -> Html:
    """What became of each node: its state, how long it was at work, and what it made or why it did not."""
    rows: list[list[Content]] = []
    for task in details.tasks:
        failed = str((task.failure or {}).get("message", ""))
        said = failed or (made_text(task.outputs) if task.outputs else task.reason)
        took = "" if task.seconds is None else duration(task.seconds)
        rows.append([text(details.names[task.node]), chip(task.state), took, text(shortened(said, _LONGEST_SAID))])
    return table(("node", "state", "took", "result"), rows, "Nodes", narrow=(1, 2))


# --- pictures and files ------------------------------------------------------------------------


def _pictures(details: Details) -> None:
    found = pictured(made_in(details))
    if not found:
        return
    st.html(heading("What was made"))
    ids = [f"{made.node}.{made.port}" for made in found]
    titles = [type(made.dataset).title or made.dataset.kind for made in found]
    pills = dict(zip(ids, pill_words([*zip(titles, (made.title for made in found), strict=True)]), strict=True))
    chosen = st.pills(
        "What to look at",
        ids,
        default=ids[0],
        key=f"look-{details.run.run_id}",
        required=True,
        format_func=lambda at: pills[at],
        label_visibility="collapsed",
    )
    made = found[ids.index(chosen) if chosen in ids else 0]
    if key := studio().shown.key(made.dataset, made.made_from):
        show_datasets([(made.port, key)], key=f"overview-look-{key}")


def pill_words(results: Sequence[tuple[str, str]]) -> list[str]:
    """What stands on the pills of results, each given by its kind and by what made it, as Markdown.

    The kind, or where several are of that kind what made it. No two are alike, since Streamlit knows pills by their
    words and would open the last of them for each; what is long is cut short where that leaves them different.
    """
    kinds, makers = [kind for kind, _ in results], [maker for _, maker in results]
    single = [kind for kind in kinds if kinds.count(kind) == 1]
    words = [
        kind if kind in single else f"{kind}: {maker}" if makers.count(maker) > 1 or maker in single else maker
        for kind, maker in results
    ]
    short = [plain(each, _PILL) for each in words]
    return [cut if short.count(cut) == 1 else plain(each) for cut, each in zip(short, words, strict=True)]


def _artifacts(details: Details) -> None:
    kept = feed_of(details.run.run_id).artifacts
    named = details.names
    found = [(node, artifact) for node, artifacts in kept.items() for artifact in each_once(artifacts)]
    titles = {node: titles_of(each_once(artifacts)) for node, artifacts in kept.items()}
    pictures = [(node, a) for node, a in found if is_picture(a)]
    others = [(node, a) for node, a in found if not is_picture(a)]
    if pictures:
        st.html(heading("Pictures"))
        with st.grid(min_column_width=MIN_PICTURE_WIDTH, key="overview_pictures") as grid:
            for node, artifact in pictures:
                shown = picture_title(artifact, titles[node][artifact.path])
                with grid.cell():
                    draw_picture(artifact, f"{named.get(node, node)}: {shown}", f"overview-{node}")
    if others:
        with st.expander(f"Files ({len(others)})", key="overview_files"):
            for node, artifact in others:
                draw_file(artifact, titles[node][artifact.path], named.get(node, node), f"overview-{node}")
