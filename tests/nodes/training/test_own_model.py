"""A model from a file of the workspace: when it may run, and what is said of one that does not fit."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from own_models import readme_model
from pydantic import TypeAdapter

from engine.errors import UsageError
from engine.workspace import Workspace, trust
from nodes.train_resnet3d import train_resnet3d
from nodes.training.model_ends import Target
from nodes.training.own_model import ModelFile, read_model_file
from nodes.training.settings import Settings

SHAPE = (6, 6, 5, 2)


@pytest.fixture
def file(workspace: Workspace) -> Path:
    workspace.my_models.mkdir()
    path = workspace.my_models / "net.py"
    path.write_text(readme_model())
    return path


def told(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_model_file(str(path))
    assert caught.value.hint
    assert caught.value.parameter == "model_file"
    return caught.value.message


def test_it_is_read_in_a_trusted_workspace_only(workspace: Workspace, file: Path) -> None:
    assert "the workspace is not trusted" in told(file)
    trust(workspace)
    assert read_model_file(str(file)) == ModelFile(str(file), readme_model())


def test_trust_reaches_no_other_folder(workspace: Workspace, file: Path, tmp_path: Path) -> None:
    trust(workspace)
    elsewhere = tmp_path / "my_models" / "net.py"
    elsewhere.parent.mkdir()
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    for path in (elsewhere, file, workspace.root / "my_nodes" / ".." / "my_models" / "net.py"):
        assert "does not lie in a workspace's my_models/" in told(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make(shape, outputs): ...\n", "has no function build"),
        ("x = 1\ndef build(shape, outputs:\n", "line 2: "),
        ("\0", "net.py"),
    ],
)
def test_a_file_without_a_model(workspace: Workspace, file: Path, text: str, said: str) -> None:
    trust(workspace)
    file.write_text(text)
    assert said in told(file)


def test_a_file_that_is_not_there(workspace: Workspace) -> None:
    trust(workspace)
    assert "does not exist" in told(workspace.my_models / "net.py")


def test_reading_runs_nothing(workspace: Workspace, file: Path) -> None:
    trust(workspace)
    file.write_text("raise SystemExit\ndef build(shape, outputs): ...\n")
    assert read_model_file(str(file)).name == "net"


def test_workers_get_the_text_and_not_the_path_alone() -> None:
    """They may be on machines that do not see the file."""
    values = {p.name: p.default for p in train_resnet3d.parameters}
    given = {field.name: values[field.name] for field in fields(Settings)}
    settings = Settings(**given | {"model_file": ModelFile("/w/my_models/net.py", "x = 1\n")})
    travels = TypeAdapter(Settings)
    assert travels.validate_json(travels.dump_json(settings)) == settings


BROKEN = [
    ("import keras\n1 / 0\ndef build(shape, outputs): ...", "net.py, line 2: ZeroDivisionError: division by zero"),
    ("def build(shape, outputs):\n    return helper()\ndef helper():\n    exit(3)", "net.py, line 4: SystemExit: 3"),
    ("def build(shape, outputs):\n    return 3", "build gave int"),
    ("def build(shape): ...", "TypeError"),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.Input(shape), keras.layers.Dense(outputs)])",
        "gives (None, 6, 6, 5, 3)",
    ),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.Input((9,)), keras.layers.Dense(outputs)])",
        "takes (None, 9)",
    ),
    (
        "import keras\ndef build(shape, outputs):\n"
        "    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(outputs)])",
        "one input and one output",
    ),
    (
        "import keras\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    x = keras.layers.Flatten()(i)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs, activation='softmax')(x))",
        "ends in softmax",
    ),
    (
        "import keras\nclass Mine(keras.layers.Layer):\n    def call(self, x): return x\n"
        "def build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs)(keras.layers.Flatten()(Mine()(i))))",
        "with Mine, which Keras does not bring",
    ),
    (
        "import keras\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    x = keras.layers.Lambda(lambda x: 2 * x)(keras.layers.Flatten()(i))\n"
        "    return keras.Model(i, keras.layers.Dense(outputs)(x))",
        "with Lambda",
    ),
    (
        "import keras\ndef twice(x): return 2 * x\ndef build(shape, outputs):\n    i = keras.Input(shape)\n"
        "    return keras.Model(i, keras.layers.Dense(outputs, activation=twice)(keras.layers.Flatten()(i)))",
        "with twice",
    ),
]


@pytest.mark.slow
def test_models_that_do_not_fit_are_refused_with_file_and_line() -> None:
    from nodes.training.own_model import build_own_model

    for text, said in BROKEN:
        with pytest.raises(UsageError) as caught:
            build_own_model(ModelFile("/w/my_models/net.py", text), SHAPE, classes=3)
        assert said in caught.value.message, caught.value.message
        assert caught.value.message.startswith("/w/my_models/net.py")
        assert caught.value.hint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it saves
@pytest.mark.parametrize(("classes", "target", "outputs"), [(2, None, 1), (4, None, 4), (0, Target(3.0, 2.0), 1)])
def test_it_gets_the_ends_of_every_model(tmp_path: Path, classes: int, target: Any, outputs: int) -> None:
    import numpy as np

    from nodes.training.own_model import build_own_model
    from nodes.training.tensorflow_setup import keras

    file = ModelFile("/w/my_models/net.py", readme_model())
    model = build_own_model(
        file, SHAPE, classes=classes, target=target, mean=(1.0, 2.0), variance=(4.0, 9.0), mixed_precision=outputs == 4
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    volumes = np.random.default_rng(0).standard_normal((3, *SHAPE), np.float32)
    answers = np.asarray(loaded(volumes))
    assert answers.dtype == np.float32
    assert answers.shape == (3, outputs)
    assert np.array_equal(answers, np.asarray(model(volumes)))
    assert keras.config.dtype_policy().name == "float32"
    if outputs > 1:
        assert answers.sum(axis=1) == pytest.approx([1] * 3, abs=1e-6)


@pytest.mark.slow
def test_batch_norm_is_joined_over_replicas() -> None:
    from nodes.training.own_model import build_own_model

    file = ModelFile("/w/my_models/net.py", readme_model())
    for synchronized in (False, True):
        model = build_own_model(file, SHAPE, synchronized=synchronized)
        norms = [layer for layer in model._flatten_layers() if type(layer).__name__ == "BatchNormalization"]
        assert [layer.synchronized for layer in norms] == [synchronized]
