"""A file's path may be spelled in several ways in a Delta log. Ours is what every other reader makes of it.

Readers compare the paths of `add` and `remove` as strings. So what takes a file out must spell it as it was logged:
raw (`k=0.parquet`, `ü.parquet`, as conversions of delta-rs and Spark do) or percent-encoded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from delta_tables import SPEC, context, ids, read_by_deltalake, rows_of, shards, write_shard
from deltalake import DeltaTable, convert_to_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.datasets import VolumeDelta
from engine.errors import StaleInput, UnsupportedTable
from nodes.foreign_tables.tables import any_table
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import commit as delta_commit
from nodes.table.commit import table_writer
from nodes.table.log import actions, commit_file
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.log_writer import Change
from nodes.table.snapshot import describe_file, open_table
from nodes.table.vacuum import vacuum
from nodes.volume_file.layout import properties

NAMES = [
    "k=0",
    "a+b",
    "a@b",
    "ü",
    "a b",
    "100%",
    "a%zz",
    "a#b",
    "a?b",
    "a&b;c,d",
    "q'u\"o",
    "[1]~(2)!$",
    "日本",
    "u\u0308",
    "12:30:00",
]
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""How a URL begins: delta-rs and Spark take a file that is logged so for one elsewhere, until its colon is encoded."""
CDF = {"delta.enableChangeDataFeed": "true"}


def raw(name: str) -> str:
    """As Spark's CONVERT spells a name: characters that a URI cannot hold are encoded, all others are as they are."""
    return "".join(quote(c) if c in ' %#?"[]<>\\^`{|}' else c for c in name)


def encoded(name: str) -> str:
    """Every character encoded that may be, and with small digits, which also is allowed."""
    return "".join(c if c in "./" else "".join(f"%{b:02x}" for b in c.encode()) for c in name)


def converted(root: Path, names: Sequence[str], spell: Callable[[str], str] | None = None) -> VolumeDelta:
    """A table that delta-rs made of files with these names, two rows each; `spell` writes the paths in the log anew."""
    for place, name in enumerate(names):
        write_shard(root, ids(2 * place, 2), name=f"{name}.parquet")
    convert_to_deltalake(str(root))
    DeltaTable(root).alter.set_table_properties(properties(SPEC), raise_if_not_exists=False)
    if spell is not None:
        _spell_anew(root, names, spell)
    return open_table(root).reference(str(root))


def _spell_anew(root: Path, names: Sequence[str], spell: Callable[[str], str]) -> None:
    found = []
    for line in commit_file(root, 0).read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            first = int(json.loads(action["add"]["stats"])["minValues"]["id"][-5:])
            action["add"]["path"] = spell(f"{names[first // 2]}.parquet")
        found.append(json.dumps(action, ensure_ascii=False))
    commit_file(root, 0).write_text("\n".join(found) + "\n")


def _hold(root: Path, volume_ids: list[str]) -> None:
    wanted = rows_of(volume_ids)
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert read(str(root)) == wanted, read
    assert sum(f.rows for f in open_table(root).files) == len(volume_ids)


@pytest.mark.slow
@pytest.mark.parametrize("spell", [None, raw, encoded])
@pytest.mark.parametrize("plain", [True, False])
def test_a_compaction_takes_out_what_it_wrote_again(tmp_path: Path, spell: Callable[[str], str], plain: bool) -> None:
    """For everybody, also in a table that asks writers for more than the first versions of the protocol."""
    root = tmp_path / "t"
    table = converted(root, NAMES, spell)
    if not plain:
        DeltaTable(root).alter.set_table_properties(CDF)
        table = open_table(root).reference(str(root))
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert done.files == 1
    _hold(root, ids(0, 2 * len(NAMES)))
    freed = vacuum(str(root), (), 0, context(tmp_path, "v"))
    assert freed.files == len(NAMES)
    _hold(root, ids(0, 2 * len(NAMES)))


@pytest.mark.slow
@pytest.mark.parametrize("spell", [None, raw, encoded])
def test_rows_that_come_out_are_out_for_everybody(tmp_path: Path, spell: Callable[[str], str]) -> None:
    root = tmp_path / "t"
    converted(root, NAMES, spell)
    dataset = shards(tmp_path / "p", 3, first=50)
    parquet_to_delta(dataset, table=str(root), existing="replace", ctx=context(tmp_path))
    _hold(root, ids(50, 3))
    # The checkpoint says so too.
    version = open_table(root).version
    assert make_checkpoint(root, version, 1)
    for older in range(version):
        commit_file(root, older).unlink()
    _hold(root, ids(50, 3))


@pytest.mark.slow
@pytest.mark.parametrize("spell", [raw, encoded])
def test_a_checkpoint_keeps_the_paths_as_they_are(tmp_path: Path, spell: Callable[[str], str]) -> None:
    root = tmp_path / "t"
    converted(root, NAMES, spell)
    for make in (lambda v: make_checkpoint(root, v, 1), lambda _: DeltaTable(root).create_checkpoint()):
        make(open_table(root).version)
        table = open_table(root)
        gone = table.files[0]
        with table_writer(root, context(tmp_path)) as writer:
            writer.commit(table, [Change(removes=(gone,))], data_change=True)
        _hold(root, [i for i in ids(0, 2 * len(NAMES)) if i > gone.id_max])


@pytest.mark.slow
@pytest.mark.parametrize("spell", [raw, encoded])
def test_a_vacuum_spares_a_file_however_it_is_spelled(tmp_path: Path, spell: Callable[[str], str]) -> None:
    root = tmp_path / "t"
    converted(root, NAMES, spell)
    for file in root.glob("*.parquet"):
        os.utime(file, (0, 0))
    assert vacuum(str(root), (), 0, context(tmp_path, "v")).files == 0
    _hold(root, ids(0, 2 * len(NAMES)))
    # Another file may have the name that a path spells when nobody decodes it: nobody can tell what was meant.
    write_shard(root, ids(90, 1), name=encoded("k=0.parquet"))
    assert vacuum(str(root), (), 0, context(tmp_path, "v")).files == 0
    _hold(root, ids(0, 2 * len(NAMES)))


