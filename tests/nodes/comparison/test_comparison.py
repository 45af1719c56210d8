"""What trainings say side by side: the tables as text, and the laws of their figures."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from measured_trainings import training, with_a_gpu

from nodes.comparison.comparison import PAPER, PAPER_VOLUMES, Comparison, break_even_epochs, ordered
from nodes.comparison.record import Training

GOLDEN = Path(__file__).parent / "golden"
PRICED = {"price_per_hour": 0.1, "currency": "USD"}


def compare(*trainings: Training, **more: object) -> Comparison:
    return Comparison(ordered(trainings), **more)  # type: ignore[arg-type]


def titles(comparison: Comparison) -> list[str]:
    return [row.title for row in comparison.rows()]


def golden(name: str, text: str) -> None:
    """Compare with a file; UPDATE_GOLDEN=1 writes it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_the_tables_of_one_machine() -> None:
    here = [training("petastorm", 5, **PRICED), training(**PRICED), training("arrow", 0.25, **PRICED)]
    golden("one_machine.md", compare(*here).markdown())


def test_another_machine_fills_its_rows() -> None:
    here = [training(note="Azurite, 20 ms away", **PRICED), training("arrow", 0.25, **PRICED)]
    there = [with_a_gpu(), with_a_gpu("arrow", waiting_s=0.25)]
    golden("two_machines.md", compare(*there, *here).markdown())


# --- when a preparation has paid -----------------------------------------------------------------

amounts = st.floats(0, 1e9, allow_nan=False)


@given(amounts, amounts, amounts)
@example(0.0, 1.0, 1.0)
@example(0.1 + 0.2, 0.3, 0.2)
@example(1e9, 1.0, 1.0 - 1e-12)
def test_it_has_paid_at_that_epoch_and_not_before(preparation: float, before: float, after: float) -> None:
    epochs = break_even_epochs(preparation, before, after)
    assert (epochs is None) == (preparation > 0 and before <= after)
    if epochs is not None:
        exactly = Fraction(preparation), Fraction(before) - Fraction(after)
        assert exactly[0] <= epochs * exactly[1] or preparation == epochs == 0
        assert epochs == 0 or exactly[0] > (epochs - 1) * exactly[1]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**4), st.integers(0, 10**4))
def test_a_dearer_preparation_never_pays_earlier(one: int, other: int, before: int, after: int) -> None:
    cheap, dear = (break_even_epochs(each, before, after) for each in sorted((one, other)))
    assert dear is None or (cheap is not None and cheap <= dear)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(0, 10**4), st.integers(1, 1000))
def test_the_unit_does_not_matter(preparation: int, before: int, after: int, scale: int) -> None:
    assert break_even_epochs(preparation, before, after) == break_even_epochs(
        preparation * scale, before * scale, after * scale
    )


# --- figures -------------------------------------------------------------------------------------


def test_the_first_epoch_and_evaluation_do_not_count() -> None:
    one = training(waiting_s=1.0, computing_s=4.0)
    assert one.volumes_per_s == 20
    assert one.epoch_s == 5
    assert one.waiting_share == 0.2
    assert training(epochs=one.epochs[:1]).epoch_s == 6
    assert training(epochs=()).epoch_s is None


def test_ratios_are_to_the_files_on_cpu() -> None:
    files, table = training(**PRICED), training("arrow", 1.0, **PRICED)
    gpu = with_a_gpu("arrow", waiting_s=0.0)
    found = compare(gpu, table, files)
    assert found.base == files
    assert found.ratio(table) == 0.5
    assert found.ratio(gpu) == 0.05
    assert found.cost_ratio(gpu) == pytest.approx(0.05 * 5.26)
    assert found.pays_after(table) == 3
    assert found.pays_after(gpu) is None  # nothing read files on that machine
    assert found.cost_ratio(with_a_gpu("arrow", currency="EUR")) is None


@pytest.mark.parametrize(
    ("base", "times", "costs"),
    [
        (training(), ["1", "0.67", "0.5", "0.088"], ["1", "not stated", "not stated", "0.045"]),
        (with_a_gpu(), ["2", "1.3", "1", "0.18"], ["not stated", "not stated", "1", "not stated"]),
    ],
)
def test_the_whitepapers_ratios_are_to_what_ours_are_to(base: Training, times: list[str], costs: list[str]) -> None:
    found = compare(base, with_a_gpu("arrow"))
    assert found.base == base
    assert [row[-1] for row in found.times().rows] == times
    assert [row[-1] for row in found.costs().rows] == costs


