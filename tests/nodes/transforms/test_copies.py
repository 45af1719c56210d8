"""The steps travel with models: a copy of them works by itself, and beside a copy of another version."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nodes.transforms.steps
from nodes.tensorflow_keras import served_model
from nodes.transforms.parameters import TransformParameters

_STEPS = Path(nodes.transforms.steps.__file__).parent
_CHAIN = [each.model_dump() for each in TransformParameters(size=(2, 2, 2), clip_low=3.0).chain()]


@pytest.mark.parametrize("file", sorted(_STEPS.glob("*.py")), ids=lambda file: file.stem)
def test_the_steps_need_numpy_alone(file: Path) -> None:
    for each in ast.walk(ast.parse(file.read_text())):
        if isinstance(each, ast.Import):
            named = [alias.name for alias in each.names]
        elif isinstance(each, ast.ImportFrom):
            named = [] if each.level == 1 else [each.module or ".."]
        else:
            continue
        for name in named:
            first = name.partition(".")[0]
            assert first == "numpy" or first in sys.stdlib_module_names, f"{name} in line {each.lineno}"


def _model(folder: Path, clip_version: int) -> ModuleType:
    """What `mlflow.pyfunc` imports of a model whose step `clip` has the version."""
    (copy := folder / served_model.TRANSFORMS).parent.mkdir()
    shutil.copytree(_STEPS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / "intensity.py").read_text()
    (copy / "intensity.py").write_text(text.replace('name = "clip"', f'name = "clip"\n    version = {clip_version}'))
    (folder / "voxelflow_model.py").write_text(Path(served_model.__file__).read_text())
    spec = importlib.util.spec_from_file_location(f"model_{clip_version}", folder / "voxelflow_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def _forgotten() -> Iterator[None]:
    """What a test imports of copies is gone behind it."""
    yield
    for name in [name for name in sys.modules if name.startswith(served_model.TRANSFORMS)]:
        del sys.modules[name]


@pytest.mark.usefixtures("_forgotten")
def test_two_models_in_one_process_have_each_its_own_steps(tmp_path: Path) -> None:
    one, other = (_model(tmp_path / str(version), version)._transforms() for version in (1, 2))
    assert [each.STEPS["clip"].version for each in (one, other)] == [1, 2]
    volume = np.arange(27.0).reshape(3, 3, 3)
    for steps in (one, other):
        made, _ = steps.apply_steps(steps.load_steps(_CHAIN), volume)
        assert (made.shape, made.min()) == ((2, 2, 2), 3.0)
        assert type(steps.load_steps(_CHAIN)[0]).__module__.startswith(f"{steps.__name__}.")


@pytest.mark.usefixtures("_forgotten")
def test_raw_volumes_are_turned_as_the_caller_says_they_point(tmp_path: Path) -> None:
    module = _model(tmp_path / "model", 1)
    served = module.ServedModel.__new__(module.ServedModel)
    steps = module._transforms()
    chain = [each.model_dump() for each in TransformParameters(orientation="RAS").chain()]
    served._transforms, served._steps = steps, steps.load_steps(chain)
    served._classes, served._shape = (), (2, 1, 1)
    # The model's answer is the volume's first voxel.
    served._model = lambda batch, training: batch[:, 0, 0, :]
    volume = np.array([[[1.0]], [[2.0]]])
    assert served.predict([volume], {"orientation": "RAS"})["value"].tolist() == [1.0]
    assert served.predict([volume], {"orientation": "LAS"})["value"].tolist() == [2.0]
    with pytest.raises(ValueError, match=r'does not say where its axes point.* Give params=\{"orientation": "LAS"\}'):
        served.predict([volume])


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.parametrize("spacing", [[2.0], [2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
def test_a_spacing_that_is_no_three_lengths_is_refused_by_name(tmp_path: Path, spacing: list[float]) -> None:
    module = _model(tmp_path / "model", 1)
    served = module.ServedModel.__new__(module.ServedModel)
    with pytest.raises(ValueError, match=rf"spacing is {re.escape(str(spacing))}.* X, Y and Z"):
        served.predict([np.zeros((2, 2, 2))], {"spacing": spacing})
