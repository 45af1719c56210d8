from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npy_folders import Listener, context, convert, rows

from engine.declare.check_context import CheckContext
from engine.declare.datasets import DTYPES, VolumeFiles
from engine.declare.progress import current_reporter
from engine.errors import Cancelled
from engine.storage import manifest
from nodes.synthetic import MAX_CLASSES, class_names
from nodes.synthetic.seismic import SeismicMaker, class_of
from nodes.synthetic_volumes import synthetic_volumes

synthetic_module = sys.modules[synthetic_volumes.function.__module__]
SHAPE = (8, 6, 5, 4)


def make(base: Path, count: int, fingerprint: str = "0" * 32, **params: Any) -> VolumeFiles:
    fields = {k: params.pop(k) for k in ("previous", "extends") if k in params}
    params = {"shape": SHAPE} | params
    return synthetic_volumes(count=count, **params, ctx=context(base, "make", fingerprint, **fields))


def contents(files: VolumeFiles) -> dict[str, bytes]:
    return {p: (Path(files.uri) / p).read_bytes() for p in manifest.read(files.manifest)["path"].to_pylist()}


def labels(files: VolumeFiles) -> dict[str, str]:
    with (Path(files.uri) / "labels.csv").open(newline="") as source:
        return {row["file"]: row["label"] for row in csv.DictReader(source)}


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_volumes_of_every_dtype_use_its_range(tmp_path: Path, dtype: str) -> None:
    files = make(tmp_path, 6, dtype=dtype, classes=3)
    assert files.count == 6
    for path in contents(files):
        volume = np.load(Path(files.uri) / path, allow_pickle=False)
        assert (volume.shape, volume.dtype.name) == (SHAPE, dtype)
        assert np.isfinite(volume).all()
        assert volume.astype(float).std() > (0.1 if dtype.startswith("float") else 5)


def test_a_file_is_what_numpy_would_save(tmp_path: Path) -> None:
    made = make(tmp_path, 2, shape=(5, 4, 3, 2), dtype="int16")
    for path in Path(made.uri).glob("*.npy"):
        np.save(tmp_path / "again.npy", np.load(path))
        assert path.read_bytes() == (tmp_path / "again.npy").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(5, 1), (6, 7, 2), (3, 1, 4, 3), (30, 30, 10, 10), (4, 4, 3, 2, 7)])
def test_any_number_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    files = make(tmp_path, 32, shape=shape, classes=MAX_CLASSES)
    assert files.spec is not None
    assert files.spec.shape == shape
    assert all(np.load(Path(files.uri) / p).shape == shape for p in contents(files))


def test_labels_name_the_classes_in_equal_shares(tmp_path: Path) -> None:
    files = make(tmp_path, 30, classes=3)
    assert files.spec is not None
    assert files.spec.classes == ("background", "bright-spot", "channel")
    assert set(labels(files)) == set(contents(files))
    assert Counter(labels(files).values()) == dict.fromkeys(files.spec.classes, 10)
    converted = convert(Path(files.uri), tmp_path / "work")
    assert converted.spec == files.spec
    expected = {name: files.spec.classes.index(text) for name, text in labels(files).items()}
    assert {name: label for name, (label, _) in rows(converted).items()} == expected


def test_class_names_are_all_different_and_follow_the_seed() -> None:
    assert len(set(class_names(MAX_CLASSES))) == MAX_CLASSES
    assert [class_of(i, 0, 4) for i in range(64)] != [class_of(i, 1, 4) for i in range(64)]


def test_a_volume_depends_on_seed_and_number_alone() -> None:
    maker = SeismicMaker(SHAPE, "float32", 2, 0.5, seed=1)
    first, _ = maker.volume(7)
    maker.volume(8)
    assert np.array_equal(first, maker.volume(7)[0])
    assert not np.array_equal(first, SeismicMaker(SHAPE, "float32", 2, 0.5, seed=2).volume(7)[0])
    assert not np.array_equal(first, maker.volume(9)[0])


@pytest.mark.slow
def test_the_classes_differ_by_more_than_their_noise() -> None:
    """Background and bright spots: a threshold on one simple figure tells most volumes apart, not all."""
    maker = SeismicMaker((30, 30, 10, 1), "float32", 2, 0.5, seed=0)
    found = [maker.volume(i) for i in range(300)]
    peak = np.array([np.abs(v).max() / np.abs(v).mean() for v, _ in found])
    kind = np.array([k for _, k in found])
    best = max(((peak > t) == kind).mean() for t in np.quantile(peak, np.linspace(0, 1, 99)))
    assert 0.75 < best < 1


@pytest.mark.slow
def test_a_larger_count_only_adds_files(tmp_path: Path) -> None:
    small = make(tmp_path, 40)
    before = {p: (Path(small.uri) / p).stat() for p in contents(small)}
    large = make(tmp_path, 100, "1" * 32, extends={"out": small})
    assert large.count == 100
    for path, old in before.items():
        new = (Path(large.uri) / path).stat()
        assert (new.st_ino, new.st_mtime_ns) == (old.st_ino, old.st_mtime_ns)
    afresh = make(tmp_path / "other", 100)
    assert contents(afresh) == contents(large)
    assert labels(afresh) == labels(large)
    smaller = make(tmp_path, 10, "2" * 32, previous={"out": large})
    assert contents(smaller) == {p: b for p, b in contents(large).items() if p < "0000010"}
    assert len(labels(smaller)) == 10


