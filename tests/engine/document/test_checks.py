from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from building import box, pipeline
from installed_package import install
from shelf_place import ShelfPlace
from users import as_nobody_if_root

from engine.catalog import Catalog, build_catalog
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Report
from engine.declare.node import node
from engine.declare.parameters import PathOut
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic
from engine.document.checks import Observation, check
from engine.document.pipeline import Pipeline
from engine.document.resolve import resolve
from engine.observe.observe import observe
from engine.observe.paths import why_not_writable
from engine.profiles import Profile, local_profile
from engine.storage.schemes import installed_places
from engine.workspace import Workspace, open_workspace, trust

STORAGE = ("synthetic_volumes", "numpy_to_parquet", "parquet_to_delta", "optimize_delta")
GOLDEN = Path(__file__).parent / "golden"


def _found(document: Pipeline, catalog: Catalog, **values: object) -> list[Diagnostic]:
    return list(check(resolve(document, catalog, values), None, local_profile()).diagnostics)


def _codes(document: Pipeline, catalog: Catalog, **values: object) -> list[str]:
    return [d.code for d in _found(document, catalog, **values)]


def _seen(document: Pipeline, catalog: Catalog, workspace: Workspace) -> list[Diagnostic]:
    resolved = resolve(document, catalog)
    return list(check(resolved, observe(resolved, workspace, None)).diagnostics)


