"""What the page of all runs says of sweeps."""

from __future__ import annotations

from dataclasses import replace

from building import some_run

from engine.document.pipeline import Pipeline
from engine.limit import Limit
from engine.store.estimates import Estimated
from engine.store.sweeps import Sweep, Trial
from engine.sweep.expected import SweepEstimate
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import Space
from engine.sweep.spent import Spent
from ui.runs.history import Filters, chosen, trial_of
from ui.runs.sweeps import _resume_help, can_go_on, figures_of, higher_limit, is_open, title_of, trial_rows

OPTIONS = SweepOptions(Space({}, {"rate": (0.1, 0.2), "train.text": ("2024", "x")}, {}), Objective("val_auc", True))
SWEEP = Sweep(
    "20260102-030405-abcdef", "p*", "{}", OPTIONS.as_json(Pipeline(name="p"), "local"), "local", "running", "", 1.0,
    None, 1, False,
)  # fmt: skip
DONE = Trial(SWEEP.sweep_id, 0, {"rate": 0.1, "train.text": "2024"}, "done", 0.5, "")
TRIALS = [
    DONE,
    replace(DONE, number=1, score=0.75, values={"rate": 0.2, "train.text": "x"}),
    replace(DONE, number=2, state="failed", score=None, error="out of memory"),
    replace(DONE, number=3, state="waiting", score=None),
]


def test_a_sweep_is_named_by_how_far_it_is_and_its_best_score() -> None:
    assert title_of(SWEEP, TRIALS) == r"Sweep abcdef of p\*: running, 3 of 4 trials, best Validation AUC 0.75"
    assert title_of(SWEEP, TRIALS[2:]) == r"Sweep abcdef of p\*: running, 1 of 4 trials"
    formula = replace(SWEEP, pipeline="$a$ `b` :red[c] <d>")
    assert title_of(formula, []).startswith(r"Sweep abcdef of \$a\$ \`b\` \:red\[c\] \<d\>: running")


def test_one_is_open_where_it_is_at_work_or_searched_for() -> None:
    seen: set[str] = set()
    done = replace(SWEEP, state="done")
    assert not is_open(done, seen)
    assert [is_open(done, seen, asked) for asked in (" abcdef ", SWEEP.sweep_id, "abc", " ")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_open(SWEEP, seen)
    assert is_open(done, seen), "it does not close as it ends"


def test_one_that_its_limit_has_stopped_goes_on_for_as_much_again() -> None:
    used = Spent(3601.0, 12.0, "USD")
    stopped = replace(SWEEP, state="cancelled", worked_s=3601.0, options=SWEEP.options | Limit(3600, 20).as_options())
    assert figures_of(stopped, used) == [
        "at work for 1 h 00 min and 12.00 USD; limit 1 h 00 min or 20.00 USD for all trials"
    ]
    assert higher_limit(stopped, used) == Limit(7260, 32)
    assert _resume_help(stopped, used).endswith("Its limit is then 2 h 01 min or 32.00 USD.")
    assert higher_limit(stopped, Spent(60.0, 1.0, "USD")) is None, "something else has stopped it"
    expected = SweepEstimate(Estimated(60, 120), Estimated(60, 120), 3600.0, "USD")
    done = replace(SWEEP, state="done", options=SWEEP.options | expected.as_options())
    took = Spent(90.0, 90.0, "USD")
    (line,) = figures_of(done, took)
    assert line.endswith("cost: 60.00 to 120.00 USD; it took 1 min 30 s, 90.00 USD")
    limited = replace(done, options=done.options | Limit(3600, 20).as_options())
    assert figures_of(limited, took) == [line, "limit 1 h 00 min or 20.00 USD for all trials"]
    # Its time once, also with amounts in other currencies.
    assert figures_of(done, replace(took, others=((1.0, "EUR"),))) == [f"{line}, 1.00 EUR"]
    assert figures_of(replace(done, state="running"), Spent(0.0)) == [expected.line()]
    # Of one that is done nothing is expected any more.
    unknown = SweepEstimate(Estimated(unknown=("a",)), Estimated(unknown=("a",)))
    assert figures_of(replace(done, options=SWEEP.options | unknown.as_options()), Spent(0.0)) == []


def test_resume_is_offered_where_something_is_left() -> None:
    done, failed = [replace(DONE, number=n) for n in range(4)], replace(DONE, state="failed")
    cancelled = replace(DONE, state="cancelled")
    grid = replace(SWEEP, state="done")
    search = replace(grid, options=replace(OPTIONS, trials=4).as_json(Pipeline(name="p"), "local"))
    assert [can_go_on(grid, [*done[1:], last]) for last in (DONE, failed, cancelled)] == [False, True, True]
    assert [can_go_on(search, [*done[1:], last]) for last in (DONE, failed, cancelled)] == [False, False, True]
    assert can_go_on(replace(grid, state="failed"), done)


def test_trials_are_listed_best_first_with_their_runs() -> None:
    rows = trial_rows(SWEEP, TRIALS, {1: "1-bbbbbb", 0: "1-aaaaaa"})
    first, second = (f'<a href="run?run=1-{run}" class="vf-link">{run}</a>' for run in ("bbbbbb", "aaaaaa"))
    assert [[cell for at, cell in enumerate(row) if at != 4] for row in rows] == [
        ["1", "0.2", "x", "0.75", first, ""],
        ["0", "0.1", '"2024"', "0.5", second, ""],
        ["2", "0.1", '"2024"', "", "", "out of memory"],
        ["3", "0.1", '"2024"', "", "", ""],
    ]
    assert "vf-state-failed" in str(rows[2][4])


def test_scores_that_differ_do_not_read_alike() -> None:
    close = [replace(DONE, score=12345.6), replace(DONE, number=1, score=12346.1), TRIALS[2]]
    assert [row[3] for row in trial_rows(SWEEP, close, {})] == ["12,346.1", "12,345.6", ""]
    assert title_of(SWEEP, close).endswith("3 of 4 trials, best Validation AUC 12,346.1")
    # One that the table has no room for makes no others longer.
    many = [replace(DONE, number=at, score=1 - at / 16) for at in range(12)]
    more = replace(DONE, number=12, score=many[-1].score - 1e-5)
    assert [row[3] for row in trial_rows(SWEEP, [*many, more], {})][:2] == ["1", "0.9375"]


def test_a_run_names_its_sweep_and_is_found_by_it() -> None:
    trial, other = some_run("1-aaa", options={"sweep": SWEEP.sweep_id, "trial": 3}), some_run("2-bbb")
    assert (trial_of(trial), trial_of(other)) == ("abcdef, trial 3", "")
    assert chosen([trial, other], Filters("abcdef")) == [trial]
