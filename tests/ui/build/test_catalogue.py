from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest

import voxelflow
from engine.catalog import build_catalog
from engine.parameters import MISSING, Advanced, PathIn, PathOut, Range, Secret, Unit, parameter_from_annotation
from engine.workspace import Workspace, trust
from ui.build.catalogue import Catalogue, field_info

PROBES = Path(__file__).parents[2] / "support" / "probes.py"


def test_every_built_in_node_can_be_told_to_the_browser(workspace: Workspace) -> None:
    catalogue = Catalogue(workspace, voxelflow.catalog)
    welcome = catalogue.welcome()
    json.dumps(welcome.model_dump(mode="json"), allow_nan=False)
    types = {t.type: t for t in welcome.types}
    assert {"VolumeFolder", "NumpyToParquet", "TrainResNet3D"} <= types.keys()
    train = types["TrainResNet3D"]
    assert [p.name for p in train.inputs if p.required] == ["data"]
    fields = {f.name: f for f in train.fields}
    assert fields["depth"].choices[:2] == [18, 34]
    assert fields["epochs"].extendable
    shape = next(f for f in types["SyntheticVolumes"].fields if f.name == "shape")
    assert shape.type == "list of int"
    assert isinstance(shape.default, list)
    assert [p.name for p in welcome.profiles] == ["local", "spark-local"]
    assert catalogue.profile(None).name == catalogue.profile("gone").name == "local"
    assert welcome.version


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (Annotated[int, Range(1, None), Unit("MB")], 78, {"low": 1, "high": None, "unit": "MB", "default": 78}),
        (Annotated[str, PathIn("folder", "**/*.npy")], MISSING, {"required": True, "default": None}),
        (Annotated[str, PathOut("folder")], "", {"required": False, "default": ""}),
        (Annotated[str, Secret(), Advanced()], "", {"secret": True, "advanced": True}),
        (tuple[float, ...], (1.0, 2.5), {"type": "list of float", "default": [1.0, 2.5]}),
        (int | None, None, {"optional": True, "required": False, "default": None}),
    ],
)
def test_fields_say_all_that_a_form_needs(annotation: object, default: object, expected: dict[str, object]) -> None:
    field = field_info(parameter_from_annotation("some_name", annotation, default, "help"))
    assert (field.title, field.help) == ("Some name", "help")
    assert {k: getattr(field, k) for k in expected} == expected


def test_paths_say_how_they_are_used() -> None:
    reads = field_info(parameter_from_annotation("p", Annotated[str, PathIn("folder", "*.npy", "*.csv")], MISSING, ""))
    assert reads.path is not None
    assert (reads.path.access, reads.path.kind, reads.path.patterns) == ("read", "folder", ["*.npy", "*.csv"])
    writes = field_info(parameter_from_annotation("p", Annotated[str, PathOut("file")], "", ""))
    assert writes.path is not None
    assert (writes.path.access, writes.path.kind, writes.path.patterns) == ("write", "file", [])


def test_the_persons_own_nodes_are_loaded_again_when_their_file_changes(workspace: Workspace) -> None:
    catalogue = Catalogue(workspace, lambda place: build_catalog((), place))
    first = catalogue.catalog
    assert catalogue.catalog is first
    (workspace.my_nodes / "probes.py").write_text(PROBES.read_text())
    assert "not trusted" in catalogue.welcome().problems[0].message
    trust(workspace)
    assert catalogue.catalog.find("Make") is not None
    (workspace.my_nodes / "probes.py").write_text("syntax error here")
    assert catalogue.welcome().problems[0].code == "VF151"
    (workspace.my_nodes / "probes.py").unlink()
    assert list(catalogue.catalog) == []
