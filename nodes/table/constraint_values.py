"""What a constraint's expression gives for rows, as Spark computes it.

Where Arrow and SQL engines go other ways Spark is followed: NaN equals NaN and is larger than every number, -0.0 is
0.0, a float meets another number as a double, `isnan` of NULL is false. Values for which Spark's own answer depends on
its settings (`spark.sql.ansi.enabled`) are not guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodes.table import constraint_sql as sql
from nodes.table.constraint_sql import Uncertain

Kind = Literal["null", "boolean", "integer", "float", "double", "string", "binary", "other"]

_ARROW = {"integer": pa.int64(), "float": pa.float64(), "double": pa.float64()}
_EXACT_FLOAT, _EXACT_DOUBLE = 2**24, 2**53
"""Up to these every integer is a float, or a double: beyond, it matters to what Spark turns it."""


@dataclass(frozen=True)
class Values:
    """A value for each row. Integers are int64, floats and doubles float64."""

    kind: Kind
    array: pa.Array


def holds(expression: sql.Expression, rows: pa.RecordBatch) -> pa.Array:
    """For each row whether the expression is true: false and NULL both break a constraint. Raises `Uncertain`."""
    found = _evaluate(expression, rows)
    if found.kind == "null":
        return pa.repeat(pa.scalar(False), rows.num_rows)
    if found.kind != "boolean":
        raise Uncertain("it is no condition")
    return pc.fill_null(found.array, False)


def _evaluate(expression: sql.Expression, rows: pa.RecordBatch) -> Values:
    if isinstance(expression, sql.Column):
        return _column(rows, expression.name)
    if isinstance(expression, sql.Literal):
        return _literal(expression.value, rows.num_rows)
    if expression.function == "like":
        text, pattern = expression.arguments
        return _like(_evaluate(text, rows), pattern)
    return _FUNCTIONS[expression.function]([_evaluate(argument, rows) for argument in expression.arguments])


def _column(rows: pa.RecordBatch, name: str) -> Values:
    array = rows[name]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = _kind(array.type)
    return Values(kind, array.cast(_ARROW[kind]) if kind in _ARROW else array)


def _kind(found: pa.DataType) -> Kind:
    tests: list[tuple[Kind, Callable[[pa.DataType], bool]]] = [
        ("null", pa.types.is_null),
        ("boolean", pa.types.is_boolean),
        ("integer", pa.types.is_signed_integer),
        ("float", pa.types.is_float32),
        ("double", pa.types.is_float64),
        ("string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t)),
        ("binary", lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t)),
    ]
    return next((kind for kind, test in tests if test(found)), "other")


def _literal(value: bool | int | float | str | None, count: int) -> Values:
    types = {type(None): pa.null(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    wanted = types[type(value)]
    return Values(_kind(wanted), pa.repeat(pa.scalar(value, wanted), count))


def _numbers(a: Values, b: Values) -> tuple[pa.Array, pa.Array]:
    """Both as numbers of one type, in which neither becomes another number."""
    if a.kind == b.kind == "integer":
        return a.array, b.array
    limit = _EXACT_FLOAT if "float" in (a.kind, b.kind) else _EXACT_DOUBLE
    for side in (a, b):
        if side.kind == "integer" and len(side.array) > side.array.null_count:
            ends = pc.min_max(side.array)
            if ends["min"].as_py() < -limit or ends["max"].as_py() > limit:
                raise Uncertain("it compares large whole numbers with fractions")
    return a.array.cast(pa.float64()), b.array.cast(pa.float64())


def _is_number(values: Values) -> bool:
    return values.kind in _ARROW


def _equal(a: Values, b: Values) -> pa.Array:
    if "null" in (a.kind, b.kind):
        return pa.nulls(len(a.array), pa.bool_())
    if _is_number(a) and _is_number(b):
        left, right = _numbers(a, b)
        same = pc.equal(left, right)
        return same if pa.types.is_integer(left.type) else pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if a.kind == b.kind and a.kind in ("boolean", "string"):
        return pc.equal(a.array, b.array)
    raise Uncertain(f"it compares {_named(a)} with {_named(b)}")


def _less(a: Values, b: Values) -> pa.Array:
    if "null" in (a.kind, b.kind):
        return pa.nulls(len(a.array), pa.bool_())
    if _is_number(a) and _is_number(b):
        left, right = _numbers(a, b)
        less = pc.less(left, right)
        if pa.types.is_integer(left.type):
            return less
        return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    if a.kind == b.kind == "string":
        return pc.less(a.array, b.array)
    raise Uncertain(f"it compares {_named(a)} with {_named(b)}")


def _named(values: Values) -> str:
    return "a value of another type" if values.kind == "other" else f"a {values.kind}"


def _null_safe_equal(a: Values, b: Values) -> pa.Array:
    nulls = pc.and_(pc.is_null(a.array), pc.is_null(b.array))
    return pc.or_(nulls, pc.fill_null(_equal(a, b), False))


def _condition(values: Values) -> pa.Array:
    if values.kind == "null":
        return pa.nulls(len(values.array), pa.bool_())
    if values.kind != "boolean":
        raise Uncertain(f"it takes {_named(values)} for a condition")
    return values.array


def _in(values: Sequence[Values]) -> pa.Array:
    wanted, *items = values
    found = _equal(wanted, items[0])
    for item in items[1:]:
        found = pc.or_kleene(found, _equal(wanted, item))
    return found


def _like(text: Values, pattern: sql.Expression) -> Values:
    if text.kind == "null":
        return Values("boolean", pa.nulls(len(text.array), pa.bool_()))
    if text.kind != "string" or not isinstance(pattern, sql.Literal):
        raise Uncertain(f"it uses LIKE on {_named(text)}")
    return Values("boolean", pc.match_like(text.array, str(pattern.value)))


def _remainder(a: Values, b: Values) -> Values:
    if not _is_number(a) or b.kind != "integer":
        raise Uncertain("it takes the remainder of something else than a number by a whole number")
    if pc.any(pc.fill_null(pc.equal(b.array, 0), False)).as_py():
        raise Uncertain("it divides by zero")
    left, right = _numbers(a, b)
    missing = pc.or_(pc.is_null(left), pc.is_null(right))
    # As in Java, and exact: the sign is that of what is divided.
    with np.errstate(invalid="ignore"):
        found = np.fmod(pc.fill_null(left, 1).to_numpy(False), pc.fill_null(right, 1).to_numpy(False))
    return Values(a.kind, pa.array(found, left.type, mask=missing.to_numpy(False)))


def _whole(round_: Callable[[pa.Array], pa.Array]) -> Callable[[Sequence[Values]], Values]:
    def rounded(values: Sequence[Values]) -> Values:
        (value,) = values
        if value.kind == "integer":
            return value
        if value.kind not in ("float", "double"):
            raise Uncertain(f"it rounds {_named(value)}")
        # Spark makes a bigint of it, which NaN, infinity and large numbers do not fit into.
        within = pc.less(pc.abs(value.array), _EXACT_DOUBLE)
        if not pc.all(within, min_count=0).as_py():
            raise Uncertain("it rounds NaN, infinity or large numbers")
        return Values("integer", round_(value.array).cast(pa.int64()))

    return rounded


def _magnitude(values: Sequence[Values]) -> Values:
    (value,) = values
    if not _is_number(value):
        raise Uncertain(f"it uses abs on {_named(value)}")
    return Values(value.kind, pc.abs(value.array))


def _length(values: Sequence[Values]) -> Values:
    (value,) = values
    if value.kind not in ("string", "binary"):
        raise Uncertain(f"it asks for the length of {_named(value)}")
    found = pc.utf8_length(value.array) if value.kind == "string" else pc.binary_length(value.array)
    return Values("integer", found.cast(pa.int64()))


def _octets(values: Sequence[Values]) -> Values:
    (value,) = values
    if value.kind not in ("string", "binary"):
        raise Uncertain(f"it asks for the length of {_named(value)}")
    return Values("integer", pc.binary_length(value.array).cast(pa.int64()))


def _is_nan(value: Values) -> pa.Array:
    if value.kind not in ("float", "double"):
        raise Uncertain(f"it uses isnan on {_named(value)}")
    return pc.fill_null(pc.is_nan(value.array), False)


def _coalesce(values: Sequence[Values]) -> Values:
    known = [value for value in values if value.kind != "null"] or [values[0]]
    kinds = {value.kind for value in known}
    if len(kinds) == 1:
        kind = kinds.pop()
    elif kinds <= _ARROW.keys():
        # For the check that no whole number becomes another one.
        for value in known:
            _numbers(value, known[0])
        kind = "float" if "float" in kinds else "double"
    else:
        raise Uncertain("its coalesce mixes types")
    arrays: list[Any] = [value.array.cast(_ARROW[kind]) if kind in _ARROW else value.array for value in known]
    return Values(kind, pc.coalesce(*arrays))


def _boolean(compute: Callable[..., pa.Array]) -> Callable[[Sequence[Values]], Values]:
    return lambda values: Values("boolean", compute(*values))


_FUNCTIONS: Mapping[str, Callable[[Sequence[Values]], Values]] = {
    "and": _boolean(lambda a, b: pc.and_kleene(_condition(a), _condition(b))),
    "or": _boolean(lambda a, b: pc.or_kleene(_condition(a), _condition(b))),
    "not": _boolean(lambda a: pc.invert(_condition(a))),
    "=": _boolean(_equal),
    "<=>": _boolean(_null_safe_equal),
    "<": _boolean(_less),
    ">": _boolean(lambda a, b: _less(b, a)),
    "<=": _boolean(lambda a, b: pc.invert(_less(b, a))),
    ">=": _boolean(lambda a, b: pc.invert(_less(a, b))),
    "in": _boolean(lambda *values: _in(values)),
    "%": lambda values: _remainder(*values),
    "isnull": _boolean(lambda a: pc.is_null(a.array)),
    "isnotnull": _boolean(lambda a: pc.is_valid(a.array)),
    "isnan": _boolean(_is_nan),
    "abs": _magnitude,
    "ceil": _whole(pc.ceil),
    "ceiling": _whole(pc.ceil),
    "floor": _whole(pc.floor),
    "length": _length,
    "char_length": _length,
    "character_length": _length,
    "octet_length": _octets,
    "coalesce": _coalesce,
}