def test_an_earlier_result_that_clean_removed_is_made_again(tmp_path: Path) -> None:
    small = make(tmp_path, 10)
    gone = small.model_copy(update={"uri": str(tmp_path / "gone")})
    assert contents(make(tmp_path, 20, "1" * 32, extends={"out": gone})).items() >= contents(small).items()


def test_only_missing_and_torn_files_are_made_again(tmp_path: Path) -> None:
    files = make(tmp_path, 40)
    whole = contents(files)
    times = {p: (Path(files.uri) / p).stat().st_mtime_ns for p in whole}
    (Path(files.uri) / "0000003.npy").unlink()
    os.truncate(Path(files.uri) / "0000017.npy", 0)
    assert contents(make(tmp_path, 40)) == whole
    changed = {p for p, t in times.items() if (Path(files.uri) / p).stat().st_mtime_ns != t}
    assert changed == {"0000003.npy", "0000017.npy"}


def test_a_file_whose_content_a_power_cut_took_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files that nobody had flushed it may leave the name and the size."""
    whole = contents(make(tmp_path / "undisturbed", 40))

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(synthetic_module, "flush_many", power_cut)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, 40)
    there = [p for p in tmp_path.glob("make/**/*.npy") if not p.name.startswith(".")]
    assert len(there) == 40
    for path in there[:20]:
        path.write_bytes(bytes(path.stat().st_size))
    assert contents(make(tmp_path, 40)) == whole


def test_a_result_of_an_earlier_version_keeps_its_files(tmp_path: Path) -> None:
    """They were all flushed before the listing was written."""
    files = make(tmp_path, 40)
    whole = contents(files)
    times = {p: (Path(files.uri) / p).stat().st_mtime_ns for p in whole}
    Path(files.manifest).with_name("flushed.bits").unlink()
    (Path(files.uri) / "0000003.npy").unlink()
    assert contents(make(tmp_path, 40)) == whole
    assert {p for p, t in times.items() if (Path(files.uri) / p).stat().st_mtime_ns != t} == {"0000003.npy"}


def test_a_file_that_is_made_anew_is_no_longer_one_that_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make(tmp_path, 40)
    whole = contents(files)
    lost = Path(files.uri) / "0000003.npy"
    lost.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(synthetic_module, "flush_many", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, 40)
    assert lost.stat().st_size == len(whole[lost.name])
    lost.write_bytes(bytes(lost.stat().st_size))
    assert contents(make(tmp_path, 40)) == whole


@pytest.mark.slow
def test_it_can_be_cancelled_and_goes_on_from_what_is_there(tmp_path: Path) -> None:
    token = current_reporter.set(Listener(cancel_after=0))
    with pytest.raises(Cancelled):
        make(tmp_path, 600)
    current_reporter.reset(token)
    made = sum(1 for p in tmp_path.rglob("*.npy") if not p.name.startswith("."))
    assert 0 < made < 600
    listener = Listener()
    token = current_reporter.set(listener)
    files = make(tmp_path, 600)
    current_reporter.reset(token)
    assert listener.events[0].done >= made
    assert listener.events[-1].done == files.count == listener.events[-1].total == 600


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {support!r})
from engine.declare.context import Resources
from npy_folders import context
from nodes import synthetic_volumes
synthetic_volumes._FLUSH_S = {seconds}
made = context(Path({base!r}), "make", resources=Resources(cores=1))
synthetic_volumes.synthetic_volumes(count=60, shape=(8, 6, 5, 4), ctx=made)
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["synthetic:file-written#20", "synthetic:file-renamed#41"])
@pytest.mark.parametrize("seconds", [0, 1e9])
def test_a_kill_leaves_no_half_file_and_loses_what_was_not_flushed(tmp_path: Path, point: str, seconds: float) -> None:
    script = SCRIPT.format(support=str(Path(__file__).parents[1] / "support"), base=str(tmp_path), seconds=seconds)
    killed = subprocess.run([sys.executable, "-c", script], env=os.environ | {"VOXELFLOW_KILL_AT": point}, check=False)
    assert killed.returncode == -9
    there = [p for p in (tmp_path / "make").rglob("*.npy") if not p.name.startswith(".")]
    assert 10 < len(there) < 60
    assert all(np.load(p).shape == SHAPE for p in there)
    times = {p: p.stat().st_mtime_ns for p in there}
    files = make(tmp_path, 60)
    assert contents(files) == contents(make(tmp_path / "undisturbed", 60))
    again = sum(p.stat().st_mtime_ns != ns for p, ns in times.items())
    assert again == len(there) if seconds else again <= 1
    assert sorted(os.listdir(files.uri)) == sorted([*contents(files), "labels.csv"])


def preview(**params: Any) -> tuple[Any, list[str]]:
    assert synthetic_volumes.preview_hook is not None
    defaults = {p.name: p.default for p in synthetic_volumes.parameters}
    look = CheckContext(params=defaults | params)
    return synthetic_volumes.preview_hook(look), [d.code for d in look.problems]


def test_the_preview_is_what_comes_out(tmp_path: Path) -> None:
    files = make(tmp_path, 12, classes=3, dtype="int16")
    seen, problems = preview(count=12, shape=SHAPE, classes=3, dtype="int16")
    assert problems == []
    assert (seen.count, seen.bytes, seen.spec) == (files.count, files.bytes, files.spec)
    assert seen.labelled == 12


def test_problems_are_reported_beforehand() -> None:
    assert preview(shape=(30,))[1] == ["VF421"]
    assert preview(count=3, classes=4)[1] == ["VF422"]
