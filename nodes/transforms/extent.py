"""How much a transformed volume covers of what it was before."""

from __future__ import annotations

from engine.declare.datasets import VolumeSpec

_TURNS = {"axes", "orient"}
"""Steps that exchange axes."""


def extent_before(spec: VolumeSpec) -> tuple[int, ...] | None:
    """Voxels along X, Y and Z, counted in those of before the transforms, that a volume covers at most.

    A person's own function and node are taken to leave voxels where they are. None: it does not follow from the shape,
    since volumes were resampled, or axes of different lengths exchanged.
    """
    shape, steps = spec.shape[:3], {each.name for each in spec.transforms}
    if "resample" in steps or (steps & _TURNS and len(set(shape)) > 1):
        return None
    return shape
