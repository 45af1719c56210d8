"""What one browser tab remembers of the runs it looks at: how far it has read their events and logs."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import streamlit as st

from engine.runs import Run, Task
from ui.runs.feed import Feed
from ui.runs.logs import LogBook
from ui.studio_context import studio

_MOST_FEEDS = 12
_MOST_LOGS = 3


def feed_of(run_id: str) -> Feed:
    """The run's feed, up to date."""
    feeds: OrderedDict[str, Feed] = st.session_state.setdefault("run_feeds", OrderedDict())
    feed = feeds.setdefault(run_id, Feed(run_id))
    feeds.move_to_end(run_id)
    while len(feeds) > _MOST_FEEDS:
        feeds.popitem(last=False)
    feed.read(studio().store)
    return feed


def logs_of(run: Run, tasks: list[Task]) -> LogBook:
    """The run's logs, up to date."""
    books: OrderedDict[str, LogBook] = st.session_state.setdefault("run_logs", OrderedDict())
    book = books.setdefault(run.run_id, LogBook())
    books.move_to_end(run.run_id)
    while len(books) > _MOST_LOGS:
        books.popitem(last=False)
    book.read(log_files(run, tasks))
    if not run.active:
        book.finish()
    return book


def log_files(run: Run, tasks: list[Task]) -> list[tuple[str, Path]]:
    """The logs of the tasks in the order in which they began, last the run's own."""
    workspace = studio().workspace
    begun = sorted(tasks, key=lambda t: (t.started is None, t.started or 0.0, t.position))
    own = workspace.run_folder(run.run_id) / "supervisor.log"
    return [*((t.node, workspace.log_file(run.run_id, t.node)) for t in begun), ("", own)]
