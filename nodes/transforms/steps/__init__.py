"""The steps that change volumes. This folder needs NumPy alone: a copy of it travels with models in MLflow's format.

step          what a step is
geometry      order of axes, channels, resampling, cropping and padding
intensity     clipping, normalising, dtypes
scale         normalising and clipping with numbers that were measured once
orient        which way the axes point
place         affine and survey's numbers, which follow the voxels
own_code      a person's own function, a whole node
chain         chains of steps: loaded, described, applied

A step is a frozen dataclass with a name, a version and parameters that are JSON, so a chain of them is data:

    chain = load_steps([{"name": "resample", "version": 1, "parameters": {"spacing": [1.0, 1.0, 1.0]}}])
    volume, matrix = apply_steps(chain, volume, {"spacing_x": 2.0, "spacing_y": 2.0, "spacing_z": 2.0})

A volume has the axes X, Y, Z, then channels; one of three axes has no channels. Raise a step's version whenever it
would give other values than before, and keep what the version before did: chains are stored with tables and models.
With one exception: a repair that changes only volumes with values that are not finite keeps the version, since with
another one all models of other volumes would be "another way". Figures that were measured once after such a step are
measured again: see `_FINITE` in `nodes.loaders.volume_statistics`.

Imports between these files are relative, since the copy has another name.
"""

from __future__ import annotations

from .chain import STEPS, apply_steps, describe, form_after, form_and_row_after, load_steps
from .geometry import Axes, Channels, CropPad, Resample
from .intensity import Cast, Clip, ClipPercentiles, Normalise
from .orient import ORIENTATION, Orient
from .own_code import FUNCTION, Function, WholeNode
from .place import AFFINE, AFFINE_SPACE, affine_in, moved_lines, text_of
from .scale import ClipMeasured, Measured, Scale, source_of
from .step import SPACING, Form, Matrix, Row, Step, Unfit, Volume, spacing_of

__all__ = [
    "AFFINE",
    "AFFINE_SPACE",
    "FUNCTION",
    "ORIENTATION",
    "SPACING",
    "STEPS",
    "Axes",
    "Cast",
    "Channels",
    "Clip",
    "ClipMeasured",
    "ClipPercentiles",
    "CropPad",
    "Form",
    "Function",
    "Matrix",
    "Measured",
    "Normalise",
    "Orient",
    "Resample",
    "Row",
    "Scale",
    "Step",
    "Unfit",
    "Volume",
    "WholeNode",
    "affine_in",
    "apply_steps",
    "describe",
    "form_after",
    "form_and_row_after",
    "load_steps",
    "moved_lines",
    "source_of",
    "spacing_of",
    "text_of",
]
