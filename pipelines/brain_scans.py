"""Scans of brains to try a pipeline on: NIfTI files of patients, half of whom have a lesion.

    pip install nilearn
    python -m pipelines.brain_scans scans
    voxelflow run mri-classifier --set data=scans --set width=16

Nothing is downloaded: the package nilearn contains the MNI152 brain, a real T1 image. The patients are made of it: each
has a head of another size and form, each scan lies otherwise in the scanner and has a brightness, a noise, a voxel size
and a field of view of its own. `patients.csv` names for each file the patient, the age, and whether there is a lesion,
a bright spot in the brain of 14 to 21 mm radius. Every patient was scanned twice.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.brain_volumes import read_brain

CLASSES = ("healthy", "lesion")
TABLE = "patients.csv"
SCANS_EACH = 2
_SPACINGS = ((2.5, 2.5, 4.0), (3.0, 3.0, 3.0), (2.8, 2.8, 3.5), (4.0, 2.6, 2.6), (3.4, 3.4, 3.4))
"""Voxel sizes (X, Y, Z) in mm: of axial, isotropic and sagittal scans."""
_BRIGHTNESS = 0.7
"""What a lesion adds; white matter is 0.85."""


@dataclass(frozen=True)
class Patient:
    """Somebody's head: `matrix` and `bends` lead from its places to those of the MNI brain, in mm."""

    name: str
    age: int
    lesion: tuple[Any, float] | None
    """Its centre, from the middle of the MNI image, and its radius, in mm."""
    matrix: Any
    bends: Any
    """Shifts along X, Y and Z at 5 x 5 x 5 points, shape (3, 5, 5, 5)."""


def patients(count: int, seed: int) -> Iterator[Patient]:
    """`count` patients; every other one has a lesion."""
    random = np.random.default_rng(seed)
    for number in range(count):
        side, front, up = (
            random.choice((-1, 1)) * random.uniform(22, 44),
            random.uniform(-60, 28),
            random.uniform(0, 42),
        )
        lesion = (np.array((side, front, up)), random.uniform(14, 21)) if number % 2 else None
        yield Patient(
            name=f"P{number + 1:03d}",
            age=int(random.integers(24, 84)),
            lesion=lesion,
            matrix=np.diag(random.uniform(0.92, 1.1, 3)),
            bends=random.normal(0, 2.5, (3, 5, 5, 5)),
        )


@dataclass(frozen=True)
class Scan:
    """One scan: int16 values of shape (X, Y, Z), the voxels' lengths in mm, and where they lie."""

    patient: Patient
    values: Any
    spacing: tuple[float, float, float]
    affine: Any
    """4x4, from voxels to mm."""


def scans(count: int, seed: int) -> Iterator[Scan]:
    """All scans of `count` patients, one patient after the other."""
    brain, _ = read_brain()
    random = np.random.default_rng((seed, 1))
    for patient in patients(count, seed):
        for _ in range(SCANS_EACH):
            yield _scanned(patient, brain, random)


def _scanned(patient: Patient, brain: Any, random: np.random.Generator) -> Scan:
    """A scan of a patient. `brain` is the T1 image of `read_brain`, with voxels of 1 mm."""
    from scipy import ndimage

    spacing = _SPACINGS[random.integers(len(_SPACINGS))]
    field = random.uniform((168, 200, 158), (196, 232, 188))
    shape = tuple(int(n) for n in np.ceil(field / spacing))
    affine = np.eye(4)
    affine[:3, :3] = np.diag(spacing)
    affine[:3, 3] = -np.array(spacing) * (np.array(shape) - 1) / 2
    # Where each voxel lies in the scanner, in the patient's head, and so in the MNI brain.
    places = np.moveaxis(np.indices(shape, np.float32), 0, -1) * spacing + affine[:3, 3]
    places = (places - random.uniform(-4, 4, 3)) @ (_turned(random.uniform(-0.12, 0.12, 3)) @ patient.matrix).T
    steps = np.stack(np.meshgrid(*(np.linspace(0, 4, n) for n in shape), indexing="ij"))
    bends = [ndimage.map_coordinates(each, steps, order=1) for each in patient.bends]
    places = np.moveaxis(places, -1, 0) + np.stack(bends)
    centre = (np.array(brain.shape) - 1) / 2
    values = ndimage.map_coordinates(brain, places + centre[:, None, None, None], order=1)
    if patient.lesion is not None:
        at, radius = patient.lesion
        distance = np.sqrt(((places - at[:, None, None, None]) ** 2).sum(0))
        values = values + _BRIGHTNESS * (values > 0.2) / (1 + np.exp((distance - radius) / 1.5))
    values = values + random.normal(0, 0.04, shape)
    values = np.rint(values.clip(0) * random.uniform(300, 1500)).astype(np.int16)
    return Scan(patient, values, spacing, affine)


def _turned(angles: Any) -> Any:
    """The rotation by three angles, about X, then Y, then Z."""
    out = np.eye(3)
    for axis, angle in enumerate(angles):
        turn = np.eye(3)
        i, j = [n for n in range(3) if n != axis]
        turn[i, i] = turn[j, j] = np.cos(angle)
        turn[i, j], turn[j, i] = -np.sin(angle), np.sin(angle)
        out = turn @ out
    return out


def write(folder: Path, count: int, seed: int) -> None:
    """Write the scans of `count` patients and their table into `folder`, which is made if it is not there."""
    import nibabel

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TABLE).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("file", "patient", "age", "label"))
        for number, scan in enumerate(scans(count, seed)):
            patient = scan.patient
            name = f"{patient.name}_{number % SCANS_EACH + 1}.nii.gz"
            nibabel.save(nibabel.Nifti1Image(scan.values, scan.affine), folder / name)
            table.writerow((name, patient.name, patient.age, CLASSES[patient.lesion is not None]))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.brain_scans", description="Write scans of brains.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--patients", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.folder, given.patients, given.seed)
    print(f"{SCANS_EACH * given.patients} scans of {given.patients} patients in {given.folder}")


if __name__ == "__main__":
    main()
