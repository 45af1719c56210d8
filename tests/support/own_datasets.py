"""A package of somebody else that brings a dataset type with pictures of its own, and two nodes that make and take it.

site = install(tmp_path / "site")     # a folder for sys.path, with an entry point
"""

from __future__ import annotations

from pathlib import Path

import installed_package

SOURCE = '''
"""Horizons: picked surfaces in a seismic survey."""

import json
from pathlib import Path

import numpy as np

from voxelflow import (
    Chart,
    ChartPanel,
    CheckContext,
    Colour,
    Dataset,
    DatasetView,
    Gallery,
    GalleryItem,
    Picked,
    Preview,
    Report,
    TaskContext,
    node,
)


class Depths(ChartPanel):
    title = "Depths"

    def __init__(self, depths):
        self.depths = depths

    def charts(self, chosen):
        numbers = tuple(range(len(self.depths)))
        return [Chart(title="Depth", kind="lines", x=numbers, series={"m": tuple(self.depths)})]


class Surfaces(Gallery):
    title, dtype = "Surfaces", "float32"

    def __init__(self, depths):
        self.depths, self.shape = depths, (len(depths), 1, 1)

    def pick(self, offset, count, seed, chosen):
        return Picked(items=(GalleryItem(row=0, id="top"),), total=1)

    def volume(self, row):
        return np.array(self.depths, np.float32).reshape(self.shape)


class HorizonView(DatasetView):
    note = "As it was picked."

    def __init__(self, horizon):
        depths = json.loads(Path(horizon.uri).read_text())
        self.panels = {"surfaces": Surfaces(depths), "depths": Depths(depths)}


class Horizon(Dataset):
    """A picked surface: one depth for each trace of a survey."""

    title = "Seismic horizon"
    colour = Colour("#a4512c", dark="#f0a27e")
    counted = "traces"
    is_file = True

    count: int
    deepest: float

    def details(self):
        return {"traces": self.count, "deepest": self.deepest}

    def check(self):
        depths = json.loads(Path(self.uri).read_text())
        return "" if len(depths) == self.count else f"{self.uri} has {len(depths)} traces, not {self.count}"

    def mlflow_source(self):
        return "horizon", {"path": self.uri}

    def open_view(self, made_from):
        return HorizonView(self)


@node("PickHorizon", version=1, category="Seismic")
def pick_horizon(*, traces: int = 3, ctx: TaskContext) -> Horizon:
    """Pick a horizon."""
    path = ctx.out / "horizon.json"
    path.write_text(json.dumps([float(i) for i in range(traces)]))
    return Horizon(uri=str(path), count=traces, deepest=traces - 1.0)


@pick_horizon.preview
def _(look: CheckContext) -> Preview:
    return Preview(kind="Horizon", count=look.params["traces"], figures={"surveys": 1})


@node("DescribeHorizon", version=1, category="Seismic")
def describe_horizon(horizon: Horizon, *, ctx: TaskContext) -> Report:
    """Say how deep a horizon lies.

    Args:
        horizon: the surface to describe.
    """
    assert type(horizon) is Horizon
    path = ctx.out / "depth.txt"
    path.write_text(f"{horizon.deepest:g} m")
    return Report(uri=str(path), figures={"deepest": horizon.deepest})
'''


def install(site: Path, source: str = SOURCE, name: str = "horizons") -> Path:
    """Put the package into the folder `site` as an installer would; gives the folder."""
    return installed_package.install(site, f"{name} = {name}", **{name: source})
