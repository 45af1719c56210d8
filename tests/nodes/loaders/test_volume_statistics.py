"""Figures that are measured once, over all volumes or those of each source."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from npy_folders import context

from engine.declare.context import TaskContext
from engine.errors import Cancelled, DataError
from nodes.conversion.quarantine import Refused
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.loaders import volume_statistics
from nodes.loaders.measured_volumes import MeasuredVolumes
from nodes.loaders.value_statistics import Statistics
from nodes.loaders.volume_statistics import Pass, measured, statistics_key
from nodes.transforms.parameters import transform_of
from nodes.transforms.steps import Clip, ClipMeasured, Normalise, Scale, Step, Unfit, load_steps, source_of

Volumes = dict[str, np.ndarray[Any, Any]]


class InMemory:
    """Volumes by name, as `WholeVolumes` gives them."""

    columns = pa.schema([])

    def __init__(self, volumes: Volumes) -> None:
        self.volumes, self.reads = volumes, list[str]()

    def expect(self, files: Any) -> None: ...

    def header(self, path: str) -> Any:
        return (self.volumes[path].shape, self.volumes[path].dtype.name), {}

    def read(self, path: str, stamp: Any) -> Any:
        self.reads.append(path)
        if path.startswith("broken"):
            raise Refused("unreadable", "is cut short")
        return self.volumes[path], {}


def listing(volumes: Volumes) -> pa.Table:
    names = list(volumes)
    return pa.table({"path": names, "size": [1] * len(names), "mtime_ns": [2] * len(names)})


def of(volumes: Volumes, ctx: TaskContext, **values: Any) -> Scale:
    return measured(Scale(**values), TransformedVolumes(InMemory(volumes), ()), listing(volumes), ctx)


def patches(seed: int = 0, channels: int = 2) -> Volumes:
    """Patches of two surveys of very different amplitudes, in mixed order."""
    random = np.random.default_rng(seed)
    return {
        f"{source}/x{number:05d}-y00000-z00000": (
            random.normal(mean, width, (5, 4, 3, channels)) * [1, 10][:channels]
        ).astype(np.float32)
        for number in range(12)
        for source, mean, width in (("south", -500.0, 90.0), ("a/north", 3.0, 0.5))
    }


def whole(volumes: Volumes, source: str = "") -> np.ndarray[Any, Any]:
    """All volumes of a source as one."""
    return np.stack([volume for name, volume in volumes.items() if not source or source_of(name) == source], axis=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["z-score", "min-max", "percentiles"])
@pytest.mark.parametrize("by_channel", [False, True])
def test_a_source_is_normalised_as_if_it_were_one_volume(tmp_path: Path, kind: str, by_channel: bool) -> None:
    volumes = patches()
    step = of(
        volumes, context(tmp_path, "measure"), kind=kind, by_channel=by_channel, by_source=True, low=2.0, high=98.0
    )
    assert step.sources == ("a/north", "south")
    for source in step.sources:
        together = whole(volumes, source)
        as_one = Normalise(kind, by_channel, 2.0, 98.0).apply(together.reshape(5, 4, -1, 2), {})
        for place, name in enumerate(name for name in volumes if source_of(name) == source):
            found = step.apply(volumes[name], {"id": name})
            wanted = as_one.reshape(together.shape)[:, :, :, place]
            assert found.dtype == np.float32
            assert np.allclose(found, wanted, atol=2e-3 if kind == "percentiles" else 1e-5)


def test_all_volumes_are_normalised_alike(tmp_path: Path) -> None:
    volumes = patches()
    step = of(volumes, context(tmp_path, "measure"), kind="z-score")
    together = whole(volumes).astype(np.float64)
    assert step.offsets == ((pytest.approx(together.mean()),),)
    assert step.spreads == ((pytest.approx(together.std()),),)
    # Also volumes of other sources.
    assert np.allclose(
        step.apply(together[..., 0, :], {"id": "new"}), (together[..., 0, :] - together.mean()) / together.std()
    )


def test_it_is_read_from_a_chain_again(tmp_path: Path) -> None:
    step = of(patches(), context(tmp_path, "measure"), kind="percentiles", by_channel=True, by_source=True)
    assert load_steps([json.loads(json.dumps(step.as_json()))]) == (step,)


def test_a_source_that_was_not_measured_is_refused_by_name(tmp_path: Path) -> None:
    volumes = patches()
    step = of(volumes, context(tmp_path, "measure"), kind="min-max", by_source=True)
    with pytest.raises(Unfit, match=r"source east, of which nothing was measured \(of a/north, south it was\)"):
        step.apply(volumes["south/x00001-y00000-z00000"], {"id": "east/x00001-y00000-z00000"})
    by_channel = of(volumes, context(tmp_path / "2", "measure"), kind="min-max", by_channel=True)
    with pytest.raises(Unfit, match="has 1 channel, and of 2 there are figures"):
        by_channel.apply(np.zeros((5, 4, 3)), {"id": "x"})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
@given(data=st.data())
def test_percentiles_are_those_of_numpy(dtype: str, data: st.DataObject) -> None:
    kind = np.dtype(dtype)
    ends = (-4000, 4000) if dtype != "uint8" else (0, 255)
    elements: Any = (
        st.integers(*ends) if kind.kind in "iu" else st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
    )
    values = data.draw(arrays(kind, st.integers(1, 200), elements=elements))
    percent = data.draw(st.floats(0, 100))
    found = Statistics(1, counting=True, whole=kind.kind in "iu")
    for part in np.array_split(values, 3):
        found.add(part.reshape(-1, 1))
    wanted = np.percentile(values.astype(np.float64), percent)
    # Two values between which it lies may each be off by the width of a range.
    near = np.abs(values.astype(np.float64)).max() if kind.kind == "f" else 0
    assert found.percentile(percent)[0] == pytest.approx(wanted, rel=1e-9, abs=5e-4 * near + 1e-38)
    assert (found.least[0], found.most[0]) == (values.min(), values.max())
    assert (found.percentile(0)[0], found.percentile(100)[0]) == (values.min(), values.max())
    assert found.mean[0] == pytest.approx(values.astype(np.float64).mean(), rel=1e-9, abs=1e-9 * near + 1e-9)


def test_a_percentile_is_near_wherever_most_values_are() -> None:
    """Relative to the value itself, not to the largest one."""
    values = np.concatenate([np.random.default_rng(0).normal(5, 1, 20_000), [1e12]]).astype(np.float32)
    found = Statistics(1, counting=True)
    found.add(values.reshape(-1, 1))
    for percent in (1, 25, 50, 99, 99.9):
        assert found.percentile(percent)[0] == pytest.approx(np.percentile(values, percent), rel=5e-4)


def far_from_zero(kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values that lie close together beside how large they are, some of them beside a value far away."""
    noise = random.normal(size=(12, 10, 8))
    return {
        "float32": lambda: (48_008 + 2 * noise).astype(np.float32),
        "int32": lambda: (48_008 + 50 * noise).astype(np.int32),
        "float16": lambda: (2_000 + 4 * noise).astype(np.float16),
        "float64": lambda: 1e9 + 0.01 * noise,
        "int64": lambda: (1 << 62) + (1e6 * noise).astype(np.int64),
        "uint64": lambda: np.uint64((1 << 64) - 1) - (1e6 * np.abs(noise)).astype(np.uint64),
        "null": lambda: np.where(random.random(noise.shape) < 0.002, 1e30, 1e6 + 2 * noise).astype(np.float32),
        "zeros": lambda: np.where(random.random(noise.shape) < 0.002, 0, 1e9 + 2 * noise),
    }[kind]()


