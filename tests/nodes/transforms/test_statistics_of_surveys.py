"""TransformVolumes with figures that are measured once: patches of surveys, parts of a split, other surveys."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuts import cut
from npy_folders import context, rows, take

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Dataset, Preview, VolumeDelta, VolumeFiles, VolumeParquet
from engine.errors import UsageError
from nodes.numpy_to_parquet import numpy_to_parquet
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import split_dataset
from nodes.table.snapshot import open_table
from nodes.transform_volumes import transform_volumes
from nodes.transforms.remaining import remaining, same_way
from nodes.transforms.steps import apply_steps, load_steps

ONCE = {"normalise": "z-score", "statistics": "source"}


def transform(volumes: Dataset, base: Path, **params: Any) -> VolumeFiles:
    asked = hashlib.md5(f"{volumes.model_dump_json()}{params}".encode(), usedforsecurity=False).hexdigest()
    return transform_volumes(volumes, **params, ctx=context(base, "transform", asked))


def converted(files: VolumeFiles, base: Path) -> VolumeParquet:
    return numpy_to_parquet(files, ctx=context(base, "parquet"))


def arrays(made: VolumeParquet) -> dict[str, np.ndarray[Any, Any]]:
    assert made.spec is not None
    form = made.spec.shape, np.dtype(made.spec.dtype)
    return {name: np.frombuffer(data, form[1]).reshape(form[0]) for name, (_, data) in rows(made).items()}


def surveys(root: Path, **amplitudes: float) -> dict[str, np.ndarray[Any, Any]]:
    root.mkdir(parents=True)
    random, out = np.random.default_rng(5), {}
    for name, amplitude in amplitudes.items():
        out[name] = (amplitude * random.normal(1, 1, (12, 8, 8))).astype(np.float32)
        np.save(root / f"{name}.npy", out[name])
    return out


def table(base: Path, **amplitudes: float) -> VolumeDelta:
    """Patches of 4x4x4 that fill the surveys, without a gap or an overlap."""
    surveys(base / "in", **amplitudes)
    patches = cut(base / "in", base / "work", size=(4, 4, 4))
    return parquet_to_delta(patches, ctx=context(base, "table"))


def test_patches_become_what_their_survey_is_normalised_to(tmp_path: Path) -> None:
    made = table(tmp_path, north=3.0, south=4000.0)
    files = transform(made, tmp_path, **ONCE)
    found = arrays(converted(files, tmp_path))
    assert files.details()["transforms"] == "z-score of each source"
    for source in ("north.npy", "south.npy"):
        whole = np.load(tmp_path / "in" / source).astype(np.float64)
        scaled = (whole - whole.mean()) / whole.std()
        patches = {name: volume for name, volume in found.items() if name.startswith(source)}
        assert len(patches) == 12
        for name, volume in patches.items():
            x, y, z = (int(part[1:]) for part in name.rpartition("/")[2].split("-"))
            assert np.allclose(volume[..., 0], scaled[x : x + 4, y : y + 4, z : z + 4], atol=1e-5)


@pytest.mark.slow
def test_all_parts_of_a_split_are_changed_alike(tmp_path: Path) -> None:
    made = table(tmp_path, north=3.0, south=40.0)
    split = split_dataset(made, validation=0.3, ctx=context(tmp_path, "split"))
    for statistics in ("source", "all"):
        parts = [transform(part, tmp_path, normalise="min-max", statistics=statistics) for part in split[:2]]
        whole = transform(made, tmp_path, normalise="min-max", statistics=statistics)
        assert 0 < parts[1].count < made.count
        assert parts[0].transforms == parts[1].transforms == whole.transforms


def clipped(volume: np.ndarray[Any, Any], of: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.clip(volume, *np.percentile(of, (5, 95)))


@pytest.mark.slow
def test_clipping_alone_at_what_was_measured_once(tmp_path: Path) -> None:
    """At the percentiles of each survey, or of all of them; another volume is clipped at the same values."""
    made = table(tmp_path, north=3.0, south=4000.0)
    whole = {name: np.load(tmp_path / "in" / f"{name}.npy") for name in ("north", "south")}
    both = np.concatenate([each.reshape(-1) for each in whole.values()])
    for statistics in ("source", "all"):
        files = transform(made, tmp_path, clip_percentiles=(5, 95), statistics=statistics)
        assert files.spec is not None
        assert files.spec.dtype == "float32"
        found = arrays(converted(files, tmp_path / statistics))
        stored = arrays(converted(transform(made, tmp_path, channels=(0,)), tmp_path / "plain"))
        for name, volume in found.items():
            of = whole[name.partition(".npy")[0]] if statistics == "source" else both
            assert np.allclose(volume, clipped(stored[name], of), rtol=1e-3), name
    # What a model is asked about goes through the same chain (see `nodes.prediction`).
    steps = load_steps([each.model_dump() for each in files.transforms])
    other = np.linspace(-2e5, 2e5, 64, dtype=np.float32).reshape(4, 4, 4)
    assert np.allclose(apply_steps(steps, other)[0], clipped(other, both), rtol=1e-3)
    (by_source,) = transform(made, tmp_path, clip_percentiles=(5, 95), statistics="source").transforms
    east = transform(table(tmp_path / "e", east=7.0), tmp_path / "e", clip_percentiles=(5, 95), statistics="source")
    assert remaining((by_source,), east.transforms) == ()


def test_what_is_normalised_is_measured_after_the_clipping(tmp_path: Path) -> None:
    made = table(tmp_path, north=3.0)
    params = {"clip_percentiles": (5, 95), "normalise": "min-max", "statistics": "all"}
    files = transform(made, tmp_path, **params)
    assert [each.name for each in files.transforms] == ["clip-measured", "scale"]
    low, high = np.percentile(np.load(tmp_path / "in" / "north.npy"), (5, 95))
    (offset,), (spread,) = (files.transforms[1].parameters[name][0] for name in ("offsets", "spreads"))
    assert (offset, offset + spread) == pytest.approx((low, high), rel=1e-3)


@pytest.mark.slow
def test_the_numbers_are_kept_with_the_table(tmp_path: Path) -> None:
    files = transform(table(tmp_path, north=3.0), tmp_path, normalise="percentiles", statistics="all")
    stored = parquet_to_delta(converted(files, tmp_path), ctx=context(tmp_path, "stored"))
    spec = open_table(stored.uri, None).spec
    assert spec is not None
    assert spec.transforms == files.transforms
    (scale,) = spec.transforms
    (low,), (spread,) = (scale.parameters[name][0] for name in ("offsets", "spreads"))
    whole = np.load(tmp_path / "in" / "north.npy")
    assert (low, low + spread) == pytest.approx(np.percentile(whole, (1, 99)), rel=1e-3)
    # What is done to volumes before they are predicted, and what is not done twice.
    assert remaining(files.transforms, ()) == files.transforms
    assert remaining(files.transforms, spec.transforms) == ()


@pytest.mark.slow
def test_another_survey_goes_the_same_way_by_its_own_numbers(tmp_path: Path) -> None:
    one = transform(table(tmp_path / "1", north=3.0), tmp_path / "1", **ONCE).transforms
    other = transform(table(tmp_path / "2", east=70.0), tmp_path / "2", **ONCE).transforms
    assert one != other
    assert same_way(one, other)
    assert remaining(one, other) == ()
    of_all = [
        transform(table(tmp_path / name, **surveys), tmp_path / name, normalise="z-score", statistics="all").transforms
        for name, surveys in (("3", {"north": 3.0}), ("4", {"east": 70.0}))
    ]
    assert remaining(*of_all) is None


@pytest.mark.slow
def test_patches_of_a_survey_that_was_not_measured_are_refused(tmp_path: Path) -> None:
    chain = transform(table(tmp_path / "1", north=3.0), tmp_path / "1", **ONCE).transforms
    other = transform(table(tmp_path / "2", east=70.0), tmp_path / "2", channels=(0,))
    asked = other.model_copy(update={"transforms": chain})
    with pytest.raises(Exception, match=r"source east.npy, of which nothing was measured \(of north.npy it was\)"):
        converted(asked, tmp_path / "2")


def test_the_steps_before_are_done_first(tmp_path: Path) -> None:
    """Of a folder of whole volumes, too, whose shapes differ."""
    root = tmp_path / "in"
    root.mkdir()
    volumes = {f"v{n}.npy": np.random.default_rng(n).normal(size=(6 + n, 6, 6)).astype(np.float32) for n in range(3)}
    for name, volume in volumes.items():
        np.save(root / name, volume)
    cropped = {name: volume[(n := (volume.shape[0] - 4) // 2) : n + 4, 1:5, 1:5] for name, volume in volumes.items()}
    files = transform(
        take(root, tmp_path), tmp_path, size=(4, 4, 4), clip_high=0.5, normalise="min-max", statistics="all"
    )
    clipped = np.stack([np.minimum(volume, 0.5) for volume in cropped.values()])
    scaled = (clipped - clipped.min()) / (clipped.max() - clipped.min())
    found = arrays(converted(files, tmp_path))
    assert np.allclose([found[name] for name in cropped], scaled, atol=1e-6)


def test_what_is_known_before_the_run(tmp_path: Path) -> None:
    files = take(_volumes(tmp_path / "in"), tmp_path)
    given = Preview.of(files).model_copy(update={"dataset": files, "sample": ("a.npy", "b.npy")})
    params = {p.name: p.default for p in transform_volumes.parameters} | ONCE | {"dtype": "float16"}
    assert transform_volumes.scan_hook is not None
    assert transform_volumes.preview_hook is not None
    facts = transform_volumes.scan_hook(CheckContext(params, {"volumes": given}))
    look = CheckContext(params, {"volumes": given}, facts=facts)
    shown = transform_volumes.preview_hook(look)
    assert isinstance(shown, Preview)
    assert look.problems == []
    assert shown.does == "z-score of each source, float16"
    assert shown.spec is not None
    assert (shown.spec.shape, shown.spec.dtype) == ((6, 5, 4), "float16")
    look = CheckContext(params | {"normalise": "none"}, {"volumes": given})
    transform_volumes.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF471", "statistics")]
    with pytest.raises(UsageError, match="statistics is source, and nothing is normalised, or clipped"):
        transform(files, tmp_path, statistics="source")


def _volumes(root: Path) -> Path:
    root.mkdir()
    for name in ("a", "b"):
        np.save(root / f"{name}.npy", np.arange(120, dtype=np.float32).reshape(6, 5, 4))
    return root


def test_a_part_goes_on_as_a_part(tmp_path: Path) -> None:
    """Behind SplitDataset only the part's rows are read, and the preview says so."""
    assert transform_volumes.preview_hook is not None
    params = {p.name: p.default for p in transform_volumes.parameters} | {"normalise": "z-score"}
    about = Preview(kind="VolumeDelta", count=200, labelled=200, selected=40)
    shown = transform_volumes.preview_hook(CheckContext(params, {"volumes": about}))
    assert isinstance(shown, Preview)
    assert (shown.count, shown.held, shown.labelled_held) == (200, 40, 40)
    counted = about.model_copy(update={"selected_exactly": True})
    shown = transform_volumes.preview_hook(CheckContext(params, {"volumes": counted}))
    assert isinstance(shown, Preview)
    assert (shown.count, shown.selected, shown.labelled) == (40, None, 40)
    whole = Preview(kind="VolumeDelta", count=200, labelled=120)
    shown = transform_volumes.preview_hook(CheckContext(params, {"volumes": whole}))
    assert isinstance(shown, Preview)
    assert (shown.count, shown.selected, shown.labelled) == (200, None, 120)
