"""Problems found before anything runs: the rules, each a class with a stable code, and what they find.

    class NoLabels(Rule):
        '''No volume of the table has a label, so there is nothing to learn.

        What to do: give NumpyToParquet a label table.
        '''

        code = "MY001"
        severity = "error"
        title = "a table without labels"

    NoLabels.found("no volume of /data/table has a label", hint="Give NumpyToParquet a label table.")

The engine's own rules are in `engine/diagnostics/rules.py`, those of a node in the node's file.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict

from engine.errors import DeclarationError, PipelineError, with_hint

Severity = Literal["error", "warning", "info"]

_CODE = re.compile(r"[A-Z]{2,8}[0-9]{3,4}")
_NOTES = 10
"""Problems that are shown below the message of `CheckFailed`."""


class Diagnostic(BaseModel):
    """One problem: a stable `code`, where it is, what it is, and what to do about it."""

    model_config = ConfigDict(frozen=True)

    code: str
    severity: Severity
    message: str
    hint: str = ""
    node: str | None = None
    port: str | None = None
    parameter: str | None = None

    def line(self) -> str:
        """`error VF203 train.epochs: must be at least 1. Choose 1 or more.`"""
        field = self.parameter or self.port
        where = f" {self.node}{'.' + field if field else ''}" if self.node else ""
        return with_hint(f"{self.severity} {self.code}{where}: {self.message}", self.hint)


class Rule:
    """A kind of problem. A subclass declares `code`, `severity` and `title`; its docstring is the explanation.

    The docstring says what the problem means and why it matters, and ends with a paragraph "What to do: ...".
    A subclass that lacks one of them raises `DeclarationError` where it is declared.
    """

    code: ClassVar[str]
    """Capital letters and a number, for ever: scripts and people search for it. VF is Voxelflow's own prefix."""
    severity: ClassVar[Severity]
    """With an error nothing is run. One code has one severity."""
    title: ClassVar[str]
    """A short noun phrase, without a full stop."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "code" not in own:
            raise _refused(cls, "declares no code", 'Write code = "MY001", with letters of your own.')
        if not isinstance(cls.code, str) or not _CODE.fullmatch(cls.code):
            raise _refused(cls, f"{cls.code!r} is not a code", "Use 2 to 8 capital letters and 3 or 4 digits: MY001.")
        known: tuple[str, ...] = get_args(Severity)
        severity = getattr(cls, "severity", None)
        if severity not in known:
            wrong = "declares no severity" if severity is None else f"{severity!r} is not a severity"
            raise _refused(cls, wrong, f"Use one of {', '.join(known)}.")
        if not own.get("title"):
            raise _refused(cls, "declares no title", "Name the problem in a few words.")
        if "\n" in cls.title or cls.title.endswith("."):
            raise _refused(cls, f"its title {cls.title!r} is a text", "Use a short noun phrase without a full stop.")
        # Python -OO drops all docstrings, and must not stop the command.
        if not (own.get("__doc__") or "").strip() and sys.flags.optimize < 2:
            raise _refused(cls, "has no docstring", "Say there what the problem means, why it matters and what to do.")

    @classmethod
    def explanation(cls) -> str:
        """The docstring, without its indentation."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def found(
        cls,
        message: str,
        *,
        hint: str = "",
        node: str | None = None,
        port: str | None = None,
        parameter: str | None = None,
    ) -> Diagnostic:
        """A problem of this kind: what is wrong this time, where, and what to do about it."""
        return Diagnostic(
            code=cls.code, severity=cls.severity, message=message, hint=hint, node=node, port=port, parameter=parameter
        )

    @classmethod
    def describe(cls) -> dict[str, str]:
        """Code, severity, title and explanation as JSON."""
        return {"code": cls.code, "severity": cls.severity, "title": cls.title, "explanation": cls.explanation()}


def _refused(rule: type[Rule], wrong: str, hint: str) -> DeclarationError:
    return DeclarationError(f"the rule {rule.__name__}: {wrong}", hint=hint)


class RuleBook:
    """Rules by code; iteration is in the order of the codes."""

    def __init__(self) -> None:
        self._by_code: dict[str, type[Rule]] = {}

    def add(self, rules: Iterable[type[Rule]]) -> None:
        """Raises `DeclarationError` when another rule has one of their codes; then none of them is added."""
        by_code = dict(self._by_code)
        for rule in rules:
            other = by_code.setdefault(rule.code, rule)
            if other is not rule:
                places = " and ".join(f"{r.__module__}.{r.__name__}" for r in (other, rule))
                raise DeclarationError(
                    f"the code {rule.code} is declared twice: by {places}", hint="Give one of them another code."
                )
        self._by_code = by_code

    def find(self, code: str) -> type[Rule] | None:
        """The rule with that code, in capitals or not."""
        return self._by_code.get(code.upper())

    def similar(self, code: str) -> list[type[Rule]]:
        """The rules whose codes begin like a mistyped one, then those that are nearest to it; at most five."""
        typed, known = code.upper(), sorted(self._by_code)
        begun = [c for c in known if len(typed) > 1 and c.startswith(typed)]
        near = difflib.get_close_matches(typed, known, n=5, cutoff=0.6)
        return [self._by_code[c] for c in list(dict.fromkeys([*begun, *near]))[:5]]

    def __iter__(self) -> Iterator[type[Rule]]:
        return iter([self._by_code[code] for code in sorted(self._by_code)])


def rules_in(namespace: Iterable[Any]) -> list[type[Rule]]:
    """The rules among the values of a module: those that it declares and those that it imports."""
    return [value for value in namespace if inspect.isclass(value) and issubclass(value, Rule) and value is not Rule]


class CheckFailed(PipelineError):
    """A pipeline cannot be planned: `diagnostics` are all that was found, warnings too."""

    code = "checks"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        count = sum(d.severity == "error" for d in diagnostics)
        super().__init__(f"{count} {'problem' if count == 1 else 'problems'} to fix before this pipeline can run")
        self.diagnostics = tuple(diagnostics)
        # What a notebook shows of the error; the command prints the diagnostics themselves.
        for each in [d for d in diagnostics if d.severity == "error"][:_NOTES]:
            self.add_note(each.line())
