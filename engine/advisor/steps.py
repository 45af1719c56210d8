"""How long a training step computes: a law of five terms, fitted to the rows of a benchmark.

    seconds = layers x a + parameters x b + batch x (parameters x c + multiply-adds x d + values x e)

`a` is what each layer costs whatever it computes (the framework's own work, launching kernels); `b` the optimizer and
the gradients, whose size is that of the weights; `c` what each volume takes to pass all weights, which is most of the
work where only some voxels are left of it; `d` the convolutions; `e` what is limited by memory, batch norm and ReLU.
The first two do not grow with the batch: so a small batch is inefficient, and how much is what the fit says.

Workers share cores and batch. Each of them has its own share of both, so the terms of the batch stay as they are, and
for each further worker there is an exchange: of each layer's gradients (a constant), and of their bytes.

A few rows do not tell five coefficients apart. So the fit is drawn to what the reference machine needs for each term,
all multiplied by the one factor that fits the rows best; the more the rows say, the less that counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from engine.declare.workload import Network


class Terms(NamedTuple):
    """A number for each term of the law: how much of it a step has, or the seconds that one of it takes."""

    layers: float
    parameters: float
    weights: float
    """Parameters times volumes."""
    multiply_adds: float
    values: float

    def times(self, others: Terms) -> float:
        """The sum of the products: seconds, where one of the two counts and the other has the seconds of each."""
        return sum(a * b for a, b in zip(self, others, strict=True))


CPU = Terms(4.0e-4, 9.6e-9, 1.8e-10, 3.7e-11, 6.8e-9)
"""Seconds for each on one core of the reference machine, an x86 server core with AVX-512:
`python -m benchmarks advisor` prints them for this one."""
_EXCHANGE = (4e-3, 6e-9)
"""Of the reference, for each further worker on the machine: seconds a layer, whose gradients are an exchange of their
own, and a parameter."""
_TRUST = 0.02
"""How strongly a coefficient is drawn to the reference, beside the rows' squared relative errors."""
_STRAIGHT = 0.1
"""A relative error beyond this counts less than its square: a shared machine gives outliers."""
_ROUNDS = 12
UNTRIED_SPREAD = 0.30
"""Relative error (one deviation) of a prediction whose depth, shape or width was never measured on the machine: that of
the reference's proportions between machines."""


@dataclass(frozen=True)
class MeasuredStep:
    """A configuration that was measured: a step of `seconds` that computes and does not wait, on all the cores.

    `scatter` is the relative deviation of that figure, from its repeats.
    """

    network: Network
    batch_size: int
    seconds: float
    workers: int = 1
    scatter: float = 0.0


@dataclass(frozen=True)
class StepModel:
    """The law with its coefficients. `spread` is the relative error (one deviation) of what was predicted from the
    other rows; `networks` were measured, `exchange_measured` says whether several workers were."""

    seconds: Terms
    exchange: tuple[float, float]
    spread: float
    networks: tuple[Network, ...] = ()
    exchange_measured: bool = False
    rows: int = 0

    def step(self, network: Network, batch_size: int, workers: int = 1) -> float:
        """Seconds that a step of `batch_size` volumes, shared by the workers, computes."""
        alone = terms(network, batch_size).times(self.seconds)
        layer, parameter = self.exchange
        return alone + (workers - 1) * (network.layers * layer + network.parameters * parameter)

    def volume(self, network: Network) -> float:
        """Seconds that a further volume in the batch takes."""
        return terms(network, 1).times(self.seconds._replace(layers=0.0, parameters=0.0))

    def error(self, network: Network, workers: int = 1) -> float:
        """Relative error (one deviation) of `step`, wider for what was never measured."""
        out = self.spread
        if network not in self.networks and len(self.networks) < 2:
            # Rows of one network say nothing of how the terms divide its time.
            out = math.hypot(out, UNTRIED_SPREAD)
        if workers > 1 and not self.exchange_measured:
            out = math.hypot(out, UNTRIED_SPREAD)
        return out

    def scaled(self, by: Terms) -> StepModel:
        """The law of a machine on which each term takes so many times as long."""
        seconds = Terms(*(a * b for a, b in zip(self.seconds, by, strict=True)))
        return replace(self, seconds=seconds, exchange_measured=False)


def terms(network: Network, batch_size: int) -> Terms:
    """How much of each term a step of one worker has."""
    return Terms(
        network.layers,
        network.parameters,
        batch_size * network.parameters,
        batch_size * network.multiply_adds,
        batch_size * network.values,
    )


