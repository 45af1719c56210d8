"""Where a run is in MLflow, in words. No Streamlit here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from engine.tracking import location, run_link
from engine.workspace import Workspace


@dataclass(frozen=True)
class Tracked:
    """`url` is the run's page on a server; without a server, `command` shows it in the browser."""

    place: str
    run: str = ""
    url: str = ""
    command: str = ""
    sent: bool = False
    notes: list[str] = field(default_factory=list)


def tracked(workspace: Workspace, run_id: str) -> Tracked:
    """What is known of the run in MLflow; without `run` nothing was sent yet."""
    link = run_link(workspace, run_id)
    if not link:
        return Tracked(place=location(workspace))
    place, url = str(link["location"]), str(link.get("url", ""))
    command = "" if url else f"mlflow ui --backend-store-uri {shlex.quote(place)}"
    return Tracked(place, str(link["run_id"]), url, command, bool(link["sent"]), [str(n) for n in link["notes"]])
