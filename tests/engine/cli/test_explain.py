"""`voxelflow explain`, and where `validate` and `plan` point to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save

from engine.workspace import Workspace, trust

RULE = '''
from voxelflow import CheckContext, Preview, Report, Rule, node

class TooQuiet(Rule):
    """Nothing is said.

    For example:

        {"text": ""}

    What to do: say something.
    """

    code = "MY001"
    severity = "warning"
    title = "a silent node"

@node("Quiet", version=1, category="Mine")
def quiet() -> Report:
    """Say nothing."""
    return Report(uri="x")

@quiet.preview
def _(look: CheckContext) -> Preview:
    look.problem("OLD001", "reported without a rule", severity="warning")
    look.report(TooQuiet, "says nothing", hint="Say something.")
    return Preview(kind="Report")
'''


@pytest.mark.parametrize("code", ["VF106", "vf106"])
def test_a_code_is_explained(code: str, command: Command) -> None:
    said = command("explain", code).done()
    head, empty, *rest = said.out.splitlines()
    assert (head, empty) == ("VF106 error: an input without a wire", "")
    assert rest[-1].startswith("What to do: ")
    assert max(map(len, rest)) <= 100
    output = command("explain", code, "--json").json
    assert list(output) == ["code", "severity", "title", "explanation"]
    assert (output["code"], output["severity"], output["title"]) == ("VF106", "error", "an input without a wire")
    assert " ".join(output["explanation"].split()) == " ".join(" ".join(rest).split())


def test_without_a_code_all_are_listed(command: Command) -> None:
    said = command("explain").done()
    header, *rows = said.out.splitlines()
    assert header.split() == ["code", "severity", "title"]
    assert [r.split()[0] for r in rows] == sorted(r.split()[0] for r in rows)
    assert next(r for r in rows if r.startswith("VF106")).split() == [
        "VF106",
        "error",
        *["an", "input", "without", "a", "wire"],
    ]
    output = command("explain", "--json").json
    assert [r["code"] for r in output["rules"]] == [r.split()[0] for r in rows]
    assert list(output["rules"][0]) == ["code", "severity", "title", "explanation"]
    assert output["problems"] == []


@pytest.mark.parametrize(
    ("code", "near"),
    [("VF16", "VF106"), ("106", "VF106"), ("wire", "`voxelflow explain` lists all"), ("", "lists all")],
)
def test_an_unknown_code_is_an_error_with_the_near_ones(code: str, near: str, command: Command) -> None:
    said = command("explain", code).fails()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert near in said.err
    assert command("explain", code, "--json").json["code"] == "usage"


def test_a_workspaces_own_rule_is_explained(command: Command, workspace: Workspace) -> None:
    (workspace.my_nodes / "quiet.py").write_text(RULE)
    unknown = command("explain", "MY001").fails()
    assert "VF150" in unknown.err  # why it may be unknown: nobody trusts the file yet
    assert [p["code"] for p in command("explain", "--json").json["problems"]] == ["VF150"]
    trust(workspace)
    assert command("explain", "MY001").out == (
        "MY001 warning: a silent node\n\nNothing is said.\n\nFor example:\n\n"
        '    {"text": ""}\n\nWhat to do: say something.\n'
    )
    assert "a silent node" in command("explain").out


def test_validate_and_plan_end_with_one_pointer(command: Command, save: Save, home: Path) -> None:
    good = save(pipeline(box("a", "Make")))
    assert "explain" not in command("validate", good).out + command("plan", good).out
    bad = save(pipeline(box("b", "Join"), box("c", "Nonsense")))
    said = command("validate", bad)
    assert said.out.splitlines()[-1] == "`voxelflow explain VF106` says more."
    assert said.out.count("explain") == 1
    for verb in ("plan", "run"):
        said = command(verb, bad).fails()
        assert said.err.splitlines()[-1] == "`voxelflow explain VF106` says more."
        assert (said.out + said.err).count("explain") == 1
    for verb in ("validate", "plan", "run"):
        said = command(verb, bad, "--json")
        assert "explain" not in said.out + said.err


def test_the_pointer_names_an_error_first_and_only_what_can_be_explained(
    command: Command, save: Save, workspace: Workspace
) -> None:
    (workspace.my_nodes / "quiet.py").write_text(RULE)
    trust(workspace)
    for verb in ("validate", "plan"):
        said = command(verb, save(pipeline(box("q", "Quiet")))).done()
        assert "OLD001" in said.out
        assert said.out.splitlines()[-1] == "`voxelflow explain MY001` says more."
    said = command("validate", save(pipeline(box("q", "Quiet"), box("b", "Join"))))
    assert said.out.splitlines()[-1] == "`voxelflow explain VF106` says more."
    (workspace.my_nodes / "quiet.py").write_text(RULE.replace("    look.report", "    # look.report"))
    assert "explain" not in command("validate", save(pipeline(box("q", "Quiet")))).out
