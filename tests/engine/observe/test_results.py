"""A result is whole when all its files stand with the sizes they had."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from building import box, pipeline
from file_handles import none_left
from running import Runner
from stored_results import stored_result

from engine.catalog import build_catalog
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Report, VolumeDelta, VolumeFiles, VolumeSpec
from engine.declare.node import node
from engine.declare.parameters import Extendable
from engine.document.identity import identity_of
from engine.errors import ExecutionError, FileError
from engine.export.done import Done
from engine.observe.results import (
    SIZES,
    Results,
    check_result,
    is_removed,
    problem_with,
    protected_versions,
    refuse_damaged,
    result_to_extend,
    write_sizes,
)
from engine.storage import manifest
from engine.store.results import Result
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust

FORGETFUL = '''
from voxelflow import Report, TaskContext, node


@node("Forgetful", version=1, category="Probes")
def forgetful(*, ctx: TaskContext) -> Report:
    """Name a file that it does not write."""
    return Report(uri=str(ctx.out / "page.html"))
'''


def _report(out: Path) -> dict[str, Dataset]:
    (out / "plots").mkdir(parents=True)
    (out / "page.html").write_text("a page")
    (out / "plots" / "ä.png").write_text("a plot")
    (out / ".hidden").write_text("no matter")
    return {"out": Report(uri=str(out / "page.html"))}


def test_every_visible_file_of_a_task_counts(tmp_path: Path) -> None:
    outputs = _report(tmp_path / "out")
    out = tmp_path / "out"
    refuse_damaged(None, out, outputs)
    (out / ".hidden").unlink()
    (out / "later.txt").write_text("no matter")
    assert problem_with(None, out, outputs) == ""
    (out / "plots" / "ä.png").write_text("a")
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} has 1 byte, not 6"
    (out / "plots" / "ä.png").unlink()
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} is gone"
    (out / "plots" / "ä.png").mkdir()
    assert problem_with(None, out, outputs) == f"{out / 'plots' / 'ä.png'} is a folder, not a file"
    assert not is_removed(out, outputs)
    (out / SIZES).write_text("{")
    assert f"{out / SIZES} cannot be read" in problem_with(None, out, outputs)
    (out / SIZES).unlink()
    assert problem_with(None, out, outputs) == "", "a result of an earlier Voxelflow has no list"


def test_small_files_are_compared_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    outputs = _report(out)
    refuse_damaged(None, out, outputs)
    (out / "page.html").write_text("b page")
    wrong = f"{out / 'page.html'} does not match its checksum: its content was damaged or changed"
    assert problem_with(None, out, outputs) == wrong
    noted = json.loads((out / SIZES).read_text())
    (out / SIZES).write_text(json.dumps({"format": 1, "sizes": noted["sizes"]}))
    assert problem_with(None, out, outputs) == "", "an earlier Voxelflow noted sizes alone"
    monkeypatch.setattr("engine.observe.results._SMALL", 5)
    write_sizes(out, outputs)
    assert json.loads((out / SIZES).read_text())["crc32"] == {}, "large files are not read"


def test_a_shortage_of_file_handles_is_not_taken_for_a_damaged_result(tmp_path: Path) -> None:
    outputs, out = _report(tmp_path / "out"), tmp_path / "out"
    refuse_damaged(None, out, outputs)
    with none_left(), pytest.raises(OSError) as caught:
        problem_with(None, out, outputs)
    assert caught.value.errno == errno.EMFILE
    result = stored_result("f", outputs=outputs, out="out")
    with none_left(), pytest.raises(FileError, match="too many open files"):
        check_result(None, result, tmp_path)
    assert problem_with(None, out, outputs) == ""


def test_volumes_are_for_the_check_of_their_own_node(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "volumes").mkdir(parents=True)
    (out / "volumes" / "1.npy").write_text("x")
    manifest.write(manifest.list_folder(out / "volumes", ("**/*.npy",)), out / "volumes.arrow")
    outputs: dict[str, Dataset] = {
        "out": VolumeFiles(uri=str(out / "volumes"), manifest=str(out / "volumes.arrow"), count=1, bytes=1)
    }
    write_sizes(out, outputs)
    (out / "volumes" / "1.npy").write_text("longer")
    assert problem_with(None, out, outputs) == ""
    (out / "volumes.arrow").write_text("")
    assert problem_with(None, out, outputs) == f"{out / 'volumes.arrow'} is empty"
    (out / "volumes" / "1.npy").unlink()
    (out / "volumes").rmdir()
    assert is_removed(out, outputs)


def test_what_is_not_there_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    outputs = _report(tmp_path / "out")
    (tmp_path / "out" / "page.html").unlink()
    with pytest.raises(ExecutionError, match=r"page\.html is gone"):
        refuse_damaged(None, tmp_path / "out", outputs)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_task_whose_output_is_not_there_fails(workspace: Workspace, store: RunStore) -> None:
    (workspace.my_nodes / "forgetful.py").write_text(FORGETFUL)
    trust(workspace)
    runner = Runner(build_catalog((), workspace), workspace, store)
    run, tasks = runner.run(pipeline(box("a", "Forgetful")))
    assert run.state == "failed"
    assert tasks["a"].failure is not None
    assert "page.html is gone" in tasks["a"].failure["message"]
    assert store.results.all() == []


@node("Longer", version=1, category="Probes")
def longer(*, epochs: Annotated[int, Extendable()] = 1, ctx: TaskContext) -> Report:
    """Its work can go on from a shorter one."""
    raise NotImplementedError


Kept = tuple[Results, Callable[[Result], None], Path]


@pytest.fixture(params=["a workspace's run store", "an exported file's own"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, store: RunStore) -> Kept:
    """Results, how one is added, and the folder that they lie below."""
    if request.param == "a workspace's run store":
        return store.results, store.results.put, store.workspace.data
    done = Done(tmp_path / "exported" / "done.json")
    (tmp_path / "exported").mkdir()
    return done, done.add, tmp_path / "exported"


def test_results_are_found_alike_wherever_they_are_kept(kept: Kept) -> None:
    results, add, _ = kept
    for number, (name, lineage) in enumerate((("first", "y"), ("second", "y"), ("third", "x"))):
        add(stored_result(name, base="b", lineage=lineage, identity={"params": {}}, created=float(number)))
    assert [r.fingerprint for r in results.all()] == ["first", "second", "third"]
    assert [r.fingerprint for r in results.of_base("b")] == ["first", "second", "third"]
    assert results.of_base("c") == []
    for found, name in ((results.find("second"), "second"), (results.newest_of_lineage("y"), "second")):
        assert found is not None
        assert found.fingerprint == name
    assert results.find("fourth") is None
    assert results.newest_of_lineage("z") is None


def test_the_longest_whole_result_that_is_not_longer_is_extended(kept: Kept) -> None:
    results, add, data = kept

    def made(epochs: int) -> Path:
        identity = identity_of(longer, {"epochs": epochs}, {}, {})
        page = data / f"page-{epochs}.html"
        page.write_text("a page")
        out = f"Longer/{epochs}"
        (data / out).mkdir(parents=True)
        add(
            stored_result(
                identity.fingerprint,
                base=identity.base,
                identity=identity.parts,
                out=out,
                outputs={"out": Report(uri=str(page))},
                created=float(epochs),
            )
        )
        return page

    def extended(epochs: int) -> str | None:
        found = result_to_extend(results, longer, identity_of(longer, {"epochs": epochs}, {}, {}), data)
        return found.outputs["out"].uri if found is not None else None

    two, four, six = (made(epochs) for epochs in (2, 4, 6))
    assert (extended(1), extended(2), extended(5), extended(9)) == (None, None, str(four), str(six))
    four.unlink()
    assert extended(5) == str(two), "that of four is not whole any more"


@node("Open", version=1, category="Probes")
def open_ended(
    *, epochs: Annotated[int | None, Extendable()] = None, rounds: Annotated[float, Extendable()] = 1, ctx: TaskContext
) -> Report:
    """Its work can go on from a shorter one, and may have no end."""
    raise NotImplementedError


def test_work_without_an_end_is_neither_longer_nor_shorter_than_other_work(kept: Kept) -> None:
    results, add, data = kept
    page = data / "page.html"
    page.write_text("a page")

    def extended(**params: float | None) -> str | None:
        found = result_to_extend(results, open_ended, identity_of(open_ended, params, {}, {}), data)
        return found.fingerprint if found is not None else None

    made: dict[float | None, str] = {}
    for epochs in (None, 2):
        identity = identity_of(open_ended, {"epochs": epochs, "rounds": 3.0}, {}, {})
        outputs = {"out": Report(uri=str(page))}
        add(stored_result(identity.fingerprint, base=identity.base, identity=identity.parts, outputs=outputs))
        made[epochs] = identity.fingerprint
    assert extended(epochs=5, rounds=3.0) == made[2]
    assert extended(epochs=None, rounds=4.0) == made[None]
    assert extended(epochs=1, rounds=4.0) is None


def test_the_versions_that_results_refer_to_are_protected(kept: Kept) -> None:
    results, add, data = kept
    spec = VolumeSpec(shape=(2, 2, 2, 1), dtype="uint8")
    for version in (3, 1):
        table = VolumeDelta(uri=str(data / "table"), version=version, data_version=version, count=1, bytes=8, spec=spec)
        add(stored_result(f"v{version}", identity={"params": {}}, outputs={"out": table}))
    assert protected_versions(results) == {str(data / "table"): (1, 3)}
