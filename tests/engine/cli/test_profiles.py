"""`voxelflow profiles`, and what other verbs say of a profile."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from building import box, pipeline
from command_line import Command, Save

from engine.declare.events import SystemSample
from engine.profiles import Check, Profile, find_profile
from engine.store.runs import RunStore
from engine.workspace import Workspace

CLUSTER = """\
[cluster]
backend = "spark"
master = "spark://host:7077"
cores = 1
memory = "1 GB"
price_per_hour = 3.2

[cluster.spark]
"spark.authenticate.secret" = "${CLUSTER_SECRET}"
"""


@pytest.fixture
def file(workspace: Workspace) -> Path:
    path = workspace.root / "profiles.toml"
    path.write_text(CLUSTER)
    return path


def test_the_list_shows_every_profile_and_mistakes_below(command: Command, file: Path) -> None:
    said = command("profiles")
    assert (said.status, said.err) == (0, "")
    assert [line.split()[:2] for line in said.out.splitlines()] == [
        ["profile", "backend"],
        ["local", "embedded"],
        ["spark-local", "spark"],
        ["cluster", "spark"],
    ]
    assert said.out.splitlines()[3].split() == ["cluster", "spark", "spark://host:7077", "1", "1.0", "GB", "3.2"]
    file.write_text(CLUSTER + "[bad]\ncores = 0\n")
    said = command("profiles", "list").done()
    assert "bad          error" in said.out
    assert said.err == (
        f"error: {file}: profile bad, cores: must be a whole number of at least 1, not 0. For example cores = 4.\n"
    )
    output = command("profiles", "list", "--json").json
    assert output["file"] == str(file)
    assert [(p["name"], bool(p["problem"])) for p in output["profiles"]] == [
        ("local", False), ("spark-local", False), ("cluster", False), ("bad", True),
    ]  # fmt: skip
    assert output["profiles"][2]["master"] == "spark://host:7077"


def test_a_file_that_is_not_toml_is_reported_once(command: Command, file: Path) -> None:
    file.write_text(CLUSTER + "x = [\n")
    said = command("profiles").done()
    assert said.err.count("not valid TOML") == 1
    assert "local" in said.out
    assert "not valid TOML" in command("profiles", "list", "--json").json["problem"]


def test_no_profile_is_called_the_default_where_the_file_cannot_be_read(
    command: Command, save: Save, file: Path
) -> None:
    file.write_text('default = "cluster"\n' + CLUSTER + "x = [\n")
    assert "yes" not in command("profiles").done().out
    assert command("profiles", "list", "--json").json["default"] == ""
    name = save(pipeline(box("a", "Make")))
    for verb in ("plan", "run"):
        command(verb, name).fails("not valid TOML")


def test_an_empty_name_is_no_profile(command: Command, file: Path) -> None:
    command("profiles", "show", "").fails("no compute profile ''")


def test_looking_at_profiles_makes_no_workspace(command: Command, home: Path) -> None:
    command("profiles").done()
    command("profiles", "show", "spark-local", "--workspace", str(home / "other")).done()
    assert not (home / "other").exists()


def test_show_prints_a_table_that_gives_the_profile(
    command: Command, file: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_SECRET", "hunter2")
    said = command("profiles", "show", "cluster").done()
    assert "hunter2" not in said.out
    before = find_profile("cluster", workspace)
    file.write_text(said.out.partition(f"# as it would stand in {file}\n")[2])
    assert find_profile("cluster", workspace) == before
    output = command("profiles", "show", "cluster", "--json").json
    assert (output["origin"], output["price_per_hour"]) == ("profiles.toml", 3.2)
    assert output["toml"] == file.read_text()
    command("profiles", "show", "moon").fails("no compute profile moon")


def test_new_writes_an_example_that_can_be_used(command: Command, file: Path) -> None:
    command("profiles", "new", "mine").done()
    assert file.read_text().startswith(CLUSTER)
    command("profiles", "show", "mine").done()
    command("profiles", "new", "mine").fails("there is a profile mine already")


def test_test_reports_each_check_and_what_to_do(command: Command, file: Path, workspace: Workspace) -> None:
    said = command("profiles", "test", "local").done()
    assert [line.split()[:2] for line in said.out.splitlines()][:4] == [
        ["ok", "cores:"], ["ok", "memory:"], ["ok", "folder:"], ["ok", "disk:"],
    ]  # fmt: skip
    (workspace.root / "a-file").write_text("")
    file.write_text('[bad]\ncores = 5000\nmemory = "9000 TB"\ngpus = 500\nstorage_root = "a-file"\n')
    said = command("profiles", "test", "bad", "--json")
    assert said.status == 1
    assert said.json["ok"] is False
    assert [(c["name"], c["ok"], bool(c["hint"])) for c in said.json["checks"]] == [
        ("cores", False, True), ("memory", False, True), ("GPUs", False, True), ("folder", False, True),
    ]  # fmt: skip


def test_spark_is_asked_for_its_own_checks_one_after_another(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def checks(profile: Profile, workspace: Workspace, log: Callable[[str], None]) -> Iterator[Check]:
        asked.append(profile.name)
        yield Check("Java", True, "17.0.1")
        log("resolving 1 of 7")
        yield Check("master", False, "spark://host:7077 does not answer", "Start it.")

    fake = types.ModuleType("engine.spark.checks")
    fake.checks = checks  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "engine.spark.checks", fake)
    said = command("profiles", "test", "cluster")
    assert (said.status, asked, said.err) == (1, ["cluster"], "resolving 1 of 7\n")
    assert said.out.splitlines()[-4:] == [
        "ok     Java: 17.0.1",
        "failed master: spark://host:7077 does not answer",
        "       Start it.",
        "profile cluster: 1 of 6 checks failed",
    ]


def test_databricks_needs_its_command_line_an_account_and_a_machine(
    command: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[cloud]\nbackend = "spark"\nmaster = "databricks"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    said = command("profiles", "test", "cloud")
    assert said.status == 1
    assert "failed databricks: Databricks' command line is not installed" in said.out
    assert "failed machine type: the profile names none" in said.out
    program = tmp_path / "databricks"
    program.write_text("#!/bin/sh\necho 'not configured' >&2; exit 1\n")
    program.chmod(0o755)
    assert "failed signed in: Databricks does not know who you are" in command("profiles", "test", "cloud").out
    program.write_text('#!/bin/sh\necho \'{"userName": "ada@example.com"}\'\n')
    file.write_text(file.read_text() + 'machine = "Standard_D8s_v5@eastus"\n')
    out = command("profiles", "test", "cloud").done().out
    assert "ok     signed in: as ada@example.com" in out
    assert "`voxelflow export PIPELINE --to databricks --profile cloud`" in out
    file.write_text(file.read_text() + 'executor_machine = "Standard_D16s_v5@eastus"\n')
    out = command("profiles", "test", "cloud").done().out
    assert "ok     machine types: Standard_D8s_v5@eastus (driver), Standard_D16s_v5@eastus (executors)" in out
    file.write_text(file.read_text().replace("Standard_D16s_v5@eastus", "Standard_NC4as_T4_v3@eastus"))
    said = command("profiles", "test", "cloud")
    assert said.status == 1
    assert "(executors), and Standard_D8s_v5@eastus has no GPU" in said.out


@pytest.mark.slow
def test_a_plan_says_where_each_node_works(command: Command, save: Save, file: Path) -> None:
    document = pipeline(box("a", "Make"), box("b", "Join"), box("c", "Join"), wires="a.out>b.first a.out>c.first")
    said = command("plan", save(document), "--profile", "cluster").done()
    assert "a: spark (profile cluster)\nb, c: embedded (a probe: runs on the driver's machine)\n" in said.out
    assert "(profile" not in command("plan", "test.json").out
    assert "under every profile (a probe)" in command("nodes", "Join").out
    refused = pipeline(box("g", "Grow"))
    command("plan", save(refused), "--profile", "cluster").fails("error VF307 g: Grow cannot run on spark")


def test_another_profiles_mistake_stops_no_other_verb(command: Command, save: Save, file: Path) -> None:
    name = save(pipeline(box("a", "Make")))
    file.write_text(CLUSTER + "[bad]\ncores = 0\n")
    for verb in ("validate", "plan"):
        command(verb, name).done()
    command("plan", name, "--profile", "bad").fails("profile bad, cores")


def test_a_run_with_a_price_says_what_it_has_cost(command: Command, workspace: Workspace, store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {"backend": "spark", "price_per_hour": 3600.0}, "cluster")
    assert "cost" not in command("runs", "show").out
    store.begin_attempt(run_id)
    store.finish_run(run_id, "done")
    run = store.run(run_id)
    assert run.seconds is not None
    assert run.cost == pytest.approx(run.seconds)
    said = command("runs", "show")
    assert "at 3,600 an hour" in said.out
    output = command("runs", "show", "--json").json
    assert (output["backend"], output["price_per_hour"], output["cost"]) == ("spark", 3600.0, run.cost)
    assert (output["idle_share"], output["idle_cost"]) == (None, None)
    assert command("runs", "list").out.split("\n")[0].split()[-1] == "cost"
    store.add_sample(run_id, SystemSample(values={}), 1.0, 4.0)
    run = store.run(run_id)
    assert run.cost is not None
    assert run.idle_cost == pytest.approx(run.cost / 4)
    assert "idle (25%)" in command("runs", "show").out
    (summed,) = command("runs", "costs", "--json").json
    assert (summed["pipeline"], summed["runs"], summed["cost"]) == ("p", 1, run.cost)
    assert summed["idle_cost"] == run.idle_cost
    assert command("runs", "costs").done().out.splitlines()[1].split()[1:3] == ["p", "1"]


def test_a_run_without_a_price_shows_none(command: Command, store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {"backend": "embedded"}, "local")
    store.begin_attempt(run_id)
    store.add_sample(run_id, SystemSample(values={}), 1.0, 4.0)
    store.finish_run(run_id, "done")
    assert "cost" not in command("runs", "list").out
    assert "cost" not in command("runs", "show").out
    assert command("runs", "costs", "--json").json == []
    assert "no run has a price" in command("runs", "costs").done().out


def test_a_profile_takes_its_price_from_its_machine(command: Command, file: Path) -> None:
    file.write_text('[aws]\nmachine = "M5.2xlarge"\n[own]\nmachine = "m5.2xlarge"\nprice_per_hour = 0.1\n')
    output = command("profiles", "show", "aws", "--json").json
    assert (output["machine"], output["machine_price"], output["currency"]) == ("m5.2xlarge@us-east-1", 0.384, "USD")
    assert output["price_per_hour"] is None
    assert 'machine = "m5.2xlarge@us-east-1"' in output["toml"]
    assert "0.384 USD" in command("profiles", "show", "aws").out
    assert find_profile("own", Workspace(file.parent)).hourly_price == 0.1
    file.write_text('[own]\nmachine = "m5.2xlarge"\nprice_per_hour = 0.1\ncurrency = "EUR"\n')
    assert "0.1 EUR" in command("profiles", "list").out
    file.write_text('[aws]\nmachine = "m5.2xlarg"\n[good]\ncores = 1\n')
    assert command("profiles", "show", "good").status == 0
    command("profiles", "show", "aws").fails(
        "profile aws, machine: there is no machine m5.2xlarg in the table of prices. Did you mean m5.2xlarge"
    )
    file.write_text('[azure]\nmachine = "Standard_D8s_v5"\n')
    command("profiles", "show", "azure").fails("is in 2 regions")


def test_a_price_of_ones_own_is_not_called_a_spot_price(command: Command, file: Path, workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text("name,price_per_hour,spot_per_hour,currency\ncellar,0.9,0.3,EUR\n")
    spot = 'machine = "cellar"\nspot = true\n'
    file.write_text(f"[spot]\n{spot}[own]\n{spot}price_per_hour = 0.2\n")
    assert "cellar on the spot market" in command("profiles", "show", "spot").done().out
    assert "spot market" not in command("profiles", "show", "own").done().out


def test_the_default_profile_is_used_where_none_is_named(command: Command, save: Save, file: Path) -> None:
    name = save(pipeline(box("a", "Make")))
    command("profiles", "default", "nobody").fails("there is no compute profile nobody")
    command("profiles", "default", "cluster").done()
    assert file.read_text() == f'default = "cluster"\n\n{CLUSTER}'
    assert "a: spark (profile cluster)" in command("plan", name).out
    assert "(profile" not in command("plan", name, "--profile", "local").out
    assert command("profiles", "list", "--json").json["default"] == "cluster"
    assert command("profiles").out.splitlines()[1].split()[0] == "cluster"


def test_checks_come_as_lines_of_json(command: Command, file: Path) -> None:
    lines = [json.loads(line) for line in command("profiles", "test", "local", "--json-lines").out.splitlines()]
    assert [line["name"] for line in lines] == ["cores", "memory", "folder", "disk"]
    assert all(line["ok"] for line in lines)


def test_a_cluster_shows_its_machines_and_what_all_of_them_cost(command: Command, file: Path) -> None:
    cluster = '[it]\nbackend = "spark"\nmaster = "yarn"\nmachine = "m5.2xlarge"\n'
    file.write_text(cluster + '[it.spark]\n"spark.executor.instances" = 4\n')
    said = command("profiles", "show", "it").done().out
    assert "5 x m5.2xlarge@us-east-1 (driver and 4 executors)" in said
    assert "1.92 USD" in said
    file.write_text(cluster + '[it.spark]\n"spark.dynamicAllocation.enabled" = true\n')
    assert (
        "none known: the profile it does not say how many executors it has"
        in command("profiles", "show", "it").done().out
    )


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ('backend = "spark"\nmaster = "databricks"', "`voxelflow prices`"),
        ('backend = "spark"\nmaster = "databricks"', "install.sh | sh`"),
        ("gpus = 99", "`nvidia-smi`"),
        ('storage_root = "/proc/none"', "`sudo mkdir -p /proc/none"),
    ],
)
def test_what_is_missing_names_the_command_that_helps(
    command: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, wanted: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file.write_text(f"[it]\n{table}\n")
    assert wanted in command("profiles", "test", "it").out
