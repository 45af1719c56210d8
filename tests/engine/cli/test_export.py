"""`voxelflow export`: where the file goes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, Save
from file_limits import largest_file

from engine.document.pipeline import Node, Pipeline


def test_it_writes_a_file_once(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="two words", nodes=[Node(id="a", type="Make")]))
    said = command("export", name).done()
    assert said.out.splitlines() == ["wrote two-words.py", "run it with: python two-words.py"]
    text = (home / "two-words.py").read_text()
    assert 'steps.embedded("a", make)' in text
    (home / "two-words.py").write_text("changed by hand")
    command("export", name).fails("two-words.py is there already")
    assert (home / "two-words.py").read_text() == "changed by hand"
    command("export", name, "--force").done()
    assert (home / "two-words.py").read_text() == text
    assert command("export", name, "-o", "-").out == text


def test_a_full_disk_leaves_the_file_that_was_there(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="mine", nodes=[Node(id="a", type="Make")]))
    path = home / "scripts" / "mine.py"
    path.parent.mkdir()
    path.write_text("changed by hand")
    path.chmod(0o640)
    (home / "link.py").symlink_to(path)
    export = ("export", name, "-o", "link.py", "--force")
    with largest_file(100):
        said = command(*export)
    assert said.status != 0
    assert str(path) in said.err
    assert path.read_text() == "changed by hand"
    assert [each.name for each in path.parent.iterdir()] == ["mine.py"]
    command(*export).done()
    assert "steps.embedded" in path.read_text()
    assert ((home / "link.py").is_symlink(), path.stat().st_mode & 0o777) == (True, 0o740)


def test_a_file_never_hides_a_module_that_it_needs(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="nodes", nodes=[Node(id="a", type="Make")]))
    assert command("export", name).out.splitlines()[0] == "wrote nodes-pipeline.py"
    command("export", name, "-o", "numpy.py").fails("numpy.py would hide the module numpy")
    assert not (home / "numpy.py").exists()


def test_what_cannot_run_is_not_written(command: Command, save: Save, home: Path) -> None:
    name = save(Pipeline(name="broken", nodes=[Node(id="a", type="Nothing")]))
    command("export", name).fails("VF101")
    assert not (home / "broken.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["airflow", "databricks", "github", "kubernetes"])
def test_a_platform_gets_a_folder_once(target: str, command: Command, save: Save, home: Path) -> None:
    # The memory of `local` is what happens to be free.
    (home / "workspace" / "profiles.toml").write_text('[fixed]\ncores = 1\nmemory = "1 GB"\n')
    name = save(Pipeline(name="two words", nodes=[Node(id="a", type="Make")]))
    export = ("export", name, "--profile", "fixed", "--to", target)
    said = command(*export).done()
    folder = home / f"two-words-{target}"
    wrote = [line.removeprefix("wrote ") for line in said.out.splitlines()]
    first = "two-words_dag.py" if target == "airflow" else "two-words.py"
    assert wrote[0] == f"two-words-{target}/{first}"
    assert sorted(wrote) == sorted(str(p.relative_to(home)) for p in folder.rglob("*") if p.is_file())
    before = {p: p.read_text() for p in folder.rglob("*") if p.is_file()}
    changed = next(p for p in before if p.suffix != ".py" or p.name.endswith("_dag.py"))
    changed.write_text("changed by hand")
    command(*export).fails("is there already, perhaps changed by hand")
    assert changed.read_text() == "changed by hand"
    command(*export, "--force").done()
    assert {p: p.read_text() for p in before} == before
    command(*export, "-o", "elsewhere/deep").done()
    assert (home / "elsewhere" / "deep" / first).is_file()
    command(*export, "-o", name).fails(f"{name} is a file")


def test_a_platform_that_cannot_run_the_profile_gets_nothing(command: Command, save: Save, home: Path) -> None:
    (home / "workspace" / "profiles.toml").write_text('[far]\nbackend = "spark"\nmaster = "yarn"\n')
    name = save(Pipeline(name="words", nodes=[Node(id="a", type="Make")]))
    command("export", name, "--to", "github", "--profile", "far").fails("one machine of GitHub's")
    assert not (home / "words-github").exists()
