"""Each step against NumPy and SciPy, and what chains of them keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from nodes.transforms.parameters import TransformParameters
from nodes.transforms.steps import (
    SPACING,
    Axes,
    Cast,
    Channels,
    Clip,
    ClipMeasured,
    ClipPercentiles,
    CropPad,
    Function,
    Normalise,
    Orient,
    Resample,
    Scale,
    Step,
    Unfit,
    apply_steps,
    describe,
    form_after,
    load_steps,
)
from nodes.transforms.steps import chain as chains

DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"]
lengths = st.integers(1, 7)
shapes = st.tuples(lengths, lengths, lengths) | st.tuples(lengths, lengths, lengths, st.integers(1, 3))


@st.composite
def volumes(draw: Any, dtypes: list[str] = DTYPES) -> np.ndarray[Any, Any]:
    shape, dtype = draw(shapes), draw(st.sampled_from(dtypes))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if np.dtype(dtype).kind == "f":
        return (random.normal(size=shape) * 50).astype(dtype)
    ends = np.iinfo(dtype)
    return random.integers(max(ends.min, -10_000), min(ends.max, 10_000), shape, dtype, endpoint=True)


def applied(step: Step, volume: np.ndarray[Any, Any], row: dict[str, Any] | None = None) -> np.ndarray[Any, Any]:
    """What a step makes, which is as its form said, of an array that stays as it was."""
    before = volume.copy()
    out, _ = apply_steps([step], volume, row)
    assert np.array_equal(volume, before, equal_nan=volume.dtype.kind == "f")
    assert form_after([step], volume.shape, volume.dtype.name, row) in (None, (out.shape, out.dtype.name))
    assert out.flags.c_contiguous
    return out


@given(volumes(["float32", "float64"]), st.tuples(lengths, lengths, lengths))
def test_a_shape_is_resampled_as_scipy_zooms(volume: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    zoom = [n / m for n, m in zip(shape, volume.shape, strict=False)] + [1] * (volume.ndim - 3)
    wanted = ndimage.zoom(volume.astype(np.float64), zoom, order=1, mode="nearest", grid_mode=True)
    assert np.allclose(applied(Resample(shape=shape), volume), wanted, atol=1e-3)


spacings = st.tuples(*[st.sampled_from([0.5, 0.7, 1.0, 1.3, 2.0, 3.1])] * 3)


@given(volumes(["float64"]), spacings, spacings)
def test_a_spacing_is_resampled_about_the_middle(
    volume: np.ndarray[Any, Any], old: tuple[float, ...], new: tuple[float, ...]
) -> None:
    row = dict(zip(("spacing_x", "spacing_y", "spacing_z"), old, strict=True))
    out = applied(Resample(spacing=new), volume, row)
    ratio = np.array([b / a for a, b in zip(old, new, strict=True)] + [1.0] * (volume.ndim - 3))
    middle = (np.array(volume.shape) - 1) / 2 - (np.array(out.shape) - 1) / 2 * ratio
    wanted = ndimage.affine_transform(volume, ratio, middle, out.shape, order=1, mode="nearest")
    assert np.allclose(out, wanted, atol=1e-6)
    assert out.shape[:3] == tuple(
        max(1, int(np.floor(n / r + 0.5))) for n, r in zip(volume.shape[:3], ratio, strict=False)
    )


@given(volumes(), st.tuples(lengths, lengths, lengths))
def test_nearest_takes_values_that_are_there(volume: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    out = applied(Resample(shape=shape, linear=False), volume)
    assert out.dtype == volume.dtype
    assert np.isin(out, volume).all()


@given(volumes(["uint8", "int16", "int32"]), st.tuples(lengths, lengths, lengths))
def test_whole_numbers_are_rounded_and_stay_between_their_neighbours(
    volume: np.ndarray[Any, Any], shape: tuple[int, ...]
) -> None:
    out = applied(Resample(shape=shape), volume)
    exact = applied(Resample(shape=shape), volume.astype(np.float64))
    assert out.dtype == volume.dtype
    assert np.abs(out - exact).max() <= 0.51
    assert volume.min() <= out.min()
    assert out.max() <= volume.max()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint32", "int64", "uint64"])
def test_the_ends_of_a_type_are_resampled_to_themselves(dtype: str) -> None:
    """Of 64 bits too, although the largest number is no float64."""
    ends = np.iinfo(dtype)
    for value in (ends.min, ends.max):
        volume = np.full((4, 4, 4), value, dtype)
        assert (applied(Resample(shape=(8, 8, 8)), volume) == volume[0, 0, 0]).all()


@given(volumes(), st.tuples(*[st.integers(0, 9)] * 3), st.booleans(), st.booleans())
def test_cropping_and_padding(volume: np.ndarray[Any, Any], size: tuple[int, ...], centre: bool, edge: bool) -> None:
    out = applied(CropPad(size, centre, edge, 7.0), volume)
    wanted = volume
    for axis, length in enumerate(size):
        n = wanted.shape[axis]
        if length and length < n:
            start = (n - length) // 2 if centre else 0
            wanted = wanted.take(range(start, start + length), axis)
        elif length > n:
            before = (length - n) // 2 if centre else 0
            widths = [(0, 0)] * wanted.ndim
            widths[axis] = (before, length - n - before)
            wanted = np.pad(wanted, widths, **({"mode": "edge"} if edge else {"constant_values": 7}))
    assert np.array_equal(out, wanted)


@given(volumes(), st.sampled_from([(1.0, 99.0), (0.0, 90.0), (20.0, 100.0)]), st.booleans())
def test_clipping_at_percentiles(volume: np.ndarray[Any, Any], ends: tuple[float, float], by_channel: bool) -> None:
    out = applied(ClipPercentiles(*ends, by_channel), volume)
    assert out.dtype == volume.dtype
    axes = (0, 1, 2) if by_channel and volume.ndim == 4 else None
    low, high = np.percentile(volume.astype(np.float64), ends, axes, keepdims=True)
    if volume.dtype.kind in "iu":
        low, high = np.rint(low), np.rint(high)
    wanted = np.clip(volume.astype(np.float64), low, high).astype(volume.dtype)
    assert np.array_equal(out, wanted)
    assert (ends[0] > 0) or out.min() == volume.min()


def test_what_is_not_finite_does_not_move_the_percentiles() -> None:
    volume = np.arange(101, dtype=np.float32).reshape(101, 1, 1)
    volume[0], volume[100] = np.nan, np.inf
    out = applied(ClipPercentiles(10.0, 90.0), volume)
    low, high = np.percentile(np.arange(1, 100), (10, 90)).astype(np.float32)
    assert np.isnan(out[0, 0, 0])
    assert (np.nanmin(out), np.nanmax(out)) == (low, high)
    with pytest.raises(Unfit, match="has no finite value"):
        applied(ClipPercentiles(10.0, 90.0), np.full((2, 2, 2), np.nan, np.float32))


def test_measured_limits_beyond_the_type_are_its_ends() -> None:
    step = ClipMeasured("percentiles", offsets=((-300.4,),), spreads=((500.0,),))
    volume = np.array([[[-128, 127, 5]]], np.int8)
    assert applied(step, volume).tolist() == volume.tolist()
    assert applied(step, volume.astype(np.int16) * 3).tolist() == [[[-300, 200, 15]]]


@given(volumes(), st.floats(-200, 200) | st.none(), st.floats(-200, 200) | st.none())
def test_clipping_keeps_the_dtype(volume: np.ndarray[Any, Any], low: float | None, high: float | None) -> None:
    if low is not None and high is not None and np.ceil(low) > np.floor(high):
        high = low + 1.5
    out = applied(Clip(low, high), volume)
    assert out.dtype == volume.dtype
    exact = volume.astype(np.float64)
    inside = (exact >= (-np.inf if low is None else low)) & (exact <= (np.inf if high is None else high))
    assert np.array_equal(out[inside], volume[inside])
    slack = 1e-3 * (abs(low or 0) + abs(high or 0)) if volume.dtype.kind == "f" else 0
    ends = np.iinfo(volume.dtype) if volume.dtype.kind in "iu" else None
    if low is not None and (ends is None or low <= ends.max):
        assert out.min() >= low - slack
    if high is not None and (ends is None or high >= ends.min):
        assert out.max() <= high + slack


@given(volumes(), st.sampled_from(["z-score", "min-max", "percentiles"]), st.booleans())
def test_normalising(volume: np.ndarray[Any, Any], kind: str, by_channel: bool) -> None:
    out = applied(Normalise(kind, by_channel, 5.0, 90.0), volume)
    assert out.dtype == (np.float64 if volume.dtype == np.float64 else np.float32)
    pairs = [(volume, out)]
    if by_channel and volume.ndim == 4:
        pairs = [(volume[..., c], out[..., c]) for c in range(volume.shape[3])]
    for before, after in pairs:
        values = before.astype(np.float64)
        if values.min() == values.max():
            assert not after.any()
            continue
        low, high = (values.min(), values.max()) if kind == "min-max" else np.percentile(values, [5.0, 90.0])
        wanted = (values - values.mean()) / values.std() if kind == "z-score" else (values - low) / (high - low or 1)
        assert np.allclose(after, np.clip(wanted, 0, 1) if kind == "percentiles" else wanted, atol=1e-4)


def test_a_constant_volume_becomes_zero_and_no_noise() -> None:
    volume = np.full((5, 5, 5), np.float32(0.1))
    for kind in ("z-score", "min-max", "percentiles"):
        assert not applied(Normalise(kind), volume).any()


def test_values_that_are_not_finite_are_not_hidden() -> None:
    volume = np.zeros((2, 2, 2, 2), np.float32)
    volume[0, 0, 0, 1] = np.nan
    assert not np.isfinite(applied(Normalise("z-score"), volume)).any()
    by_channel = applied(Normalise("z-score", by_channel=True), volume)
    assert np.isfinite(by_channel[..., 0]).all()
    assert not np.isfinite(by_channel[..., 1]).any()


@pytest.mark.parametrize("kind", ["z-score", "min-max", "percentiles"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_one_infinity_makes_all_of_its_volume_not_finite(kind: str, value: float) -> None:
    """Also where it lies beyond the percentiles: what is not finite is found after the steps."""
    volume = np.random.default_rng(0).normal(size=(8, 8, 8, 2)).astype(np.float32)
    before = applied(Normalise(kind, by_channel=True), volume)
    volume[1, 2, 3, 1] = value
    assert not np.isfinite(applied(Normalise(kind), volume)).any()
    by_channel = applied(Normalise(kind, by_channel=True), volume)
    assert np.array_equal(by_channel[..., 0], before[..., 0])
    assert not np.isfinite(by_channel[..., 1]).any()


@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_an_infinity_stays_one_where_figures_were_measured_once(spread: float) -> None:
    volume = np.array([[[np.inf, -np.inf, np.nan, 3.0, 9.0]]], np.float32)
    for kind in ("z-score", "min-max", "percentiles"):
        out = applied(Scale(kind, offsets=((3.0,),), spreads=((spread,),)), volume)
        assert np.array_equal(out[0, 0, :3], [np.inf, -np.inf, np.nan], equal_nan=True)
        assert np.isfinite(out[0, 0, 3:]).all()


@given(volumes(), st.permutations("XYZ"))
def test_axes_are_reordered_and_channels_stay(volume: np.ndarray[Any, Any], order: list[str]) -> None:
    places = ["XYZC".index(letter) for letter in order] + [3] * (volume.ndim - 3)
    assert np.array_equal(applied(Axes("".join(order)), volume), volume.transpose(places))


def test_channels_are_chosen() -> None:
    volume = np.arange(24, dtype=np.int16).reshape(2, 2, 2, 3)
    assert np.array_equal(applied(Channels((2, 0)), volume), volume[..., [2, 0]])
    for step, said in ((Channels((3,)), "no channel 3"), (Channels((-1,)), "no channel -1")):
        with pytest.raises(Unfit, match=said):
            step.apply(volume, {})
    with pytest.raises(Unfit, match="without an axis of channels"):
        Channels((0,)).form((2, 2, 2), "int8", {})


@given(volumes(), st.sampled_from(DTYPES))
def test_a_cast_keeps_the_values_or_refuses(volume: np.ndarray[Any, Any], dtype: str) -> None:
    try:
        out = applied(Cast(dtype), volume)
    except Unfit:
        kind = np.dtype(dtype)
        limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
        values = np.rint(volume.astype(np.float64))
        assert ((values < float(limits.min)) | (values > float(limits.max))).any()
        return
    assert out.dtype == dtype
    if np.dtype(dtype).kind in "iu":
        assert np.array_equal(out.astype(np.float64), np.rint(volume.astype(np.float64)))


@pytest.mark.parametrize(
    ("value", "dtype", "made"),
    [
        (-0.5, "uint8", 0), (255.4, "uint8", 255), (255.6, "uint8", None), (-0.6, "uint8", None), (2.5, "int8", 2),
        (float("nan"), "int16", None), (float("inf"), "int64", None), (2.0**63, "int64", None), (1e39, "float32", None),
        (70000.0, "float16", None),
    ],
)  # fmt: skip
def test_the_ends_of_a_cast(value: float, dtype: str, made: float | None) -> None:
    volume = np.full((1, 1, 1), value)
    if made is None:
        with pytest.raises(Unfit, match="does not hold"):
            Cast(dtype).apply(volume, {})
    else:
        assert Cast(dtype).apply(volume, {}).item() == made


def test_a_fill_value_that_the_dtype_lacks_is_refused() -> None:
    for value in (0.5, -1.0, 300.0):
        with pytest.raises(Unfit, match="fill with"):
            CropPad((3, 3, 3), value=value).form((2, 2, 2), "uint8", {})
    assert CropPad((1, 1, 1), value=0.5).form((2, 2, 2), "uint8", {})


steps = st.sampled_from(
    [
        Axes("ZYX"), Resample(shape=(4, 5, 3)), Resample(spacing=(1.5, 1.5, 1.5)), CropPad((5, 0, 4)),
        CropPad((6, 6, 6), False, True), Clip(-5, 90), Normalise("z-score"), Normalise("percentiles", True),
        Cast("float64"), Function("half.py", "def transform(volume, row):\n    return volume[::2] / 2\n"),
    ]
)  # fmt: skip


@given(volumes(["float32", "float64", "int16"]), st.lists(steps, max_size=3), st.lists(steps, max_size=3))
def test_two_chains_are_the_chain_of_both(volume: np.ndarray[Any, Any], one: list[Step], other: list[Step]) -> None:
    row = {"spacing_x": 1.0, "spacing_y": 2.0, "spacing_z": 0.7}
    if any(isinstance(step, Resample) and step.spacing for step in (*one, *other)) and any(
        isinstance(step, Function) for step in (*one, *other)
    ):
        return  # what a function does to the shape, nobody knows: the spacing is gone
    whole, _ = apply_steps([*one, *other], volume, row)
    half, matrix = apply_steps(one, volume, row)
    if matrix is None:
        return
    after = np.sqrt(((np.diag(list(row.values())) @ matrix[:3, :3]) ** 2).sum(axis=0)).tolist()
    again, _ = apply_steps(other, half, dict(zip(row, after, strict=True)))
    if not any(isinstance(step, Resample) and step.spacing for step in other):
        assert np.array_equal(whole, again)
        return
    # The spacing after the first chain is a rounded number.
    assert whole.shape == again.shape
    if not any(isinstance(step, Normalise) for step in (*one, *other)):  # of an even volume it enlarges any rounding
        np.testing.assert_allclose(again, whole, rtol=1e-5, atol=1e-5 * float(np.abs(volume).max(initial=1)))


@given(st.lists(steps, max_size=4))
def test_a_chain_survives_json(chain: list[Step]) -> None:
    import json

    assert list(load_steps(json.loads(json.dumps([step.as_json() for step in chain])))) == chain
    assert all(step.words() for step in chain)


def test_what_is_not_known_is_refused() -> None:
    for name, version in (("warp", 1), ("clip", 99)):
        with pytest.raises(Unfit, match="not known here"):
            load_steps([{"name": name, "version": version, "parameters": {}}])


def test_words() -> None:
    chain = [
        Resample(spacing=(1.0, 1.0, 1.0)), CropPad((64, 64, 0)), Clip(-100, 400), Normalise("z-score", True),
        Cast("int8"),
    ]  # fmt: skip
    assert describe(chain) == "resample 1 mm, crop 64x64x*, clip -100 to 400, z-score per channel, int8"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def transform(volume, row):\n    return volume.nothing\n", "mine.py, line 2: AttributeError"),
        ("def transform(volume, row:\n", "mine.py, line 1: SyntaxError"),
        ("x = 1\n", "has no function transform"),
        ("def transform(volume, row):\n    return 'no'\n", "no volume of numbers"),
        ("def transform(volume, row):\n    return None\n", "no volume of numbers"),
    ],
)
def test_a_function_that_fails_is_reported_with_its_line(source: str, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        apply_steps([Function("mine.py", source)], np.zeros((2, 2, 2)))


def test_a_function_may_change_its_array_and_sees_the_row() -> None:
    source = "def transform(volume, row):\n    volume += len(row['id'])\n    return volume\n"
    volume = np.zeros((2, 2, 2))
    assert applied(Function("mine.py", source), volume, {"id": "abc"}).max() == 3


def test_a_function_sees_where_the_voxels_lie_after_the_steps_before_it() -> None:
    """Affine and a survey's numbers as well as spacing and orientation; None for what cannot be known any more."""
    names = ["orientation", "spacing_x", "affine", "affine_space", "inline", "inline_step", "crossline", "time"]
    source = f"def transform(volume, row):\n    assert [row[n] for n in {names}] == {{}}, row\n    return volume\n"

    def sees(*values: Any) -> Function:
        return Function("sees.py", source.replace("{}", repr(list(values))))

    row = {
        "spacing_x": 1.0, "spacing_y": 2.0, "spacing_z": 3.0, "orientation": "RAS", "affine_space": "RAS mm",
        "affine": "1 0 0 5 0 2 0 6 0 0 3 7 0 0 0 1", "inline": 100, "inline_step": 2, "crossline": 5,
        "crossline_step": 1, "time": 0.0, "time_step": 4.0,
    }  # fmt: skip
    first = sees("RAS", 1.0, row["affine"], "RAS mm", 100, 2, 5, 0.0)
    chain = [
        first, Orient("LAS"), sees("LAS", 1.0, "-1 0 0 12 0 2 0 6 0 0 3 7 0 0 0 1", "RAS mm", None, None, 5, 0.0),
        CropPad((4, 4, 4)), sees("LAS", 1.0, "-1 0 0 10 0 2 0 10 0 0 3 13 0 0 0 1", "RAS mm", None, None, 7, 8.0),
        Resample(shape=(2, 2, 2)),
        sees("LAS", 2.0, "-2 0 0 9.5 0 4 0 11 0 0 6 14.5 0 0 0 1", "RAS mm", None, None, None, 10.0),
        Function("half.py", "def transform(volume, row):\n    return volume[::2]\n"), sees(*[None] * len(names)),
    ]  # fmt: skip
    apply_steps(chain, np.zeros((8, 8, 8)), row)
    # Turned back, everything is as it was; a column that is no survey's stays.
    apply_steps([Orient("LAS"), Orient("RAS"), first], np.zeros((8, 8, 8)), row)
    stays = Function("time.py", "def transform(volume, row):\n    assert row['time'] == 'noon'\n    return volume\n")
    apply_steps([CropPad((1, 1, 1)), stays], np.zeros((8, 8, 8)), {"time": "noon"})


