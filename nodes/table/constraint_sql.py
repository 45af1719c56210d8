"""Reading a table constraint: the part of Spark's SQL that every dialect reads alike.

Delta stores a constraint as SQL text in Spark's dialect, but delta-rs stores text in its own. Read here are
comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS and a few functions of columns and literals. Refused is what the two
read differently (`n / 2`, escapes in strings, a column in double quotes) and what only Spark knows (regular
expressions, casts, dates): who guesses there may let a wrong row in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from engine.text import plural

FUNCTIONS = {
    "abs": 1,
    "ceil": 1,
    "ceiling": 1,
    "char_length": 1,
    "character_length": 1,
    "coalesce": None,
    "floor": 1,
    "isnan": 1,
    "isnotnull": 1,
    "isnull": 1,
    "length": 1,
    "octet_length": 1,
}
"""Functions, with the number of their arguments (None: any number but zero)."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<string>'[^'\\]*'|"[^"\\]*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><=>|<>|!=|<=|>=|==|[=<>%(),-])
    )""",
    re.VERBOSE | re.ASCII,
)
_COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>", "!=": "<>"}
_RESERVED = frozenset({"and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "distinct", "from"})
_MAX_DIGITS = 15
"""A decimal literal of more digits is another number as a double."""
_MAX_DEPTH = 50


class Uncertain(Exception):
    """This text, or these values, may mean something else to Spark. The message says what."""


@dataclass(frozen=True)
class Column:
    """A column of the table by its name there."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A value in the text; None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True)
class Call:
    """A function, or an operator by its sign or keyword."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Column | Literal | Call


def parse(text: str, columns: Collection[str]) -> Expression:
    """The expression over these columns. Raises `Uncertain`."""
    parser = _Parser(text, columns)
    expression = parser.any_of()
    parser.end()
    return expression


def columns_in(expression: Expression) -> set[str]:
    """The names of the columns in an expression."""
    if isinstance(expression, Call):
        return {name for argument in expression.arguments for name in columns_in(argument)}
    return {expression.name} if isinstance(expression, Column) else set()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise Uncertain(f"it has {text[at:].split()[0]!r}")
        kind = match.lastgroup or ""
        yield kind, match[kind]
        at = match.end()
    yield "end", ""


class _Parser:
    """One method a level of precedence, the loosest first."""

    def __init__(self, text: str, columns: Collection[str]) -> None:
        if "--" in text:
            raise Uncertain("it has a comment")
        self._tokens = list(_tokens(text))
        self._at = self._depth = 0
        # To Spark capital and small letters are the same.
        self._columns = {name.lower(): name for name in columns}

    def any_of(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Uncertain("it is too deep")
        left = self._all_of()
        while self._takes("or"):
            left = Call("or", (left, self._all_of()))
        self._depth -= 1
        return left

    def end(self) -> None:
        kind, text = self._tokens[self._at]
        if kind != "end":
            raise Uncertain(f"it has {text!r} where that is not understood")

    def _all_of(self) -> Expression:
        left = self._negation()
        while self._takes("and"):
            left = Call("and", (left, self._negation()))
        return left

    def _negation(self) -> Expression:
        inverted = False
        while self._takes("not"):
            inverted = not inverted
        predicate = self._predicate()
        return _not(predicate) if inverted else predicate

    def _predicate(self) -> Expression:
        """A value, or one test of it: a second one would need to know what binds closer, and that differs."""
        left = self._value()
        for sign, function in _COMPARISONS.items():
            if self._takes(sign):
                right = self._value()
                return _not(Call("=", (left, right))) if function == "<>" else Call(function, (left, right))
        if self._takes("is"):
            return self._is(left)
        inverted = self._takes("not")
        if self._takes("between"):
            low = self._value()
            self._needs("and")
            found = Call("and", (Call(">=", (left, low)), Call("<=", (left, self._value()))))
        elif self._takes("in"):
            self._needs("(")
            found = Call("in", (left, *self._list()))
        elif self._takes("like"):
            found = Call("like", (left, self._pattern()))
        elif inverted:
            raise Uncertain("it has NOT where that is not understood")
        else:
            return left
        return _not(found) if inverted else found

    def _is(self, left: Expression) -> Expression:
        inverted = self._takes("not")
        if self._takes("null"):
            found = Call("isnull", (left,))
        elif self._takes("distinct"):
            self._needs("from")
            found, inverted = Call("<=>", (left, self._value())), not inverted
        elif self._takes("true"):
            found = Call("<=>", (left, Literal(True)))
        elif self._takes("false"):
            found = Call("<=>", (left, Literal(False)))
        else:
            raise Uncertain("it has IS where that is not understood")
        return _not(found) if inverted else found

    def _value(self) -> Expression:
        left = self._atom()
        if self._takes("%"):
            return Call("%", (left, self._atom()))
        return left

    def _atom(self) -> Expression:
        kind, text = self._tokens[self._at]
        self._at += 1
        word = text.lower()
        if kind == "sign" and text == "(":
            inner = self.any_of()
            self._needs(")")
            return inner
        if kind == "sign" and text == "-" and self._tokens[self._at][0] == "number":
            value = self._number(self._tokens[self._at][1])
            self._at += 1
            return Literal(-value)
        if kind == "number":
            return Literal(self._number(text))
        if kind == "string":
            return self._text(text)
        if kind == "quoted":
            return self._column(text[1:-1].replace("``", "`"))
        if kind == "word" and word in ("null", "true", "false"):
            return Literal({"null": None, "true": True, "false": False}[word])
        if kind == "word" and word not in _RESERVED:
            return self._function(word) if self._takes("(") else self._column(text)
        raise Uncertain(f"it has {text!r} where that is not understood" if text else "its end is missing")

    def _function(self, name: str) -> Expression:
        if name not in FUNCTIONS:
            raise Uncertain(f"it uses the function {name}")
        arguments = self._list()
        if FUNCTIONS[name] not in (None, len(arguments)):
            raise Uncertain(f"it gives {name} {plural(len(arguments), 'arguments')}")
        return Call(name, arguments)

    def _column(self, name: str) -> Column:
        found = self._columns.get(name.lower())
        if found is None:
            raise Uncertain(f"it names {name}, which is no column of the table")
        return Column(found)

    def _text(self, text: str) -> Literal:
        if text[0] == '"' and text[1:-1].lower() in self._columns:
            raise Uncertain(f"{text} may be a text (to Spark) or the column (to others)")
        return Literal(text[1:-1])

    @staticmethod
    def _number(text: str) -> int | float:
        if text.isdigit():
            value = int(text)
            if value >= 2**63:
                raise Uncertain(f"the number {text} is too large")
            return value
        if "e" not in text.lower() and len(text) - 1 > _MAX_DIGITS:
            raise Uncertain(f"the number {text} has too many digits")
        return float(text)

    def _pattern(self) -> Expression:
        kind, text = self._tokens[self._at]
        if kind != "string" or text[0] != "'":
            raise Uncertain("what follows LIKE is no text in single quotes")
        self._at += 1
        return Literal(text[1:-1])

    def _list(self) -> tuple[Expression, ...]:
        """What is between parentheses, after the opening one."""
        items = [self.any_of()]
        while self._takes(","):
            items.append(self.any_of())
        self._needs(")")
        return tuple(items)

    def _takes(self, wanted: str) -> bool:
        kind, text = self._tokens[self._at]
        if kind in ("word", "sign") and text.lower() == wanted:
            self._at += 1
            return True
        return False

    def _needs(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise Uncertain(f"{wanted.upper()} is missing")


def _not(expression: Expression) -> Call:
    return Call("not", (expression,))
