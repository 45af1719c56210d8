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


def test_the_bundle_is_one_file_of_each_kind_and_what_is_loaded_with_the_first_volume() -> None:
    names = sorted(re.sub(r"^(index|niivue)-.*(\..+)$", r"\1\2", path.name) for path in BUILD.iterdir())
    assert names == ["index.css", "index.js", "licenses-niivue.md", "licenses.md", "niivue.js"]


def test_the_entry_asks_for_the_second_bundle_by_its_name_and_holds_nothing_of_it() -> None:
    entry, lazy = next(BUILD.glob("index-*.js")).read_text(), next(BUILD.glob("niivue-*.js"))
    assert lazy.name in entry
    assert "sampler3D" not in entry
    assert "sampler3D" in lazy.read_text()
    # Whole in itself: a further file would be one more thing to wait for.
    assert not re.search(r"""\bimport\s*["'{*]|\bfrom\s*["']\./""", lazy.read_text()[:2000])
    assert "BSD-2-Clause" in (BUILD / "licenses-niivue.md").read_text()


def test_the_bundle_is_the_production_build_and_names_no_place() -> None:
    text = next(BUILD.glob("index-*.js")).read_text()
    assert text.rstrip().endswith("as default};")
    for word in ("sourceMappingURL", "react-dom-client.development", "node_modules/", str(CANVAS.parents[1])):
        assert word not in text
    assert len(text) < 1_000_000


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
    for mode in ("niivue", "production"):
        run_tool("vite", "build", "--mode", mode, "--logLevel", "warn", "--outDir", str(here))
        run_tool("vite", "build", "--mode", mode, "--logLevel", "warn", cwd=elsewhere)
    digests = [
        {name: hashlib.sha256(content).hexdigest() for name, content in _bytes(folder).items()}
        for folder in (BUILD, here, elsewhere / "build")
    ]
    assert digests[1] == digests[2]
    assert digests[0] == digests[1]
