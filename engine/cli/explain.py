"""`voxelflow explain`: what a code of a problem means, why it matters, and what to do."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from engine.catalog import Catalog
from engine.cli.screen import COLOURS, say, say_diagnostics, say_json, table
from engine.cli.session import Session, json_option, workspace_option
from engine.errors import UsageError

_WIDTH = 100


@click.command("explain", short_help="Explain a problem's code, or list all codes.")
@click.argument("code", required=False)
@json_option
@workspace_option
@click.pass_obj
def command(session: Session, code: str | None, as_json: bool, root: Path | None) -> int:
    """Explain the CODE of a problem, such as VF503; without CODE, list all codes.

    Knows the codes of installed packages and of the workspace's own nodes too.
    """
    catalog = session.catalog(session.workspace_to_look_at(root))
    if code is not None:
        _explain(catalog, code, as_json)
    elif as_json:
        problems = [p.model_dump(mode="json") for p in catalog.problems]
        say_json({"rules": [r.describe() for r in catalog.rules], "problems": problems})
    else:
        table(("code", "severity", "title"), [(r.code, r.severity, r.title) for r in catalog.rules])
        say_diagnostics(catalog.problems, error=True)
    return 0


def _explain(catalog: Catalog, code: str, as_json: bool) -> None:
    rule = catalog.rules.find(code.strip())
    if rule is None:
        # A code that is missing may be one of a file or package that was not loaded.
        say_diagnostics(catalog.problems, error=True)
        near = [f"{r.code} ({r.title})" for r in catalog.rules.similar(code)]
        hint = f"Try one of: {', '.join(near)}." if near else "`voxelflow explain` lists all codes."
        raise UsageError(f"there is no code {code!r}", hint=hint)
    if as_json:
        say_json(rule.describe())
        return
    say(f"{rule.code} {rule.severity}: {rule.title}", style=COLOURS.get(rule.severity, ""))
    print()
    for line in _reflowed(rule.explanation()):
        say(line)


def _reflowed(text: str) -> Iterator[str]:
    """Paragraphs at the width of the terminal; indented ones, which are examples, as they are."""
    width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)
    for i, paragraph in enumerate(text.split("\n\n")):
        yield from [""] if i else []
        lines = paragraph.splitlines()
        yield from lines if paragraph.startswith(" ") else textwrap.wrap(" ".join(lines), width, break_long_words=False)
