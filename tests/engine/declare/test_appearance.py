from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import nodes
import voxelflow
from engine.declare.appearance import CATEGORIES, DEFAULT_ICON, Category, Colour, category_of, icon_path
from engine.declare.datasets import Report
from engine.declare.icons import ICONS
from engine.declare.node import node
from engine.errors import DeclarationError

OWN_PATH = "M12 2 2 12l10 10 10-10z"


def test_each_built_in_node_type_has_an_icon_of_its_own_and_one_of_our_categories() -> None:
    types = [each for each in voxelflow.catalog() if each.origin == "built-in"]
    shared = {icon: count for icon, count in Counter(each.icon for each in types).items() if count > 1}
    assert not shared
    assert DEFAULT_ICON not in {each.icon for each in types}
    assert {each.category for each in types} <= set(CATEGORIES)
    assert all(each.keywords for each in types)


def test_the_catalogue_is_in_the_order_of_a_pipeline() -> None:
    names = [each.name for each in voxelflow.catalog()]
    wanted = ["VolumeFolder", "NumpyToParquet", "ParquetToDelta", "OptimizeDelta", "SplitDataset", "TrainResNet3D"]
    assert [name for name in names if name in wanted] == wanted
    # Before files are packed, volumes are changed, and large ones cut.
    assert names.index("TransformVolumes") < names.index("CutVolumes") < names.index("NumpyToParquet")
    assert names.index("TrainResNet3D") < names.index("BatchPredict") < names.index("RegisterModel")


def test_our_categories_have_each_a_place_and_a_colour() -> None:
    assert [each.order for each in CATEGORIES] == sorted({each.order for each in CATEGORIES})
    assert len({each.colour for each in CATEGORIES}) == len(CATEGORIES)


def test_another_packages_node_is_shown_with_the_default_appearance_or_its_own() -> None:
    def report() -> Report: ...

    plain = node("Plain", version=1, category="Seismic")(report)
    assert (plain.icon, plain.category.name, plain.keywords) == (DEFAULT_ICON, "Seismic", ())
    assert plain.category.order > CATEGORIES[-1].order
    own = Category("Seismic", 450, Colour("#a4512c", "#f0a27e"))
    declared = node("Named", version=1, category=own, icon=OWN_PATH, keywords=("horizon",))(report)
    assert declared.category is own
    assert declared.describe() | {"backends": []} == {
        **plain.describe(),
        "type": "Named",
        "icon": OWN_PATH,
        "keywords": ["horizon"],
        "backends": [],
    }
    assert category_of("Training") is next(each for each in CATEGORIES if each.name == "Training")


@pytest.mark.parametrize("icon", ["no-such-icon", "", 'M1 1"/><script>', "M1", "<svg/>"])
def test_what_is_no_icon_is_refused_when_the_node_is_declared(icon: str) -> None:
    with pytest.raises(DeclarationError, match=r"^Plain: .* is not an icon$") as caught:
        node("Plain", version=1, category="Seismic", icon=icon)
    assert "brain-circuit" in caught.value.hint


def test_the_guide_for_authors_lists_every_icon_and_category() -> None:
    guide = Path(nodes.__file__ or "").with_name("README.md").read_text(encoding="utf-8")
    for name in (*ICONS, *(each.name for each in CATEGORIES)):
        assert f"`{name}`" in guide


def test_every_icon_is_a_path_that_stays_on_its_square() -> None:
    for name in ICONS:
        path = icon_path(name)
        assert icon_path(path) == path, name
        moves = [float(x) for pair in re.findall(r"M([-.\d]+)[ ,]*([-.\d]+)", path) for x in pair]
        assert moves, name
        assert all(0 <= at <= 24 for at in moves), name
