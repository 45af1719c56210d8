"""What is public is documented: read from the source, so that nothing heavy is imported."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("engine", "nodes", "ui")
_LEAST = 0.9
"""Of a package's public modules, classes, functions and methods so many have a docstring."""
_PAGES = (_ROOT / "README.md", _ROOT / "nodes/README.md", *sorted((_ROOT / "examples").glob("*/README.md")))
_OWN_CODE = [*sorted((_ROOT / "examples").glob("*/my_*/*.py")), _ROOT / "tests/support/shelf_place.py"]
"""As a person or a package outside writes it."""

Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Public:
    """A public module, class, function or method: its dotted name, and whether it has a docstring, if inherited."""

    name: str
    documented: bool


def _definitions(body: Iterable[ast.stmt]) -> Iterator[Definition]:
    for each in body:
        if isinstance(each, Definition) and not each.name.startswith("_"):
            # Further forms of one function.
            others = ("overload", f"{each.name}.setter")
            if not any(ast.unparse(decorator).endswith(others) for decorator in each.decorator_list):
                yield each


class Sources:
    """Modules by dotted name, as they are written."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.modules = {name: ast.parse(text) for name, text in texts.items()}
        self._classes: dict[str, list[ast.ClassDef]] = {}
        for module in self.modules.values():
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, []).append(node)

    def public(self) -> Iterator[Public]:
        for name, module in self.modules.items():
            # An empty __init__.py says nothing that a docstring could explain.
            if module.body:
                yield Public(name, ast.get_docstring(module) is not None)
            for each in _definitions(module.body):
                yield from self.of(each, name)

    def of(self, node: Definition, where: str) -> Iterator[Public]:
        """A class with its methods, or a function."""
        name = f"{where}.{node.name}"
        yield Public(name, ast.get_docstring(node) is not None)
        if isinstance(node, ast.ClassDef):
            for each in _definitions(node.body):
                if isinstance(each, ast.ClassDef):
                    yield from self.of(each, name)
                elif not each.name.startswith("test_"):  # in a conformance suite: the name is the sentence
                    yield Public(f"{name}.{each.name}", self._says(node, each.name))

    def find(self, module: str, name: str) -> tuple[str, Definition]:
        """Where the module has the name from, and what it is."""
        for each in self.modules[module].body:
            if isinstance(each, Definition) and each.name == name:
                return module, each
            if isinstance(each, ast.ImportFrom) and name in [alias.name for alias in each.names]:
                assert each.module is not None
                return self.find(each.module, name)
            if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == [name]:
                return self.find(module, ast.unparse(each.value))  # another name of it
        raise AssertionError(f"{name} is not found in {module}")

    def _says(self, owner: ast.ClassDef, method: str) -> bool:
        """Whether the method has a docstring, or one that it overrides has, as `help` shows it."""
        for each in owner.body:
            if isinstance(each, Definition) and each.name == method and ast.get_docstring(each) is not None:
                return True
        bases = [re.split(r"[\[.]", ast.unparse(base).partition("[")[0])[-1] for base in owner.bases]
        return any(self._says(found, method) for base in bases for found in self._classes.get(base, ()))


@cache
def _sources() -> Sources:
    paths = [path for package in _PACKAGES for path in (_ROOT / package).rglob("*.py")]
    paths = [path for path in paths if "node_modules" not in path.parts]
    names = {path.relative_to(_ROOT).with_suffix("").as_posix().replace("/", "."): path for path in paths}
    return Sources({name.removesuffix(".__init__"): path.read_text() for name, path in names.items()})


@cache
def _facade() -> Sources:
    return Sources({"voxelflow": (_ROOT / "voxelflow.py").read_text()})


def _assigned(module: ast.Module, name: str) -> ast.expr:
    return next(
        each.value
        for each in module.body
        if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == [name]
    )


def _exported() -> dict[str, str]:
    """What `voxelflow` exports, and the module where it stands."""
    module = _facade().modules["voxelflow"]
    homes = {name: home for home, names in ast.literal_eval(_assigned(module, "_HOME")).items() for name in names}
    return {name: homes.get(name, "voxelflow") for name in ast.literal_eval(_assigned(module, "__all__"))}


@pytest.mark.slow
@pytest.mark.parametrize("package", _PACKAGES)
def test_what_is_public_has_a_docstring(package: str) -> None:
    found = [each for each in _sources().public() if each.name.split(".")[0] == package]
    missing = [each.name for each in found if not each.documented]
    assert len(found) > 100
    assert len(missing) <= (1 - _LEAST) * len(found), Counter(name.rpartition(".")[0] for name in missing)


@pytest.mark.slow
def test_all_that_is_exported_has_a_docstring() -> None:
    missing = []
    for name, home in _exported().items():
        sources = _facade() if home == "voxelflow" else _sources()
        module, found = sources.find(home, name)
        missing += [each.name for each in sources.of(found, module) if not each.documented]
    assert missing == []


def test_a_missing_docstring_is_noticed() -> None:
    made = Sources(
        {
            "a": '"""Says."""\nclass Base:\n    """Says."""\n    def said(self):\n        """Says."""\n'
            "    def silent(self): ...",
            "b": "class _Own(Base[int]): ...\nclass Own(_Own):\n    def said(self): ...\n    def silent(self): ...\n"
            "    def _private(self): ...\ndef silent(): ...",
            "b.empty": "",
        }
    )
    assert [each.name for each in made.public() if not each.documented] == [
        "a.Base.silent",
        "b",
        "b.Own",
        "b.Own.silent",
        "b.silent",
    ]
    assert [each.name for each in made.public() if each.documented] == ["a", "a.Base", "a.Base.said", "b.Own.said"]


# --- CONTRIBUTING.md ---------------------------------------------------------------------------


def test_every_path_that_contributors_are_sent_to_exists() -> None:
    text = (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {*re.findall(r"`([\w.-]+/[\w./-]*)`", text), *re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text)}
    assert len(named) > 40
    in_a_workspace = {"versions/"}
    assert [name for name in sorted(named - in_a_workspace) if not (_ROOT / name).exists()] == []


# --- the architecture --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "page"), [("engine", "engine"), ("nodes", "engine"), ("nodes", "nodes"), ("ui", "ui")]
)
def test_every_folder_has_its_line_on_the_page_of_the_architecture(folder: str, page: str) -> None:
    """Folders of Python, and the modules beside them; those beside the folders of `nodes` are the node types."""
    here = _ROOT / folder
    parts = {f"{path.parent.name}/" for path in here.glob("*/__init__.py")}
    if folder != "nodes":
        parts |= {path.stem for path in here.glob("*.py") if path.stem != "__init__"}
    lines = re.findall(r"^\| (`.*?) \|", (_ROOT / page / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name.removesuffix(".py") for line in lines for name in re.findall(r"`([\w./]+)`", line)}
    assert len(parts) > 5
    assert sorted(parts - named) == []


@pytest.mark.parametrize("folder", ["engine", "nodes"])
def test_the_page_of_the_architecture_goes_from_top_to_bottom(folder: str) -> None:
    """As it says: each line's parts are above those of the next, by the layers that the import contract holds."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"].startswith(f"inside the {folder}"))
    level = {part.strip().split(".")[-1]: number for number, layer in enumerate(layers) for part in layer.split("|")}
    page = (_ROOT / "engine" / "README.md").read_text(encoding="utf-8")
    table = page[page.index(f"| `{folder}/` | ") :].partition("\n\n")[0]
    lines = [re.findall(r"`(\w+)/?`", line.split("|")[1]) for line in table.splitlines()[2:]]
    found = [levels for parts in lines if (levels := [level[part] for part in parts])]
    assert len(found) > 15
    assert sum(map(len, found)) == len(level)
    assert [pair for pair in pairwise(found) if max(pair[0]) > min(pair[1])] == []


