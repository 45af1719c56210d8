"""What the steps of an exported file have made so far, in a file of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.catalog import AnyNodeType
from engine.datasets import Dataset, VolumeDelta, dataset_from_json
from engine.errors import UsageError
from engine.export.source import one_line
from engine.identity import Identity
from engine.storage import is_url


def problem_with(node_type: AnyNodeType, outputs: Mapping[str, Dataset]) -> str:
    """Why a result can no longer be used, or ""."""
    for dataset in outputs.values():
        for path in (dataset.uri, getattr(dataset, "manifest", None)):
            if path is not None and not is_url(path) and not os.path.exists(path):
                return f"{path} is gone"
    if node_type.verify_hook is None:
        return ""
    # For change too: a step behind it may change its table in place.
    return node_type.verify_hook(outputs, False) or node_type.verify_hook(outputs, True)


class Done:
    """What was made, by fingerprint, oldest first; kept in a file that appears whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            self._entries: list[dict[str, Any]] = [
                entry | {"outputs": {port: dataset_from_json(d) for port, d in entry["outputs"].items()}}
                for entry in told
            ]
        except FileNotFoundError:
            self._entries = []
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise UsageError(
                f"{path} is damaged: {one_line(str(exc))}", hint="Delete it; the steps then find their own work again."
            ) from exc

    def find(self, fingerprint: str) -> dict[str, Dataset] | None:
        return next((e["outputs"] for e in self._entries if e["fingerprint"] == fingerprint), None)

    def add(self, step: str, identity: Identity, outputs: Mapping[str, Dataset]) -> None:
        entry = {
            "step": step,
            "fingerprint": identity.fingerprint,
            "base": identity.base,
            "lineage": identity.lineage,
            "params": identity.parts["params"],
            "outputs": dict(outputs),
        }
        self._entries = [e for e in self._entries if e["fingerprint"] != identity.fingerprint] + [entry]
        plain = [
            e | {"outputs": {port: d.model_dump(mode="json") for port, d in e["outputs"].items()}}
            for e in self._entries
        ]
        aside = self._path.with_name(f".{self._path.name}.new")
        aside.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        aside.replace(self._path)

    def newest_of_lineage(self, lineage: str) -> Mapping[str, Dataset]:
        return next((e["outputs"] for e in reversed(self._entries) if e["lineage"] == lineage), {})

    def longest(self, node_type: AnyNodeType, identity: Identity, params: Mapping[str, Any]) -> Mapping[str, Dataset]:
        """The result to extend: same base, the largest extendable values not above ours."""
        names = [p.name for p in node_type.parameters if p.extendable]
        wanted = tuple(params[n] for n in names)

        def values(entry: Mapping[str, Any]) -> tuple[Any, ...]:
            return tuple(entry["params"][n] for n in names)

        fitting = [
            e
            for e in self._entries
            if names
            and e["base"] == identity.base
            and e["fingerprint"] != identity.fingerprint
            and all(v <= w for v, w in zip(values(e), wanted, strict=True))
            and not problem_with(node_type, e["outputs"])
        ]
        return max(fitting, key=values)["outputs"] if fitting else {}

    def protected(self) -> dict[str, tuple[int, ...]]:
        """By table: the versions that some result here refers to."""
        found: dict[str, set[int]] = {}
        for entry in self._entries:
            for dataset in entry["outputs"].values():
                if isinstance(dataset, VolumeDelta):
                    found.setdefault(dataset.uri, set()).add(dataset.version)
        return {uri: tuple(sorted(versions)) for uri, versions in found.items()}
