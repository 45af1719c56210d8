"""What a pipeline and a workspace give the advisor, with the built-in nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pretended_advice import work
from pretended_benches import SHAPE, bench_result, bench_row

import voxelflow
from engine.advisor.report import BENCH_FIRST, missing
from engine.advisor.sources import Known, Training, advice_by_node, advise_training, read_known, trainings
from engine.bench.result import BenchResult, Configuration, keep_result
from engine.document.checks import preview_outputs
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, read_pipeline
from engine.document.resolve import Resolved, resolve
from engine.environment import Machine
from engine.observe.observe import observe
from engine.profiles import Profile
from engine.workspace import Workspace
from nodes.train_resnet3d import train_resnet3d

DESK = Profile(name="desk", cores=2, memory_bytes=16 * 10**9)


def resolved_quickstart(**values: int) -> Resolved:
    return resolve(read_pipeline(shipped_pipelines()["quickstart"]), voxelflow.catalog(), values)


def found_in(resolved: Resolved, workspace: Workspace) -> list[Training]:
    seen = observe(resolved, workspace, None)
    return list(trainings(resolved, preview_outputs(resolved, seen)[0], seen))


def lines(resolved: Resolved, workspace: Workspace) -> dict[str, str]:
    seen = observe(resolved, workspace, None)
    return advice_by_node(resolved, preview_outputs(resolved, seen)[0], seen, workspace, DESK)


def test_a_line_for_each_training_and_none_for_others(workspace: Workspace) -> None:
    assert lines(resolved_quickstart(), workspace) == {"train": BENCH_FIRST}
    keep_result(workspace, bench_result("desk"))
    said = lines(resolved_quickstart(), workspace)["train"]
    assert said.startswith("About ")
    assert ", limited by computing. " in said
    assert " Not in these times: the start of a machine or cluster" in said
    assert lines(resolve(Pipeline(name="none"), voxelflow.catalog()), workspace) == {}


def test_the_work_is_that_of_the_values_given(workspace: Workspace) -> None:
    (training,) = found_in(resolved_quickstart(volumes=1000, epochs=7), workspace)
    assert training.work is not None
    assert (training.work.volumes, training.work.epochs, training.work.uri) == (800, 7, "")
    (wrong,) = found_in(resolved_quickstart(epochs=-1), workspace)
    assert (wrong.work, wrong.unknown) == (None, "one of its parameters has no valid value")


def test_a_hook_that_fails_is_reported_and_ends_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_resnet3d, "workload_hook", lambda look: 1 // 0)
    (training,) = found_in(resolved_quickstart(), workspace)
    assert training.work is None
    assert "ZeroDivisionError" in training.unknown


def test_a_try_or_a_failed_benchmark_hides_no_real_one(workspace: Workspace) -> None:
    real = bench_result("desk")
    keep_result(workspace, real)
    before = lines(resolved_quickstart(), workspace)
    keep_result(workspace, bench_result("desk", measured_at=2.0, quick=True, cores=64))
    failed = real.rows[0].model_copy(update={"outcome": "not possible", "note": "no"})
    keep_result(workspace, bench_result("desk", measured_at=3.0, rows=(failed,)))
    assert read_known(workspace).benches == [real]
    assert read_known(workspace, [bench_result("desk", measured_at=9.0, rows=(failed,))]).benches == [real]
    assert lines(resolved_quickstart(), workspace) == before
    # Where nothing else is known, nothing is predicted from a try.
    keep_result(workspace, bench_result("other", quick=True))
    assert {r.name for r in read_known(workspace).benches} == {"desk"}


def test_given_results_go_before_those_that_are_kept(workspace: Workspace, tmp_path: Path) -> None:
    keep_result(workspace, bench_result("desk"))
    keep_result(workspace, bench_result("other", measured_at=5.0))
    (workspace.root / "bench" / "broken.json").write_text("{")
    known = read_known(workspace, [bench_result("desk", cores=8)])
    assert {(r.name, r.cores) for r in known.benches} == {("other", 2), ("desk", 8)}


def test_a_given_result_hides_none_of_another_machine_with_the_same_processor(workspace: Workspace) -> None:
    keep_result(workspace, bench_result("AMD EPYC 7763"))
    large = Machine(cores=64, memory_bytes=256 * 10**9)
    known = read_known(workspace, [bench_result("AMD EPYC 7763", machine=large, cores=64)])
    assert {r.name for r in known.benches} == {"AMD EPYC 7763, 2 cores", "AMD EPYC 7763, 64 cores"}


def test_how_volumes_come_to_this_machine_its_own_result_says_also_where_others_are_newer(
    workspace: Workspace,
) -> None:
    cold = Configuration(
        depth=18, shape=SHAPE, dtype="float32", batch_size=8, loader="npy", input="cold", storage="local"
    )

    def measured(processor: str, waiting_s: float, at: float) -> BenchResult:
        rows = (*bench_result().rows, bench_row(cold, waiting_s=waiting_s))
        machine = Machine(processor=processor, cores=2, memory_bytes=16 * 10**9)
        return bench_result(processor, machine=machine, measured_at=at, rows=rows)

    mine, theirs = measured("mine", 50.0, 1.0), measured("theirs", 1.0, 9.0)
    training = Training("t", "t", train_resnet3d, replace(work(kind="VolumeFiles"), uri=str(workspace.root)))
    here = Machine(processor="mine", cores=2)
    small = DESK.model_copy(update={"memory_bytes": 4 * 10**9})  # each epoch comes from the disk
    found = [advise_training(training, Known(b, [], here), workspace, small) for b in ([mine], [theirs, mine])]
    alone, beside = (advice.own for advice in found if advice is not None)
    assert alone is not None
    assert beside is not None
    assert (beside.bound, beside.input_s) == ("input", alone.input_s)


@pytest.mark.parametrize("unknown", [{"depth": 10}, {"stem": "tall"}, {"shape": (30,)}])
def test_what_a_newer_version_has_measured_says_nothing_and_ends_nothing(
    workspace: Workspace, unknown: dict[str, object]
) -> None:
    real = bench_result("desk")
    keep_result(workspace, real)
    before = lines(resolved_quickstart(), workspace)
    newer = real.rows[0].configuration.model_copy(update=unknown)
    steps: tuple[tuple[float, ...], ...] = ((0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 5.0))
    took_nothing = [real.rows[1].model_copy(update={"step_s": each}) for each in steps]
    rows = (real.rows[0].model_copy(update={"configuration": newer}), *took_nothing)
    keep_result(workspace, bench_result("other", measured_at=9.0, rows=rows))
    assert lines(resolved_quickstart(), workspace) == before


def test_a_latency_that_is_asked_for_tells_nothing_of_a_place_that_was_never_probed(workspace: Workspace) -> None:
    keep_result(workspace, bench_result("desk"))
    (training,) = found_in(resolved_quickstart(), workspace)
    said = []
    for farther_s in (0.0, 1e-6):
        advice = advise_training(training, read_known(workspace), workspace, DESK, farther_s=farther_s)
        assert advice is not None
        assert advice.assumed_input
        said += missing(advice, str(workspace.root))
    assert said == [
        f"How fast volumes come is not known: `voxelflow probe {workspace.root}` measures it. Until then the times"
        f" are as if no step had to wait for them{beyond}."
        for beyond in ("", " longer than the latency given")
    ]
    # Nothing is known of files there either: a table in their place is not set against them.
    assert training.work is not None
    files = replace(training, work=replace(training.work, kind="VolumeFiles", loader="npy"))
    advice = advise_training(files, read_known(workspace), workspace, DESK, farther_s=1.0)
    assert advice is not None
    assert (advice.from_table, advice.conversion_s) == ((), None)


def test_this_machine_is_known_by_its_processor(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.advisor.sources._here", lambda: Machine(processor="mine", cores=2))
    for processor, said in (("mine", True), ("another", False)):
        machine = Machine(processor=processor, cores=2, memory_bytes=16 * 10**9)
        keep_result(workspace, bench_result("box", machine=machine, measured_at=9.0 if said else 99.0))
        assert ("scaled from box" in lines(resolved_quickstart(), workspace)["train"].split(". ")[0]) is not said
