"""What is known of one node in a run: state, reason, failure, progress, outputs, parameters, its log's end."""

from __future__ import annotations

import streamlit as st

from engine.cli.telling import advance, failure_line
from engine.cli.wording import duration, moment
from engine.runs import Task
from ui.runs.details import Details, fact_text, output_rows, parameter_rows
from ui.runs.graph import LEFT_OUT
from ui.runs.log_view import draw_lines
from ui.runs.logs import matching, newest
from ui.runs.watching import feed_of, logs_of
from ui.shell.blocks import Html, chip, facts, heading, notice, table, tag, text

_LOG_LINES = 200


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
            tag("span", task.node_type if task else "", class_="vf-id"),
            class_="vf-title",
        )
    )
    st.html(facts(_facts(details, node, task)))
    if task is None:
        st.html(notice("info", "This run was not asked for this node."))
    elif task.state == "failed":
        told = dict(task.failure or {"message": task.reason})
        hint = str(told.pop("hint", ""))
        st.html(notice("error", text(failure_line(node, told)), text(hint) if hint else None))
    if task is not None and task.progress is not None and task.state == "running":
        st.html(_progress(task))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _made(details, node, task)
        _log(details, node)
    with right:
        _parameters(details, node)


def _made(details: Details, node: str, task: Task | None) -> None:
    if task is not None and task.outputs:
        st.html(heading("Outputs"))
        st.html(table(("port", "kind", "figures", "lies at"), output_rows(task.outputs), "Outputs", narrow=(0, 1)))
    if noted := feed_of(details.run.run_id).facts.get(node):
        st.html(heading("Figures"))
        st.html(table(("name", "value"), [(k, fact_text(v)) for k, v in sorted(noted.items())], "Figures", narrow=(0,)))
    if kept := feed_of(details.run.run_id).artifacts.get(node):
        st.html(heading("Files"))
        st.html(table(("name", "role", "lies at"), [(a.name, a.role, a.path) for a in kept], "Files", narrow=(0, 1)))


def _parameters(details: Details, node: str) -> None:
    drawn = details.drawn(node)
    rows = parameter_rows(details, node)
    st.html(heading("Parameters"))
    if not rows:
        st.html(tag("p", "This node has none.", class_="vf-muted"))
        return
    own = set(drawn.params) if drawn else set()
    quiet = tag("span", "default", class_="vf-muted")
    marked = [(name, value, None if name in own else quiet) for name, value in rows]
    st.html(table(("name", "value", ""), marked, "Parameters", narrow=(0,)))


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
        out.append(("Started", moment(task.started)))
        out.append(("Duration", duration(task.seconds or 0.0)))
    if task.attempt > 1:
        out.append(("Attempt", str(task.attempt)))
    if planned is not None:
        why = planned.backend_reason if planned.backend_reason != f"profile {details.run.profile}" else ""
        out.append(("Backend", f"{planned.backend}: {why}" if why else planned.backend))
    if task.fingerprint:
        out.append(("Fingerprint", tag("span", task.fingerprint[:16], class_="vf-mono", title=task.fingerprint)))
    return out


def _progress(task: Task) -> Html:
    assert task.progress is not None
    share = min(1.0, task.progress.done / task.progress.total) if task.progress.total else 0.0
    bar = tag("div", tag("div", "", style=f"width: {100 * share:.1f}%"), class_="vf-progress")
    return tag("div", bar if task.progress.total else None, tag("span", advance(task.progress), class_="vf-muted"))


def _log(details: Details, node: str) -> None:
    book = logs_of(details.run, list(details.tasks))
    lines, total = newest(matching(book.kept, node=node), _LOG_LINES)
    told = f"Log, the newest {len(lines):,} of {total:,} lines" if total > len(lines) else "Log"
    st.html(heading(told))
    if lines:
        draw_lines(lines, key="node_log", height=240)
    else:
        st.html(tag("p", "Nothing was written.", class_="vf-muted"))
