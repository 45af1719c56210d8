"""Each error text says what happened, to what, and what to do next.

The texts are read from the source: what an error of `engine.errors` or `found` of a rule is given, and whatever else is
called a hint. Values that are only known at run time are `{}`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow  # reads the whole source
ROOT = Path(__file__).parents[3]

PASSED_ON = "{}"
"""A text that this code has from elsewhere, where it is read."""
VERBS = frozenset(
    """add allow annotate ask avoid begin bring change check choose clear close connect convert copy correct create cut
    declare delete describe disable drop enable end evaluate export fill find free give go install keep leave let list
    load look lower make mount move name number omit open overwrite pass pick point predict put raise read rebuild
    record register release reload remove rename repair replace report rerun restore retry return run save say see
    select separate set shorten sign spell split start stop store take train try turn type update upgrade use wait wire
    write""".split()  # noqa: SIM905
)
"""What a sentence that says what to do begins with. Add the verb that you need."""
_CONDITION = r"(?:(?:if|to|for|on|in|with|without|where|when|after|before|otherwise|or|then)\b(?:[^,]*,)? )?"
_ADVICE = re.compile(
    rf"{re.escape(PASSED_ON)}\.?$|did you mean|{_CONDITION}(?:{'|'.join(sorted(VERBS))})\b"
    rf"|(?:it|there|the node) (?:has|have|may have|are): "
    rf"|{_CONDITION}`(?:voxelflow\b|pip\b|python\b|{re.escape(PASSED_ON)} )"
)
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|(?<=\}) (?=[A-Z`{])")
_WITHOUT_ADVICE = {
    "Cancelled": "the person asked for it",
    "CheckFailed": "its diagnostics have the advice",
    "LostWorkers": "the worker's own process; `Group` makes the error that people see",
    "NodeLeftOut": "says what the person did",
    "Refused": "the reason of one file for the quarantine; the error about all of them has the advice",
    "SpecDiffers": "is caught by the node, which knows what can be done",
    "TooLarge": "a kind of `Refused`",
    "TypesDiffer": "is caught by the node, which knows what can be done",
}


class Text(NamedTuple):
    """What one call gives an error: all that its message and its hint can be."""

    place: str
    kind: str
    messages: list[str]
    hints: list[str]
    says_where: bool
    """By an argument of its own: `node`, `parameter` or `port`."""


@cache
def sources() -> dict[str, list[ast.AST]]:
    """The nodes of the product's modules by their paths; the module itself is the first."""
    files = [file for part in ("engine", "nodes", "ui") for file in sorted((ROOT / part).rglob("*.py"))]
    return {
        str(file.relative_to(ROOT)): list(ast.walk(ast.parse(file.read_text())))
        for file in files
        if "node_modules" not in file.parts
    }


@cache
def below(base: str) -> set[str]:
    """The names of a class and of all that are derived from it."""
    bases = {
        node.name: {_names(b)[-1] for b in node.bases}
        for nodes in sources().values()
        for node in nodes
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    more = {base}
    while more:
        found |= more
        more = {name for name, of in bases.items() if of & found} - found
    return found


def _names(node: ast.expr) -> tuple[str, ...]:
    """`("rules", "EmptyPipeline")` of `rules.EmptyPipeline`; what is before a call or an index is left out."""
    match node:
        case ast.Name(name):
            return (name,)
        case ast.Attribute(value, name):
            return (*_names(value), name)
    return ("",)


@cache
def constants() -> dict[str, dict[str, ast.expr]]:
    """The values of each module's own upper-case names, by path."""
    return {path: dict(_assigned(nodes)) for path, nodes in sources().items()}


def _assigned(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    assert isinstance(nodes[0], ast.Module)
    for node in nodes[0].body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ) if name.isupper():
                yield name, value


@cache
def _constant(path: str, name: str) -> tuple[str, ast.expr] | None:
    """The module and the value of a constant, which may be imported."""
    if name in constants()[path]:
        return path, constants()[path][name]
    for node in sources()[path]:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            for module in (node.module.replace(".", "/") + ending for ending in (".py", "/__init__.py")):
                if name in constants().get(module, {}):
                    return module, constants()[module][name]
    return None


def folded(node: ast.expr | None, path: str) -> list[str]:
    """All texts that the expression can be, with `{}` for what is not known before it runs."""
    match node:
        case None:
            return [""]
        case ast.Constant(str(text)):
            return [text]
        case ast.JoinedStr(values):
            return _joined([folded(value, path) for value in values])
        case ast.FormattedValue(value):
            return folded(value, path)
        case ast.BinOp(left, ast.Add(), right):
            return _joined([folded(left, path), folded(right, path)])
        case ast.IfExp(_, one, other):
            return folded(one, path) + folded(other, path)
        case ast.BoolOp(ast.Or(), [*others, last]):
            return [text for value in others for text in folded(value, path) if text] + folded(last, path)
        case ast.Call(ast.Attribute(ast.expr() as text, "format" | "strip")):
            return folded(text, path)
        case ast.Name(name) if name.isupper() and (found := _constant(path, name)):
            return folded(found[1], found[0])
    return [PASSED_ON]


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(choice) for choice in itertools.islice(itertools.product(*parts), 64)]


