"""The buttons below a run's summary: open its models and tables, register a model, go to MLflow."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import streamlit as st
from pydantic import JsonValue

from engine.declare.datasets import Report, TrainedModel, VolumeDelta
from engine.declare.figures import HEADLINES
from engine.document.pipeline import MAX_NAME, Edge, Node, Pipeline, display_names
from engine.document.plan import Choice
from engine.errors import UsageError, VoxelflowError
from engine.extras import is_tracked
from engine.history.details import Details
from engine.profiles import find_profile
from engine.run import launch
from engine.storage import is_url
from engine.store.runs import Run
from engine.text import safe, size
from engine.tracking import location, run_link
from engine.wording import details_text, figure_name
from engine.workspace import Workspace
from ui.mlflow_ui import can_serve, version_page
from ui.protocol.link import MLFLOW_PATH, VIEW_PATH
from ui.runs.artifacts import download_file
from ui.runs.outputs import (
    Made,
    ModelFile,
    asked_file,
    made_in,
    model_code,
    model_files,
    models,
    predict_line,
    table_code,
    tables,
    whole_table,
)
from ui.shell import navigation
from ui.shell.blocks import facts, heading, notice, plain, show_error, tag, text
from ui.shell.canvas import show_datasets
from ui.studio_context import Studio, studio

REGISTER = "RegisterModel"
_REGISTERING = ": register"
"""Stands behind the name of the pipeline in that of the one that registers its model."""
_OPEN = "result_open"
_LARGEST_DOWNLOAD = 2 << 30
"""Bytes; a browser's download goes through this process's memory."""


def show(details: Details) -> None:
    """Draw the buttons, and the dialog that one of them opened."""
    found = made_in(details)
    dialogs: dict[str, Callable[[], None]] = {}
    if (trained := models(found)) and not details.run.active:
        dialogs["model"] = lambda: _model_dialog(details, trained)
        if st.button("Open model", key="open_model", icon=":material/deployed_code:"):
            st.session_state[_OPEN] = details.run.run_id, "model"
    if (made := tables(found)) and not details.run.active:
        dialogs["table"] = lambda: _table_dialog(made)
        if st.button("Open table", key="open_table", icon=":material/table:"):
            st.session_state[_OPEN] = details.run.run_id, "table"
    if trained and not details.run.active and details.pipeline is not None:
        dialogs["register"] = lambda: _register_dialog(details, trained)
        if st.button("Register", key="register", icon=":material/sell:", help="Keep the model in MLflow's registry."):
            st.session_state[_OPEN] = details.run.run_id, "register"
    for version in registered_in(details):
        address = version.address(location(studio().workspace))
        words = f"{plain(version.name)}, version {version.version}"
        if address:
            st.link_button(words, address, icon=":material/sell:", help="The registered version in MLflow.")
        else:
            st.badge(words, icon=":material/sell:")
    _mlflow(details.run)
    run_id, wanted = st.session_state.get(_OPEN, ("", ""))
    if run_id == details.run.run_id and wanted in dialogs:
        dialogs[wanted]()


def _closed() -> None:
    st.session_state.pop(_OPEN, None)


def _chosen(found: Sequence[Made], key: str) -> Made:
    """The only one, or the one that the person chooses."""
    if len(found) == 1:
        return found[0]
    at = st.selectbox("Made by", range(len(found)), key=key, format_func=lambda i: safe(found[i].title))
    return found[at or 0]


def _maker(made: Made, found: Sequence[Made]) -> list[tuple[str, str]]:
    """Which node made it, where no choice above says so."""
    return [("Made by", made.title)] if len(found) == 1 else []


@st.dialog("Model", width="large", on_dismiss=_closed)
def _model_dialog(details: Details, trained: Sequence[Made]) -> None:
    made = _chosen(trained, "model_of")
    model = made.dataset
    assert isinstance(model, TrainedModel)
    st.html(facts([*_maker(made, trained), ("Location", tag("span", model.uri, class_="vf-mono"))]))
    st.html(heading("Ask it about a volume, from the command line"))
    asked = asked_file(made_in(details))
    line = predict_line(details.run.run_id, made.node, asked, several=len({m.node for m in trained}) > 1)
    st.code(line, language=None, wrap_lines=True)
    st.html(heading("From Python"))
    st.code(model_code(model, asked), language="python", wrap_lines=True)
    st.html(heading("Layers, curves, mistakes"))
    key = studio().shown.key(model, made.made_from)
    if key:
        show_datasets([(made.port, key)], key=f"look-model-{key}")
    st.html(heading("Files"))
    found = model_files(model)
    if not found:
        st.html(notice("warning", "The model's folder is gone.", "Train it again: Re-run does."))
    elif key and not is_url(model.uri):
        # By the app's own route: a browser's download by a widget goes through this process's memory.
        st.link_button("Download all", f"{VIEW_PATH}/{key}/-/zip", icon=":material/folder_zip:", key="model_zip")
    for file in found:
        _file_line(file, f"model-{key}-{file.name}")


def _file_line(file: ModelFile, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.html(tag("span", text(file.name), tag("span", f" {size(file.bytes)}", class_="vf-muted")), width="content")
        if file.bytes <= _LARGEST_DOWNLOAD:
            download_file(file.path, key)
        else:
            st.html(tag("span", text(file.path, "vf-mono")), width="content")


@st.dialog("Table", width="large", on_dismiss=_closed)
def _table_dialog(made: Sequence[Made]) -> None:
    table = _chosen(made, "table_of")
    key = studio().shown.key(table.dataset, table.made_from)
    # The view below says what it holds.
    holds = [] if key else [("Holds", details_text(dict(table.dataset.details())))]
    st.html(facts([*_maker(table, made), *holds, ("Location", tag("span", table.dataset.uri, class_="vf-mono"))]))
    if isinstance(table.dataset, VolumeDelta) and table.dataset.selections:
        st.html(notice("info", "This is a part of a table.", f"{whole_table(table.dataset)}."))
    code = table_code(table.dataset)
    for tab, (program, lines) in zip(st.tabs(list(code)), code.items(), strict=True):
        with tab:
            st.code(lines, language="sql" if program == "DuckDB" else "python", wrap_lines=True)
    if key:
        show_datasets([(table.port, key)], key=f"look-table-{key}")


# --- registering --------------------------------------------------------------------------------


@st.dialog("Register the model", on_dismiss=_closed)
def _register_dialog(details: Details, trained: Sequence[Made]) -> None:
    made = _chosen(trained, "register_of")
    metrics = judging_figures(getattr(made.dataset, "metrics", {}))
    with st.form("register_form", border=False):
        name = st.text_input("Name in the registry", "volumes", key="register_name")
        alias = st.text_input("Alias of the best version", "champion", key="register_alias")
        metric = st.selectbox(
            "Figure that decides which version is the best",
            metrics,
            index=0 if metrics else None,
            format_func=figure_name,
            key="register_metric",
        )
        st.html(
            tag(
                "p",
                "A run of its own registers it; the alias moves only to a better version. ",
                "A pipeline does the same with the node RegisterModel.",
                class_="vf-muted",
            )
        )
        pressed = st.form_submit_button("Register", type="primary", key="register_start")
    if not pressed:
        return
    try:
        with st.spinner("Checking and planning"):
            run_id = register(studio(), details, made, name, alias, metric)
    except VoxelflowError as error:
        show_error(error)
        return
    _closed()
    navigation.go_to_run(run_id)


def judging_figures(names: Iterable[str]) -> list[str]:
    """Those of the validation, what says most of a model first, as on the run's page."""
    rank = {name: place for place, name in enumerate(HEADLINES)}
    return sorted((n for n in names if n.startswith("val_")), key=lambda name: (rank.get(name, len(rank)), name))