def test_a_file_is_taken_out_as_it_was_logged(tmp_path: Path) -> None:
    root = tmp_path / "t"
    converted(root, NAMES, encoded)
    table = open_table(root)
    assert {f.path for f in table.files} == {f"{n}.parquet" for n in NAMES}
    with table_writer(root, context(tmp_path)) as writer:
        version = writer.commit(table, [Change(removes=table.files)], data_change=True)
    assert {a["path"] for a in actions(root, version, "remove")} == {encoded(f"{n}.parquet") for n in NAMES}
    assert open_table(root).files == ()


def test_what_delta_rs_cannot_spell_is_refused_where_only_it_can_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(95, "no hard links here")

    root = tmp_path / "t"
    table = converted(root, ["ü", "b"], raw)
    monkeypatch.setattr(delta_commit, "write_commit", no_links)
    with pytest.raises(UnsupportedTable, match=r"ü\.parquet"):
        optimize_delta(table, ctx=context(tmp_path, "o"))
    _hold(root, ids(0, 4))


def test_removals_that_spell_a_path_otherwise_remove_nothing(tmp_path: Path) -> None:
    """As for every other reader: such a table holds its rows twice, and is counted so."""
    root = tmp_path / "t"
    table = converted(root, ["k=0", "k=1"])
    new = describe_file(root, write_shard(root, ids(0, 4), name="new.parquet").path)
    with table_writer(root, context(tmp_path)) as writer:
        writer.commit(open_table(root), [Change(adds=(new,))], data_change=False)
    remove = {"path": "k%3D0.parquet", "dataChange": False, "deletionTimestamp": 0}
    commit_file(root, 3).write_text(json.dumps({"remove": remove}) + "\n")
    assert sum(f.rows for f in open_table(root).files) == len(read_by_deltalake(str(root))) == 8
    with pytest.raises(StaleInput):
        optimize_delta(table, ctx=context(tmp_path, "o"))


@pytest.mark.slow
@pytest.mark.parametrize("spell", [str, lambda path: path.replace(":", "%3A")])
def test_a_name_that_begins_as_a_url_is_that_of_a_file(tmp_path: Path, spell: Callable[[str], str]) -> None:
    root = tmp_path / "t:1"
    converted(root, ["0", "1", "2"])
    for name in "01":
        (root / f"{name}.parquet").rename(root / f"a:{name}.parquet")
    _spell_anew(root, ["a:0", "a:1", "2"], spell)
    readers = [rows_by_pyarrow, rows_by_polars, rows_by_duckdb, *([read_by_deltalake] if spell is not str else [])]
    for read in readers:
        assert read(str(root)) == rows_of(ids(0, 6)), read
    table = open_table(root)
    assert {f.path_in_log for f in table.files} == {spell("a:0.parquet"), spell("a:1.parquet"), "2.parquet"}
    assert optimize_delta(table.reference(str(root)), ctx=context(tmp_path, "o")).files == 1
    _hold(root, ids(0, 6))
    assert vacuum(str(root), (), 0, context(tmp_path, "v")).files == 3
    _hold(root, ids(0, 6))


@pytest.mark.parametrize("begin", ["file:", "file://", ""])
def test_a_file_elsewhere_is_refused_however_it_is_named(tmp_path: Path, begin: str) -> None:
    """With one slash as Hadoop does, with two or three, or by its path alone."""
    root = tmp_path / "t"
    converted(root, ["0", "1"])
    _spell_anew(root, ["0", "1"], lambda name: name if name[0] == "1" else f"{begin}{tmp_path}/other/{name}")
    for read in (open_table, lambda place: any_table(str(place))):
        with pytest.raises(UnsupportedTable, match=r"outside its folder: .*other/0\.parquet"):
            read(root)


def test_a_file_that_is_logged_twice_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "t"
    converted(root, ["k=0"])
    (add,) = actions(root, 0, "add")
    commit_file(root, 2).write_text(json.dumps({"add": add | {"path": "k%3D0.parquet"}}) + "\n")
    assert len(read_by_deltalake(str(root))) == 4
    with pytest.raises(UnsupportedTable, match="twice"):
        open_table(root)


names = st.text(
    st.one_of(st.sampled_from("=+@&;,!$'()*~%#?\"[]<>^`{|}\\ äßé日\u0308-_.:0aF"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=12,
).filter(
    lambda n: (
        n[0] not in "._"
        and not set(n) & set("/\0")
        and n.isprintable()
        and len(n.encode()) < 60
        and SCHEME.match(n) is None
    )
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(names, min_size=2, max_size=4, unique_by=str.casefold), spell=st.sampled_from([raw, quote, encoded])
)
def test_any_names(tmp_path_factory: pytest.TempPathFactory, names: list[str], spell: Callable[[str], str]) -> None:
    folder = tmp_path_factory.mktemp("names")
    root = folder / "t"
    plain = [str(n) for n in range(len(names))]
    converted(root, plain)  # delta-rs' conversion itself fails on some names
    for old, new in zip(plain, names, strict=True):
        (root / f"{old}.parquet").rename(root / f"{new}.parquet")
    _spell_anew(root, names, spell)
    _hold(root, ids(0, 2 * len(names)))
    table = open_table(root).reference(str(root))
    assert optimize_delta(table, ctx=context(folder, "o")).files == 1
    _hold(root, ids(0, 2 * len(names)))
