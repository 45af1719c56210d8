"""Changing profiles.toml from the browser: what is saved is read back, and the rest of the file stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.profiles import default_profile, find_profile, profile_names
from engine.profiles.edit import delete_profile, read_written, save_profile, set_default
from engine.profiles.profile import holds_secret
from engine.workspace import Workspace

FILE = """\
# Ours.
default = "cluster"

[cluster]                      # the big one
backend = "spark"
master = "spark://10.0.0.5:7077"
memory = "16 GB"               # of the driver
cores = 8

[cluster.spark]
executor.memory = "8g"         # each
"spark.speculation" = true

# The small one.
[mine]
cores = 1
"""


@pytest.fixture
def file(workspace: Workspace) -> Path:
    path = workspace.root / "profiles.toml"
    path.write_text(FILE)
    return path


def save(workspace: Workspace, name: str, fields: dict[str, object], spark: dict[str, str], **more: str) -> None:
    """Change the profile; with another name in `instead_of` rename that one; make one that is not in the file."""
    found = read_written(name, workspace)
    save_profile(
        name,
        fields,
        spark,
        workspace,
        **{"revision": found.revision, "instead_of": name if found.fields else None, **more},
    )


def test_a_field_that_is_changed_is_all_that_changes(workspace: Workspace, file: Path) -> None:
    found = read_written("cluster", workspace)
    assert found.fields == {
        "backend": "spark",
        "master": "spark://10.0.0.5:7077",
        "memory": "16 GB",
        "cores": 8,
    }
    assert found.spark == {"spark.executor.memory": "8g", "spark.speculation": "true"}
    save(workspace, "cluster", {**found.fields, "cores": 4}, dict(found.spark))
    assert file.read_text() == FILE.replace("cores = 8", "cores = 4")


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ({"spark.executor.memory": "4g"}, '"8g"         # each', '"4g"         # each'),
        ({"spark.executor.cores": "3"}, "cores = 2     # few", "cores = 3     # few"),
        ({"spark.speculation": None}, '"spark.speculation" = true\n', ""),
        ({"spark.a": "b"}, '"spark.speculation" = true\n', '"spark.speculation" = true\n"spark.a" = "b"\n'),
    ],
)
def test_a_setting_that_is_changed_is_all_that_changes(
    workspace: Workspace, file: Path, change: dict[str, str | None], old: str, new: str
) -> None:
    more = '# "spark.executor.memoryOverhead" = "1g"\nexecutor.cores = 2     # few\n'
    file.write_text(before := FILE.replace('"spark.speculation"', f'{more}"spark.speculation"'))
    wanted = {**read_written("cluster", workspace).spark, **change}
    save(workspace, "cluster", {}, {name: value for name, value in wanted.items() if value is not None})
    assert file.read_text() == before.replace(old, new)
    # With all of them goes the table, but for what a person wrote beside.
    save(workspace, "cluster", {}, {})
    assert (read_written("cluster", workspace).spark, more.splitlines()[0] in file.read_text()) == ({}, True)


@pytest.mark.parametrize(
    "table",
    [
        '[c]\nspark = {executor.memory = "8g", "spark.a" = 1}\n',
        '[c]\nspark."spark.a" = 1\nspark.executor.memory = "8g"\n',
        '[c]\n[c.spark]\nspark.executor.memory = "8g"\nspark.executor.cores = 2\n"spark.a" = 1\n',
        '[c.spark.executor]\nmemory = "8g"\n',
        "[c]\ncores = 1",
    ],
)
@pytest.mark.parametrize("spark", [{"spark.executor.memory": "9g"}, {"spark.a": "1", "spark.b.c": "d"}, {}])
def test_settings_are_saved_however_they_are_written(workspace: Workspace, table: str, spark: dict[str, str]) -> None:
    (workspace.root / "profiles.toml").write_text(table)
    save(workspace, "c", {"backend": "spark"}, spark, instead_of="c")
    assert find_profile("c", workspace).spark == spark


def test_a_profile_in_keys_of_the_file_is_renamed_whole_or_not_at_all(workspace: Workspace, file: Path) -> None:
    file.write_text('default = "big"\nbig.cores = 1    # few\n\n' + FILE.partition("\n\n")[2])
    save(workspace, "huge", {"cores": 2}, {}, instead_of="big", revision=read_written("big", workspace).revision)
    assert 'default = "huge"\nhuge.cores = 2    # few\n' in file.read_text()
    assert profile_names(workspace) == ["huge", "local", "spark-local", "cluster", "mine"]
    for text in ("big.cores = 1\nbig.gpus = 0\n", '[big]\ncores = 1\n[other]\nmachine = """\n[big]\n"""\n'):
        file.write_text(text)
        with pytest.raises(UsageError, match="the profile big is "):
            save(workspace, "huge", {}, {}, instead_of="big", revision=read_written("big", workspace).revision)
        assert file.read_text() == text


def test_fields_come_and_go(workspace: Workspace, file: Path) -> None:
    found = read_written("cluster", workspace)
    save(workspace, "cluster", {"memory": None, "gpus": 2, "price_per_hour": 1.5}, {"spark.executor.cores": "4"})
    profile = find_profile("cluster", workspace)
    assert (profile.gpus, profile.price_per_hour, profile.cores) == (2, 1.5, 8)
    assert profile.spark == {"spark.executor.cores": "4"}
    assert "16 GB" not in file.read_text()
    assert "[mine]\ncores = 1\n" in file.read_text()
    assert found.revision != read_written("cluster", workspace).revision


def test_a_new_profile_a_new_name_and_none_any_more(workspace: Workspace, file: Path) -> None:
    save(workspace, "other", {"cores": 2}, {})
    assert find_profile("other", workspace).cores == 2
    save(workspace, "big", dict(read_written("cluster", workspace).fields), {}, instead_of="cluster")
    assert default_profile(workspace) == "big"
    assert profile_names(workspace) == ["big", "local", "spark-local", "mine", "other"]
    with pytest.raises(UsageError, match="there is a profile big already"):
        save(workspace, "big", {}, {}, instead_of="mine")
    delete_profile("big", workspace, revision=read_written("big", workspace).revision)
    assert default_profile(workspace) == "local"
    assert profile_names(workspace) == ["local", "spark-local", "mine", "other"]
    assert "# The small one." in file.read_text()


def test_a_ready_profile_can_be_changed_and_is_as_before_when_deleted(workspace: Workspace) -> None:
    save(workspace, "local", {"cores": 1, "price_per_hour": 0.4}, {})
    assert find_profile("local", workspace).price_per_hour == 0.4
    delete_profile("local", workspace, revision=read_written("local", workspace).revision)
    assert find_profile("local", workspace).price_per_hour is None


def test_what_is_wrong_is_refused_and_nothing_written(workspace: Workspace, file: Path) -> None:
    for fields, spark, said in (
        ({"cores": 0}, {}, "cores: must be a whole number"),
        ({"memory": "much"}, {}, "memory: 'much' is no amount of memory"),
        ({"master": "two words"}, {}, "master: must be the address"),
        ({"master": "10.0.0.5:7077"}, {}, "master: '10.0.0.5:7077' is no Spark master"),
        ({"master": "yarn-client"}, {}, "master: 'yarn-client' is no Spark master"),
        ({"backend": "embedded"}, {}, "master: is for Spark"),
        ({"price": 1}, {}, "price: there is no such field"),
        ({}, {"spark.hadoop.fs.s3a.secret.key": "abcd"}, "looks like a secret"),
    ):
        with pytest.raises(UsageError, match=said):
            save(workspace, "cluster", fields, spark)
    with pytest.raises(UsageError, match="is not a profile's name"):
        save(workspace, "a b", {}, {})
    assert file.read_text() == FILE


def test_two_people_do_not_overwrite_each_other(workspace: Workspace, file: Path) -> None:
    revision = read_written("mine", workspace).revision
    save(workspace, "mine", {"cores": 3}, {})
    with pytest.raises(UsageError, match="changed by another program meanwhile"):
        save_profile("mine", {"cores": 2}, {}, workspace, revision=revision, instead_of="mine")
    with pytest.raises(UsageError, match="changed by another program meanwhile"):
        delete_profile("mine", workspace, revision=revision)
    assert find_profile("mine", workspace).cores == 3


def test_a_file_that_is_not_toml_is_left_alone(workspace: Workspace, file: Path) -> None:
    file.write_text("[cluster\n")
    for attempt in (
        lambda: read_written("cluster", workspace),
        lambda: save_profile("x", {}, {}, workspace, revision=""),
        lambda: set_default("local", workspace),
    ):
        with pytest.raises(UsageError, match="is not valid TOML"):
            attempt()
    assert file.read_text() == "[cluster\n"


def test_the_default_is_used_where_no_profile_is_named(workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    assert (default_profile(workspace), find_profile(None, workspace).name) == ("local", "local")
    set_default("spark-local", workspace)
    assert file.read_text() == 'default = "spark-local"\n'
    assert (find_profile(None, workspace).backend, profile_names(workspace)[0]) == ("spark", "spark-local")
    file.write_text("# Mine.\n[mine]\ncores = 1\n")
    set_default("mine", workspace)
    assert file.read_text() == 'default = "mine"\n\n# Mine.\n[mine]\ncores = 1\n'
    with pytest.raises(UsageError, match="there is no compute profile nobody"):
        set_default("nobody", workspace)
    file.write_text('default = "nobody"\n')
    with pytest.raises(UsageError, match="there is no compute profile nobody"):
        find_profile(None, workspace)
    assert find_profile("local", workspace).name == "local"


words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12)
spark_settings = st.dictionaries(words.map(lambda w: f"spark.app.{w}"), words, max_size=4).filter(
    lambda found: not any(holds_secret(name, value) for name, value in found.items())
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cores=st.integers(1, 64),
    gpus=st.none() | st.integers(0, 8),
    memory=st.integers(1 << 28, 1 << 40),
    spark=spark_settings,
)
def test_anything_saved_is_read_back(
    workspace: Workspace, cores: int, gpus: int | None, memory: int, spark: dict[str, str]
) -> None:
    (workspace.root / "profiles.toml").write_text(FILE)
    save(workspace, "cluster", {"cores": cores, "gpus": gpus, "memory": memory}, spark)
    profile = find_profile("cluster", workspace)
    assert (profile.cores, profile.gpus, profile.memory_bytes) == (cores, gpus or 0, memory)
    assert profile.spark == spark
    assert find_profile("mine", workspace).cores == 1
    assert "# The small one." in (workspace.root / "profiles.toml").read_text()
