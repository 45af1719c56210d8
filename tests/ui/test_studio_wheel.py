"""A built wheel carries the app: installed elsewhere, with no checkout in sight, it serves the canvas."""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from node_tools import CANVAS
from studio import StudioServer

CHECKOUT = CANVAS.parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves what it built before in the source folder."""
    sources, out = tmp_path_factory.mktemp("sources") / "voxelflow", tmp_path_factory.mktemp("wheel")
    unwanted = (".*", "*.egg-info", "__pycache__", "workspace", "tests", "dist", "*.db", "node_modules")
    shutil.copytree(CHECKOUT, sources, ignore=shutil.ignore_patterns(*unwanted), symlinks=True)
    # For the 20,000 files that npm installs there: these, too, are to stay out.
    for name in ("index.js", "tool.py", "build/index-1.js"):
        stand_in = sources / "ui/canvas/node_modules/package" / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.touch()
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(sources))
    return next(out.glob("voxelflow-*.whl"))


@pytest.mark.slow
def test_the_wheel_has_the_app_and_nothing_of_its_workshop(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    data = ["ui/shell/style.css", "ui/shell/logo.svg", "ui/canvas/pyproject.toml", "engine/prices/machines.csv"]
    data += ["ui/lineage/frame/index.html", "pipelines/gallery.toml", "pipelines/pictures/quickstart.webp"]
    given = ("ui/shell/inter/inter.woff2", "ui/shell/inter/LICENSE.txt", "engine/declare/icons-LICENSE.txt")
    for name in ("voxelflow.py", "ui/app.py", "ui/build/__init__.py", *data, *given):
        assert name in names
    canvas = {re.sub(r"-[\w-]+\.", "-HASH.", name) for name in names if name.startswith("ui/canvas/")}
    built = {"index-HASH.js", "index-HASH.css", "licenses.md"}
    assert canvas == {"ui/canvas/pyproject.toml", *(f"ui/canvas/build/{name}" for name in built)}
    packed = {p.relative_to(CHECKOUT).as_posix() for p in CANVAS.parent.rglob("*.py") if "canvas" not in p.parts}
    assert packed == {name for name in names if name.startswith("ui/") and name.endswith(".py")}


@pytest.mark.slow
def test_the_installed_wheel_serves_the_canvas(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv = tmp_path / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    python = venv / "bin" / "python"
    _run(sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    # The packages that Voxelflow needs, but not Voxelflow: a path from a .pth file is not searched for further ones.
    borrowed = next((venv / "lib").glob("python*")) / "site-packages" / "borrowed.pth"
    borrowed.write_text("".join(f"{folder}\n" for folder in site.getsitepackages()))
    home = tmp_path / "elsewhere"
    home.mkdir()
    where = subprocess.check_output([python, "-P", "-c", "import ui; print(ui.__file__)"], text=True, cwd=home)
    assert Path(where.strip()).is_relative_to(venv)
    with StudioServer(home, program=(str(venv / "bin" / "voxelflow"),)) as server:
        server.start()
        for path in (CANVAS / "build").glob("index-*"):
            status, text = server.get(f"/_stcore/bidi-components/voxelflow.canvas/{path.name}")
            assert (status, text) == (200, path.read_text())
        assert server.get("/_stcore/bidi-components/voxelflow.canvas/../pyproject.toml")[0] != 200
        assert str(CHECKOUT) not in server.output


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
