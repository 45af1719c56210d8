"""The pipeline that a run ran, as a table of its nodes with what was set in each, and its document to download."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from engine.document.pipeline import display_names
from engine.history.details import Details, value_text
from ui.shell.blocks import Html, heading, notice, table, tag, text


def show(details: Details) -> None:
    """Draw the tab."""
    run, pipeline = details.run, details.pipeline
    st.download_button(
        "Download JSON",
        data=run.document,
        file_name=f"{run.run_id}.json",
        mime="application/json",
        key="document_download",
        icon=":material/download:",
        help="The exact document that ran.",
        on_click="ignore",
    )
    if pipeline is None:
        st.html(notice("error", "This run's document cannot be read.", "It was written by another Voxelflow."))
        return
    if pipeline.description:
        st.html(tag("p", text(pipeline.description)))
    if pipeline.parameters:
        st.html(heading("Parameters of the pipeline"))
        rows = [(name, value_text(p.value), p.help) for name, p in sorted(pipeline.parameters.items())]
        st.html(table(("name", "value", ""), rows, "Parameters of the pipeline", narrow=(0,)))
    st.html(heading("Nodes, with the parameters that were set"))
    names = display_names(pipeline.nodes)
    fed: dict[str, list[str]] = {}
    for edge in pipeline.edges:
        source = f"{names.get(edge.source_node, edge.source_node)}.{edge.source_port}"
        fed.setdefault(edge.target_node, []).append(f"{source} → {edge.target_port}")
    nodes = [
        [text(names[node.id]), node.type, _lines(fed.get(node.id, [])), _set_in(node.params)] for node in pipeline.nodes
    ]
    st.html(table(("node", "type", "from", "parameters"), nodes, "Nodes", narrow=(0, 1)))


def _lines(texts: list[str]) -> Html:
    return tag("span", *[tag("div", text(line)) for line in texts])


def _set_in(params: Mapping[str, object]) -> Html:
    lines = [
        tag("div", tag("span", name, class_="vf-muted"), " ", text(value_text(params[name]))) for name in sorted(params)
    ]
    return tag("span", *lines) if lines else tag("span", "all defaults", class_="vf-muted")
