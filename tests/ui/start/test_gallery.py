"""The gallery's words, pictures and small graphs."""

from __future__ import annotations

import base64
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from engine.catalog import build_catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline
from nodes import BUILT_IN
from ui.start.gallery import graph, in_short_lines, picture, templates, typed, volumes


def test_each_template_says_what_it_takes_and_gives_and_has_a_picture() -> None:
    found = templates()
    assert {t.name for t in found} == shipped_pipelines().keys()
    assert found[0].name == "quickstart"
    for template in found:
        assert template.takes
        assert template.gives
        assert template.duration


def test_volumes_to_try_lead_to_commands_of_this_environment_and_to_a_template() -> None:
    for each in volumes():
        for line in typed(each.command).splitlines():
            program = shlex.split(line)[0]
            assert program == sys.executable or Path(program).name == "voxelflow"
        assert not each.template or each.template in shipped_pipelines()
    assert [each.name for each in volumes() if not each.template] == ["own"]
    made = subprocess.run([*shlex.split(typed("python -c 'print(1)'"))], capture_output=True, text=True, check=True)
    assert made.stdout == "1\n"


def test_commands_in_short_lines_are_still_what_a_shell_runs(tmp_path: Path) -> None:
    """Also where the program lies in a folder whose name has blanks; in its line nothing else is hidden by it."""
    program = tmp_path / "an environment's programs" / "say"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o700)
    commands = f"{shlex.quote(str(program))} -m pip 'a b'\necho short"
    shown = in_short_lines(commands)
    assert shown.splitlines()[1:] == ["  -m pip 'a b'", "echo short"]
    made = subprocess.run(["sh", "-c", shown], capture_output=True, text=True, check=True)
    assert made.stdout == "<-m><pip><a b>short\n"


def test_what_follows_the_program_is_seen_whole_on_a_card() -> None:
    lines = [line for each in volumes() for line in in_short_lines(typed(each.command)).splitlines()]
    assert all(len(line) <= 42 for line in lines if not line.endswith("\\")), lines


@pytest.mark.parametrize("name", [*shipped_pipelines(), *(f"volumes-{v.name}" for v in volumes())])
def test_pictures_are_small_and_of_one_shape(name: str) -> None:
    head, _, data = picture(name).partition(",")
    assert head == "data:image/webp;base64"
    raw = base64.b64decode(data)
    assert len(raw) < 60_000
    assert Image.open(io.BytesIO(raw)).size == (640, 280)


def test_a_graph_has_a_box_for_each_node_and_a_line_for_each_wire() -> None:
    pipeline = next(t.pipeline for t in templates() if t.name == "whitepaper-experiment")
    drawn = graph(pipeline, build_catalog(BUILT_IN), 250, 44)
    assert drawn.count("<rect") == len(pipeline.nodes)
    assert drawn.count("M") == len(pipeline.edges)
    assert graph(Pipeline(name="empty"), build_catalog(()), 250, 44) == ""


@pytest.mark.parametrize("name", [template.name for template in templates()])
def test_a_wire_back_or_over_a_column_crosses_no_box(name: str) -> None:
    pipeline = next(t.pipeline for t in templates() if t.name == name)
    places = {node.id: node.position for node in pipeline.nodes}
    steps = [places[edge.target_node].x - places[edge.source_node].x for edge in pipeline.edges]
    drawn = graph(pipeline, build_catalog(BUILT_IN), 250, 44)
    boxes = [
        tuple(float(value) for value in found)
        for found in re.findall(r'<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.-]+)" height="([\d.-]+)"', drawn)
    ]
    wires = re.findall(r"M([\d.-]+) ([\d.-]+)h([\d.]+)V([\d.-]+)H([\d.-]+)V([\d.-]+)", drawn)
    assert len(wires) == sum(not 250 < step <= 500 for step in steps)
    for x, y, beside, between, to_x, to_y in ([float(value) for value in found] for found in wires):
        runs = (
            (x + beside, min(y, between), x + beside, max(y, between)),
            (min(x + beside, to_x), between, max(x + beside, to_x), between),
            (to_x, min(between, to_y), to_x, max(between, to_y)),
        )
        for left, top, right, bottom in runs:
            for box_x, box_y, wide, high in boxes:
                assert right <= box_x or left >= box_x + wide or bottom <= box_y or top >= box_y + high
