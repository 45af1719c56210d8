"""`voxelflow probe`, with the built-in nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import NO_WORK, Command

import voxelflow
from engine.cli import main
from engine.probes import probes
from engine.workspace import Workspace


@pytest.fixture
def probe(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """`probe` in this process, as short as it may be."""
    from command_line import Said

    def run(*arguments: str) -> Said:
        given = ["probe", "--seconds", "5", "--limit-mb", "4", *arguments]
        work = replace(NO_WORK, probe_storage=voxelflow._probe_storage)
        status = main(voxelflow.catalog, lambda *_, **__: 0, work, given)
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return run


@pytest.mark.slow
def test_a_place_is_measured_and_the_result_is_kept(probe: Command, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    said = probe("place", "--files", "650000", "--file-kb", "20").done()
    lines = said.out.splitlines()
    assert lines[0].split()[:1] == ["operations"]
    assert "files of 20 kB" in lines[1]
    assert "From here an epoch of your 650,000 files of 20 kB takes " in said.out
    (kept,) = probes(workspace)
    assert (kept.epoch_files, kept.epoch_file_bytes, kept.epoch_is) == (650_000, 20_000, "given")
    page = Path(lines[-1].removeprefix("kept as "))
    # The workspace may be used from another folder later.
    assert kept.place == str(tmp_path / "place")
    assert page.parent == workspace.root / "probes"
    assert "<svg" in page.read_text()
    assert page.with_suffix(".json").exists()
    assert list((tmp_path / "place").iterdir()) == []
    assert said.err.splitlines()[-1] == "cleaning up ..."


@pytest.mark.slow
def test_other_programs_get_json(probe: Command, workspace: Workspace, tmp_path: Path) -> None:
    said = probe("--file-kb", "20", "--json").done()
    output = json.loads(said.out)
    assert (output["place"], output["epoch_files"], said.err) == (str(workspace.root), 650_000, "")
    assert output["figures"]["epoch_one_by_one_s"] > 0
    assert output["meaning"][0].startswith("From here an epoch of your 650,000 files")


def test_a_place_that_is_not_there_is_refused(probe: Command, workspace: Workspace) -> None:
    probe("nowhere").fails("there is no folder nowhere")
    probe("ftp://host/folder").fails("ftp")
