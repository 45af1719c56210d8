"""What the table in CONTRIBUTING.md has people do by hand, beside the code: a part that was forgotten is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from readme_examples import EXAMPLES, commands

import nodes
import voxelflow
from engine.declare.datasets import BUILT_IN_TYPES
from engine.extras import EXTRAS
from nodes.conversion.formats import BUILT_IN as BUILT_IN_FORMATS
from nodes.viewing import _VIEWS

ROOT = Path(__file__).parents[1]


def _page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_each_node_type_is_in_both_lists() -> None:
    """`nodes/__init__.py` has the modules of all files beside the folders."""
    modules = {path.stem for path in (ROOT / "nodes").glob("*.py")} - {"__init__"}
    assert {f"nodes.{module}" for module in modules} == set(nodes.BUILT_IN), "nodes/__init__.py lists each file"
    listed = re.search(r"^\| one module per node type \|(.*)\|$", _page("nodes/README.md"), re.MULTILINE)
    assert listed is not None
    assert modules == set(re.findall(r"`(\w+)`", listed[1])), "nodes/README.md, What lies where, lists each module"
    rows = [row.split("|")[1] for row in _page("README.md").splitlines() if row.startswith("| `")]
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    types = {each.name for each in voxelflow.catalog() if each.origin == "built-in"}
    assert sorted(types - described) == [], "README.md describes each node type"


def test_each_dataset_type_can_be_imported_and_looked_at() -> None:
    kinds = {each.__name__ for each in BUILT_IN_TYPES}
    assert sorted(kinds - set(voxelflow.__all__)) == [], "voxelflow.py exports each dataset type"
    assert set(_VIEWS) == kinds, "nodes/viewing/__init__.py says how each is looked at"


def test_each_format_of_volumes_is_in_both_lists() -> None:
    """Those of installed packages are their own."""
    titles = {each.title for each in BUILT_IN_FORMATS}
    assert len(titles) > 8
    readme = _page("README.md")
    assert sorted(title for title in titles if title not in readme) == [], "README.md names each format"
    table = _page("nodes/README.md").partition("\n## Formats of volumes\n")[2].partition("\n## ")[0]
    first = {row.split("|")[1] for row in table.splitlines() if row.startswith("| ")}
    unlisted = sorted(title for title in titles if not any(title in cell for cell in first))
    assert unlisted == [], "nodes/README.md, Formats of volumes, has a row for each format"


def test_each_page_of_the_app_is_in_the_list_of_addresses_and_is_drawn() -> None:
    source = ast.parse(_page("ui/shell/navigation.py"))
    pages: dict[str, str] = {}
    hidden = set()
    for each in source.body:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
            call = each.value
            if ast.unparse(call.func) == "Address":
                constant = ast.unparse(each.targets[0])
                pages[constant] = ast.literal_eval(call.args[0])
                if any(word.arg == "in_menu" for word in call.keywords):
                    hidden.add(constant)
    assert len(pages) > 5
    addresses = set(re.findall(r"^/(\w*)", ast.get_docstring(source) or "", re.MULTILINE))
    assert addresses == {"" if constant == "BUILD" else path for constant, path in pages.items()}
    entry = next(each for each in source.body if isinstance(each, ast.FunctionDef) and each.name == "entry")
    named = {each.id for each in ast.walk(entry) if isinstance(each, ast.Name) and each.id in pages}
    assert named == pages.keys() - hidden, "entry() knows each page of the menu"
    drawn = set(re.findall(r"navigation\.([A-Z]+):", _page("ui/app.py")))
    assert drawn == pages.keys(), "ui/app.py draws each page"
    shots = _page("tests/pictures/shots.py")
    shown = {path for path in pages.values() if re.search(rf'"/{path}\b', shots)}
    assert shown >= {path for constant, path in pages.items() if constant != "BUILD"}, "a Shot shows each page"


def test_each_example_has_commands_that_a_test_follows() -> None:
    examples = [folder for folder in sorted(EXAMPLES.iterdir()) if folder.is_dir()]
    assert len(examples) > 3
    for folder in examples:
        assert commands(folder.name), f"{folder / 'README.md'} has commands, indented by four blanks"
        assert (ROOT / "tests" / "examples" / f"test_{folder.name}.py").exists()
        assert f"examples/{folder.name}/README.md" in _page("README.md"), "README.md leads to each example"


def test_each_extra_is_in_the_readme() -> None:
    named = set(re.findall(r"`\[(\w+)\]`", _page("README.md")))
    assert sorted(EXTRAS.keys() - named) == [], "README.md says what each extra brings"