def test_a_function_of_a_stored_chain_sees_what_it_saw() -> None:
    """With version 1: affine and a survey's numbers of before the chain, the rest of after the steps before it."""
    source = (
        "import numpy as np\n\n\ndef transform(volume, row):\n"
        "    return volume + float(row['affine'].split()[3]) + row['inline'] + 1000 * row['spacing_x']\n"
    )
    row = {"affine": "1 0 0 5 0 1 0 6 0 0 1 7", "inline": 100, "inline_step": 2} | dict.fromkeys(SPACING, 1.0)
    before = [
        {"name": "crop-pad", "version": 1, "parameters": {"size": [4, 4, 4]}},
        {"name": "resample", "version": 1, "parameters": {"shape": [2, 2, 2]}},
    ]
    # The first voxel lies 2.5 further then, in the middle of two that were cropped to.
    for version, value in ((1, 5 + 100 + 2000), (2, 7.5 + 105 + 2000)):
        function = {"name": "function", "version": version, "parameters": {"file": "f.py", "source": source}}
        chain = load_steps([*before, function])
        assert [step.as_json()["version"] for step in chain] == [1, 1, version]
        assert [*load_steps([step.as_json() for step in chain])] == [*chain]
        assert apply_steps(chain, np.zeros((8, 8, 8)), row)[0].max() == value
    (made,) = TransformParameters(function="f.py").chain(source)
    assert made.version == 2
    assert load_steps([made.model_dump()]) != load_steps([made.model_dump() | {"version": 1}])


