"""Files that a run has kept: pictures shown, anything downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from engine.declare.events import Artifact
from engine.errors import DataError
from engine.text import size
from ui.shell.blocks import notice, plain, tag, text

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_LARGEST_PICTURE = 20 << 20


def each_once(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Each file once: one that was written again is the same place."""
    return list({artifact.path: artifact for artifact in artifacts}.values())


def is_picture(artifact: Artifact) -> bool:
    """Whether the browser can show the file."""
    return Path(artifact.path).suffix.lower() in _PICTURES


def draw_picture(artifact: Artifact, caption: str, key: str) -> None:
    """Draw the picture, which opens large, and what downloads it."""
    path = Path(artifact.path)
    try:
        content = path.read_bytes() if path.stat().st_size <= _LARGEST_PICTURE else b""
    except OSError as exc:
        st.html(
            notice("warning", text(f"{artifact.name} cannot be shown: {exc.strerror or exc}"), "Run the node again.")
        )
        return
    if content:
        st.image(content, caption=plain(caption), width="stretch")
    download_file(path, f"{key}-{artifact.name}")


def draw_file(artifact: Artifact, node: str, key: str) -> None:
    """Draw a line with the file's name and size, and what downloads it."""
    path = Path(artifact.path)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        try:
            is_file = path.is_file()
            detail = size(path.stat().st_size) if is_file else "folder"
        except OSError:
            is_file, detail = False, "gone"
        where = tag("span", f" {node}, {detail}" if node else f" {detail}", class_="vf-muted")
        st.html(tag("span", text(artifact.name), where, title=artifact.path), width="content")
        if is_file:
            download_file(path, f"{key}-{artifact.name}")
        else:
            st.html(tag("span", text(artifact.path, "vf-mono")), width="content")


def download_file(path: Path, key: str) -> None:
    """Draw a button that downloads the file; it is read when the button is pressed."""

    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as exc:
            raise DataError(f"{path} cannot be read: {exc.strerror or exc}", hint="Run the node again.") from exc

    st.download_button(
        "Download",
        data=read,
        file_name=path.name,
        mime="application/octet-stream",
        key=f"download-{key}",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )
