"""`voxelflow export`: where the file goes, and what is refused."""

from __future__ import annotations

from pathlib import Path

from command_line import Command, Save

from engine.pipeline import Node, Pipeline


def test_it_writes_a_file_once(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="two words", nodes=[Node(id="a", type="Make")]))
    said = command("export", name)
    assert said.status == 0
    assert said.out.splitlines() == ["wrote two-words.py", "run it with: python two-words.py"]
    text = (home / "two-words.py").read_text()
    assert 'steps.embedded("a", make)' in text
    (home / "two-words.py").write_text("changed by hand")
    refused = command("export", name)
    assert refused.status == 2
    assert "two-words.py is there already" in refused.err
    assert (home / "two-words.py").read_text() == "changed by hand"
    assert command("export", name, "--force").status == 0
    assert (home / "two-words.py").read_text() == text
    assert command("export", name, "-o", "-").out == text


def test_a_file_never_hides_a_module_that_it_needs(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="nodes", nodes=[Node(id="a", type="Make")]))
    assert command("export", name).out.splitlines()[0] == "wrote nodes-pipeline.py"
    refused = command("export", name, "-o", "numpy.py")
    assert refused.status == 2
    assert "numpy.py would hide the module numpy" in refused.err
    assert not (home / "numpy.py").exists()


def test_what_cannot_run_is_not_written(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="broken", nodes=[Node(id="a", type="Nothing")]))
    said = command("export", name)
    assert said.status == 2
    assert "VF101" in said.err
    assert not (home / "broken.py").exists()
