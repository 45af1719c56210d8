"""Defaults are read as values are, and count in fingerprints as they were written where they are left out."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from building import box, pipeline

import voxelflow
from engine.catalog import AnyNodeType, Catalog
from engine.declare.datasets import Report
from engine.declare.node import node
from engine.declare.node_step import node_step
from engine.declare.parameters import Added, PathIn, PathOut
from engine.document.identity import Identity, identify, what_changed
from engine.document.resolve import resolve
from nodes.transforms.remaining import same_way


@node("Blur", version=1, category="Tests")
def blur(
    *,
    sigma: float = 1,
    count: int = 5.0,  # type: ignore[assignment]
    steps: int = "7",  # type: ignore[assignment]
    shape: tuple[int, ...] = [1, 2],  # type: ignore[assignment]
    words: tuple[str, ...] = "a, b",  # type: ignore[assignment]
    limits: tuple[float, ...] = (0, 1),
    newer: Annotated[float, Added()] = 2,
) -> Report:
    """Take some values."""
    return Report(uri=repr((sigma, count, steps, shape, words, limits, newer)))


READ: dict[str, Any] = {
    "sigma": 1.0, "count": 5, "steps": 7, "shape": (1, 2), "words": ("a", "b"), "limits": (0.0, 1.0), "newer": 2.0
}  # fmt: skip
WRITTEN = {"sigma": 1, "count": 5.0, "steps": "7", "shape": [1, 2], "words": "a, b", "limits": [0, 1]}


def _params(node_type: AnyNodeType, base: Path | None = None, **given: Any) -> tuple[dict[str, Any], Identity]:
    catalog = Catalog()
    catalog.add(node_type)
    resolved = resolve(pipeline(box("it", node_type.name, **given)), catalog, base=base)
    assert resolved.problems == ()
    return dict(resolved.nodes["it"].params), identify(resolved, {})["it"]


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def test_a_node_gets_its_defaults_as_it_gets_values() -> None:
    left_out, _ = _params(blur)
    given, _ = _params(blur, **{name: list(v) if isinstance(v, tuple) else v for name, v in READ.items()})
    assert repr(left_out) == repr(given) == repr(READ)
    assert blur().uri == repr(tuple(READ.values()))


def test_fingerprints_are_those_of_before_defaults_were_read() -> None:
    """Left out a default counts as it was written, given as it was read; so results of that time stay valid."""
    given = {"sigma": 1, "count": 5, "steps": 7, "shape": [1, 2], "words": ["a", "b"], "limits": "0, 1", "newer": 2}
    (_, left_out), (_, explicit) = _params(blur), _params(blur, **given)
    assert _json(left_out.parts["params"]) == _json(WRITTEN)
    assert _json(explicit.parts["params"]) == _json({name: v for name, v in READ.items() if name != "newer"})
    assert what_changed(left_out.parts, explicit.parts, {}).startswith("parameter count changed 5.0 -> 5; ")


def test_it_does_in_chains_of_transforms_too() -> None:
    values = _json(WRITTEN | {"newer": 2})
    for params in ({}, READ, json.loads(json.dumps(READ))):
        step = blur.step(params)
        assert (step.parameters["values"], step.words) == (values, "Blur")
    assert blur.step(READ | {"sigma": 3.0}).words == "Blur sigma=3.0"


@node("Soft", version=1, category="Tests")
def soft(*, sigma: float = 1) -> Report:
    """Take a value."""
    raise NotImplementedError


def test_chains_of_before_are_the_same_way() -> None:
    """They contain a default that was given as it was read, and another value as it is."""
    earlier = node_step("Soft", {"sigma": 1.0}, str(soft.step({}).parameters["code"]), "Soft sigma=1.0")
    assert soft.step({"sigma": 1.0}).parameters["values"] == '{"sigma": 1}'
    assert same_way([earlier], [soft.step({})])
    assert same_way([earlier], [soft.step({"sigma": 1.0})])
    assert not same_way([earlier], [soft.step({"sigma": 2.0})])


def test_built_in_nodes_keep_their_fingerprints() -> None:
    """A parameter that is left out enters the fingerprint with the default as the signature has it."""
    for node_type in voxelflow.catalog():
        signature = inspect.signature(node_type.function).parameters
        written = {name: a.default for name, a in signature.items()}
        for cls in node_type.parameter_classes.values():
            written |= {f.name: f.default for f in dataclasses.fields(cls)}
        left_out = [p for p in node_type.parameters if not p.required]
        assert {p.name: _json(p.as_written) for p in left_out} == {p.name: _json(written[p.name]) for p in left_out}


@node("Paths", version=1, category="Tests")
def paths(
    *,
    source: Annotated[str, PathIn("folder")] = "data",
    home: Annotated[str, PathIn("folder")] = "~/data",
    none: Annotated[str, PathIn("folder")] = "",
    target: Annotated[str, PathOut("folder")] = "out",
    newer: Annotated[str, PathOut("folder"), Added()] = "more",
) -> Report:
    """Read and write."""
    raise NotImplementedError


def test_paths_that_are_left_out_start_where_others_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    params, identity = _params(paths, tmp_path)
    expected = {
        "source": tmp_path / "data",
        "home": tmp_path / "home" / "data",
        "none": "",
        "target": tmp_path / "out",
        "newer": tmp_path / "more",
    }
    assert params == {name: str(place) for name, place in expected.items()}
    # What is read there has a digest of its own; what is written is another result elsewhere.
    assert identity.parts["params"] == {
        "source": "data", "home": "~/data", "none": "", "target": str(tmp_path / "out")
    }  # fmt: skip