def fit(rows: Sequence[MeasuredStep], reference: Terms) -> StepModel:
    """The law that fits the rows; `reference` are the seconds of a machine of this kind, in the right proportions.

    The spread is that of each row predicted from the others, and of their repeats. Without rows of one worker, those
    of several are taken as they are. Raises `ValueError` without any rows.
    """
    alone = [row for row in rows if row.workers == 1] or list(rows)
    if not alone:
        raise ValueError("nothing was measured")
    seconds = _fit(alone, reference)
    networks = tuple(dict.fromkeys(row.network for row in alone))
    together = [row for row in rows if row.workers > 1]
    model = StepModel(seconds, _exchange(together, seconds), 0.0, networks, bool(together), len(rows))
    return replace(model, spread=_spread(alone, together, model, reference))


def _fit(rows: Sequence[MeasuredStep], reference: Terms) -> Terms:
    scale = median(row.seconds / terms(row.network, row.batch_size).times(reference) for row in rows)
    # In units of the scaled reference, so that every coefficient is about 1.
    design = [
        [amount * each * scale / row.seconds for amount, each in zip(terms(row.network, row.batch_size), reference)]  # noqa: B905
        for row in rows
    ]
    weights = [1.0] * len(rows)
    found: list[float] = []
    for _ in range(_ROUNDS):
        found = _non_negative(design, weights)
        errors = [abs(sum(a * x for a, x in zip(line, found, strict=True)) - 1) for line in design]
        before, weights = weights, [min(1.0, _STRAIGHT / error) if error else 1.0 for error in errors]
        if all(abs(a - b) < 1e-3 for a, b in zip(before, weights, strict=True)):
            break
    return Terms(*(x * each * scale for x, each in zip(found, reference, strict=True)))


def _non_negative(design: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """The x >= 0 that makes the weighted squares of `design x - 1` and those of `x - 1`, by their trust, least."""
    count = len(design[0])
    left = [
        [sum(w * line[i] * line[j] for w, line in zip(weights, design, strict=True)) for j in range(count)]
        for i in range(count)
    ]
    right = [sum(w * line[i] for w, line in zip(weights, design, strict=True)) + _TRUST for i in range(count)]
    for i in range(count):
        left[i][i] += _TRUST
    used = list(range(count))
    while used:
        found = _solved([[left[i][j] for j in used] for i in used], [right[i] for i in used])
        least = min(range(len(used)), key=found.__getitem__)
        if found[least] >= 0:
            return [found[used.index(i)] if i in used else 0.0 for i in range(count)]
        # A term that would take less than no time takes none.
        del used[least]
    return [0.0] * count


def _solved(left: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a few equations whose matrix is symmetric and positive definite."""
    count = len(right)
    rows = [[*line, value] for line, value in zip(left, right, strict=True)]
    for i in range(count):
        for j in range(i + 1, count):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    out = [0.0] * count
    for i in reversed(range(count)):
        out[i] = (rows[i][count] - sum(rows[i][j] * out[j] for j in range(i + 1, count))) / rows[i][i]
    return out


def _exchange(rows: Iterable[MeasuredStep], seconds: Terms) -> tuple[float, float]:
    """What a further worker costs: the reference's proportions, multiplied by what fits the rows best."""
    factors = []
    for row in rows:
        expected = row.network.layers * _EXCHANGE[0] + row.network.parameters * _EXCHANGE[1]
        more = row.seconds - terms(row.network, row.batch_size).times(seconds)
        factors.append(max(0.0, more) / expected / (row.workers - 1))
    factor = median(factors) if factors else 1.0
    return (_EXCHANGE[0] * factor, _EXCHANGE[1] * factor)


def _spread(
    alone: Sequence[MeasuredStep], together: Sequence[MeasuredStep], model: StepModel, reference: Terms
) -> float:
    """The relative deviation of rows from what the others predict, with that of their repeats."""
    repeats = median(row.scatter for row in (*alone, *together))
    squares = []
    for place, row in enumerate(alone):
        others = [*alone[:place], *alone[place + 1 :]]
        if others:
            expected = terms(row.network, row.batch_size).times(_fit(others, reference))
            squares.append(math.log(row.seconds / expected) ** 2)
    for row in together:
        expected = model.step(row.network, row.batch_size, row.workers)
        squares.append(math.log(row.seconds / expected) ** 2)
    # One row cannot be compared with anything: then all that is known is how the reference does elsewhere.
    apart = math.sqrt(sum(squares) / len(squares)) if squares else UNTRIED_SPREAD
    return math.hypot(apart, repeats)