# --- links -------------------------------------------------------------------------------------

_WITH_LINKS = (
    *_ROOT.glob("*.md"),
    *(p for f in (*_PACKAGES, "pipelines", "benchmarks") for p in _ROOT.glob(f"{f}/*.md")),
    _ROOT / "engine/prices/README.md",
    *(_ROOT / "examples").glob("*/README.md"),
)


def _anchors(page: str) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _dead_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file.read_text(encoding="utf-8"))):
            yield target


@pytest.mark.parametrize("page", _WITH_LINKS, ids=lambda path: path.relative_to(_ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert list(_dead_links(page)) == []


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The other's page (whole)\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#the-others-page-whole) [b](other.md#gone) [c](gone.md) [d](https://x.org) [e](#own)\n"
    )
    assert list(_dead_links(page)) == ["other.md#gone", "gone.md", "#own"]


# --- examples ----------------------------------------------------------------------------------


def _examples(page: str) -> list[str]:
    return re.findall(r"```py(?:thon)?\n(.*?)```", page, re.DOTALL)


def _foreign(code: str, exported: Iterable[str]) -> list[str]:
    """What the code imports of Voxelflow and a package outside cannot count on."""
    out: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            out += [each.name for each in node.names if each.name.split(".")[0] in _PACKAGES]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module.split(".")[0] in _PACKAGES:
                out.append(node.module)
            elif node.module == "voxelflow":
                out += [f"voxelflow.{each.name}" for each in node.names if each.name not in exported]
    return out


@pytest.mark.parametrize("page", [*_PAGES, *_OWN_CODE], ids=lambda path: path.relative_to(_ROOT).as_posix())
def test_documented_examples_import_from_voxelflow_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    examples = [text] if page.suffix == ".py" else _examples(text)
    assert [name for code in examples for name in _foreign(code, _exported())] == []


def test_examples_are_found_and_what_is_not_public_is_noticed() -> None:
    assert len(_examples((_ROOT / "nodes/README.md").read_text(encoding="utf-8"))) > 5
    code = (
        "import voxelflow, numpy\nimport nodes.loaders\nfrom engine.errors import X\nfrom voxelflow import load, lode"
    )
    assert _foreign(code, _exported()) == ["nodes.loaders", "engine.errors", "voxelflow.lode"]
