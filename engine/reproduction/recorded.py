"""What is known of a run that is to be done over: document, environment, data, curves and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.datasets import Dataset
from engine.environment import Environment
from engine.pipeline import Pipeline

Curve = Mapping[int, float]
"""Value by step."""


@dataclass(frozen=True)
class Told:
    """What one node told while it ran. `figures` are its facts, in words, but those named like a parameter of it."""

    curves: Mapping[str, Curve] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """One run. `told` holds the nodes that told curves or made a model: those that are done over.

    `inputs` are the references that such a node was given, by node and input port. `environment` is None for a run
    that was made before environments were kept.
    """

    run_id: str
    state: str
    profile: str
    pipeline: Pipeline
    environment: Environment | None
    inputs: Mapping[str, Mapping[str, Dataset]]
    told: Mapping[str, Told]
    mlflow_run: str = ""
