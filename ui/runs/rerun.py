"""Running a run's pipeline again: the values for it, read as the command line reads them. No Streamlit here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from engine import launch
from engine.catalog import Catalog
from engine.cli.documents import path_parameters, read_setting
from engine.pipeline import Pipeline, load
from engine.plan import Choice
from engine.profiles import find_profile
from engine.runs import Run
from engine.storage import place_from
from ui.studio_context import Studio


def document_of(run: Run) -> Pipeline:
    """The document that the run ran. Raises `PipelineError` when this Voxelflow cannot read it."""
    return load(run.document, f"the document of run {run.run_id}")


def shown_value(value: JsonValue) -> str:
    """A parameter's value as a person edits it in a text field; nothing where there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_values(texts: Mapping[str, str], pipeline: Pipeline, catalog: Catalog, base: Path) -> dict[str, JsonValue]:
    """Values by parameter from what the person wrote; paths among them are made absolute.

    A field left as it was keeps the document's value and type. An empty one where the document has
    no value stays without.
    """
    out: dict[str, JsonValue] = {}
    for name, text in texts.items():
        held = pipeline.parameters[name].value
        value = held if text == shown_value(held) else read_setting(text, held)
        if value is not None:
            out[name] = value
    for name in path_parameters(pipeline, catalog):
        given = out.get(name)
        if isinstance(given, str) and given:
            out[name] = place_from(base.absolute(), given)
    return out


def run_again(
    studio: Studio, run: Run, values: Mapping[str, JsonValue] | None = None, *, fresh: bool | None = None
) -> str:
    """Start a run of the same document with the same profile; gives its id.

    It runs the same part of the pipeline. The values that the first run was given are the
    person's own still, so the folders they name stay allowed. Raises as `launch.start` does, and
    `UsageError` when the profile is gone.
    """
    pipeline = document_of(run)
    kept = {name: p.value for name, p in pipeline.parameters.items() if p.value is not None}
    options = run.options
    choice = Choice(
        start=options.get("start"),
        end=options.get("end"),
        fresh=bool(options.get("fresh")) if fresh is None else fresh,
    )
    run_id, _ = launch.start(
        pipeline,
        studio.make_catalog(studio.workspace),
        studio.workspace,
        studio.store,
        values={**kept, **(values or {})},
        profile=find_profile(run.profile, studio.workspace),
        choice=choice,
        base=studio.base,
    )
    return run_id


def resume(studio: Studio, run: Run) -> None:
    """Go on with a run, and wait until it does, so that the page does not show it as ended still.

    Raises `UsageError` when there is nothing to go on with, `ExecutionError` when it does not start.
    """
    launch.resume(studio.workspace, studio.store, run.run_id)
    launch.wait_started(studio.workspace, studio.store, run.run_id, run.attempt + 1, timeout_s=20)