@pytest.mark.parametrize("kind", ["float32", "int32", "float16", "float64", "int64", "uint64", "null", "zeros"])
def test_percentiles_far_from_zero_are_told_apart(tmp_path: Path, kind: str) -> None:
    """To a small part of how far apart they are, by another pass over the volumes."""
    random = np.random.default_rng(0)
    source = InMemory({f"v{number}": far_from_zero(kind, random) for number in range(4)})
    files, values = listing(source.volumes), np.stack([*source.volumes.values()]).astype(np.float64)
    for number, step in enumerate((Scale("percentiles"), ClipMeasured("percentiles", low=5.0, high=95.0))):
        source.reads.clear()
        found = measured(step, TransformedVolumes(source, ()), files, context(tmp_path / f"{number}", "measure"))
        low, high = np.percentile(values, (step.low, step.high))
        near = (high - low) / 500
        (offset,), (spread,) = found.offsets[0], found.spreads[0]
        assert (offset, offset + spread) == (pytest.approx(low, abs=near), pytest.approx(high, abs=near))
        assert source.reads == [*source.volumes] * 2


@pytest.mark.parametrize("kind", ["float32", "int32", "float64", "null"])
@pytest.mark.parametrize("by_source", [False, True])
def test_the_least_and_the_largest_value_are_told_apart(tmp_path: Path, kind: str, by_source: bool) -> None:
    """By one pass, however close together they lie."""
    random = np.random.default_rng(0)
    source = InMemory({f"v{number}": far_from_zero(kind, random) for number in range(4)})
    files, steps = listing(source.volumes), []
    for scale in (
        Scale("percentiles", by_source=by_source, low=0.0, high=100.0),
        Scale("min-max", by_source=by_source),
    ):
        source.reads.clear()
        steps.append(measured(scale, TransformedVolumes(source, ()), files, context(tmp_path / scale.kind, "measure")))
        assert source.reads == [*source.volumes]
    assert (steps[0].offsets, steps[0].spreads) == (steps[1].offsets, steps[1].spreads)


