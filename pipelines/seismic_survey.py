"""A small seismic survey to try a pipeline on: SEG-Y volumes with attributes, facies and a horizon.

    pip install 'voxelflow[segy]'
    python -m pipelines.seismic_survey survey
    voxelflow run seismic-facies --set data=survey --set width=16

The survey is made up: layers with a fault, a river bed that winds through them, and two bodies of salt. Its files are
those of a real one: `survey_amplitude.sgy`, `survey_envelope.sgy` and `survey_variance.sgy` are SEG-Y volumes of 192
inlines, 160 crosslines and 96 samples (4 ms), `survey_facies.sgy` has the facies of each voxel (0 layers, 1 channel,
2 salt), and `horizon.txt` the inline, crossline and time of one reflector.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = (192, 160, 96)
FACIES = ("layers", "channel", "salt")
FIRST_INLINE, FIRST_CROSSLINE, FIRST_MS, STEP_MS = 1000, 2000, 800, 4
_METRES = 25.0
_HORIZON = 0.45
"""Where the horizon is, as a share of the depth."""


def make(shape: tuple[int, int, int], seed: int) -> tuple[Any, Any, Any]:
    """Amplitude (float32) and facies (uint8), both of `shape`, and the horizon's depth in samples, (X, Y)."""
    random = np.random.default_rng(seed)
    x, y, z = (np.linspace(0, 1, length, dtype=np.float32) for length in shape)
    x, y, z = x[:, None, None], y[None, :, None], z[None, None, :]
    fold = 0.06 * np.sin(5 * x + 1) * np.cos(4 * y) + 0.05 * x
    throw = 0.05 * (x + 0.3 * y > 0.65)
    depth = z + fold + throw
    amplitude = np.zeros(shape, np.float32)
    for waves, strength in zip(random.uniform(40, 140, 6), random.uniform(0.3, 0.8, 6), strict=True):
        amplitude += np.float32(strength) * np.sin(np.float32(waves) * depth + np.float32(random.uniform(0, 6)))
    facies = np.zeros(shape, np.uint8)
    # A river bed: a trough in one layer, winding along X, filled without layers.
    across = (y - 0.5 - 0.22 * np.sin(7 * x + 0.5)) / 0.11
    river = across**2 + ((depth - 0.5) / 0.09) ** 2 < 1
    amplitude[river] = 1.6 * np.sin(25 * np.broadcast_to(depth, shape)[river])
    facies[river] = 1
    for at, radius in (((0.25, 0.75, 0.95), 0.3), ((0.75, 0.2, 0.9), 0.27)):
        salt = sum(((axis - place) / radius) ** 2 for axis, place in zip((x, y, z), at, strict=True)) < 1
        amplitude[salt] = 0.4 * random.standard_normal(np.count_nonzero(salt))
        facies[salt] = 2
    amplitude += 0.25 * random.standard_normal(shape, np.float32)
    horizon = (_HORIZON - fold[..., 0] - throw[..., 0]) * (shape[2] - 1)
    return amplitude, facies, horizon


def attributes(amplitude: Any) -> dict[str, Any]:
    """The amplitude and what interpreters compute of it, float32 arrays of its shape by name."""
    from scipy import ndimage

    mean = ndimage.uniform_filter(amplitude, 5)
    variance = ndimage.uniform_filter(amplitude * amplitude, 5) - mean * mean
    return {
        "amplitude": amplitude,
        "envelope": ndimage.gaussian_filter(np.abs(amplitude), (1, 1, 3)),
        "variance": variance.clip(0),
    }


def write_segy(path: Path, volume: Any) -> None:
    """Write a volume (inlines, crosslines, samples) as SEG-Y: IEEE floats with line numbers and coordinates."""
    import segyio

    spec = segyio.spec()
    spec.iline, spec.xline, spec.format, spec.sorting = 189, 193, 5, 2
    spec.ilines = np.arange(volume.shape[0]) + FIRST_INLINE
    spec.xlines = np.arange(volume.shape[1]) + FIRST_CROSSLINE
    spec.samples = FIRST_MS + STEP_MS * np.arange(volume.shape[2])
    with segyio.create(str(path), spec) as file:
        file.bin.update(hdt=1000 * STEP_MS, hns=volume.shape[2])
        for inline in range(volume.shape[0]):
            for crossline in range(volume.shape[1]):
                number = inline * volume.shape[1] + crossline
                file.header[number] = {
                    189: FIRST_INLINE + inline,
                    193: FIRST_CROSSLINE + crossline,
                    181: int(10 * (450_000 + _METRES * inline)),
                    185: int(10 * (6_000_000 + _METRES * crossline)),
                    71: -10,  # coordinates are in tenths of a metre
                    109: FIRST_MS,
                    115: volume.shape[2],
                    117: 1000 * STEP_MS,
                }
                file.trace[number] = np.ascontiguousarray(volume[inline, crossline], np.float32)


def write(folder: Path, shape: tuple[int, int, int] = SHAPE, seed: int = 0) -> None:
    """Write the survey into `folder`, which is made if it is not there."""
    amplitude, facies, horizon = make(shape, seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, volume in (*attributes(amplitude).items(), ("facies", facies)):
        write_segy(folder / f"survey_{name}.sgy", volume)
    with (folder / "horizon.txt").open("w") as file:
        file.write("# inline crossline time_ms\n")
        for inline in range(shape[0]):
            for crossline in range(0, shape[1], 4):
                time = FIRST_MS + STEP_MS * horizon[inline, crossline]
                file.write(f"{FIRST_INLINE + inline} {FIRST_CROSSLINE + crossline} {time:.2f}\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.seismic_survey", description="Write a seismic survey.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        import scipy
        import segyio
    except ImportError as exc:
        raise SystemExit(f"{exc.name} is not installed. Run `pip install 'voxelflow[segy,train]'`.") from None
    del scipy, segyio
    write(given.folder, SHAPE, given.seed)
    print(f"{' x '.join(map(str, SHAPE))} voxels, 3 attributes, facies and a horizon in {given.folder}")


if __name__ == "__main__":
    main()
