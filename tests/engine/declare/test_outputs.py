"""What a node's function may declare as outputs, and return."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from pydantic import BeforeValidator, PlainSerializer
from waiting import WAIT_S

from engine.declare.datasets import Dataset, Report, VolumeDelta
from engine.declare.node import node
from engine.errors import DeclarationError

ROOT = Path(__file__).parents[3]
SETS = """
from engine.declare.datasets import Dataset
from engine.declare.node import node

class Sets(Dataset):
    names: frozenset[str]

@node("Made", version=1, category="Tests")
def made() -> Sets:
    raise NotImplementedError

for number in range(200):
    made.collect(Sets(uri="x", names=frozenset(f"{number}-{i}" for i in range(8))))
"""


class One(NamedTuple):
    out: Report


class Perhaps(NamedTuple):
    out: Report
    other: Report | None


@node("Tupled", version=1, category="Tests")
def tupled() -> One:
    """Give a tuple of one."""
    raise NotImplementedError


def test_the_one_field_of_a_tuple_may_have_the_usual_name() -> None:
    report = Report(uri="x")
    assert tupled.collect(One(report)) == {"out": report}
    with pytest.raises(DeclarationError, match="Tupled returned VolumeDelta on its output out"):
        tupled.collect(One(VolumeDelta(uri="t", version=0, data_version=0, count=1, bytes=1, files=1)))  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="Tupled returned tuple on its output out"):
        tupled.collect((report,))


def test_an_output_that_may_be_none_must_be_there_in_the_end() -> None:
    @node("Single", version=1, category="Tests")
    def single() -> Report | None: ...

    @node("Several", version=1, category="Tests")
    def several() -> Perhaps:
        raise NotImplementedError

    report = Report(uri="x")
    assert single.collect(report) == {"out": report}
    with pytest.raises(DeclarationError, match="Single returned NoneType on its output out"):
        single.collect(None)
    with pytest.raises(DeclarationError, match="Several returned NoneType on its output other"):
        several.collect(Perhaps(report, None))


class Centred(Dataset):
    """A type whose values cannot be compared as a whole."""

    centre: Annotated[Any, BeforeValidator(np.asarray), PlainSerializer(lambda value: value.tolist())]


def test_a_type_that_cannot_be_compared_is_stored_by_its_text() -> None:
    @node("Centre", version=1, category="Tests")
    def centre() -> Centred:
        raise NotImplementedError

    made = Centred(uri="x", centre=[1.0, 2.0])
    assert centre.collect(made) == {"out": made}


def test_a_set_is_stored_in_whatever_order() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", SETS], check=True, env=environment, timeout=WAIT_S, cwd=ROOT)
