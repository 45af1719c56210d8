"""What a node's hooks are given before a run: values, inputs and paths; and where they report problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.declare.datasets import Preview, Transform, VolumeSpec
from engine.declare.path_found import PathFound
from engine.diagnostics.rule import Diagnostic, Rule, Severity


class MakesStep(Protocol):
    """What `CheckContext.made_of` asks of a node type (`engine.declare.node_type.NodeType`)."""

    def step(self, params: Mapping[str, Any]) -> Transform: ...


@dataclass
class CheckContext:
    """What a `scan`, `preview` or `workload` hook may see, and where it reports problems.

    A scan is called before a run and while someone edits, when a folder or an input has changed: it may read a little,
    for seconds, and returns facts that JSON can keep. A preview is called at each change of the document: no I/O.

    Attributes:
        params: the parameters' values by name, defaults included.
        inputs: what is known of what is wired in, by port. A port that nothing is wired to, or of which nothing is
            known, is missing: use `look.inputs.get(port)`.
        paths: what was found in each `PathIn` parameter: path, number of files, bytes, a sample of names, the listing.
            Empty while a document is only validated.
        facts: what the scan returned; for the preview. Empty in the scan, and while a document is only validated.
        problems: what was reported so far; `report` and `problem` add to it.
        node_type: the node's own type; in the preview.
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, Preview] = field(default_factory=dict)
    paths: Mapping[str, PathFound] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    node_type: MakesStep | None = None

    def made_of(self, spec: VolumeSpec | None) -> VolumeSpec | None:
        """The spec of what `write_volumes` makes of such volumes, where shape and type stay: this node is in its chain.

        For a preview; `made_of(spec).model_copy(update={"shape": ...})` where they do not stay.
        """
        if spec is None or self.node_type is None:
            return spec
        return spec.model_copy(update={"transforms": (*spec.transforms, self.node_type.step(self.params))})

    def report(
        self, rule: type[Rule], message: str, *, hint: str = "", parameter: str | None = None, port: str | None = None
    ) -> None:
        """Report a problem: what is wrong this time (`message`), and what to do about it (`hint`).

        It is shown at the field of a `parameter` or at a `port`, else at the node. The rule says whether it keeps a
        pipeline from running.
        """
        self.problems.append(rule.found(message, hint=hint, parameter=parameter, port=port))

    def problem(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        parameter: str | None = None,
        port: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Report a problem by a code alone, without a rule: `voxelflow explain` cannot say more about it."""
        self.problems.append(
            Diagnostic(code=code, severity=severity, message=message, hint=hint, parameter=parameter, port=port)
        )


Look = CheckContext
"""Its former name, so that nodes written with it go on working."""
