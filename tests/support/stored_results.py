"""Results for the run store, without the runs that would make them."""

from __future__ import annotations

from typing import Any

from engine.declare.datasets import Report
from engine.store.results import Result


def stored_result(name: str, **fields: Any) -> Result:
    """The result of a node `name` of type `Make`, in `data/Make/NAME/result`, with that name for all that names it."""
    values = {
        "lineage": name, "base": name, "node_type": "Make", "identity": {}, "outputs": {"out": Report(uri="u")},
        "out": f"Make/{name}/result", "shared": f"Make/{name}", "pipeline": "p", "node": name, "run_id": "r",
    }  # fmt: skip
    return Result(fingerprint=name, **(values | fields))
