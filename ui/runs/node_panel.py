"""What is known of one node in a run: state, reason, failure, progress, outputs, parameters, its log's end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from engine.declare.events import Progress
from engine.history.details import LEFT_OUT, Details, fact_text, failure_of, output_rows, parameter_rows
from engine.store.runs import Task
from engine.text import duration, moment, plural
from engine.wording import advance
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
from ui.runs.logs import draw_lines, logs_of, matching, newest
from ui.shell.blocks import Html, chip, facts, failure, heading, notice, table, tag, text
from ui.studio_context import Studio, studio

_LOG_LINES = 200
_defaults: dict[tuple[Path, str, int], dict[str, Any]] = {}
"""By workspace, node type and version: collecting the catalogue takes too long for each second of a live run."""


def show(details: Details, node: str) -> None:
    """Draw the panel."""
    task = details.task(node)
    title = details.titles.get(node, node)
    state = task.state if task else LEFT_OUT
    st.html(
        tag(
            "div",
            tag("h2", text(title), title=title),
            chip(state),
            tag("span", f"{task.node_type} · {node}" if task else node, class_="vf-id"),
            class_="vf-title",
        )
    )
    st.html(facts(_facts(details, node, task)))
    if task is None:
        st.html(notice("info", "This run was not asked for this node."))
    elif task.state == "failed":
        st.html(failure(*failure_of(task, title)))
    if task is not None and task.progress is not None and task.state == "running":
        st.html(progress_block(task.progress))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _made(details, node, task)
        _log(details, node)
    with right:
        _parameters(details, node)


def _made(details: Details, node: str, task: Task | None) -> None:
    if task is not None and task.outputs:
        st.html(heading("Outputs"))
        st.html(table(("port", "kind", "holds", "place"), output_rows(task.outputs), "Outputs", narrow=(0, 1)))
    feed = feed_of(details.run.run_id)
    if noted := feed.facts.get(node):
        st.html(heading("Figures"))
        st.html(table(("name", "value"), [(k, fact_text(v)) for k, v in sorted(noted.items())], "Figures", narrow=(0,)))
    if kept := each_once(feed.artifacts.get(node, ())):
        st.html(heading("Files"))
        titles = titles_of(kept)
        if pictures := [artifact for artifact in kept if is_picture(artifact)]:
            with st.grid(min_column_width=MIN_PICTURE_WIDTH, key="node_pictures") as grid:
                for artifact in pictures:
                    with grid.cell():
                        draw_picture(artifact, picture_title(artifact, titles[artifact.path]), f"node-{node}")
        for artifact in kept:
            if not is_picture(artifact):
                draw_file(artifact, titles[artifact.path], "", f"node-{node}")


def _parameters(details: Details, node: str) -> None:
    rows = parameter_rows(details, node, defaults_of(studio(), details, node))
    st.html(heading("Parameters"))
    if not rows:
        st.html(tag("p", "This node has none.", class_="vf-muted"))
        return
    own = [(row.name, row.value) for row in rows if not row.default]
    usual = [(row.name, row.value) for row in rows if row.default]
    if own:
        st.html(table(("name", "value"), own, "Parameters", narrow=(0,)))
    else:
        st.html(tag("p", "All have their default values.", class_="vf-muted"))
    if usual:
        with st.expander(f"{plural(len(usual), 'parameters')} at the default", key=f"defaults-{node}"):
            st.html(table(("name", "value"), usual, "Parameters at the default", narrow=(0,)))


def defaults_of(studio: Studio, details: Details, node: str) -> Mapping[str, Any]:
    """The default values that the node's type declares, by parameter; none of a type that is not known here."""
    task, planned = details.task(node), details.planned(node)
    if task is None:
        return {}
    key = studio.workspace.root, task.node_type, planned.version if planned is not None else 0
    if key not in _defaults:
        declared = studio.make_catalog(studio.workspace).find(task.node_type, key[2] or None)
        _defaults[key] = {p.name: p.default for p in declared.parameters if not p.required} if declared else {}
    return _defaults[key]


def _facts(details: Details, node: str, task: Task | None) -> list[tuple[str, str | Html]]:
    out: list[tuple[str, str | Html]] = [("Node", node)]
    if task is None:
        return out
    planned = details.planned(node)
    if task.reason and task.state != "failed":
        out.append(("Why", task.reason))
    elif planned is not None and planned.reason:
        out.append(("Why", planned.reason))
    if task.started is not None and task.state not in ("cached", "queued", "skipped"):
        # The duration is that of all attempts together.
        out.append(("Started" if task.worked_s is None or task.attempt < 2 else "Last started", moment(task.started)))
        out.append(("Duration", duration(task.seconds or 0.0)))
    if task.attempt > 1:
        out.append(("Attempt", str(task.attempt)))
    if planned is not None:
        why = planned.backend_reason if planned.backend_reason != f"profile {details.run.profile}" else ""
        out.append(("Backend", f"{planned.backend}: {why}" if why else planned.backend))
    if task.fingerprint:
        out.append(("Fingerprint", tag("span", task.fingerprint[:16], class_="vf-mono", title=task.fingerprint)))
    return out


def progress_block(progress: Progress) -> Html:
    """How far the whole of a task is, as on its card: a bar with the share, then phase, pace and the time left."""
    share = progress.whole
    words = tag("span", advance(progress), class_="vf-muted")
    if share is None:
        return tag("div", words)
    percent = f"{100 * share:.0f}%"
    bar = tag(
        "div",
        tag("div", "", style=f"width: {100 * share:.1f}%"),
        class_="vf-progress",
        role="progressbar",
        aria_label="Progress",
        aria_valuenow=f"{100 * share:.0f}",
    )
    return tag("div", bar, tag("span", f"{percent} of the whole, ", class_="vf-progress-share"), words)


def _log(details: Details, node: str) -> None:
    book = logs_of(details.run, details.tasks)
    lines, total = newest(matching(book.kept, node=node), _LOG_LINES)
    st.html(heading(f"Log, the newest {len(lines):,} of {total:,} lines" if total > len(lines) else "Log"))
    if lines:
        draw_lines(lines, key="node_log", height=240)
    else:
        st.html(tag("p", "Nothing was written.", class_="vf-muted"))
