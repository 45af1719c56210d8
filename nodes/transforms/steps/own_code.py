"""Steps that are code of people's own: a function in a file, and a whole node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .step import Form, Matrix, Step, Unfit, Volume

FUNCTION = "transform"
"""Name of the function in a person's own file."""
_KINDS = frozenset("iuf")


@dataclass(frozen=True)
class Function(Step):
    """A person's own `transform(volume, row)`: `source` is the text of its file, `file` the file's name.

    It gets an array of its own, which it may change, and a dictionary of what is known of the volume, with the place in
    space that the steps before have given it. It must give an array of numbers, and the same one whenever it is called
    with the same. Whether the code may run is asked before a chain is applied.
    """

    file: str
    source: str

    name = "function"
    version = 2

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> None:
        return None

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        function = _compiled(self.file, self.source)
        try:
            out = np.asarray(function(np.array(volume, order="C"), dict(row)))
        except Exception as exc:  # a person's function may raise anything; which volume it was matters as much
            raise Unfit(f"cannot be transformed by {self.file}{_line(exc, self.file)}: {_said(exc)}") from exc
        if out.dtype.kind not in _KINDS or not out.ndim or not out.size:
            raise Unfit(f"became {out.dtype} of shape {out.shape} in {self.file}, which is no volume of numbers")
        return out

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        return np.eye(4)

    def words(self) -> str:
        return self.file


@dataclass(frozen=True)
class FunctionOfVersion1(Function):
    """As stored chains have it: its row says where the voxels lay before the chain, but for spacing and orientation."""

    version = 1


@dataclass(frozen=True)
class WholeNode(Step):
    """What a node's own code did to volumes of a table: it can be recognised, and not be done to others.

    `values` are the node's parameters as JSON text, `code` identifies its code.
    """

    node: str
    values: str = "{}"
    code: str = ""

    name = "node"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form | None:
        raise Unfit(f"did not go through the node {self.node}, which a chain cannot repeat")

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        raise Unfit(f"did not go through the node {self.node}, which a chain cannot repeat")

    def words(self) -> str:
        return self.node


@lru_cache(maxsize=16)
def _compiled(file: str, source: str) -> Any:
    names: dict[str, Any] = {"__name__": "voxelflow_transform", "__file__": file}
    try:
        exec(compile(source, file, "exec"), names)
    except Exception as exc:
        raise Unfit(f"cannot be transformed: {file}{_line(exc, file)}: {_said(exc)}") from exc
    function = names.get(FUNCTION)
    if not callable(function):
        raise Unfit(f"cannot be transformed: {file} has no function {FUNCTION}(volume, row)")
    return function


def _line(exc: BaseException, file: str) -> str:
    """The line of the file that was at work: `, line 3`."""
    number = exc.lineno if isinstance(exc, SyntaxError) else None
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            number = trace.tb_lineno
        trace = trace.tb_next
    return f", line {number}" if number else ""


def _said(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"
