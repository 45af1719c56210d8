"""The rules: each is declared once and explains itself, and no code is used that no rule has."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import get_args

import pytest
from installed_package import install

import voxelflow
from engine.catalog import build_catalog
from engine.declare.check_context import CheckContext
from engine.diagnostics.rule import Diagnostic, Rule, RuleBook, Severity
from engine.errors import DeclarationError
from engine.workspace import Workspace, trust

ROOT = Path(voxelflow.__file__).parent
PAGE = ROOT / "engine" / "diagnostics.md"
SECTIONS = {
    "VF1": "Nodes, wires and the catalogue",
    "VF2": "Parameters and secrets",
    "VF3": "Files, disk and backends",
    "VF4": "Volumes, labels and tables",
    "VF5": "Training, prediction and the registry",
}
CODE = re.compile(r"\bVF\d{3}\b")
Sources = dict[Path, str]


@pytest.fixture(scope="module")
def rules() -> RuleBook:
    return voxelflow.catalog().rules


@pytest.fixture(scope="module")
def sources() -> Sources:
    """Voxelflow's own modules; `ui/canvas` has none, and npm's packages lie there. `nodes/testing` holds tests."""
    folders = [ROOT / "engine", ROOT / "nodes", *(p for p in (ROOT / "ui").iterdir() if p.name != "canvas")]
    found = [ROOT / "voxelflow.py", *(p for folder in folders if folder.is_dir() for p in folder.rglob("*.py"))]
    found = [path for path in found if path.parent != ROOT / "nodes" / "testing"]
    return {path: path.read_text() for path in [*found, *(ROOT / "ui").glob("*.py")]}


# --- what Voxelflow's own rules promise ------------------------------------------------------------


def test_every_rule_explains_itself(rules: RuleBook) -> None:
    titles = [rule.title for rule in rules]
    assert len(titles) > 60
    assert len(set(titles)) == len(titles)
    for rule in rules:
        assert rule.severity in get_args(Severity), rule.code
        assert rule.title[0].islower() or rule.title.startswith(("XLA", "MLflow")), rule.code
        assert len(rule.title) <= 60, rule.code
        lines = [line for line in rule.explanation().splitlines() if line]
        assert 2 <= len(lines) <= 8, rule.code
        *_, last = rule.explanation().split("\n\n")
        assert last.startswith("What to do: "), rule.code
        assert last.endswith("."), rule.code


@pytest.mark.slow
def test_no_code_is_a_literal_in_a_check_and_every_rule_is_used(rules: RuleBook, sources: Sources) -> None:
    """A code is written where its rule is declared; whoever reports a problem names the rule."""
    declared: set[str] = set()
    strays: list[str] = []
    for path, text in sources.items():
        if path.name not in ("rule.py", "check_context.py"):
            assert not re.search(r"\bDiagnostic\(", text), f"{path} makes a diagnostic without a rule"
        for code, where in _literals(text):
            declared |= {code} if where == "rule" else set()
            strays += [] if where == "rule" else [f"{path.relative_to(ROOT)}: {code} in {where}"]
    assert strays == []
    assert declared == {rule.code for rule in rules}
    words = Counter(word for text in sources.values() for word in re.findall(r"\w+", text))
    assert [rule.code for rule in rules if words[rule.__name__] < 2] == []


def _literals(text: str) -> Iterator[tuple[str, str]]:
    """Each text in the source that is a code and nothing else: it, and "rule" or the line where it is."""
    if not re.search(r"[\"']VF\d{3}[\"']", text):
        return
    tree = ast.parse(text)
    in_rules = {
        id(statement.value)
        for found in ast.walk(tree)
        if isinstance(found, ast.ClassDef)
        for statement in found.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code"
    }
    for found in ast.walk(tree):
        if isinstance(found, ast.Constant) and isinstance(found.value, str) and CODE.fullmatch(found.value):
            yield found.value, "rule" if id(found) in in_rules else f"line {found.lineno}"


@pytest.mark.slow
def test_every_code_that_is_mentioned_exists(rules: RuleBook, sources: Sources) -> None:
    known = {rule.code for rule in rules}
    pages = [*ROOT.glob("*.md"), *(p for part in ("engine", "nodes", "ui") for p in (ROOT / part).glob("*.md"))]
    canvas = [*(ROOT / "ui/canvas/src").rglob("*.ts"), *(ROOT / "ui/canvas/src").rglob("*.tsx")]
    for path, text in [*sources.items(), *((p, p.read_text()) for p in [*pages, *canvas])]:
        assert set(CODE.findall(text)) <= known, path


def test_the_page_of_all_codes_is_up_to_date(rules: RuleBook) -> None:
    """`UPDATE_GOLDEN=1 pytest tests/engine/diagnostics/test_rules.py` writes it anew."""
    text = "\n".join(_page(rules))
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(text)
    assert text == PAGE.read_text()


def _page(rules: RuleBook) -> Iterator[str]:
    yield "# Diagnostics\n"
    yield "Every problem that Voxelflow reports before anything runs has a code; `voxelflow explain CODE` prints what"
    yield "this page says of it. An error must be put right before a run; with a warning or an info it starts anyway."
    yield ""
    yield "Made from the subclasses of `Rule` by"
    yield "`UPDATE_GOLDEN=1 .venv/bin/pytest tests/engine/diagnostics/test_rules.py`."
    for hundred, group in groupby(rules, key=lambda rule: rule.code[:3]):
        members = list(group)
        yield f"\n## {hundred}xx: {SECTIONS[hundred]}\n"
        yield "| code | severity | |"
        yield "| --- | --- | --- |"
        for rule in members:
            yield f"| [{rule.code}](#{rule.code.lower()}) | {rule.severity} | {rule.title} |"
        for rule in members:
            yield f"\n### {rule.code}\n"
            yield f"**{rule.title[0].upper()}{rule.title[1:]}** ({rule.severity})\n"
            yield rule.explanation()
    yield ""


# --- declaring -------------------------------------------------------------------------------------


class TableTooOld(Rule):
    """The table is older than a year.

    What to do: make it anew.
    """

    code = "AB001"
    severity = "warning"
    title = "a table from last year"


def test_a_diagnostic_is_made_from_its_rule_and_its_json_is_as_ever() -> None:
    made = TableTooOld.found("made in 2020", hint="Make it anew.", node="a", parameter="table")
    assert made == Diagnostic(
        code="AB001", severity="warning", message="made in 2020", hint="Make it anew.", node="a", parameter="table"
    )
    assert list(made.model_dump()) == ["code", "severity", "message", "hint", "node", "port", "parameter"]
    assert Diagnostic.model_validate_json(made.model_dump_json()) == made
    assert TableTooOld.explanation() == "The table is older than a year.\n\nWhat to do: make it anew."


def test_a_hook_reports_by_rule_and_still_by_code() -> None:
    look = CheckContext(params={})
    look.report(TableTooOld, "made in 2020", hint="Make it anew.", port="table")
    look.problem("AB001", "made in 2020", hint="Make it anew.", port="table", severity="warning")
    assert look.problems[0] == look.problems[1]
    assert look.problems[0].port == "table"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"code": "AB1"}, "'AB1' is not a code"),
        ({"code": "ab001"}, "'ab001' is not a code"),
        ({"code": None}, "declares no code"),
        ({"severity": "fatal"}, "'fatal' is not a severity"),
        ({"severity": None}, "declares no severity"),
        ({"title": ""}, "declares no title"),
        ({"title": "one\nand two"}, "its title"),
        ({"title": "a title."}, "its title"),
        ({"__doc__": None}, "has no docstring"),
        ({"__doc__": "  \n"}, "has no docstring"),
    ],
)
def test_a_rule_declared_wrongly_is_refused_at_its_class(fields: dict[str, str | None], wrong: str) -> None:
    good = {"code": "AB002", "severity": "error", "title": "a title", "__doc__": "Why. What to do: that."}
    given = {name: value for name, value in (good | fields).items() if value is not None}
    with pytest.raises(DeclarationError, match=wrong) as refused:
        type("Wrong", (Rule,), given)
    assert "Wrong" in refused.value.message
    assert refused.value.hint


def test_a_rule_takes_no_code_or_docstring_from_another() -> None:
    with pytest.raises(DeclarationError, match="declares no code"):
        type("Derived", (TableTooOld,), {"__doc__": "Why. What to do: that."})
    with pytest.raises(DeclarationError, match="has no docstring"):
        type("Derived", (TableTooOld,), {"code": "AB003", "title": "a title"})


def test_a_code_means_one_rule_and_a_refused_rule_leaves_no_trace() -> None:
    def rule(name: str, code: str) -> type[Rule]:
        fields = {"code": code, "severity": "error", "title": name.lower(), "__doc__": "Why. What to do: that."}
        return type(name, (Rule,), fields)

    book = RuleBook()
    first, second = rule("First", "AB010"), rule("Second", "AB011")
    book.add([first])
    book.add([first])  # seen from two modules, it is one rule
    with pytest.raises(DeclarationError, match=r"AB010 is declared twice: .*First.*Another"):
        book.add([second, rule("Another", "AB010")])
    assert list(book) == [first]
    assert book.find("ab010") is first
    assert book.find("AB011") is None


def test_the_book_knows_what_is_near(rules: RuleBook) -> None:
    assert [r.code for r in rules.similar("vf50")] == ["VF501", "VF502", "VF503", "VF504", "VF505"]
    for typed in ("503", "vf-503", "V F 5 0 3", "VF0503"):
        assert next(r.code for r in rules.similar(typed)) == "VF503", typed
    assert rules.similar("nothing") == []


# --- rules of other people --------------------------------------------------------------------------

NODE = dedent('''
    from voxelflow import CheckContext, Preview, Report, Rule, VolumeDelta, node

    class NoLabels(Rule):
        """No volume of the table has a label.

        What to do: give NumpyToParquet a label file.
        """

        code = "{code}"
        severity = "error"
        title = "table without labels"

    @node("{name}", version=1, category="Mine")
    def mine(table: VolumeDelta) -> Report:
        """Mine."""
        return Report(uri="x")

    @mine.preview
    def _(look: CheckContext) -> Preview:
        look.report(NoLabels, "no volume has a label", hint="Label them.", port="table")
        return Preview(kind="Report")
    ''')


def test_a_workspaces_rules_are_known_while_they_are_trusted(workspace: Workspace) -> None:
    (workspace.my_nodes / "mine.py").write_text(NODE.format(code="MY001", name="Mine"))
    assert build_catalog((), workspace).rules.find("MY001") is None
    trust(workspace)
    for _ in range(2):  # each catalogue loads the file anew
        catalog = build_catalog((), workspace)
        assert catalog.problems == []
        mine, rule = catalog.find("Mine"), catalog.rules.find("my001")
        assert mine.preview_hook is not None
        look = CheckContext(params={})
        mine.preview_hook(look)
        assert [(d.code, d.severity) for d in look.problems] == [("MY001", "error")]
        assert rule.title == "table without labels"


@pytest.mark.parametrize(
    ("code", "why"), [("MY001", "MY001 is declared twice"), ("VF101", "VF101 is declared twice"), ("VF999", "prefix")]
)
def test_a_file_with_a_code_that_is_not_its_own_is_not_loaded(workspace: Workspace, code: str, why: str) -> None:
    (workspace.my_nodes / "first.py").write_text(NODE.format(code="MY001", name="First"))
    (workspace.my_nodes / "second.py").write_text(NODE.format(code=code, name="Second"))
    trust(workspace)
    catalog = build_catalog((), workspace)
    assert [d.code for d in catalog.problems] == ["VF151"]
    assert "second.py" in catalog.problems[0].message
    assert why in catalog.problems[0].message
    assert catalog.find("First") is not None
    assert catalog.find("Second") is None


def test_a_packages_rules_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(
        tmp_path / "site", "whole = ruled_nodes\none = ruled_node:mine\nclash = ruled_clash",
        ruled_nodes="from ruled_rules import NoLabels\n",
        ruled_rules=NODE[: NODE.index("@node")].format(code="PKG001"),
        ruled_node=NODE.format(code="PKG002", name="One"),
        ruled_clash=NODE.format(code="PKG002", name="Clash"),
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(site))
    catalog = build_catalog(())
    assert {"PKG001", "PKG002"} <= {r.code for r in catalog.rules}
    assert catalog.find("One") is not None
    assert [(d.code, "ruled_clash" in d.message or "clash" in d.message) for d in catalog.problems] == [("VF151", True)]
    assert catalog.find("Clash") is None
