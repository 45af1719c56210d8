"""Looking at reports: the file as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.declare.datasets import Dataset, Report
from engine.declare.view import DatasetView, Document


class ReportView(DatasetView):
    """One document."""

    def __init__(self, path: Path) -> None:
        self.panels = {"document": Document("Report", path)}


def report_view(dataset: Report, made_from: Mapping[str, Dataset]) -> DatasetView:
    """A report's file."""
    return ReportView(Path(dataset.uri))
