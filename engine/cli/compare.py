"""`voxelflow runs compare`: runs side by side, as the page of that name shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.cli.screen import say, table
from engine.history.comparison import (
    Row,
    duration_rows,
    final_rows,
    labels,
    last_of_curves,
    parameter_rows,
    shared_name,
)
from engine.history.details import Details, read_details
from engine.store.runs import RunStore
from engine.workspace import Workspace


def compare(workspace: Workspace, store: RunStore, names: Sequence[str], *, everything: bool) -> None:
    """Print the parameters that differ, or all with `everything`, then figures and durations."""
    runs, parameters, figures, durations = _read(workspace, store, names, everything=everything)
    head = labels(runs)
    table(
        (shared_name(runs), *head),
        [("state", *(d.run.state for d in runs)), ("profile", *(d.run.profile for d in runs))],
    )
    say("")
    if parameters:
        table(("node", "parameter", *head), [(row.where, row.name, *row.values) for row in parameters])
    else:
        say("all parameters are equal")
    if figures:
        say("")
        table(("node", "figure", *head), [(row.where, row.name, *row.values) for row in figures], right=head)
    say("")
    table(("time of", *head), [(row.name, *row.values) for row in durations], right=head)


def compare_as_json(workspace: Workspace, store: RunStore, names: Sequence[str], *, everything: bool) -> dict[str, Any]:
    """The same; values are the texts that people see, in the order of the runs."""
    runs, parameters, figures, durations = _read(workspace, store, names, everything=everything)
    return {
        "runs": [{"run_id": d.run.run_id, "pipeline": d.run.pipeline, "state": d.run.state} for d in runs],
        "parameters": [{"node": row.where, "name": row.name, "values": list(row.values)} for row in parameters],
        "figures": [{"node": row.where, "name": row.name, "values": list(row.values)} for row in figures],
        "durations": [{"name": row.name, "values": list(row.values)} for row in durations],
    }


def _read(
    workspace: Workspace, store: RunStore, names: Sequence[str], *, everything: bool
) -> tuple[list[Details], list[Row], list[Row], list[Row]]:
    ids = list(dict.fromkeys(store.run(name).run_id for name in names))
    runs = [read_details(workspace, store, run_id) for run_id in ids]
    curves = [last_of_curves(store, run_id) for run_id in ids]
    parameters = [row for row in parameter_rows(runs) if everything or row.differs]
    return runs, parameters, final_rows(runs, curves), duration_rows(runs)
