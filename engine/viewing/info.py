"""A view as the editor first gets it: title, figures and panels, without any panel's content."""

from __future__ import annotations

from collections.abc import Mapping

from engine.declare.dataset_type import Dataset, Frozen, details_of
from engine.declare.datasets import BUILT_IN_TYPES
from engine.declare.view import DatasetView, Gallery, PanelKind
from engine.wording import figure_name


class PanelInfo(Frozen):
    """A panel as the editor gets it. `shape` and `dtype` are those of a gallery's volumes."""

    name: str
    kind: PanelKind
    title: str
    shape: tuple[int, ...] = ()
    dtype: str = ""


class ViewInfo(Frozen):
    """A view as the editor gets it: the dataset's kind, its place, and its figures in words."""

    kind: str
    title: str
    uri: str
    facts: Mapping[str, float | str]
    panels: tuple[PanelInfo, ...]


def has_view(dataset: Dataset) -> bool:
    """Whether there is anything to see: of the built-in types, and of those that say how."""
    return isinstance(dataset, BUILT_IN_TYPES) or type(dataset).open_view is not Dataset.open_view


def info_of(dataset: Dataset, view: DatasetView) -> ViewInfo:
    """What the editor draws before it asks for any panel's content."""
    figures = details_of(dataset) if view.figures is None else view.figures
    return ViewInfo(
        kind=dataset.kind,
        title=type(dataset).title or dataset.kind,
        uri=dataset.uri,
        facts=dict(_fact(name, value) for name, value in figures.items()) | ({"note": view.note} if view.note else {}),
        panels=tuple(
            PanelInfo(
                name=name,
                kind=panel.kind,
                title=panel.title,
                shape=panel.shape if isinstance(panel, Gallery) else (),
                dtype=panel.dtype if isinstance(panel, Gallery) else "",
            )
            for name, panel in view.panels.items()
        ),
    )


def _fact(name: str, value: object) -> tuple[str, float | str]:
    if isinstance(value, float):
        return figure_name(name), value
    return name, value if isinstance(value, int) else str(value)
