"""Real volumes to try a pipeline on: labelled patches of the MNI152 brain.

    pip install nilearn
    python -m pipelines.brain_volumes brains --count 2000
    voxelflow run volumes-to-predictions --set data=brains --set width=16

Nothing is downloaded: the package nilearn contains the image and its map of grey matter. Each volume is a float32
`.npy` of shape (30, 30, 10, 10), X, Y, Z and ten channels: the intensity, three blurs, two gradients, two Laplacians,
the local mean and deviation. `labels.csv` has 1 where most of the tissue at the patch's centre is grey matter, else 0.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

PATCH = (30, 30, 10)
_IMAGE = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


def read_brain() -> tuple[Any, Any]:
    """The T1 image and the share of grey matter, float32 arrays of one shape, from 0 to 1.

    Raises `SystemExit` when nilearn is not installed.
    """
    try:
        import nibabel
        import nilearn
    except ImportError:
        raise SystemExit("nilearn is not installed: it contains the brain. Run `pip install nilearn`.") from None
    folder = Path(nilearn.__file__).parent / "datasets" / "data"
    image, grey = (nibabel.load(folder / _IMAGE.format(name)).get_fdata(dtype=np.float32) for name in ("t1", "gm"))
    return image / image.max(), grey / grey.max()


def channels(image: Any) -> Any:
    """Ten views of an image of shape (X, Y, Z), as an array of shape (X, Y, Z, 10)."""
    from scipy import ndimage

    mean = ndimage.uniform_filter(image, 5)
    variance = ndimage.uniform_filter(image * image, 5) - mean * mean
    return np.stack(
        [
            image,
            *(ndimage.gaussian_filter(image, sigma) for sigma in (1, 2, 3)),
            *(ndimage.gaussian_gradient_magnitude(image, sigma) for sigma in (1, 2)),
            *(ndimage.gaussian_laplace(image, sigma) for sigma in (1, 2)),
            mean,
            np.sqrt(variance.clip(0)),
        ],
        axis=-1,
    ).astype(np.float32)


def centres(image: Any, grey: Any, count: int, seed: int) -> list[tuple[tuple[int, ...], int]]:
    """Centre and label of `count` patches inside the head, half of them grey matter, in mixed order."""
    from scipy import ndimage

    random = np.random.default_rng(seed)
    inside = ndimage.gaussian_filter(image, 2) > 0.1
    for axis, width in enumerate(PATCH):
        edge = np.moveaxis(inside, axis, 0)
        edge[: width // 2] = edge[image.shape[axis] - width // 2 :] = False
    out = []
    for label in (0, 1):
        places = np.argwhere(inside & ((grey > 0.5) == bool(label)))
        chosen = random.choice(len(places), (count + label) // 2, replace=False)
        out += [(tuple(int(at) for at in places[i]), label) for i in chosen]
    return [out[i] for i in random.permutation(len(out))]


def write(folder: Path, count: int, seed: int) -> None:
    """Write `count` volumes and `labels.csv` into `folder`, which is made if it is not there."""
    image, grey = read_brain()
    views = channels(image)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "labels.csv").open("w", newline="") as labels:
        table = csv.writer(labels)
        table.writerow(("file", "label"))
        for number, (centre, label) in enumerate(centres(image, grey, count, seed)):
            patch = tuple(slice(at - width // 2, at + width // 2) for at, width in zip(centre, PATCH, strict=True))
            name = f"brain-{number:05d}.npy"
            np.save(folder / name, np.ascontiguousarray(views[patch]))
            table.writerow((name, label))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.brain_volumes", description="Write brain patches.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.folder, given.count, given.seed)
    print(f"{given.count:,} volumes in {given.folder}")


if __name__ == "__main__":
    main()