def registering(pipeline: Pipeline, made: Made, name: str, alias: str, metric: str | None) -> tuple[Pipeline, str]:
    """The pipeline with a node more, which registers the model, and that node's id."""
    taken = {node.id.lower() for node in pipeline.nodes}
    node_id = next(i for i in ("register", *(f"register_{n}" for n in range(2, 10_000))) if i not in taken)
    params: dict[str, JsonValue] = {"name": name.strip(), "alias": alias.strip()}
    if metric:
        params["metric"] = metric
    node = Node(id=node_id, type=REGISTER, params=params)
    edge = Edge(source=f"{made.node}.{made.port}", target=f"{node_id}.model")
    # With what is added it is a name that can be loaded again.
    named = f"{pipeline.name[: MAX_NAME - len(_REGISTERING)]}{_REGISTERING}"
    wider = {"name": named, "nodes": (*pipeline.nodes, node), "edges": (*pipeline.edges, edge)}
    return pipeline.model_copy(update=wider), node_id


def register(studio: Studio, details: Details, made: Made, name: str, alias: str, metric: str | None) -> str:
    """Start a run that registers the model and does nothing else; gives its id.

    Raises `UsageError` when the model's result is not kept any more, so that it would be trained again, and as
    `launch.start` does.
    """
    assert details.pipeline is not None
    catalog = studio.make_catalog(studio.workspace)
    if catalog.find(REGISTER) is None:
        raise UsageError(f"there is no node type {REGISTER} here", hint="Update Voxelflow.")
    pipeline, node = registering(details.pipeline, made, name, alias, metric)
    values = {n: p.value for n, p in pipeline.parameters.items() if p.value is not None}
    profile = find_profile(details.run.profile, studio.workspace)
    choice = Choice(end=node)
    planned = launch.prepare(
        pipeline, catalog, studio.workspace, studio.store,
        values=values, profile=profile, choice=choice, base=studio.base,
    ).plan  # fmt: skip
    names = display_names(pipeline.nodes)
    if again := [names[task.node] for task in planned.to_run if task.node != node]:
        raise UsageError(
            f"the model would be made again: {', '.join(again)} must run first",
            hint="Run the pipeline again, then register the model of that run.",
        )
    run_id, _ = launch.start(
        pipeline, catalog, studio.workspace, studio.store,
        values=values, profile=profile, choice=choice, base=studio.base,
    )  # fmt: skip
    return run_id