def test_a_good_pipeline_has_no_problems(probes: Catalog) -> None:
    assert _codes(pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first"), probes) == []


def test_every_problem_is_reported_at_once(probes: Catalog) -> None:
    document = pipeline(
        box("a", "Make", steps=-1, colour="red"),
        box("b", "Join"),
        box("c", "Mkae"),
        box("d", "Count"),
        box("e", "Join"),
        box("f", "Make", text="${nowhere}"),
        box("g", "Make", text="${unset}"),
        box("h", "Make", steps="many"),
        box("i", "Mutate"),
        box("j", "Mutate"),
        wires="a.out>b.second c.out>b.first d.out>e.first a.wrong>e.second gone.out>e.second"
        " a.out>i.first a.out>j.first",
        unset=None,
    )
    lines = "\n".join(d.line() for d in _found(document, probes, extra="1")) + "\n"
    golden = GOLDEN / "diagnostics.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(lines)
    assert lines == golden.read_text()


def test_cycles_are_reported_without_what_leads_to_them(probes: Catalog) -> None:
    document = pipeline(
        box("a", "Make"), box("b", "Join"), box("c", "Join"), wires="a.out>b.first c.out>b.second b.out>c.first"
    )
    found = [d for d in _found(document, probes) if d.code == "VF107"]
    assert len(found) == 1
    assert "b, c" in found[0].message
    assert "a" not in found[0].message.split()[0]


def test_two_results_at_one_place_and_a_missing_secret(
    probes: Catalog, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "out")
    document = pipeline(
        box("a", "Make"),
        box("b", "Save", folder=place, token="NO_SUCH_VARIABLE"),
        box("c", "Save", folder=place),
        wires="a.out>b.first a.out>c.first",
    )
    assert [d.code for d in _seen(document, probes, workspace)] == ["VF206", "VF113"]
    monkeypatch.setenv("NO_SUCH_VARIABLE", "x")
    assert [d.code for d in _seen(document, probes, workspace)] == ["VF113"]


def test_what_is_wrong_with_paths(probes: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    expected = {
        str(tmp_path / "none"): "VF301",
        str(tmp_path / "file.txt"): "VF305",
        str(tmp_path / "empty"): "VF306",
        "/etc": "VF308",
        "/nowhere/volumes": "VF301",
        "/etc/passwd/volumes": "VF301",
    }
    for folder, code in expected.items():
        found = _seen(pipeline(box("a", "Count", folder=folder)), probes, workspace)
        assert [(d.code, d.node, d.parameter) for d in found] == [(code, "a", "folder")], folder
        assert all(d.hint for d in found)
    # Where nothing is, there is nothing to allow; and where something shall be written, nothing need be.
    (found,) = _seen(pipeline(box("a", "Count", folder="/nowhere/volumes")), probes, workspace)
    assert found.message == "/nowhere/volumes does not exist"
    assert "outside the folders that this workspace may use" in found.hint
    written = pipeline(box("a", "Make"), box("b", "Save", folder="/nowhere/out"), wires="a.out>b.first")
    assert "VF308" in [d.code for d in _seen(written, probes, workspace)]
    # A link does not lead out of the allowed folders.
    (tmp_path / "link").symlink_to("/etc")
    found = _seen(pipeline(box("a", "Count", folder=str(tmp_path / "link"))), probes, workspace)
    assert [d.code for d in found] == ["VF308"]


def test_a_link_that_leads_nowhere_is_named(probes: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"1")
    document = pipeline(box("a", "Count", folder=str(folder)))
    assert _seen(document, probes, workspace) == []
    for name in "pqrst":
        (folder / name).symlink_to("/nowhere")
    (found,) = _seen(document, probes, workspace)
    assert (found.code, found.severity, found.parameter) == ("VF313", "warning", "folder")
    named = ", ".join(f"{name} (its target /nowhere is missing)" for name in "pqr")
    assert found.message == f"in {folder} 5 links are left out: {named} and 2 more"
    assert f"`rm {folder}/p {folder}/q {folder}/r` and so on" in found.hint


def test_each_reason_why_links_are_left_out_is_a_problem_of_its_own(
    probes: Catalog, workspace: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"1")
    (folder / "annexed").symlink_to("../.git/annex/objects/x")
    (folder / "up").symlink_to("..")
    found = _seen(pipeline(box("a", "Count", folder=str(folder))), probes, workspace)
    assert [(d.code, d.node, d.parameter) for d in found] == [("VF313", "a", "folder")] * 2
    fetched, around = sorted(found, key=lambda d: "around" in d.message)
    assert "annex get annexed" in fetched.hint
    assert "annex" not in around.hint


def test_a_place_that_cannot_be_written(probes: Catalog) -> None:
    with tempfile.TemporaryDirectory() as name:
        workspace = open_workspace(Path(name) / "workspace")
        locked = Path(name) / "locked"
        locked.mkdir(mode=0o555)
        Path(name).chmod(0o755)
        document = pipeline(box("a", "Make"), box("b", "Save", folder=str(locked / "x")), wires="a.out>b.first")
        resolved = resolve(document, probes)
        with as_nobody_if_root():
            seen = observe(resolved, workspace, None, scan=False, extra_roots=[Path(name)])
        found = check(resolved, seen).diagnostics
        expected = [("VF303", "b", "folder")]
        if os.geteuid() == 0:  # the workspace is root's, so nobody may not write that either
            expected.insert(0, ("VF303", None, None))
        assert [(d.code, d.node, d.parameter) for d in found] == expected
        assert "no permission" in found[-1].message


def test_a_file_where_a_folder_must_be_made(probes: Catalog, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    document = pipeline(box("a", "Make"), box("b", "Save", folder=str(tmp_path / "file" / "x")), wires="a.out>b.first")
    found = _seen(document, probes, workspace)
    assert [d.code for d in found] == ["VF303"]
    assert "is a file" in found[0].message


@node("Write", version=1, category="Tests")
def write(*, target: Annotated[str, PathOut("file")]) -> Report:
    """Write one file."""
    raise NotImplementedError


def test_a_file_is_written_over_where_a_file_may_be(workspace: Workspace, tmp_path: Path) -> None:
    catalog = Catalog()
    catalog.add(write)
    file = tmp_path / "file.csv"
    document = pipeline(box("a", "Write", target=str(file)))
    assert _seen(document, catalog, workspace) == []
    file.write_text("what an earlier run wrote")
    assert _seen(document, catalog, workspace) == []
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for place, reason in (
        (tmp_path / "folder", "folder is a folder"),
        (file / "x", "file.csv is a file"),
        (tmp_path / "pipe", "a pipe or a device"),
    ):
        (found,) = _seen(pipeline(box("a", "Write", target=str(place))), catalog, workspace)
        assert (found.code, found.parameter) == ("VF303", "target")
        assert reason in found.message


def test_a_file_that_may_not_be_changed_is_refused(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "file.csv"
        file.touch(mode=0o444)
        Path(name).chmod(0o755)
        with as_nobody_if_root():
            assert why_not_writable(file, "file") == f"no permission to change {file}"


@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_what_a_package_raises_where_it_looks_into_its_place_is_said_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    site = install(tmp_path, "shelf = shelf_place:ShelfPlace", "voxelflow.places", shelf_package="")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("SHELF", str(tmp_path / "shelves"))
    monkeypatch.setenv("SHELF_KEY", "the shelf")
    installed_places.cache_clear()

    def locked(self: ShelfPlace, below: str = "") -> Iterator[str]:
        raise error("the shelf is locked")

    assert why_not_writable("shelf://mine/table") == ""
    monkeypatch.setattr(ShelfPlace, "names", locked)
    assert why_not_writable("shelf://mine/table") == (
        f"the package shelf_package cannot look into shelf://mine/table: {error.__name__}: ... is locked"
    )
    assert why_not_writable("shelf://mine/table", scan=False) == ""
    installed_places.cache_clear()


def test_too_little_disk_is_reported_before_hours_of_work(workspace: Workspace) -> None:
    catalog = build_catalog(("nodes.synthetic_volumes", "nodes.numpy_to_parquet"))
    document = pipeline(
        box("make", "SyntheticVolumes", count=1000), box("convert", "NumpyToParquet"), wires="make.out>convert.files"
    )
    resolved = resolve(document, catalog)
    assert check(resolved, Observation(free_bytes=10**12)).ok
    found = check(resolved, Observation(free_bytes=10**6)).diagnostics
    assert [d.code for d in found] == ["VF304"]
    assert "MB" in found[0].message


def test_a_table_that_may_be_rewritten_is_a_warning(workspace: Workspace) -> None:
    catalog = build_catalog(tuple(f"nodes.{n}" for n in STORAGE))
    document = pipeline(
        box("make", "SyntheticVolumes", count=1000),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("optimize", "OptimizeDelta"),
        wires="make.out>convert.files convert.out>table.parquet table.out>optimize.table",
    )
    resolved = resolve(document, catalog)
    files, table = 360_128_000, 360_100_000
    assert check(resolved, Observation(free_bytes=files + 2 * table + 10**6)).diagnostics == ()
    found = check(resolved, Observation(free_bytes=files + table + 10**6)).diagnostics
    assert [(d.code, d.severity) for d in found] == [("VF310", "warning")]
    found = check(resolved, Observation(free_bytes=files)).diagnostics
    assert [(d.code, d.severity) for d in found] == [("VF304", "error")]


def test_a_backend_that_a_node_lacks_is_reported_when_planning(probes: Catalog) -> None:
    node_type = probes.find("Make")
    node_type.backends = {"spark": node_type.function}
    profile = Profile(name="here", backend="embedded", cores=1, memory_bytes=1 << 30)
    found = check(resolve(pipeline(box("a", "Make")), probes), None, profile).diagnostics
    assert [d.code for d in found] == ["VF307"]
    assert "spark" in found[0].hint


@pytest.mark.timeout(60)
def test_a_broken_user_node_is_a_diagnostic(workspace: Workspace) -> None:
    os.mkfifo(workspace.my_nodes / "a_pipe.py")
    (workspace.my_nodes / "broken.py").write_text("import nothing_of_that_name\n")
    (workspace.my_nodes / "exits.py").write_text("raise SystemExit(3)\n")
    (workspace.my_nodes / "syntax.py").write_text("def (:\n")
    (workspace.my_nodes / "good.py").write_text(
        "from voxelflow import node, Report\n"
        "@node('Mine', version=1, category='Mine')\ndef mine() -> Report:\n    'Mine.'\n    return Report(uri='x')\n"
    )
    untrusted = build_catalog((), workspace)
    assert [d.code for d in untrusted.problems] == ["VF150"]
    assert untrusted.find("Mine") is None
    trust(workspace)
    catalog = build_catalog((), workspace)
    assert [d.code for d in catalog.problems] == ["VF151"] * 4
    assert "it is a named pipe, not a regular file" in catalog.problems[0].message
    assert "broken.py, line 1" in catalog.problems[1].message
    assert catalog.find("Mine") is not None


def test_a_hook_that_fails_does_not_end_the_checks(probes: Catalog) -> None:
    node_type = probes.find("Make")
    node_type.preview(lambda look: 1 / 0)  # type: ignore[arg-type]
    assert _codes(pipeline(box("a", "Make")), probes) == ["VF153"]


def test_a_preview_may_know_nothing(probes: Catalog) -> None:
    @probes.find("Make").preview
    def _(look: CheckContext) -> None:
        look.report(rules.BadValue, "is odd", parameter="text")

    resolved = resolve(pipeline(box("a", "Make"), box("b", "Halve"), wires="a.out>b.whole"), probes)
    probes.find("Halve").preview(lambda look: {"left": Preview(kind="Report", count=1), "right": None})  # type: ignore[dict-item]
    checked = check(resolved)
    assert [d.message for d in checked.diagnostics] == ["is odd"]
    counts = {port: preview.count for (_, port), preview in checked.previews.items()}
    assert counts == {"out": None, "left": 1, "right": None}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3, "it returned int, not a Preview"),
        ([("out", Preview(kind="Report"))], "it returned list, not a Preview"),
        ({"out": {"count": 1}}, "it returned dict for the output out, not a Preview"),
        ({"right": Preview(kind="Report")}, "a Preview of the output right, which the node does not have"),
    ],
)
def test_what_is_no_preview_is_named(probes: Catalog, returned: object, message: str) -> None:
    probes.find("Make").preview(lambda look: returned)
    (found,) = _found(pipeline(box("a", "Make")), probes)
    assert found.code == "VF153"
    assert message in found.message


def test_a_port_too_many_takes_no_other_preview_away(probes: Catalog) -> None:
    extra = {"more": Preview(kind="Report"), "out": Preview(kind="Report", count=7)}
    probes.find("Make").preview(lambda look: extra)
    checked = check(resolve(pipeline(box("a", "Make")), probes))
    assert [d.code for d in checked.diagnostics] == ["VF153"]
    assert checked.previews["a", "out"].count == 7


def test_a_node_without_outputs_has_no_preview() -> None:
    @node("Silent", version=1, category="Tests")
    def silent() -> None:
        """Give nothing."""

    catalog = Catalog()
    catalog.add(silent)
    silent.preview(lambda look: Preview(kind="Report"))
    (found,) = _found(pipeline(box("a", "Silent")), catalog)
    assert found.code == "VF153"
    assert "which the node does not have" in found.message


def test_a_scan_may_find_nothing(probes: Catalog, workspace: Workspace) -> None:
    seen: list[object] = []
    probes.find("Make").scan(lambda look: None)  # type: ignore[arg-type, return-value]
    probes.find("Make").preview(lambda look: seen.append(dict(look.facts)))  # type: ignore[func-returns-value]
    assert _seen(pipeline(box("a", "Make")), probes, workspace) == []
    assert seen[-1] == {}


def test_an_installed_package_offers_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from voxelflow import node, Report\n"
        "@node('Theirs', version=2, category='Theirs')\ndef theirs() -> Report:\n    'Theirs.'\n"
        "@node('Other', version=1, category='Theirs')\ndef other() -> Report:\n    'Other.'\n"
    )
    entries = "good = someones_nodes\nbroken = someones_broken_nodes\none = someones_nodes:other"
    site = install(tmp_path / "site", entries, someones_nodes=source)
    monkeypatch.syspath_prepend(str(site))
    catalog = build_catalog(())
    assert {t.name for t in catalog} == {"Theirs", "Other"}
    # Offered twice by the package itself (its module and the one node), and one entry that is broken.
    assert sorted(d.code for d in catalog.problems) == ["VF151", "VF152"]
    assert "someones_broken_nodes" in "".join(d.message for d in catalog.problems)
