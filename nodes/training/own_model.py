"""A person's own Keras model: a file in the workspace's `my_models/` with a function `build(shape, outputs)`
(nodes/README.md has an example).

It gets volumes (None, X, Y, Z, C) that are normalised already and gives logits (None, outputs): one number for two
classes or a regression, else one a class. Both ends come from `model_ends`, so that such a model is trained, saved
and used as any other. It consists of built-in layers, because a saved model must load without the file.

The file is code: it runs only when its workspace is trusted. What was read when the training began is what trains,
also on other machines, and decides whether a training state belongs to it.
"""

from __future__ import annotations

import ast
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.workspace import is_trusted, workspace_of_model
from nodes.training.model_ends import EXACT, LOGITS, Target, answer, output_count, volume_input, volume_shape

if TYPE_CHECKING:
    import keras

FUNCTION = "build"
_EXAMPLE = "nodes/README.md has an example."


@dataclass(frozen=True)
class ModelFile:
    """The file as it was read."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return Path(self.path).stem


def read_model_file(path: str) -> ModelFile:
    """Read the file; nothing of it is run.

    Raises `UsageError` when it may not run (it lies outside a trusted workspace's `my_models/`), cannot be read, or
    has no function `build`.
    """
    # Resolved, so that a link in a trusted workspace does not lend its trust to a file elsewhere.
    place = Path(path).resolve()
    if not place.exists():
        raise _unusable(f"{path} does not exist", "Check the spelling.")
    workspace = workspace_of_model(place)
    if workspace is None:
        raise _unusable(
            f"{path} does not lie in a workspace's my_models/, so it is not run", "Move it into that folder."
        )
    if not is_trusted(workspace):
        raise _unusable(
            f"{path} was not run: the workspace is not trusted", "Read it, then run `voxelflow nodes --trust` once."
        )
    try:
        text = place.read_text(encoding="utf-8")
        tree = ast.parse(text, path)
    except SyntaxError as exc:
        raise _unusable(f"{path}, line {exc.lineno}: {exc.msg}", "Mend that line.") from exc
    except (OSError, ValueError) as exc:
        raise _unusable(f"{path} cannot be read: {exc}", "A model file is Python in UTF-8.") from exc
    if FUNCTION not in _top_level_names(tree):
        raise _unusable(f"{path} has no function {FUNCTION}(shape, outputs)", _EXAMPLE)
    return ModelFile(path, text)


def build_own_model(
    file: ModelFile,
    shape: Sequence[int],
    *,
    classes: int = 2,
    target: Target | None = None,
    mean: Sequence[float] | None = None,
    variance: Sequence[float] | None = None,
    synchronized: bool = False,
    mixed_precision: bool = False,
) -> keras.Model:
    """The model of the file between both ends; the arguments are those of `build_resnet3d`.

    Raises `UsageError`, naming file and line, for a file that raises, and for a model that does not keep the contract.
    """
    import keras
    from keras import layers

    volume, outputs = volume_shape(shape), output_count(classes, target)
    policy = keras.config.dtype_policy()
    try:
        # What the layers of the file compute in, unless they say otherwise.
        keras.config.set_dtype_policy("mixed_bfloat16" if mixed_precision else "float32")
        network = _run(file, lambda: _function(file)(volume, outputs))
    finally:
        keras.config.set_dtype_policy(policy)
    _check(file, network, volume, outputs)
    for layer in network._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.synchronized = synchronized
    inputs, x = volume_input(shape, mean, variance)
    logits = layers.Activation("linear", name=LOGITS, **EXACT)(network(x))
    return answer(inputs, logits, target, name=f"own_{file.name}")


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names that the file defines or imports itself; one that is made in other ways is not seen."""
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return names


def _function(file: ModelFile) -> Callable[[tuple[int, ...], int], Any]:
    module = types.ModuleType(f"own_model_{file.name}")
    module.__file__ = file.path
    exec(compile(file.text, file.path, "exec"), module.__dict__)
    function: Callable[[tuple[int, ...], int], Any] = getattr(module, FUNCTION)
    return function


def _run(file: ModelFile, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Exception, SystemExit) as exc:  # a person's file may raise anything
        lines = [frame.lineno for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == file.path]
        where = f"{file.path}, line {lines[-1]}" if lines else file.path
        told = next(iter(str(exc).splitlines()), "")
        raise _unusable(f"{where}: {type(exc).__name__}: {told}", "Mend the file. The log has the traceback.") from exc


def _check(file: ModelFile, network: Any, volume: tuple[int, int, int, int], outputs: int) -> None:
    import keras

    if not isinstance(network, keras.Model):
        raise _unusable(f"{file.path}: {FUNCTION} gave {type(network).__name__}, not a keras.Model", _EXAMPLE)
    foreign = _not_loadable(file, network)
    if foreign:
        raise _unusable(
            f"{file.path}: a saved model cannot be loaded with {foreign}, which Keras does not bring",
            "Use built-in layers (other than Lambda) in a keras.Model(inputs, outputs) or keras.Sequential.",
        )
    if not network.built or len(network.inputs) != 1 or len(network.outputs) != 1:
        raise _unusable(
            f"{file.path}: the model must have one input and one output", f"Begin with keras.Input. {_EXAMPLE}"
        )
    takes, gives = tuple(network.inputs[0].shape), tuple(network.outputs[0].shape)
    fits = len(takes) == 5 and all(a in (None, b) for a, b in zip(takes[1:], volume, strict=True))
    if not fits or gives != (None, outputs):
        raise _unusable(
            f"{file.path}: the model takes {takes} and gives {gives}, where (None, *shape), here {(None, *volume)},"
            f" and (None, outputs), here {(None, outputs)}, are wanted",
            "Use both arguments of build; end in a Dense layer of `outputs` without an activation.",
        )
    last = network.layers[-1]
    ending = type(last).__name__ if isinstance(last, keras.layers.Softmax) else _activation(last)
    if ending in ("Softmax", "softmax", "sigmoid"):
        raise _unusable(
            f"{file.path}: the model ends in {ending}, and would be trained on the probabilities of probabilities",
            "Leave the last activation out: it is added to every model.",
        )


def _activation(layer: Any) -> str:
    return getattr(getattr(layer, "activation", None), "__name__", "")


def _not_loadable(file: ModelFile, network: Any) -> str:
    """Name of the first layer or function that safe mode refuses, or that only the file knows; else empty."""
    import keras

    waiting = [_run(file, lambda: keras.saving.serialize_keras_object(network))]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            name, module = found.get("class_name"), found.get("module") or "keras"
            if name in ("Lambda", "__lambda__") or module.partition(".")[0] != "keras":
                config = found.get("config")
                return config if isinstance(config, str) else str(name)
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
    return ""


def _unusable(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint, parameter="model_file")
