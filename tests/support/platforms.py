"""What the platforms' own schemas and readers say of exported files, and what those pass over."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from outside_parts import ACTIONLINT
from waiting import WAIT_S

_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXPRESSION = re.compile(r" (github|secrets|vars|env|inputs|steps|runner)(\.[A-Za-z_][\w-]*)+ ")
"""As exported ones are: a property of a context, no operators or functions."""
KUBERNETES = Path(__file__).parent / "kubernetes" / "schema.json"


def check_github(text: str) -> dict[str, Any]:
    """The workflow. Raises `jsonschema.ValidationError` or `ValueError` for what GitHub would not take."""
    workflow = yaml.safe_load(text)
    jsonschema.Draft7Validator(_github()).validate(workflow)
    # To the schema an expression is a text like any other.
    for expression in re.findall(r"\$\{\{(.*?)(?:\}\}|$)", text, re.MULTILINE):
        if not _EXPRESSION.fullmatch(expression):
            raise ValueError(f"no expression of GitHub's: {expression}")
    if text.count("${{") != len(re.findall(r"\$\{\{[^{}]*\}\}", text)):
        raise ValueError("an expression that is not closed")
    for job in workflow["jobs"].values():
        _known(job.get("needs", []), workflow["jobs"])
    return workflow


def lint_github(text: str) -> None:
    """Raises `ValueError` for what actionlint finds in a workflow, in its expressions and inputs of actions too."""
    # Other linters, which it calls where they are installed, stay out: everywhere the same is found.
    command = [str(ACTIONLINT), "-no-color", "-shellcheck=", "-pyflakes=", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode != 0:
        raise ValueError(done.stdout + done.stderr)


def check_kubernetes(text: str) -> list[dict[str, Any]]:
    """The objects of a manifest. Raises `jsonschema.ValidationError` or `ValueError` for what the API refuses."""
    objects = list(yaml.safe_load_all(text))
    for item in objects:
        check_kubernetes_object(item)
    return objects


def check_kubernetes_object(item: dict[str, Any]) -> None:
    """The same for one object."""
    schema = _kubernetes()
    reference = {"$ref": f"#/$defs/{schema['kinds'][item['kind']]}", "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator(reference).validate(item)
    # What only the API's server looks at.
    if not _KUBERNETES_NAME.fullmatch(item["metadata"].get("name", "a")):
        raise ValueError(f"no name of an object: {item['metadata']['name']}")
    if item["kind"] == "Job":
        pod = item["spec"]["template"]["spec"]
        if pod.get("restartPolicy") not in ("Never", "OnFailure"):
            raise ValueError("a Job's pods restart never or on failure")
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            _known([mount["name"] for mount in container.get("volumeMounts", [])], volumes)


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
    # It does not look where names lead.
    for variable in re.findall(r"\$\{var\.(\w+)\}", text):
        _known(variable, bundle["variables"])
    tasks = [task["task_key"] for task in job["tasks"]]
    if len(set(tasks)) < len(tasks):
        raise ValueError("two tasks of one name")
    for task in job["tasks"]:
        _known([needed["task_key"] for needed in task.get("depends_on", [])], tasks)
        _known([task["job_cluster_key"]] if "job_cluster_key" in task else [], _clusters(job))
    return job


def _clusters(job: dict[str, Any]) -> list[str]:
    return [cluster["job_cluster_key"] for cluster in job.get("job_clusters", [])]


def _known(names: str | list[str], all_names: Collection[str]) -> None:
    for name in [names] if isinstance(names, str) else names:
        if name not in all_names:
            raise ValueError(f"there is no {name} among {sorted(all_names)}")


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
