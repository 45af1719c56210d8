from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from declared_fields import declared
from shared_cases import table

import voxelflow
from engine.catalog import build_catalog
from engine.declare.parameters import MISSING, Advanced, PathIn, PathOut, Range, Secret, Unit, parameter_from_annotation
from engine.document.pipeline import Node, Pipeline
from engine.document.resolve import resolve
from engine.profiles import find_profile
from engine.workspace import Workspace, trust
from ui.build.catalogue import Catalogue, profile_info
from ui.protocol.catalogue import field_info

PROBES = Path(__file__).parents[2] / "support" / "probes.py"
OWN_FIELD_TYPES = PROBES.with_name("own_field_types.py")


def test_every_built_in_node_can_be_sent_to_the_browser(workspace: Workspace) -> None:
    catalogue = Catalogue(workspace, voxelflow.catalog)
    welcome = catalogue.welcome()
    json.dumps(welcome.model_dump(mode="json"), allow_nan=False)
    types = {t.type: t for t in welcome.types}
    assert {"VolumeFolder", "NumpyToParquet", "TrainResNet3D"} <= types.keys()
    train = types["TrainResNet3D"]
    assert (train.category, train.icon[0], "augmentation" in train.keywords) == ("Training", "M", True)
    assert train.light != train.dark
    assert [p.name for p in train.inputs if p.required] == ["data"]
    fields = {f.name: f for f in train.fields}
    assert next(rule.value for rule in fields["depth"].rules if rule.check == "one_of")[:2] == [18, 34]
    assert fields["epochs"].extendable
    shape = next(f for f in types["SyntheticVolumes"].fields if f.name == "shape")
    assert (shape.type, shape.many, shape.widget) == ("int", True, "list")
    assert isinstance(shape.default, list)
    assert [p.name for p in welcome.profiles] == ["local", "spark-local"]
    local = welcome.profiles[0]
    assert (local.price, local.priced) == (None, "the profile local names neither a machine nor a price")
    assert (local.stop_after, local.stop_at_cost) == ("", None)
    assert catalogue.profile(None).name == catalogue.profile("gone").name == "local"
    assert welcome.version


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (Annotated[int, Range(1, None), Unit("MB")], 78, {"widget": "number", "unit": "MB", "default": 78}),
        (Annotated[str, PathIn("folder", "**/*.npy")], MISSING, {"required": True, "default": None}),
        (Annotated[str, PathOut("folder")], "", {"required": False, "default": ""}),
        (Annotated[str, Secret(), Advanced()], "", {"widget": "secret", "advanced": True}),
        (tuple[float, ...], (1.0, 2.5), {"type": "float", "many": True, "default": [1.0, 2.5]}),
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


@pytest.mark.parametrize(
    ("name", "widget"),
    [
        ("int", "number"), ("float", "number"), ("switch", "switch"), ("automatic", "automatic"), ("text", "text"),
        ("depth", "choice"), ("yes or no", "choice"), ("ints", "list"), ("colours", "list"), ("folder", "path"),
        ("target", "path"), ("token", "secret"), ("day", "text"),
    ],
)  # fmt: skip
def test_each_type_has_its_widget(name: str, widget: str) -> None:
    assert field_info(declared(name)).widget == widget


def test_a_field_type_of_ones_own_needs_nothing_but_its_declaration(workspace: Workspace) -> None:
    """The browser's half: `day` in ui/protocol/cases/fields.json, which vitest runs with the same FieldInfo."""
    (workspace.my_nodes / "since_then.py").write_text(OWN_FIELD_TYPES.read_text())
    trust(workspace)
    catalogue = Catalogue(workspace, lambda place: build_catalog((), place))
    (sent,) = catalogue.welcome().types
    fields = {field.name: field.model_dump(mode="json") for field in sent.fields}
    assert {**fields["day"], "help": ""} == table("declared")["day"]
    assert fields["days"]["rules"] == table("declared")["days"]["rules"]
    assert fields["until"]["rules"] == fields["day"]["rules"]
    assert (fields["until"]["optional"], fields["until"]["advanced"]) == (True, True)

    def problems(**params: Any) -> list[str]:
        document = Pipeline(name="p", nodes=(Node(id="a", type="SinceThen", params=params),))
        return [p.message for p in resolve(document, catalogue.catalog).problems]

    (message,) = (rule["message"] for rule in fields["day"]["rules"] if rule["check"] == "pattern")
    assert problems(day="31 Jan") == [f"{message}, not '31 Jan'"]
    assert problems(days=["2026-02-28", "x"], until="x")[1:] == [f"{message}, not 'x'"]
    assert problems(day="2026-02-28", days=["2026-02-28"], until="2026-02-28") == []


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


def test_a_profile_says_its_price_with_date_and_source_and_the_limit_of_its_runs(workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text(
        '[vm]\nmachine = "m5.2xlarge"\nstop_after = "90min"\nstop_at_cost = 2.5\n'
    )
    vm = profile_info(find_profile("vm", workspace), workspace)
    assert (vm.price, vm.currency, vm.stop_after, vm.stop_at_cost) == (0.384, "USD", "90min", 2.5)
    assert vm.priced.startswith("0.384 USD an hour: m5.2xlarge@us-east-1, as of 2026-")
