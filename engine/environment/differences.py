"""Two environments beside each other: what is not the same, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.environment.recorded import Environment, NodeCode, plain

MISSING = "not there"


@dataclass(frozen=True)
class Difference:
    """One thing that was `before` and is `now`, both in words; `what` names it."""

    what: str
    before: str
    now: str

    def line(self) -> str:
        return f"{self.what}: {self.before} -> {self.now}"


def differences(before: Environment, now: Environment, nodes: Collection[str]) -> list[Difference]:
    """What may explain another result of `nodes`, the likeliest first."""
    return [d for d in _all(before, now, nodes) if d.before != d.now]


def _all(before: Environment, now: Environment, nodes: Collection[str]) -> Iterator[Difference]:
    for node in sorted(before.nodes.keys() & now.nodes.keys() & set(nodes)):
        yield from _code(node, before.nodes[node], now.nodes[node])
    yield Difference("Voxelflow", before.voxelflow, now.voxelflow)
    yield Difference("Python", before.python, now.python)
    yield from _each("package ", before.packages, now.packages)
    yield Difference("git commit", before.git.commit or MISSING, now.git.commit or MISSING)
    yield Difference("uncommitted changes", before.git.changes or "none", now.git.changes or "none")
    yield Difference("processor", before.machine.processor, now.machine.processor)
    yield Difference("devices", ", ".join(before.machine.gpus) or "none", ", ".join(now.machine.gpus) or "none")
    yield Difference("GPU driver", before.machine.gpu_driver or "none", now.machine.gpu_driver or "none")
    yield Difference("cores of the machine", str(before.machine.cores), str(now.machine.cores))
    for name in ("backend", "cores", "gpus"):
        yield Difference(f"profile's {name}", str(getattr(before.resources, name)), str(getattr(now.resources, name)))
    yield Difference("platform", before.platform, now.platform)


def _code(node: str, before: NodeCode, now: NodeCode) -> Iterator[Difference]:
    yield Difference(f"node {node}", f"{before.type} version {before.version}", f"{now.type} version {now.version}")
    yield Difference(f"code of node {node}", before.source or "built-in", now.source or "built-in")
    yield Difference(f"seed of node {node}", str(before.seed), str(now.seed))
    yield from _each(f"{node}.", plain(before.params), plain(now.params))


def _each(prefix: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted(before.keys() | now.keys()):
        yield Difference(
            f"{prefix}{name}",
            str(before[name]) if name in before else MISSING,
            str(now[name]) if name in now else MISSING,
        )