def test_the_affine_is_moved_for_functions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take longer than the steps of a small volume."""
    moved: list[dict[str, Any]] = []
    monkeypatch.setattr(chains, "moved_place", lambda row, matrix: moved.append(row) or {})
    row = {"id": "a", "affine": "1 0 0 5 0 1 0 6 0 0 1 7", "orientation": "RAS"}
    chain = [Orient("LAS"), CropPad((4, 4, 4)), Clip(0, 1), Normalise("z-score"), Cast("float16")]
    apply_steps(chain, np.zeros((8, 8, 8)), row)
    form_after(chain, (8, 8, 8), "float32", row)
    assert moved == []
    apply_steps(
        [*chain, Function("same.py", "def transform(volume, row):\n    return volume\n")], np.zeros((8, 8, 8)), row
    )
    assert moved == [row | {"orientation": "LAS"}]


def test_affine_and_spacing_follow_the_voxels() -> None:
    """A voxel lies where it lay: the matrix of a chain leads from the new voxels to the old ones."""
    place = np.stack(np.meshgrid(*[np.arange(n) for n in (8, 7, 6)], indexing="ij"), axis=-1).astype(np.float64)
    chain = [Axes("ZYX"), Resample(shape=(6, 14, 4)), CropPad((4, 9, 4))]
    out, matrix = apply_steps(chain, place)
    assert matrix is not None
    middle = np.array([2, 5, 1])
    assert np.allclose(out[tuple(middle)], (matrix @ [*middle, 1])[:3])