def test_the_whitepapers_peaks_stand_beside_ours_in_both_readings() -> None:
    here = compare(training(), training("petastorm"))
    assert [(row[0], row[2], *row[-3:]) for row in here.hardware().rows] == [
        ("CPU, files", "36.5", '7 "Mbps"', "56", "28"),
        ("CPU, table", "", '38 "Mbps"', "304", "152"),
        ("GPU, files", "", "not stated", "", ""),
        ("GPU, table", "", '100 "Mbps"', "800", "400"),
        ("CPU, petastorm", "36.5", "", "", ""),
    ]
    assert "whitepaper" not in " ".join(compare(training(), beside_whitepaper=False).hardware().columns)
    # As it is written the first is below the mean rate of float32 volumes; in each reading a peak is above the mean.
    means = [PAPER_VOLUMES * 30 * 30 * 10 * 10 * 4 * 8 / 1e6 / option.seconds for option in PAPER]
    assert [round(mean) for mean in means] == [21, 32, 43, 243]
    for option, mean in zip(PAPER, means, strict=True):
        assert option.network_peak is None or 4 * option.network_peak > mean


def test_the_whitepapers_options_come_first_and_are_there_without_a_measurement() -> None:
    paper = ["CPU, files", "CPU, table", "GPU, files", "GPU, table"]
    assert titles(compare()) == paper
    assert titles(compare(training("petastorm"), training("arrow"))) == [*paper, "CPU, petastorm"]
    assert titles(compare(training("arrow"), training(), beside_whitepaper=False)) == paper[:2]
    assert compare().headline() == []
    assert compare().base is None


def test_equal_kinds_are_distinguished() -> None:
    other = {"run_id": "other", "machine": "Another processor"}
    two = compare(training(), training(machine_type="m5.xlarge@us-east-1", **other))
    assert titles(two)[:2] == ["CPU, files (A processor, 2 cores, 4.0 GB)", "CPU, files (m5.xlarge@us-east-1)"]
    again = compare(training(), training(run_id="other"))
    assert titles(again)[:2] == ["CPU, files (20260102-030405-abcdef)", "CPU, files (other)"]
    places = compare(training(), training("arrow", storage="local disk"))
    assert titles(places)[:2] == ["CPU, files (az)", "CPU, table (local disk)"]


def test_what_is_no_fair_comparison_is_reported() -> None:
    resumed = training("arrow", attempts=2, epochs=training().epochs[1:])
    notes = " ".join(compare(training(), resumed).notes())
    assert "CPU, table: 2 of 3 epochs were recorded in 2 attempts" in notes
    assert "different settings" not in notes
    notes = " ".join(compare(training(), training("arrow", batch_size=64)).notes())
    assert "different settings: batch_size 10, epochs 3; batch_size 64, epochs 3." in notes


def test_a_table_that_is_no_faster_never_pays() -> None:
    found = compare(training(), training("arrow"))
    (sentences,) = found.headline()
    assert "no difference that matters" in sentences
    assert sentences.endswith("Making the table took 12 s and does not pay here.")
    assert found.figures()["pays_after_epochs"] == "never"


def test_a_table_of_which_a_part_is_trained_on_is_compared_with_as_many_files() -> None:
    # 100 files, and 80 of the table's 200 volumes: 10 and 20 volumes a second.
    found = compare(training(), training("arrow", 1.0, volumes=80, prepared_volumes=200))
    (sentences,) = found.headline()
    assert "an epoch of 80 volumes takes 8.0 s from files one by one and 4.0 s from the table: 2 times" in sentences
    assert sentences.endswith("has paid after 3 epochs.")  # 12 s, of which each epoch saves 4
    (row,) = found.conversion().rows
    assert row[1:] == ("12 s", "10 h 50 min", "8.0 s", "4.0 s", "3 epochs")  # 650,000 volumes at 200 in 12 s


def test_large_ratios_are_plain_figures() -> None:
    slow, fast = training(waiting_s=1463.0), training("arrow", 6.0)
    (faster,) = compare(slow, fast).headline()
    assert " from the table: 147 times as long. " in faster
    (slower,) = compare(training(), training("arrow", 1463.0)).headline()
    assert " the files are faster, 147 times. " in slower
    assert "e+" not in compare(slow, fast).markdown()


def test_the_history_gets_a_figure_of_each_kind() -> None:
    two = compare(training(), training("arrow", 0.0), with_a_gpu("own: (mine)"), training(run_id="other", machine="B"))
    assert dict(two.figures()) == {
        "files_to_table": 2.5,
        "pays_after_epochs": 2,
        "cpu_npy_volumes_per_s": 10.0,
        "cpu_arrow_volumes_per_s": 25.0,
        "gpu_own___mine__volumes_per_s": 15.385,
    }


def test_a_cell_with_a_bar_stays_one_cell() -> None:
    text = compare(training(), training(run_id="a|b")).times().markdown()
    assert "CPU, files (a\\|b)" in text