@pytest.mark.parametrize(
    ("background", "dtype", "readings"),
    [
        (0.0, "float32", 1), (-999.25, "float32", 2), (40_000.0, "float32", 2),  # the least or the largest value
        (14_500.25, "float32", 2), (14_500.3, "float64", 2), (12_000, "float16", 2), (1_234, "int16", 1),
        (14_501, "int16", 2), (15_003, "uint16", 2), (-8_000_001, "int32", 2), (8_000_003, "uint32", 2),
    ],
)  # fmt: skip
def test_equal_percentiles_of_a_background_are_equal(
    tmp_path: Path, background: float, dtype: str, readings: int
) -> None:
    """They need another pass at most, wherever between the other values they are."""
    volume = np.full((20, 20, 20), background, dtype)
    apart = 1000 if abs(background) < 1e6 else int(np.sign(background)) * 1_000_000
    volume[:2, 0, :15] = (np.arange(30).reshape(2, 15) * apart).astype(dtype)
    source = InMemory({"v": volume})
    step = measured(
        Scale("percentiles"), TransformedVolumes(source, ()), listing(source.volumes), context(tmp_path, "measure")
    )
    near = max(1e-9, float(np.spacing(np.float32(background))) if volume.dtype.kind == "f" else 0)
    assert step.offsets == ((pytest.approx(background, abs=near),),)
    assert step.spreads == ((1.0,),)
    assert len(source.reads) == readings


def test_whole_numbers_far_from_zero_are_exact(tmp_path: Path) -> None:
    """The pass that subtracts an origin counts them as whole numbers, too, also one that was killed."""
    random = np.random.default_rng(0)
    volumes = {f"v{number}": (1_000_000 + 50 * random.normal(size=(12, 10, 8))).astype(np.int32) for number in range(4)}
    for volume in volumes.values():
        volume[0, 0, :2] = 0, 2_000_000
    ctx = context(tmp_path, "measure")
    with pytest.raises(Stopped):
        measured(Scale("percentiles"), TransformedVolumes(StopsAfter(volumes, 5), ()), listing(volumes), ctx)
    step = of(volumes, ctx, kind="percentiles")
    (offset,), (spread,) = step.offsets[0], step.spreads[0]
    low, high = np.percentile(np.stack([*volumes.values()]), (1, 99))
    assert (offset, offset + spread) == pytest.approx((low, high), abs=1e-6)