@dataclass(frozen=True)
class Version:
    """A version in MLflow's registry, which is kept at `place`."""

    name: str
    version: int
    place: str

    def address(self, own: str) -> str:
        """Where MLflow shows it: through the app where it is the app's `own` MLflow; "" where nobody shows it."""
        if self.place.startswith(("http://", "https://")):
            return f"{self.place.rstrip('/')}/#/{version_page(self.name, self.version)}"
        if self.place == own and can_serve():
            return f"{MLFLOW_PATH}/model/{quote(self.name, safe='')}/{self.version}"
        return ""


def registered_in(details: Details) -> list[Version]:
    """The versions that the run's RegisterModel nodes made, or found there already."""
    figures = [
        output.figures
        for task in details.tasks
        if task.node_type == REGISTER
        for output in task.outputs.values()
        if isinstance(output, Report)
    ]
    return [
        Version(str(f["name"]), int(f["version"]), str(f["location"]))
        for f in figures
        if {"name", "version", "location"} <= f.keys() and str(f["version"]).isdigit()
    ]


# --- MLflow -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tracked:
    """Where a run is in MLflow: `url` is its page on a server; without a server, `command` shows it in the browser."""

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


def _mlflow(run: Run) -> None:
    found = tracked(studio().workspace, run.run_id)
    # The app may keep no runs in MLflow where the terminal that started this one did.
    if not found.run and not is_tracked():
        return
    # A database that is not the app's own MLflow has nobody here to show it.
    address = f"{MLFLOW_PATH}/run/{run.run_id}" if can_serve() and found.place == location(studio().workspace) else ""
    if found.run and (found.url or address):
        st.link_button("Open in MLflow", found.url or address, icon=":material/open_in_new:", key="run_mlflow")
        if not found.notes:
            return
    with st.popover("MLflow", icon=":material/monitoring:", key="run_mlflow_more"):
        if not found.run:
            st.html(tag("p", "Nothing of this run is in MLflow yet. It will be kept at ", text(found.place, "vf-mono")))
            return
        sent = "yes" if found.sent else "not yet"
        st.html(facts([("MLflow run", tag("span", found.run, class_="vf-mono")), ("All sent", sent)]))
        if found.command:
            st.html(tag("p", "It is kept at ", text(found.place, "vf-mono"), ". This command shows it in the browser:"))
            st.code(found.command, language=None, wrap_lines=True)
        for note in found.notes:
            st.html(notice("warning", text(note)))
