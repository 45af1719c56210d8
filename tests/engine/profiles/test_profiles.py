"""Profiles: the file in the workspace, the ready ones, secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.profiles import (
    Profile,
    default_profile,
    find_profile,
    list_profiles,
    local_profile,
    profile_names,
    spark_settings,
    unreadable,
)
from engine.profiles.edit import set_default
from engine.profiles.file import memory, to_toml
from engine.profiles.find import new_profile
from engine.workspace import Workspace

CLUSTER = """
[cluster]
backend = "spark"
master = "spark://10.0.0.5:7077"
cores = 8
memory = "16 GB"
gpus = 2
parallel_tasks = 3
keep_warm_minutes = 0.5
price_per_hour = 3.2
currency = "eur"
stop_after = "1h30min"
stop_at_cost = 4
storage_root = "/mnt/shared"

[cluster.spark]
"spark.executor.memory" = "8g"
"spark.speculation" = true
executor.cores = 4
spark.authenticate.secret = "${CLUSTER_SECRET}"
"""


def write(workspace: Workspace, text: str) -> None:
    (workspace.root / "profiles.toml").write_text(text)


def test_two_profiles_are_ready_without_a_file(workspace: Workspace) -> None:
    assert profile_names(workspace) == profile_names() == ["local", "spark-local"]
    assert find_profile("local", workspace).backend == "embedded"
    spark = find_profile("spark-local", workspace)
    assert (spark.backend, spark.master, spark.spark) == ("spark", "local[*]", {})
    assert spark.cores == local_profile().cores


def test_a_table_gives_every_field(workspace: Workspace) -> None:
    write(workspace, CLUSTER)
    found = find_profile("cluster", workspace)
    assert found == Profile(
        name="cluster",
        backend="spark",
        master="spark://10.0.0.5:7077",
        cores=8,
        memory_bytes=16_000_000_000,
        gpus=2,
        parallel_tasks=3,
        keep_warm_minutes=0.5,
        price_per_hour=3.2,
        currency="EUR",
        stop_after_s=5400,
        stop_at_cost=4,
        storage_root=Path("/mnt/shared"),
        spark={
            "spark.executor.memory": "8g",
            "spark.speculation": "true",
            "spark.executor.cores": "4",
            "spark.authenticate.secret": "${CLUSTER_SECRET}",
        },
    )
    assert profile_names(workspace) == ["local", "spark-local", "cluster"]


def test_what_show_prints_gives_the_same_profile(workspace: Workspace) -> None:
    write(workspace, CLUSTER + '["a.b"]\ncores = 1\n')
    for name in ("cluster", "local", "spark-local", "a.b"):
        before = find_profile(name, workspace)
        (workspace.root / "profiles.toml").write_text(to_toml(before))
        assert find_profile(name, workspace) == before
        write(workspace, CLUSTER + '["a.b"]\ncores = 1\n')


def test_the_file_changes_a_ready_profile(workspace: Workspace) -> None:
    write(workspace, '[local]\ncores = 1\n[spark-local]\nspark.driver.memory = "2g"\n')
    assert find_profile("local", workspace).cores == 1
    assert find_profile("local", workspace).parallel_tasks == 1
    assert find_profile("spark-local", workspace).spark == {"spark.driver.memory": "2g"}
    assert next((p.name, p.origin) for p in list_profiles(workspace)) == ("local", "profiles.toml over the ready one")


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("16 GB", 16 * 10**9),
        ("16GiB", 16 << 30),
        ("16g", 16 << 30),
        ("1.5 TB", 15 * 10**11),
        (512, 512),
        ("7 kb", 7000),
    ],
)
def test_amounts_of_memory(value: object, count: int) -> None:
    assert memory(value) == count


@pytest.mark.parametrize(
    ("table", "field", "message"),
    [
        ("cores = 0", "cores", "at least 1"),
        ("cores = true", "cores", "not True"),
        ('cores = "four"', "cores", "not 'four'"),
        ('memory = "lots"', "memory", "16 GB"),
        ('memory = "1 MB"', "memory", "256 MiB"),
        ("memory = 2.5", "memory", "no amount"),
        ("price_per_hour = -1", "price_per_hour", "at least 0"),
        ("price_per_dbu = 0.3", "price_per_dbu", "dbu_per_hour = 3"),
        ('price_per_dbu = 0.3\nmachine = "m5.2xlarge"', "price_per_dbu", "an hour of m5.2xlarge takes is not known"),
        ('currency = "€"', "currency", 'For example currency = "EUR"'),
        ("currency = 3", "currency", "three letters of a currency, not 3"),
        ('currency = "EUR"\nmachine = "m5.2xlarge"', "currency", "m5.2xlarge@us-east-1 is in USD, not in EUR"),
        ("spot = 1", "spot", "true or false, not 1"),
        ("spot = true", "spot", "the profile names no machine type"),
        ('spot = true\nmachine = "m5.2xlarge"', "spot", "no spot price of m5.2xlarge@us-east-1 is known"),
        ("stop_after = 3", "stop_after", "3h, 90min"),
        ('stop_after = "3"', "stop_after", "3h, 90min"),
        ("stop_at_cost = 0", "stop_at_cost", "above 0"),
        ('stop_at_cost = "20 USD"', "stop_at_cost", "at least 0"),
        ("price_per_hour = nan", "price_per_hour", "at least 0"),
        ('backend = "spark"\nkeep_warm_minutes = "long"', "keep_warm_minutes", "keep_warm_minutes = 10"),
        ("keep_warm_minutes = 5", "keep_warm_minutes", "is for Spark"),
        ('backend = "dask"', "backend", "embedded, spark"),
        ('master = "spark://h:1"', "master", 'backend = "spark"'),
        ('backend = "spark"\nmaster = ""', "master", "spark://host:7077"),
        ('backend = "spark"\nmaster = "spark://me:word@h:1"', "master", "password"),
        ('storage_root = "s3://bucket"', "storage_root", "not a folder"),
        ("storage_root = 3", "storage_root", "a folder"),
        ('mastr = "yarn"', "mastr", "Did you mean master?"),
        ("[bad.spark]\nspark.jars = [1]", "spark.jars", "text, numbers"),
        ('[bad.spark]\nspark.master = "yarn"', "spark.master", "field of its own"),
    ],
)
def test_a_mistake_names_file_profile_and_field_and_leaves_the_others(
    workspace: Workspace, table: str, field: str, message: str
) -> None:
    write(workspace, f"[good]\ncores = 1\n[bad]\n{table}\n")
    with pytest.raises(UsageError) as caught:
        find_profile("bad", workspace)
    assert str(workspace.root / "profiles.toml") in caught.value.message
    assert f"profile bad, {field}:" in caught.value.message
    assert message in caught.value.line()
    assert find_profile("good", workspace).cores == 1
    assert find_profile("local", workspace).name == "local"
    assert [p.name for p in list_profiles(workspace) if p.problem] == ["bad"]


@pytest.mark.parametrize("header", ["cluster", '"cluster"', "cluster.spark"])
def test_a_file_that_is_not_toml_stops_only_those_who_may_stand_in_it(workspace: Workspace, header: str) -> None:
    write(workspace, f"[{header}]\ncores = = 4\n")
    assert find_profile("local", workspace).name == "local"
    with pytest.raises(UsageError, match=r"not valid TOML: .*line 2"):
        find_profile("cluster", workspace)
    write(workspace, "[local]\ncores = 2\n[cluster]\ncores = = 4\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        find_profile("local", workspace)
    assert find_profile("spark-local", workspace).backend == "spark"
    assert unreadable(workspace) is not None


@pytest.mark.parametrize("line", ['default = "big"', "  'default'='big'", '"default" = "big"'])
def test_the_default_of_a_file_that_cannot_be_read_is_not_guessed(workspace: Workspace, line: str) -> None:
    write(workspace, f"# mine\n{line}\n[big]\nprice_per_hour = 3,2\nstop_at_cost = 5\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        find_profile(None, workspace)
    assert default_profile(workspace) == ""
    assert find_profile("local", workspace).name == "local"
    write(workspace, "[big]\nprice_per_hour = 3,2\n")
    assert find_profile(None, workspace).name == default_profile(workspace) == "local"


@pytest.mark.parametrize("line", ["default = 3", 'default = ["big"]', "default = true"])
def test_a_default_that_is_no_name_is_reported_and_not_guessed(workspace: Workspace, line: str) -> None:
    write(workspace, f"{line}\n[big]\ncores = 1\n")
    with pytest.raises(UsageError, match=r"profiles\.toml: default must be the name of a profile in quotes, not "):
        find_profile(None, workspace)
    assert default_profile(workspace) == ""
    assert find_profile("big", workspace).cores == 1
    # A profile may be called so.
    write(workspace, "[default]\ncores = 0\n")
    assert find_profile(None, workspace).name == default_profile(workspace) == "local"


def test_double_brackets_are_named(workspace: Workspace) -> None:
    write(workspace, "[[big]]\ncores = 1\n")
    with pytest.raises(UsageError, match="the profile big is in double brackets") as caught:
        find_profile("big", workspace)
    assert caught.value.hint == "Write [big]."


def test_a_byte_order_mark_is_no_part_of_the_file(workspace: Workspace) -> None:
    write(workspace, "\ufeff[big]\ncores = 1\n")
    assert find_profile("big", workspace).cores == 1
    set_default("big", workspace)
    new_profile("other", workspace)
    assert find_profile(None, workspace).name == "big"


def test_a_setting_that_begins_others_needs_quotes_and_the_error_says_so(workspace: Workspace) -> None:
    write(workspace, "[c.spark]\nspark.speculation = true\nspark.speculation.interval = 5\n")
    with pytest.raises(UsageError) as caught:
        find_profile("c", workspace)
    assert "in quotes" in caught.value.hint


def test_a_field_outside_every_table_is_reported(workspace: Workspace) -> None:
    write(workspace, "cores = 4\n[good]\n")
    assert [(p.name, p.problem is not None) for p in list_profiles(workspace)][2:] == [("good", False), ("cores", True)]


def test_a_ready_profile_keeps_its_backend(workspace: Workspace) -> None:
    write(workspace, '[local]\nbackend = "spark"\n')
    with pytest.raises(UsageError, match="keeps its backend"):
        find_profile("local", workspace)


def test_the_error_for_an_unknown_profile_names_the_known_ones(workspace: Workspace) -> None:
    write(workspace, "[mine]\n")
    with pytest.raises(UsageError, match="no compute profile moon") as caught:
        find_profile("moon", workspace)
    assert "local, spark-local, mine" in caught.value.hint


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        '"spark.hadoop.fs.s3a.secret.key" = "hunter2"',
        '"spark.hadoop.fs.s3a.access.key" = "hunter2"',
        '"spark.hadoop.fs.azure.account.key.mine.blob.core.windows.net" = "hunter2"',
        '"spark.hadoop.fs.azure.sas.box.mine" = "hunter2"',
        '"spark.authenticate.secret" = "hunter2"',
        '"spark.ssl.keyPassword" = "hunter2"',
        '"spark.kubernetes.authenticate.submission.oauthToken" = "hunter2"',
        '"spark.hadoop.url" = "https://me:hunter2@store"',
        '"spark.driver.extraJavaOptions" = "-Xmx1g -Djavax.net.ssl.trustStorePassword=hunter2"',
        '"spark.authenticate.secret" = "x${NAME}hunter2"',
        '"spark.executorEnv.AZURE_STORAGE_CONNECTION_STRING" = "UseDevelopmentStorage=hunter2"',
        '"spark.app.queue" = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=hunter2=="',
        '"spark.app.hub" = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKey=hunter2"',
        '"spark.app.box" = "BlobEndpoint=https://acct.blob.core.windows.net;SharedAccessSignature=sv=1&sig=hunter2"',
        '"spark.jars" = "https://acct.blob.core.windows.net/jars/x.jar?sv=2022-11-02&sig=hunter2%3D"',
        '"spark.files" = "https://b.s3.amazonaws.com/x?X-Amz-Expires=60&X-Amz-Signature=hunter2"',
        '"spark.jars.repositories" = "https://ghp_hunter2hunter2@maven.pkg.github.com/x"',
        '"spark.app.db" = "jdbc:sqlserver://host;user=me;password=hunter2"',
        '"spark.executorEnv.PGPASS" = "hunter2"',
        '"spark.executorEnv.MYSQL_PWD" = "hunter2"',
    ],
)
def test_a_secret_written_out_is_refused_and_not_repeated(workspace: Workspace, setting: str) -> None:
    write(workspace, f'[c]\nbackend = "spark"\n[c.spark]\n{setting}\n')
    with pytest.raises(UsageError) as caught:
        find_profile("c", workspace)
    assert "environment variable" in caught.value.hint
    assert "hunter2" not in caught.value.line()


@pytest.mark.parametrize(
    "setting",
    [
        '"spark.kubernetes.authenticate.driver.oauthTokenFile" = "/run/token"',
        '"spark.hadoop.fs.s3a.aws.credentials.provider" = "org.example.Provider"',
        '"spark.security.credentials.hive.enabled" = false',
        '"spark.ssl.keyStore" = "/etc/keys"',
        '"spark.kerberos.keytab" = "/etc/me.keytab"',
        '"spark.kryoserializer.buffer" = "64k"',
        '"spark.driver.extraJavaOptions" = "-Dsome.password=${WORD}"',
        '"spark.hadoop.fs.defaultFS" = "abfss://a-container-with-a-long-name@acct.dfs.core.windows.net/x"',
        '"spark.sql.warehouse.dir" = "s3a://a-bucket-with-a-long-name/x?size=3"',
        '"spark.app.code" = "git@github.com:a/b,ssh://git@github.com/a/b,https://git@github.com/a/b"',
        '"spark.app.owner" = "somebody.with.a.long.name@example.com"',
        '"spark.jars.repositories" = "https://repo1.maven.org,https://${PACKAGES_TOKEN_OF_OURS}@maven.example.org/x"',
        '"spark.jars" = "https://acct.blob.core.windows.net/x.jar?sv=1&sig=${SIGNATURE}"',
        '"spark.app.queue" = "AccountName=acct;AccountKey=${ACCOUNT_KEY}"',
        '"spark.executorEnv.PWD" = "/work"',
        '"spark.executorEnv.PGPASSFILE" = "/work/.pgpass"',
    ],
)
def test_settings_that_only_speak_of_secrets_are_taken(workspace: Workspace, setting: str) -> None:
    write(workspace, f'[c]\nbackend = "spark"\n[c.spark]\n{setting}\n')
    assert len(find_profile("c", workspace).spark) == 1


def test_references_are_put_in_only_when_asked_for(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    write(workspace, CLUSTER + '"spark.a" = "${spark.b}-${env:HOME}"\n')
    monkeypatch.setenv("CLUSTER_SECRET", "hunter2")
    found = find_profile("cluster", workspace)
    assert "hunter2" not in found.model_dump_json() + to_toml(found)
    settings = spark_settings(found)
    assert settings["spark.authenticate.secret"] == "hunter2"
    assert settings["spark.a"] == "${spark.b}-${env:HOME}"
    monkeypatch.delenv("CLUSTER_SECRET")
    with pytest.raises(UsageError, match=r"CLUSTER_SECRET is not set.*spark.authenticate.secret"):
        spark_settings(found)


# --- new ------------------------------------------------------------------------------------------


def test_a_new_profile_is_there_at_once_and_the_file_keeps_what_it_had(workspace: Workspace) -> None:
    write(workspace, "# mine\n[first]\ncores = 1")
    path = new_profile("second", workspace)
    assert path.read_text().startswith("# mine\n[first]\ncores = 1\n\n[second]\n")
    assert find_profile("second", workspace).backend == "spark"
    new_profile("a.b", workspace)
    assert profile_names(workspace) == ["local", "spark-local", "first", "second", "a.b"]
    for taken in ("first", "second", "local"):
        with pytest.raises(UsageError, match="already"):
            new_profile(taken, workspace)
    with pytest.raises(UsageError, match="not a profile's name"):
        new_profile("a b]", workspace)
    for lines in ('default = "first"', "default = 3"):
        write(workspace, f"{lines}\n[first]\ncores = 1\n")
        with pytest.raises(UsageError, match="begins with default =, so no profile can be called so"):
            new_profile("default", workspace)
        assert path.read_text() == f"{lines}\n[first]\ncores = 1\n"
    write(workspace, 'default = "first"\n[ default ]\n')
    with pytest.raises(UsageError) as caught:
        new_profile("third", workspace)
    assert caught.value.hint.startswith("Rename the profile [ default ]: ")
    write(workspace, "[first\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        new_profile("third", workspace)
    assert path.read_text() == "[first\n"


def test_every_commented_line_of_the_example_is_right(workspace: Workspace) -> None:
    path = new_profile("mine", workspace)
    path.write_text(path.read_text().replace("\n# ", "\n"))
    assert find_profile("mine", workspace).price_per_hour == 3.2
    assert len(find_profile("mine", workspace).spark) == 5


@pytest.mark.timeout(20)
def test_a_profiles_file_that_is_a_pipe_or_a_device_is_reported(workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    file.symlink_to("/dev/zero")
    assert "it is a device, not a regular file" in str(unreadable(workspace))
    file.unlink()
    os.mkfifo(file)
    assert "it is a named pipe, not a regular file" in str(unreadable(workspace))
    with pytest.raises(UsageError, match="named pipe"):
        new_profile("x", workspace)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[x]\ncores = {'9' * 5_000}\n", "is not valid TOML"),
        (f"x = {'[' * 5_000}{']' * 5_000}\n", "is not valid TOML"),
        (f'[x]\nmemory = "{"9" * 400} GB"\n', "memory"),
        (f"[x]\nmemory = {'9' * 400}\n", "more than any machine has"),
        (f"[x]\nprice_per_hour = {'9' * 400}\n", "price_per_hour"),
    ],
)
def test_numbers_without_end_are_reported(workspace: Workspace, text: str, said: str) -> None:
    (workspace.root / "profiles.toml").write_text(text)
    with pytest.raises(UsageError, match=rf"profiles\.toml.*{said}"):
        find_profile("x", workspace)


def test_a_control_character_in_a_profile_is_refused(workspace: Workspace) -> None:
    text = '[x]\nstorage_root = "/mnt/\\u0000"\n[y.spark]\n"spark.a" = "\\u0007"\n'
    (workspace.root / "profiles.toml").write_text(text)
    for name in ("x", "y"):
        with pytest.raises(UsageError, match=f"profile {name}, .*holds the control character"):
            find_profile(name, workspace)


def test_databricks_units_are_in_the_price_where_a_profile_pays_for_them(workspace: Workspace) -> None:
    machine = 'machine = "Standard_D16s_v3@eastus"\n'
    write(workspace, f"[plain]\n{machine}[units]\n{machine}price_per_dbu = 0.3\n"
          "[own]\nprice_per_hour = 1.0\nprice_per_dbu = 0.5\ndbu_per_hour = 2\n")  # fmt: skip
    assert find_profile("plain", workspace).hourly_price == 0.768
    units = find_profile("units", workspace)
    assert (units.dbu_per_hour, units.hourly_price) == (3, pytest.approx(0.768 + 3 * 0.3))
    assert find_profile("own", workspace).hourly_price == 2.0
    text = to_toml(units)
    assert "price_per_dbu = 0.3" in text


def test_a_profile_says_the_currency_of_its_own_price(workspace: Workspace) -> None:
    machine = 'machine = "m5.2xlarge"\n'
    write(
        workspace,
        f'[own]\n{machine}price_per_hour = 0.3\ncurrency = "EUR"\n[same]\n{machine}currency = "usd"\n'
        '[ours]\nmachine = "cellar"\ncurrency = "EUR"\n',
    )
    (workspace.root / "machines.csv").write_text("name,price_per_hour\ncellar,0.9\n")
    found = [find_profile(name, workspace) for name in ("own", "same", "ours")]
    assert [(p.hourly_price, p.currency) for p in found] == [(0.3, "EUR"), (0.384, "USD"), (0.9, "EUR")]
    for profile in found:
        write(workspace, to_toml(profile))
        assert find_profile(profile.name, workspace).currency == profile.currency


def test_a_machine_that_may_be_taken_back_has_its_own_price(workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text("name,price_per_hour,spot_per_hour,currency\ncellar,0.9,0.3,EUR\n")
    write(
        workspace,
        '[demand]\nmachine = "cellar"\n[spot]\nmachine = "cellar"\nspot = true\n'
        '[own]\nmachine = "cellar"\nspot = true\nprice_per_hour = 0.2\n',
    )
    found = [find_profile(name, workspace) for name in ("demand", "spot", "own")]
    assert [profile.hourly_price for profile in found] == [0.9, 0.3, 0.2]
    write(workspace, to_toml(found[1]))
    assert find_profile("spot", workspace).hourly_price == 0.3