def test_figures_after_a_step_that_hid_infinities_are_measured_again() -> None:
    """What earlier versions kept of them is of other values; what was kept of others is used."""
    source, files = InMemory({}), listing({"v": np.zeros(1)})

    def keys(*chain: Step) -> set[str]:
        steps = [transform_of(step) for step in chain]
        return {statistics_key(Scale("z-score"), TransformedVolumes(source, steps), files)}

    def before(*chain: Step) -> set[str]:
        out = hashlib.blake2b(json.dumps([s.as_json() for s in (*chain, Scale("z-score"))]).encode(), digest_size=16)
        out.update(b"v\x001\x002\x00")
        return {out.hexdigest()}

    same = (Clip(0, 1), Normalise("z-score"), Scale("min-max"), Scale("z-score"), ClipMeasured("percentiles"))
    assert all(keys(step) == before(step) for step in same)
    assert keys() == before()
    other = (Normalise("min-max"), Normalise("percentiles"), Scale("percentiles"))
    assert not any(keys(*same, step, *same) == before(*same, step, *same) for step in other)


def test_only_the_sources_and_channels_that_need_it_are_measured_again(tmp_path: Path) -> None:
    volumes = patches()
    for name, volume in volumes.items():
        if name.startswith("south"):
            volume[..., 1] += 1e6
    for by_source in (True, False):
        source, values = InMemory(volumes), {"kind": "percentiles", "by_channel": True, "by_source": by_source}
        ctx = context(tmp_path / f"{by_source}", "measure")
        step = measured(Scale(**values), TransformedVolumes(source, ()), listing(volumes), ctx)
        again = sorted(name for name in volumes if name.startswith("south")) if by_source else []
        assert sorted(source.reads) == sorted([*volumes, *again])
        for place, name in enumerate(step.sources or [""]):
            together = whole(volumes, name).reshape(-1, 2)
            for channel in range(2):
                low, high = np.percentile(together[:, channel].astype(np.float64), (1, 99))
                found = step.offsets[place][channel], step.spreads[place][channel]
                assert found == pytest.approx((low, high - low), abs=(high - low) / 100)


