"""What pages beside the editor give to the canvas's component as its `data`: graphs and datasets to look at."""

from __future__ import annotations

from typing import Literal

from ui.protocol.catalogue import DatasetTypeInfo, NodeTypeInfo
from ui.protocol.document import Doc, Wire
from ui.protocol.status import NodeStatus, RunInfo


class Change(Wire):
    """What became of a node or a wire from one document to another; `detail` says what of a node is otherwise."""

    change: Literal["added", "removed", "changed"]
    detail: str


class Picture(Wire):
    """The graph of `doc` with the states of a run, or with `changes` by node and by wire.

    `types` are those that the document's nodes have. `names` are what is compared, the former first; `chosen` is the
    node that the page speaks of.
    """

    doc: Doc
    types: list[NodeTypeInfo]
    datasets: list[DatasetTypeInfo]
    run: RunInfo | None
    status: dict[str, NodeStatus]
    changes: dict[str, Change] | None
    names: list[str]
    chosen: str | None


class Look(Wire):
    """A button that opens the dataset with the key `view`, as the editor does; `title` says what it is."""

    view: str
    title: str
