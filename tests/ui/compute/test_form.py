"""A profile's table as a form, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.profiles import find_profile
from engine.profiles.edit import Written, read_written, save_profile
from engine.profiles.file import _FIELDS
from engine.profiles.find import READY
from engine.workspace import Workspace
from ui.compute.form import (
    CLUSTERS,
    PLACES,
    TITLES,
    Form,
    field_problem,
    field_problems,
    fields_of,
    form_of,
    place_of,
    settings_of,
    unique_name,
)


@pytest.mark.parametrize(
    ("backend", "master", "place"),
    [
        ("embedded", "", "machine"),
        ("spark", "local[2]", "spark-local"),
        ("spark", "spark://10.0.0.5:7077", "standalone"),
        ("spark", "yarn", "yarn"),
        ("spark", "k8s://https://10.0.0.5:443", "kubernetes"),
        ("spark", "databricks", "databricks"),
    ],
)
def test_a_profile_says_where_it_runs(backend: str, master: str, place: str) -> None:
    assert place_of(backend, master) == place


def test_a_form_that_is_not_touched_changes_nothing(workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    text = (
        '[cluster]\nbackend = "spark"\nmaster = "spark://h:7077"\nmemory = "16 GB"\ncores = 8\nprice_per_hour = 3.2\n'
        'currency = "EUR"\nmachine = "m5.2xlarge"\nspot = true\n'
        'storage_root = "/mnt/shared"\n\n[cluster.spark]\n"spark.executor.memory" = "8g"\n\n'
        '[two]\nbackend = "spark"\nmaster = "local[2]"\n\n[spark-local]\ncores = 1\nkeep_warm_minutes = 0\n\n'
        '[bricks]\nbackend = "spark"\nmaster = "databricks"\nprice_per_hour = 1\nprice_per_dbu = 0.3\n'
        'dbu_per_hour = 3\nstop_after = "1h30min"\nstop_at_cost = 20\n\n'
        "[there]\nprice_per_hour = 1\nprice_per_dbu = 0.3 # this app runs on Databricks\ndbu_per_hour = 3\n"
    )
    file.write_text(text)
    for name in ("cluster", "two", "spark-local", "bricks", "there"):
        ready, written = READY.get(name), read_written(name, workspace)
        form = form_of(name, written, ready)
        save_profile(name, fields_of(form, ready), form.spark, workspace, revision=written.revision, instead_of=name)
    assert file.read_text() == text


@given(
    place=st.sampled_from(list(PLACES)),
    cores=st.none() | st.integers(1, 99),
    memory=st.sampled_from(["", "16 GB", "16g", " 4 GiB "]),
    price=st.none() | st.floats(0, 1e6),
    currency=st.sampled_from(["", "EUR"]),
    spot=st.booleans(),
    units=st.tuples(*3 * [st.none() | st.floats(0, 1e6)]),
    limit=st.tuples(st.sampled_from(["", "3h", "1h30min"]), st.none() | st.floats(0.01, 1e6)),
)
def test_what_a_form_says_comes_back_as_the_same_form(
    place: str,
    cores: int | None,
    memory: str,
    price: float | None,
    currency: str,
    spot: bool,
    units: tuple[float | None, float | None, float | None],
    limit: tuple[str, float | None],
) -> None:
    master = PLACES[place].master or PLACES[place].example
    form = Form("x", place, master or "local[*]", {"cores": cores}, memory.strip())
    form.price_per_hour, form.currency, form.spot = price, currency, spot
    form.price_per_dbu, form.dbu_per_hour, each = units
    # Only a cluster has executors.
    form.executor_dbu_per_hour = each = each if place in CLUSTERS else None
    form.stop_after, form.stop_at_cost = limit
    assert field_problems(fields_of(form)) == {}
    fields = {k: v for k, v in fields_of(form).items() if v is not None}
    back = form_of("x", Written(fields))
    assert (back.place, back.numbers["cores"], back.memory) == (place, cores, memory.strip())
    assert (back.price_per_hour, back.currency, back.spot) == (price, currency, spot)
    assert (back.price_per_dbu, back.dbu_per_hour, back.executor_dbu_per_hour) == (*units[:2], each)
    assert (back.stop_after, back.stop_at_cost) == limit
    assert back.master == form.master


def test_every_field_of_the_file_can_be_set_on_the_page() -> None:
    shown = {*fields_of(Form("x", numbers={"cores": 1, "gpus": 0, "parallel_tasks": 1})), "spark"}
    assert shown == set(_FIELDS)
    assert set(TITLES) == shown - {"backend", "spark"}


def test_databricks_units_are_asked_for_there_and_where_they_are_paid_for() -> None:
    assert [place for place in PLACES if Form("x", place).shows_units] == ["databricks"]
    assert form_of("x", Written({"price_per_dbu": 0.3})).shows_units


@pytest.mark.parametrize(
    ("field", "value", "said", "hint"),
    [
        ("stop_after", "soon", "Stop after: 'soon' is no time to stop after", "3h"),
        ("stop_after", "3", "Stop after: '3' is no time to stop after", "3h"),
        ("stop_at_cost", 0.0, "Stop at a cost: must be above 0", "20"),
        ("price_per_dbu", float("inf"), "Price of a DBU: must be a number of at least 0, not inf", "0.3"),
        ("dbu_per_hour", -1.0, "DBU an hour: must be a number of at least 0, not -1.0", "3"),
        ("memory", "much", "Memory: 'much' is no amount of memory", "16 GB"),
        ("currency", "euro", "Currency: must be the three letters of a currency, not 'euro'", "EUR"),
        ("storage_root", "s3://a", "Storage root: 's3://a' is an address, not a folder", "folder"),
        ("machine", "a\x1bb", "Machine type: holds the control character", "Remove"),
    ],
)
def test_what_is_wrong_with_a_field_is_what_the_file_says_of_it(
    workspace: Workspace, field: str, value: object, said: str, hint: str
) -> None:
    found = field_problems({"cores": 1, "gpus": None, field: value})
    assert [*found] == [field]
    assert found[field].message.startswith(said)
    assert hint in found[field].hint
    with pytest.raises(UsageError) as caught:
        save_profile("cluster", {field: value}, {}, workspace, revision=read_written("", workspace).revision)
    at, error = field_problem(caught.value, "cluster")
    assert (at, error.message, error.hint) == (field, found[field].message, found[field].hint)


def test_an_error_of_no_field_stays_as_it_is(workspace: Workspace) -> None:
    for error in (UsageError("x is full"), UsageError("f: profile a, spark.b: no", hint="h")):
        assert field_problem(error, "a") == ("", error)
    with pytest.raises(UsageError) as caught:
        save_profile("a", {"price_per_dbu": 0.3}, {}, workspace, revision=read_written("", workspace).revision)
    assert field_problem(caught.value, "a")[0] == "price_per_dbu"


def test_a_price_without_end_is_an_empty_field() -> None:
    """The profile's own error says what is wrong with it."""
    assert form_of("x", Written({"price_per_hour": 10**400})).price_per_hour is None


def test_rows_of_settings_without_a_name_do_not_count() -> None:
    rows = [{"name": " spark.a ", "value": "1"}, {"name": None, "value": "2"}, {"name": "spark.b", "value": None}]
    assert settings_of(rows) == {"spark.a": "1", "spark.b": ""}


def test_a_new_profile_has_a_name_of_its_own() -> None:
    assert unique_name("cluster", ["local"]) == "cluster"
    assert unique_name("cluster", ["cluster", "cluster-2"]) == "cluster-3"


def test_a_ready_profile_keeps_its_backend(workspace: Workspace) -> None:
    ready = READY["spark-local"]
    form = form_of("spark-local", Written(revision=read_written("spark-local", workspace).revision), ready)
    form.numbers["cores"] = 1
    revision = read_written("spark-local", workspace).revision
    save_profile("spark-local", fields_of(form, ready), {}, workspace, revision=revision)
    assert (workspace.root / "profiles.toml").read_text() == "[spark-local]\ncores = 1\n"
    assert find_profile("spark-local", workspace).backend == "spark"
