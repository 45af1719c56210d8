"""Trainings side by side, beside the whitepaper's figures: ratios, costs, and when a conversion has paid for itself.

The whitepaper is DeepIQ's "Deep Learning on Cloud: Reducing cloud costs using the right approach"
(https://www.deepiq.com/whitepaper/databricks.html). What of its figures is not known here is None, and shown as such.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from engine.text import duration, money, number, plural
from nodes.comparison.record import Training

WHITEPAPER = "https://www.deepiq.com/whitepaper/databricks.html"
PAPER_VOLUMES = 5 * 600 * 32
"""It trained 5 epochs of 600 batches of 32: 15% of one pass over its 650,000 volumes."""
PAPER_NOTES = (
    f"Whitepaper: DeepIQ, Deep Learning on Cloud ({WHITEPAPER}): 650,000 volumes of 30x30x10 voxels with 10 channels,"
    " 3-D ResNet-18, on Azure with Databricks: CPU on Standard_D16s_v3 (16 cores, 64 GB), GPU on Standard_NC4as_T4_v3."
    f" Its times are for {PAPER_VOLUMES:,} volumes, 5 epochs of 600 batches of 32, so compare volumes/s and ratios.",
    "The whitepaper's 22 times cheaper is consistent with its times (11.3 times as fast) and a GPU machine at half the"
    " price: the machines alone give 16.6 times, with Databricks' premium rate for jobs 22.9.",
    'Its peaks of network I/O are 7, 38 and 100 "Mbps" (Figures 8 to 10, taken as CPU with files, CPU with table and'
    " GPU with table). Float32 volumes at the rate of CPU and files are 21 Mbit/s already on average, so it meant MB/s,"
    " or its voxels had one byte, and float32 would have taken four times as much: the table has both readings in"
    " Mbit/s.",
)
NOT_STATED, NOT_MEASURED = "not stated", ""


class Option(NamedTuple):
    """One of the whitepaper's four: its time for `PAPER_VOLUMES`, also as it is written there, its cost as a share of
    the first, and its peak of network I/O in what it calls Mbps."""

    on_gpu: bool
    one_by_one: bool
    seconds: float
    written: str
    cost_ratio: float | None = None
    network_peak: float | None = None

    @property
    def title(self) -> str:
        return f"{'GPU' if self.on_gpu else 'CPU'}, {'files' if self.one_by_one else 'table'}"


PAPER = (
    Option(False, True, 3.59 * 3600, "3.59 h", 1.0, 7),
    Option(False, False, 2.42 * 3600, "2.42 h", network_peak=38),
    Option(True, True, 1.8 * 3600, "1.8 h"),
    Option(True, False, 19 * 60, "19 min", 1 / 22, 100),
)
_TITLES = {"npy": "files", "arrow": "table"}
"""The two inputs that the whitepaper compares, by loader; others are named by their loader."""


@dataclass(frozen=True)
class Row:
    """One line of the tables: a training, an option of the whitepaper, or both."""

    title: str
    training: Training | None = None
    option: Option | None = None


@dataclass(frozen=True)
class Table:
    """A table as text: its title, the columns, the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """With a `|` of a cell escaped; the title is a heading."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        body = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n".join([f"### {self.title}", "", *body, ""])


def break_even_epochs(preparation: float, before: float, after: float) -> int | None:
    """The fewest epochs after which `preparation` and epochs of `after` take no more than epochs of `before`.

    All three in the same unit, of time or of money. None when an epoch does not become cheaper, so that it never pays.
    """
    # Exactly: floats are fractions, and a rounded quotient may be an epoch off.
    saved = Fraction(before) - Fraction(after)
    if preparation <= 0:
        return 0
    return math.ceil(Fraction(preparation) / saved) if saved > 0 else None


@dataclass(frozen=True)
class Comparison:
    """Trainings in the order in which they are shown; `volumes` and `epochs` are what they are extrapolated to."""

    trainings: tuple[Training, ...]
    volumes: int = 650_000
    epochs: int = 5
    beside_whitepaper: bool = True

    @property
    def base(self) -> Training | None:
        """What ratios are to: the first that reads files one by one, on CPU where there is one."""
        plain = [training for training in self.trainings if training.one_by_one]
        return next((training for training in plain if not training.on_gpu), plain[0] if plain else None)

    def rows(self) -> list[Row]:
        """The whitepaper's four options first, each with the trainings that are one, then the other loaders."""
        rest = list(self.trainings)
        out: list[Row] = []
        for option in PAPER if self.beside_whitepaper else ():
            fitting = [t for t in rest if t.loader in _TITLES and _option_of(t) == (option.on_gpu, option.one_by_one)]
            out += [Row(self.title(t), t, option) for t in fitting] or [Row(option.title, None, option)]
            rest = [training for training in rest if training not in fitting]
        return out + [Row(self.title(training), training) for training in rest]

    def title(self, training: Training) -> str:
        title = f"{'GPU' if training.on_gpu else 'CPU'}, {_TITLES.get(training.loader, training.loader)}"
        if len({t.storage for t in self.trainings}) > 1:
            title += f" ({training.storage})"
        machines = {t.machine for t in self.trainings if t.on_gpu == training.on_gpu}
        kinds = [t for t in self.trainings if _same_kind(t, training)]
        if len(machines) > 1 and len({t.machine for t in kinds}) > 1:
            title += f" ({training.machine_type or training.machine or training.run_id})"
        elif len(kinds) > 1:
            title += f" ({training.run_id})"
        return title

    # --- figures -----------------------------------------------------------------------------------

    @property
    def paper_base(self) -> Option:
        """What the whitepaper's ratios are to here: its counterpart of the base."""
        on_gpu = self.base is not None and self.base.on_gpu
        return next(option for option in PAPER if option.one_by_one and option.on_gpu == on_gpu)

    def paper_ratio(self, option: Option) -> float:
        """Of the whitepaper's times."""
        return option.seconds / self.paper_base.seconds

    def paper_cost_ratio(self, option: Option) -> float | None:
        """Of its costs; None where it does not state one of the two."""
        base = self.paper_base
        return 1.0 if option == base else _ratio(option.cost_ratio, base.cost_ratio)

    def whole_s(self, training: Training | None) -> float | None:
        """`epochs` epochs of `volumes` volumes at the training's rate, without preparation: an extrapolation."""
        return None if training is None else training.seconds_for(self.volumes, self.epochs)

    def ratio(self, training: Training | None) -> float | None:
        """Of its time to that of the base."""
        return _ratio(self.whole_s(training), self.whole_s(self.base))

    def cost(self, training: Training | None) -> float | None:
        return None if training is None else training.cost(self.whole_s(training))

    def cost_ratio(self, training: Training | None) -> float | None:
        """Of its cost to that of the base, where both are in one currency."""
        base = self.base
        if training is None or base is None or training.currency != base.currency:
            return None
        return _ratio(self.cost(training), self.cost(base))

    def files_beside(self, training: Training) -> Training | None:
        """The training of the same machine that read the files one by one, best from the same storage."""
        beside = (training.machine, training.device)
        plain = [t for t in self.trainings if t.one_by_one and (t.machine, t.device) == beside]
        return next((t for t in plain if t.storage == training.storage), plain[0] if plain else None)

    def pays_after(self, training: Training) -> int | None:
        """Epochs after which its preparation has paid, against the files on the same machine; None for never."""
        files = self.files_beside(training)
        if files is None or files.epoch_s is None or training.epoch_s is None or training.preparation_s is None:
            return None
        # Per volume, since two trainings may have had another number.
        each = training.preparation_s / max(1, training.volumes)
        return break_even_epochs(
            each, files.epoch_s / max(1, files.volumes), training.epoch_s / max(1, training.volumes)
        )

    # --- text --------------------------------------------------------------------------------------

    def headline(self) -> list[str]:
        """What the figures say, a sentence each."""
        out = []
        for training in self.trainings:
            files = self.files_beside(training)
            if training.loader != "arrow" or files is None or not files.epoch_s or not training.epoch_s:
                continue
            # As many volumes from the files as from the table: the two may be trained on differing parts.
            files_s = files.seconds_for(training.volumes, 1) or 0.0
            ratio = files_s / training.epoch_s
            where = "GPU" if training.on_gpu else "CPU"
            out.append(
                f"On {where}, an epoch of {training.volumes:,} volumes takes {duration(files_s)} from files one"
                f" by one and {duration(training.epoch_s)} from the table: {_times(ratio)}. It waits for data"
                f" {_share(files.waiting_share)} and {_share(training.waiting_share)} of that time."
            )
            if training.preparation_s is not None:
                pays = self.pays_after(training)
                has_paid = "does not pay here" if pays is None else f"has paid after {_epochs(pays)}"
                out[-1] += f" Making the table took {duration(training.preparation_s)} and {has_paid}."
        return out

    def times(self) -> Table:
        """Rates and times, the whitepaper's beside them."""
        whole = f"{plural(self.epochs, 'epochs')} of {self.volumes:,}"
        columns = ["", "measured", "volumes/s", "waiting for data", whole, "ratio"]
        columns += ["whitepaper", "its volumes/s", "its ratio"] if self.beside_whitepaper else []
        rows = []
        for row in self.rows():
            found = row.training
            line = [row.title]
            if found is None:
                line += ["not measured here", *[NOT_MEASURED] * 4]
            else:
                line += [
                    _measured(found),
                    rounded(found.volumes_per_s),
                    _share(found.waiting_share),
                    _duration(self.whole_s(found)),
                    rounded(self.ratio(found), 2),
                ]
            if self.beside_whitepaper:
                line += self._paper_time(row.option)
            rows.append(tuple(line))
        return Table("Time", tuple(columns), tuple(rows))

    def costs(self) -> Table:
        """What the machines' time costs."""
        columns = ["", "an hour", f"{plural(self.epochs, 'epochs')} of {self.volumes:,}", "ratio"]
        columns += ["whitepaper's ratio"] if self.beside_whitepaper else []
        rows = []
        for row in self.rows():
            found = row.training
            line = [row.title]
            if found is None:
                line += [NOT_MEASURED] * 3
            else:
                price, cost = found.price_per_hour, self.cost(found)
                line += [
                    "no price" if price is None else money(price, found.currency),
                    "" if cost is None else money(cost, found.currency),
                    rounded(self.cost_ratio(found), 2),
                ]
            if self.beside_whitepaper:
                line += [self._paper_cost(row.option)]
            rows.append(tuple(line))
        return Table("Cost", tuple(columns), tuple(rows))

    def hardware(self) -> Table:
        """What was read a second, and the highest values of the machine's samples, beside the whitepaper's peaks."""
        columns = ["", "volumes, Mbit/s", "network peak, Mbit/s", "disk peak, MB/s", "CPU peak", "GPU peak"]
        columns += ["memory, MB"]
        if self.beside_whitepaper:
            columns += ["whitepaper's network peak", "if MB/s: Mbit/s", "if one-byte voxels: Mbit/s"]
        rows = []
        for row in self.rows():
            found = row.training
            line = [row.title]
            if found is None:
                line += [NOT_MEASURED] * 6
            else:
                line += [rounded(found.input_mbit_s)]
                line += [rounded(found.peak(name)) for name in ("network_mbit_s", "disk_read_mb_s")]
                line += [_percent(found.peak(name)) for name in ("cpu_percent", "gpu_percent")]
                line += [rounded(found.peak("memory_mb"))]
            if self.beside_whitepaper:
                line += self._paper_peak(row.option)
            rows.append(tuple(line))
        return Table("Input and hardware", tuple(columns), tuple(rows))

    def conversion(self) -> Table:
        """What the preparation of the data took, and when it has paid."""
        columns = ("", "preparation", f"of {self.volumes:,}", "an epoch of files", "an epoch of it", "has paid after")
        rows = []
        for row in self.rows():
            found = row.training
            if found is None or found.one_by_one:
                continue
            files = self.files_beside(found)
            pays = self.pays_after(found)
            known = files is not None and found.preparation_s is not None and found.epoch_s is not None
            paid = "" if not known else "never here" if pays is None else _epochs(pays)
            rows.append(
                (
                    row.title,
                    _duration(found.preparation_s),
                    _duration(found.preparation_for(self.volumes)),
                    _duration(files.seconds_for(found.volumes, 1) if files is not None else None),
                    _duration(found.epoch_s),
                    paid,
                )
            )
        return Table("What the conversion costs", columns, tuple(rows))

    def tables(self) -> list[Table]:
        return [self.times(), self.costs(), self.conversion(), self.hardware()]

    def notes(self) -> list[str]:
        """How to read the figures."""
        out = [
            f"Rates are those of the median epoch after the first. {self.epochs} epochs of {self.volumes:,} volumes are"
            " extrapolated from them, in proportion; so is the preparation, whose start weighs more the fewer volumes"
            " there are. Evaluation and checkpoints are left out."
            f" Ratios are to {self.base_title}: below 1 is faster or cheaper."
        ]
        if self.beside_whitepaper:
            out += PAPER_NOTES
        out.append(
            "The network is the whole machine's, all interfaces, as means over a few seconds: a store on the same"
            " machine adds its own side."
        )
        for text in dict.fromkeys(t.note for t in self.trainings if t.note):
            out.append(f"Storage: {text}")
        for training in self.trainings:
            if not training.complete:
                out.append(
                    f"{self.title(training)}: {len(training.epochs)} of {training.epochs_wanted} epochs were recorded"
                    f" in {training.attempts} attempts, so it is not the time of one undisturbed training."
                )
        settings = sorted({_settings(training) for training in self.trainings})
        if len(settings) == 1:
            out.append(f"All with {settings[0]}.")
        elif settings:
            out.append(f"The trainings have different settings: {'; '.join(settings)}.")
        return out

    def markdown(self) -> str:
        """All of it as Markdown."""
        parts = ["\n".join(self.headline())] if self.headline() else []
        return "\n\n".join([*parts, *(table.markdown().rstrip() for table in self.tables()), *self.notes()]) + "\n"

    def figures(self) -> dict[str, float | int | str]:
        """Key figures for the history and for MLflow; of several machines of a kind those of the first."""
        out: dict[str, float | int | str] = {}
        for training in self.trainings:
            files = self.files_beside(training)
            if training.loader == "arrow" and files is not None and training.epoch_s and files.epoch_s:
                pays = self.pays_after(training)
                out.setdefault("files_to_table", round(files.epoch_s / training.epoch_s, 3))
                out.setdefault("pays_after_epochs", "never" if pays is None else pays)
        for training in self.trainings:
            if training.volumes_per_s is not None:
                # MLflow takes no other characters in a name.
                name = re.sub(r"\W", "_", f"{'gpu' if training.on_gpu else 'cpu'}_{training.loader}")
                out.setdefault(f"{name}_volumes_per_s", round(training.volumes_per_s, 3))
        return out

    def _paper_time(self, option: Option | None) -> list[str]:
        if option is None:
            return ["", "", ""]
        rate = PAPER_VOLUMES / option.seconds
        return [option.written, rounded(rate), rounded(self.paper_ratio(option), 2)]

    def _paper_cost(self, option: Option | None) -> str:
        if option is None:
            return ""
        ratio = self.paper_cost_ratio(option)
        return NOT_STATED if ratio is None else rounded(ratio, 2)

    def _paper_peak(self, option: Option | None) -> list[str]:
        """As it is written there; in Mbit/s of float32 volumes, if it meant MB/s, and if its voxels had one byte."""
        if option is None:
            return ["", "", ""]
        if option.network_peak is None:
            return [NOT_STATED, "", ""]
        return [f'{option.network_peak:g} "Mbps"', rounded(8 * option.network_peak), rounded(4 * option.network_peak)]

    @property
    def base_title(self) -> str:
        """What ratios are to, in words."""
        return self.title(self.base) if self.base is not None else "CPU, files"


