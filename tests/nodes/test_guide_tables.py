"""The guide's tables of what hooks and functions are given name every public field and method there is."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview

GUIDE = (Path(__file__).parents[2] / "nodes" / "README.md").read_text(encoding="utf-8")
OF_THE_ENGINE = {"of", "held", "labelled_held"}
"""Methods and properties that no author of a node needs."""


@pytest.mark.parametrize("kind", [TaskContext, CheckContext, Preview])
def test_each_public_member_is_in_the_table(kind: type[Any]) -> None:
    section = GUIDE.partition("## What a function and its hooks are given")[2].partition("\n## ")[0]
    table = section.partition(f"`{kind.__name__}`")[2].partition("| | |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)", table))
    own = {name for name in vars(kind) if not name.startswith("_") and not name.startswith("model_")}
    declared = set(kind.model_fields) if issubclass(kind, Preview) else {field.name for field in fields(kind)}
    members = {name for name in own if callable(getattr(kind, name)) or isinstance(vars(kind)[name], property)}
    assert inspect.getdoc(kind)
    assert declared | members <= named | OF_THE_ENGINE
