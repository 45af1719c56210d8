"""The canvas as it is committed: small, self-contained, and built from its sources."""

from __future__ import annotations

import hashlib
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from node_tools import run_tool
from outside_parts import CANVAS

BUILD = CANVAS / "build"


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_bundle_is_one_file_of_each_kind() -> None:
    names = sorted(re.sub(r"^index-.*(\..+)$", r"index\1", path.name) for path in BUILD.iterdir())
    assert names == ["index.css", "index.js", "licenses.md"]


def test_the_bundle_is_the_production_build_and_names_no_place() -> None:
    text = next(BUILD.glob("index-*.js")).read_text()
    assert text.rstrip().endswith("as default};")
    for word in ("sourceMappingURL", "react-dom-client.development", "node_modules/", str(CANVAS.parents[1])):
        assert word not in text
    assert len(text) < 800_000


def test_the_style_sheet_asks_nobody() -> None:
    text = next(BUILD.glob("index-*.css")).read_text()
    assert "@import" not in text
    assert "url(http" not in text.replace('"', "").replace("'", "")


def test_checkout_and_wheel_declare_the_same_component() -> None:
    checkout = tomllib.loads((CANVAS.parents[1] / "pyproject.toml").read_text())
    wheel = tomllib.loads((CANVAS / "pyproject.toml").read_text())
    assert wheel["tool"] == {"streamlit": checkout["tool"]["streamlit"]}
    assert wheel["project"] == {name: checkout["project"][name] for name in ("name", "version")}


@pytest.mark.slow
@pytest.mark.needs(part="canvas")
def test_the_committed_bundle_is_what_its_sources_make_anywhere(tmp_path: Path) -> None:
    """Else: `npm run build` in ui/canvas."""
    here, elsewhere = tmp_path / "here", tmp_path / "some" / "where" / "else"
    shutil.copytree(CANVAS, elsewhere, ignore=shutil.ignore_patterns("node_modules", "build"))
    (elsewhere / "node_modules").symlink_to(CANVAS / "node_modules")
    run_tool("vite", "build", "--logLevel", "warn", "--outDir", str(here))
    run_tool("vite", "build", "--logLevel", "warn", cwd=elsewhere)
    digests = [
        {name: hashlib.sha256(content).hexdigest() for name, content in _bytes(folder).items()}
        for folder in (BUILD, here, elsewhere / "build")
    ]
    assert digests[1] == digests[2]
    assert digests[0] == digests[1]