def _option_of(training: Training) -> tuple[bool, bool]:
    return training.on_gpu, training.one_by_one


def _same_kind(one: Training, other: Training) -> bool:
    return (one.on_gpu, one.loader) == (other.on_gpu, other.loader)


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _times(ratio: float) -> str:
    """`1.5 times as long`, or that there is no difference that matters."""
    if abs(ratio - 1) < 0.05:
        return "no difference that matters"
    return f"{rounded(ratio, 2)} times as long" if ratio > 1 else f"the files are faster, {rounded(1 / ratio, 2)} times"


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'' if count == 1 else 's'}"


def _measured(training: Training) -> str:
    if not training.epochs:
        return "no epoch recorded"
    return f"{training.trained_volumes:,} volumes in {_duration(training.measured_s)}"


def rounded(value: float | None, digits: int = 3) -> str:
    """So many digits, or all before the point; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else number(float(f"{value:.{digits}g}"))


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}%"


def _settings(training: Training) -> str:
    values = {"batch_size": training.batch_size, "epochs": training.epochs_wanted} | training.settings
    return ", ".join(f"{name} {value}" for name, value in values.items())


def ordered(trainings: Sequence[Training]) -> tuple[Training, ...]:
    """CPU before GPU, files before tables before other loaders, else as they came."""
    order = ("npy", "arrow")
    return tuple(
        sorted(trainings, key=lambda t: (t.on_gpu, order.index(t.loader) if t.loader in order else len(order)))
    )
