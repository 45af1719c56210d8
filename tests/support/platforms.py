"""What the platforms' own schemas and readers say of exported files."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml

KUBERNETES = Path(__file__).parent / "kubernetes" / "schema.json"


def check_github(text: str) -> dict[str, Any]:
    """The workflow. Raises `jsonschema.ValidationError` for what GitHub would not take."""
    workflow = yaml.safe_load(text)
    jsonschema.Draft7Validator(_github()).validate(workflow)
    return workflow


def check_kubernetes(text: str) -> list[dict[str, Any]]:
    """The objects of a manifest. Raises `jsonschema.ValidationError` for a field that the API does not know."""
    objects = list(yaml.safe_load_all(text))
    for item in objects:
        check_kubernetes_object(item)
    return objects


def check_kubernetes_object(item: dict[str, Any]) -> None:
    """The same for one object."""
    schema = _kubernetes()
    reference = {"$ref": f"#/$defs/{schema['kinds'][item['kind']]}", "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator(reference).validate(item)


def check_databricks(text: str) -> dict[str, Any]:
    """The bundle's only job. Raises `ValueError` for what Databricks' own package does not read as one.

    That package knows resources; the keys beside them are those of the published schema of bundles.
    """
    from databricks.bundles.jobs import Job

    bundle = yaml.safe_load(text)
    assert set(bundle) == {"bundle", "variables", "targets", "resources"}
    assert set(bundle["bundle"]) == {"name"}
    assert all(set(v) <= {"description", "default"} for v in bundle["variables"].values())
    assert bundle["targets"] == {"dev": {"mode": "development", "default": True}}
    assert set(bundle["resources"]) == {"jobs"}
    (job,) = bundle["resources"]["jobs"].values()
    # What it reads and writes again says the same: nothing was passed over.
    assert _without_empty(Job.from_dict(job).as_dict()) == _without_empty(job)
    return job


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if v not in (None, [], {})}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value


@cache
def _github() -> Any:
    return json.loads(
        (resources.files("check_jsonschema.builtin_schemas.vendor") / "github-workflows.json").read_text()
    )


@cache
def _kubernetes() -> Any:
    return json.loads(KUBERNETES.read_text())