def test_a_kill_between_two_passes_costs_nothing_of_the_first(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    volumes = {f"v{number}": far_from_zero("float32", random) for number in range(4)}
    undisturbed = of(volumes, context(tmp_path / "1", "measure"), kind="percentiles")
    ctx = context(tmp_path / "2", "measure")
    with pytest.raises(Stopped):
        measured(Scale("percentiles"), TransformedVolumes(StopsAfter(volumes, 5), ()), listing(volumes), ctx)
    last = InMemory(volumes)
    assert measured(Scale("percentiles"), TransformedVolumes(last, ()), listing(volumes), ctx) == undisturbed
    assert len(last.reads) == len(volumes)


def test_a_volume_that_is_left_out_twice_is_warned_of_once(tmp_path: Path) -> None:
    said: list[str] = []
    ctx = replace(context(tmp_path, "measure"), emit=lambda event: said.append(str(getattr(event, "text", ""))))
    random = np.random.default_rng(0)
    volumes = {f"{name}{number}": far_from_zero("float32", random) for number in range(2) for name in ("v", "broken")}
    of(volumes, ctx, kind="percentiles")
    assert [text.partition(":")[0] for text in said if text] == [
        "2 volumes could not be measured",
        "percentiles lie close together for values of their size",
    ]


@pytest.mark.parametrize("name", ["a", "z"])
def test_values_are_whole_numbers_only_where_those_of_every_volume_are(tmp_path: Path, name: str) -> None:
    """Whichever volume comes first, and also when other processes measured them."""
    random = np.random.default_rng(0)
    volumes = {f"m{number}": random.random((6, 5, 4)).astype(np.float32) for number in range(10)}
    volumes = dict(sorted((volumes | {name: random.integers(1, 6, (6, 5, 4)).astype(np.int16)}).items()))
    step = of(volumes, context(tmp_path, "measure"), kind="percentiles")
    low, high = np.percentile(np.stack([each.astype(np.float64) for each in volumes.values()]), (1, 99))
    assert step.offsets == ((pytest.approx(low, rel=1e-3),),)
    assert step.spreads == ((pytest.approx(high - low, rel=1e-3),),)
    scale, elsewhere, state = Scale(kind="percentiles"), MeasuredVolumes(), Pass(tmp_path / "pass", "")
    for each in volumes.values():
        elsewhere.add(each, scale)
    state.add_measured(elsewhere, iter(volumes), scale)
    state.finish("", scale)
    assert state.numbers[""] == (list(step.offsets[0]), list(step.spreads[0]))


def test_a_volume_that_is_left_out_does_not_say_that_values_are_not_whole(tmp_path: Path) -> None:
    volumes = {"a": np.arange(24, dtype=np.int16).reshape(4, 3, 2), "b": np.ones((2, 2, 2, 3), np.float32)}
    scale = {"kind": "percentiles", "by_channel": True}
    alone = of({"a": volumes["a"]}, context(tmp_path / "1", "measure"), **scale)
    assert of(volumes, context(tmp_path / "2", "measure"), **scale) == alone


def test_percentiles_that_an_earlier_version_kept_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = patches()
    source, files = TransformedVolumes(InMemory(volumes), ()), listing(volumes)
    keys = []
    for version in (1, 2):
        monkeypatch.setattr(volume_statistics, "_PERCENTILES", version)
        keys.append([statistics_key(Scale(kind=kind), source, files) for kind in ("percentiles", "z-score")])
    assert [one == other for one, other in zip(*keys, strict=True)] == [False, True]


def test_values_that_are_not_finite_are_not_counted(tmp_path: Path) -> None:
    volume = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    spoilt = volume.copy()
    spoilt[0, 0] = np.nan, np.inf
    clean = of({"a": volume.reshape(-1)[2:].reshape(11, 2, 1)}, context(tmp_path / "1", "measure"), kind="percentiles")
    found = of({"a": spoilt}, context(tmp_path / "2", "measure"), kind="percentiles")
    assert found == clean
    assert np.isnan(found.apply(spoilt, {})[0, 0, 0])


def test_equal_values_become_zero_and_a_few_others_stay(tmp_path: Path) -> None:
    flat = of({"a": np.full((3, 3, 3), 7, np.int16)}, context(tmp_path / "1", "measure"), kind="z-score")
    assert not flat.apply(np.full((3, 3, 3), 7, np.int16), {}).any()
    sparse = np.zeros((10, 10, 10), np.float32)
    sparse[0, 0, 0] = 0.5
    # Both percentiles are 0 and the values are not all equal: as Normalise does it.
    step = of({"a": sparse}, context(tmp_path / "2", "measure"), kind="percentiles")
    assert np.array_equal(step.apply(sparse, {}), Normalise("percentiles").apply(sparse, {}))


class Stopped(Exception):
    pass


class StopsAfter(InMemory):
    """Stops what reads it when it has given so many volumes."""

    def __init__(self, volumes: Volumes, stop: int) -> None:
        super().__init__(volumes)
        self.stop = stop

    def read(self, path: str, stamp: Any) -> Any:
        if len(self.reads) == self.stop:
            raise Stopped
        return super().read(path, stamp)


@pytest.mark.slow
def test_a_killed_pass_goes_on_and_gives_the_same_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = patches(3)
    values = {"kind": "percentiles", "by_channel": True, "by_source": True}
    undisturbed = of(volumes, context(tmp_path / "1", "measure"), **values)
    monkeypatch.setattr(volume_statistics, "_SAVE_VALUES", 300)  # three volumes
    ctx = context(tmp_path / "2", "measure")
    for stop in (5, 17):
        source = TransformedVolumes(StopsAfter(volumes, stop), ())
        with pytest.raises(Stopped):
            measured(Scale(**values), source, listing(volumes), ctx)
    last = InMemory(volumes)
    found = measured(Scale(**values), TransformedVolumes(last, ()), listing(volumes), ctx)
    assert found == undisturbed
    assert len(last.reads) < len(volumes) - 17


@pytest.mark.slow
def test_a_flipped_byte_of_what_is_known_so_far_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = dict(list(patches(5).items())[:6])
    step = Scale(kind="z-score", by_channel=True)
    undisturbed = of(volumes, context(tmp_path / "1", "measure"), kind="z-score", by_channel=True)
    said: list[str] = []
    ctx = replace(context(tmp_path / "2", "measure"), emit=lambda event: said.append(str(getattr(event, "text", ""))))
    with monkeypatch.context() as saves:
        saves.setattr(volume_statistics, "_SAVE_VALUES", 1)
        with pytest.raises(Stopped):
            measured(step, TransformedVolumes(StopsAfter(volumes, 4), ()), listing(volumes), ctx)
    (saved,) = ctx.scratch.iterdir()
    whole_file = saved.read_bytes()

    def go_on() -> int:
        """The number of volumes that were read, to the same result."""
        source = InMemory(volumes)
        assert measured(step, TransformedVolumes(source, ()), listing(volumes), ctx) == undisturbed
        return len(source.reads)

    assert (go_on(), said) == (2, [])
    for place in range(0, len(whole_file), 3):
        damaged = bytearray(whole_file)
        damaged[place] ^= 2
        saved.write_bytes(damaged)
        assert go_on() == 6, f"byte {place}"
        assert f"how far the measuring was cannot be read ({saved}: " in said.pop()
    saved.write_bytes(whole_file[:-20])
    assert go_on() == 6


@pytest.mark.slow
@pytest.mark.parametrize("by_source", [False, True])
def test_a_long_listing_is_not_held_as_python_objects(tmp_path: Path, by_source: bool) -> None:
    """All rows as tuples take 30 MB, a part of them 10."""
    count = 100_000
    paths = pa.array([f"source{row % 3}/x{row:06d}-y000000-z000000" for row in range(count)])
    stamps = pa.array(np.arange(count))
    long = pa.table({"path": paths, "size": stamps, "mtime_ns": stamps})
    source, step = StopsAfter({}, 0), Scale(kind="z-score", by_source=by_source)
    tracemalloc.start()
    try:
        with pytest.raises(Stopped):
            measured(step, TransformedVolumes(source, ()), long, context(tmp_path, "measure"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20, f"{most:,}"


def test_a_pass_over_other_volumes_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_statistics, "_SAVE_VALUES", 1)
    ctx = context(tmp_path, "measure")
    of(patches(1), ctx, kind="z-score")
    more = patches(1) | {"south/x00099-y00000-z00000": np.full((5, 4, 3, 2), 1e6, np.float32)}
    assert of(more, ctx, kind="z-score") == of(more, context(tmp_path / "2", "measure"), kind="z-score")


def test_what_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    said: list[str] = []
    ctx = replace(context(tmp_path, "measure"), emit=lambda event: said.append(str(getattr(event, "text", ""))))
    volumes = {"broken": np.zeros((2, 2, 2)), "fine": np.arange(8.0).reshape(2, 2, 2)}
    assert of(volumes, ctx, kind="min-max").spreads == ((7.0,),)
    assert "1 volume could not be measured: broken is cut short" in said
    with pytest.raises(DataError, match="the dataset has no finite value to measure"):
        of({"broken": volumes["broken"]}, context(tmp_path / "2", "measure"), kind="min-max")


def test_a_source_without_a_value_is_left_out_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_statistics, "_SAVE_VALUES", 1)
    said: list[str] = []
    ctx = replace(context(tmp_path, "measure"), emit=lambda event: said.append(str(getattr(event, "text", ""))))
    empty, fine = np.full((2, 2, 2), np.nan), np.arange(8.0).reshape(2, 2, 2)
    given = [("broken", fine), ("empty", empty), ("north", fine), ("south", empty), ("south", fine)]
    volumes = {f"{source}/x0000{i}-y00000-z00000": volume for i, (source, volume) in enumerate(given)}
    # The second time nothing is read.
    for _ in range(2):
        step = of(volumes, ctx, kind="min-max", by_source=True)
        assert (step.sources, step.spreads) == (("north", "south"), ((7.0,), (7.0,)))
        assert "2 sources left out, without a finite value to measure: broken, empty" in said
        said.clear()
    with pytest.raises(Unfit, match="of the source empty, of which nothing was measured"):
        step.apply(empty, {"id": next(name for name in volumes if name.startswith("empty"))})
    with pytest.raises(DataError, match="no source has a finite value to measure"):
        of({"empty/1": empty}, context(tmp_path / "2", "measure"), kind="min-max", by_source=True)


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    ctx = replace(context(tmp_path, "measure"), is_cancelled=lambda: True)
    with pytest.raises(Cancelled):
        of(patches(), ctx, kind="z-score")
