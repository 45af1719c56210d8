"""Results of `voxelflow bench` with given rates, and Hypothesis strategies of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from engine.bench.result import BenchData, BenchResult, BenchRow, Configuration, Curves
from engine.environment import Machine

SHAPE = (30, 30, 10, 10)
MACHINE = Machine(processor="Some <CPU>", cores=4, memory_bytes=16 * 10**9)


def row(rate: float, *, waiting: float = 0.0, steps: int = 4, curves: Curves | None = None, **case: Any) -> BenchRow:
    """A row of so many volumes a second, `waiting` of whose time is waiting. `case` are fields of its configuration."""
    configuration = Configuration(**{"depth": 18, "shape": SHAPE, "dtype": "float32", "batch_size": 32, **case})
    total = configuration.batch_size * steps / rate
    return BenchRow(
        configuration=configuration,
        outcome="measured",
        steps=steps,
        warmup=2,
        waiting_s=waiting * total,
        computing_s=(1 - waiting) * total,
        step_s=(total / steps,) * steps,
        processor_s=2 * total,
        memory_bytes=2 * 10**9,
        curves=curves or Curves(),
    )


def runs(synthetic: float, cached: float, cold: float, loader: str = "arrow", **case: Any) -> list[BenchRow]:
    """The three runs of a configuration; the share of waiting is what is lost."""
    loaded = {"loader": loader, "storage": "local", **case}
    return [
        row(synthetic, **case),
        row(cached, waiting=max(0.0, 1 - cached / synthetic), input="cached", **loaded),
        row(cold, waiting=max(0.0, 1 - cold / synthetic), input="cold", **loaded),
    ]


def result(
    name: str, *rows: BenchRow, price: float | None = None, measured_at: float = 1e9, **more: Any
) -> BenchResult:
    values = {"machine": MACHINE, "cores": 4, "currency": "USD" if price is not None else "", **more}
    return BenchResult(
        name=name,
        measured_at=measured_at,
        seconds=60.0,
        price_per_hour=price,
        data=BenchData(volumes=256, bytes=256 * 360_000),
        rows=rows,
        **values,
    )


_NAMES = st.text("abc<&é@.-", min_size=1, max_size=8)
_RATES = st.floats(0.01, 1e5)
_CURVES = st.builds(
    lambda values: Curves(
        seconds=tuple(0.5 * (at + 1) for at in range(len(values))),
        values={"cpu_utilization_percentage": tuple(values), "swap_in_megabytes_per_second": tuple(values)},
    ),
    st.lists(st.none() | st.floats(0, 100), max_size=5),
)
ROWS = st.builds(
    lambda rate, waiting, kind, batch, workers, curves: row(
        rate,
        waiting=waiting,
        curves=curves,
        batch_size=batch,
        workers=workers,
        input=kind,
        loader="" if kind == "synthetic" else "arrow",
        storage="" if kind == "synthetic" else "local",
    ),
    _RATES,
    st.floats(0, 1),
    st.sampled_from(["synthetic", "cached", "cold"]),
    st.sampled_from([1, 8, 32]),
    st.sampled_from([1, 2]),
    _CURVES,
) | st.builds(
    lambda outcome, note: row(1.0).model_copy(
        update={"outcome": outcome, "note": note, "steps": 0, "computing_s": 0.0}
    ),
    st.sampled_from(["out of memory", "not possible", "not tried"]),
    _NAMES,
)
RESULTS = st.builds(
    lambda name, rows, price, at: result(name, *rows, price=price, measured_at=at),
    _NAMES,
    st.lists(ROWS, max_size=6),
    st.none() | st.just(0.0) | st.floats(1e-6, 100),  # no price has so few digits that halves are lost
    st.floats(0, 4e9),
)