def error_texts() -> Iterator[Text]:
    """What is given to errors and rules, in the order of files and lines."""
    errors, rules = below("VoxelflowError"), below("Rule")
    for path, nodes in sources().items():
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            name = _names(call.func)
            if name[-1] == "found" and len(name) > 1 and name[-2] in rules:
                kind = name[-2]
            elif name[-1] in errors:
                kind = name[-1]
            else:
                continue
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            message = call.args[0] if call.args else named.get("message")
            yield Text(
                f"{path}:{call.lineno}",
                kind,
                folded(message, path),
                folded(named.get("hint"), path),
                bool({"node", "parameter", "port"} & named.keys()),
            )


def loose_hints() -> Iterator[tuple[str, str]]:
    """Hints that do not go straight into an error: place and text."""
    for path, nodes in sources().items():
        takes_hint = {
            node.name: [argument.arg for argument in node.args.args].index("hint")
            for node in nodes
            if isinstance(node, ast.FunctionDef) and "hint" in [argument.arg for argument in node.args.args]
        }
        for node in nodes:
            given: list[ast.expr | None] = []
            match node:
                case ast.Assign(targets=[ast.Name(name)], value=value) if re.fullmatch("(.*_)?hint", name.lower()):
                    given = [value]
                case ast.Call(ast.Name(name), args, keywords):
                    given = [keyword.value for keyword in keywords if keyword.arg == "hint"]
                    given += args[takes_hint[name] :][:1] if name in takes_hint else []
            for value in given:
                yield from ((f"{path}:{node.lineno}", text) for text in folded(value, path) if text)


def advises(text: str) -> bool:
    """Whether a sentence begins with a verb or a command, perhaps after a condition, lists what there is to choose
    from, or comes from elsewhere."""
    return any(_ADVICE.match(sentence.lower()) for sentence in _SENTENCES.split(text.strip()))


def names_something(text: str) -> bool:
    """Whether there is a value, an option, a field or a node type in it, or what there is only one of."""
    return PASSED_ON in text or bool(
        re.search(
            r"--[a-z]|`|\w[._]\w|[A-Z][a-z]+[A-Z]|Spark|Java|MLflow|Voxelflow|([Aa]|no) (run|comparison|search)\b", text
        )
        or re.search(r"\b(the|this|every) (\w+ )?(pipeline|workspace|sweep|app|task|node|file|run)\b", text)
    )


@pytest.mark.slow
def test_each_error_says_what_to_do_next() -> None:
    found = [
        f"{text.place} {text.kind}: {message} | {hint}"
        for text in error_texts()
        if text.kind not in _WITHOUT_ADVICE
        for message, hint in itertools.product(text.messages, text.hints)
        if not (PASSED_ON in (message, hint) or advises(hint) or advises(message.partition(". ")[2]))
    ]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_each_hint_says_what_to_do() -> None:
    found = [f"{place}: {text}" for place, text in loose_hints() if not advises(text)]
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_each_error_names_what_it_is_about() -> None:
    """Those of `nodes/` have the node's name before them, which the run knows."""
    found = [
        f"{text.place} {text.kind}: {message}"
        for text in error_texts()
        if text.kind not in _WITHOUT_ADVICE and not text.says_where and not text.place.startswith("nodes/")
        for message in text.messages
        if not names_something(message)
    ]
    assert not found, "\n".join(found)
