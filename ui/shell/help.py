"""Help, on each page: the keys and words that one needs first, where the documents are, versions to report."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from ui.shell.blocks import Html, heading, tag
from ui.studio_context import studio

_KEYS = (
    ("/", "add a node"),
    ("D", "look at what the selected node made"),
    ("Ctrl+Enter", "run the pipeline"),
    ("Ctrl+S", "save"),
    ("Ctrl+Z", "undo, parameters included"),
    ("?", "all keys of the canvas"),
)
_WORDS = (
    ("Pipeline", "nodes and wires, saved as JSON; the shell runs the same file"),
    ("Volume", "one 3-D array with its channels, a .npy file"),
    ("Table", "all volumes as a Delta table, in files of the right size"),
    ("Run", "one execution of a pipeline; a process of its own, which goes on without this page"),
    ("Up to date", "a node whose result is there already: a run takes it as it is, and calls it cached"),
    ("Profile", "where a pipeline runs: this machine, or a Spark cluster"),
    ("Workspace", "the folder of pipelines, runs and results"),
)
_DOCUMENTS = (
    ("voxelflow --help", "the command, each part with --help of its own"),
    ("voxelflow nodes NAME", "a node with all its parameters; in the editor: its tab About"),
    ("voxelflow explain CODE", "a problem such as VF205, and what to do"),
    ("README.md", "a tour; engine/, nodes/ and ui/README.md say how it is built"),
)
_PACKAGES = ("voxelflow", "streamlit", "deltalake", "pyarrow", "numpy", "tensorflow", "mlflow", "pyspark")


def show() -> None:
    """Draw the button; what it opens is on the page already, so that no script runs for it."""
    with st.container(key="help"), st.popover("Help", icon=":material/help:", type="tertiary"):
        st.html(_text(str(studio().workspace.root)))


@cache
def _text(workspace: str) -> Html:
    keys = [tag("div", tag("dt", tag("kbd", key)), tag("dd", what)) for key, what in _KEYS]
    words = [tag("div", tag("dt", word), tag("dd", what)) for word, what in _WORDS]
    documents = [tag("div", tag("dt", tag("code", where)), tag("dd", what)) for where, what in _DOCUMENTS]
    versions = ", ".join(filter(None, (_version(name) for name in _PACKAGES)))
    return tag(
        "div",
        tag("section", heading("Keys"), tag("dl", *keys)),
        tag("section", heading("Documents"), tag("dl", *documents)),
        tag("section", heading("Words"), tag("dl", *words)),
        tag(
            "section",
            heading("Versions"),
            tag("p", f"{versions}, Python {platform.python_version()}"),
            tag("p", f"Workspace {workspace}", class_="vf-mono"),
        ),
        class_="vf-help",
    )


def _version(package: str) -> str:
    """`name 1.2`; "" when it is not installed. Reads its metadata and imports nothing."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""
