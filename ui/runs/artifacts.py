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
MIN_PICTURE_WIDTH = 320
"""Of a column of pictures."""
_SHOWS = {
    "confusion": "Confusion matrix",
    "numbers": "Predicted and true",
    "classes": "Volumes of each class",
    "roc": "ROC curve",
}
"""By the name of a file without its ending, what it shows where that does not say it: runs have recorded no more."""


def each_once(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Each file once: one that was written again is the same place."""
    return list({artifact.path: artifact for artifact in artifacts}.values())


def titles_of(artifacts: Sequence[Artifact]) -> dict[str, str]:
    """By path, the name that is shown: where names repeat with the end of the path that tells them apart."""
    alike: dict[str, list[tuple[str, ...]]] = {}
    for artifact in artifacts:
        alike.setdefault(artifact.name, []).append(Path(artifact.path).parts)
    depths = {name: _depth_apart(paths) for name, paths in alike.items()}
    return {artifact.path: _title(artifact, depths[artifact.name]) for artifact in artifacts}


def _depth_apart(paths: Sequence[tuple[str, ...]]) -> int:
    """How many of their last parts tell the paths apart; 0 where there is one."""
    if len(paths) == 1:
        return 0
    longest = max(map(len, paths))
    return next((n for n in range(1, longest) if len({path[-n:] for path in paths}) == len(paths)), longest)


def _title(artifact: Artifact, depth: int) -> str:
    path = Path(artifact.path)
    if not depth:
        return artifact.name
    end = str(Path(*path.parts[-depth:]))
    return end if artifact.name == path.name else f"{artifact.name}, {end}"


def picture_title(artifact: Artifact, title: str) -> str:
    """What a picture shows, in words where `titles_of` has but its file's name."""
    path = Path(artifact.path)
    if title != path.name:
        return title
    words = path.stem.replace("_", " ").replace("-", " ").strip()
    return _SHOWS.get(path.stem) or f"{words[:1].upper()}{words[1:]}" or title


def is_picture(artifact: Artifact) -> bool:
    """Whether the browser can show the file."""
    return Path(artifact.path).suffix.lower() in _PICTURES


def draw_picture(artifact: Artifact, caption: str, key: str) -> None:
    """Draw the picture, as wide as its column, which opens large, and what downloads it."""
    path = Path(artifact.path)
    try:
        content = path.read_bytes() if path.stat().st_size <= _LARGEST_PICTURE else b""
    except OSError as exc:
        st.html(
            notice("warning", text(f"{artifact.name} cannot be shown: {exc.strerror or exc}"), "Run the node again.")
        )
        return
    if content:
        # Of the width of its "content" a small one would not be larger where it is opened large.
        st.image(content, caption=plain(caption), width="stretch")
    download_file(path, f"{key}-{artifact.path}")


def draw_file(artifact: Artifact, title: str, node: str, key: str) -> None:
    """Draw a line with the file's title, its node and size, and what downloads it."""
    path = Path(artifact.path)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        try:
            is_file = path.is_file()
            detail = size(path.stat().st_size) if is_file else "folder"
        except OSError:
            is_file, detail = False, "gone"
        where = tag("span", f" {node}, {detail}" if node else f" {detail}", class_="vf-muted")
        st.html(tag("span", text(title), where, title=artifact.path), width="content")
        if is_file:
            download_file(path, f"{key}-{artifact.path}")
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
