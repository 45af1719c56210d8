"""`LoadModel`: a model that exists already, of a folder, of a run or of MLflow's registry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Preview, TrainedModel, VolumeSpec
from engine.declare.node import node
from engine.declare.node_type import FromWorkspace
from engine.declare.parameters import Advanced, PathIn, Pattern
from engine.diagnostics.rule import Rule
from engine.errors import UsageError

if TYPE_CHECKING:
    from nodes.prediction.inputs import ModelCard

_FILES = ("model.*", "history.json", "confusion.*", "MLmodel", "data/model.*")
"""What says whether the model in a folder has changed; not its training state, which is large and may go."""


@node(
    "LoadModel",
    version=1,
    category="Sources",
    icon="brain",
    keywords=("existing model", "registry", "mlflow", "pretrained"),
    imports=("nodes.prediction.inputs",),
    uses_all_cores=False,
    anywhere="only names files",
)
def load_model(
    *,
    folder: Annotated[str | None, PathIn("folder", *_FILES, holds="files of a trained model")] = None,
    run: Annotated[str | None, Pattern("[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", "the whole id of a run")] = None,
    run_node: Annotated[str, Advanced()] = "",
    registered: Annotated[
        str | None, Pattern("models:/[^/@]+(/[0-9]+|@[^/@]+)", "like models:/NAME/VERSION or models:/NAME@ALIAS")
    ] = None,
    ctx: TaskContext,
) -> TrainedModel:
    """Take a trained model that exists already, to predict with it or to compare it.

    Give one of folder, run and registered. A model of a folder is used where it lies; one of a run or of MLflow's
    registry becomes part of this node's result, and stays when the other is deleted.

    Args:
        folder: folder of a model that TrainResNet3D made, or of one of those in MLflow's format.
        run: id of a run that made a model.
        run_node: the node that made it, where the run made several.
        registered: a model of MLflow's registry: models:/NAME/VERSION, or models:/NAME@ALIAS. An alias is looked up
            when the node runs; its result stays the version that it meant then, until the node is run again.
    """
    given = {"folder": folder, "run": run, "registered": registered}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) != 1:
        raise UsageError(_not_one(chosen), hint=_ONE, parameter=chosen[1] if chosen else "folder")
    if folder:
        return _described(Path(folder), ctx)
    if run:
        if ctx.workspace is None:
            raise UsageError(
                "there is no workspace, which has the runs",
                hint="Give the model's folder, or run the pipeline with `voxelflow run`.",
                parameter="run",
            )
        model = _of_run(ctx.workspace, run, run_node)
        _link(Path(model.uri), ctx.out)
        return model.model_copy(update={"uri": str(ctx.out)})
    from engine.tracking.models import fetched, pinned
    from engine.workspace import Workspace

    workspace = None if ctx.workspace is None else Workspace(ctx.workspace)
    wanted = pinned(workspace, str(registered))
    if wanted != registered:
        ctx.info(f"{registered} is {wanted} now")
    with fetched(workspace, wanted) as place:
        return _described(place, ctx)


def _described(folder: Path, ctx: TaskContext) -> TrainedModel:
    """The model in a folder. Raises `DataError` when there is none."""
    import json

    from nodes.prediction.inputs import read_card
    from nodes.training.trained_model import DESCRIPTION, HISTORY, MLFLOW_MODEL

    card = read_card(folder)
    if not (folder / DESCRIPTION).is_file():
        # In MLflow's format alone: the result gets the files that a training makes, as far as they are known.
        from mlflow.models import Model

        from engine.storage.files import write_whole

        _link(folder, ctx.out / MLFLOW_MODEL)
        _link(folder / "data", ctx.out, card.file.name)
        write_whole(ctx.out / HISTORY, "[]\n", durable=True)
        description = {"file": card.file.name, **(Model.load(str(folder)).metadata or {})}
        write_whole(ctx.out / DESCRIPTION, json.dumps(description, indent=2) + "\n", durable=True)
        folder = ctx.out
    return _in_place(folder, card)


def _in_place(folder: Path, card: ModelCard) -> TrainedModel:
    """The model in a folder as a training left it."""
    import json

    from nodes.training.trained_model import DESCRIPTION, figures_in

    described: Mapping[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    file = folder / card.file.name
    return TrainedModel(
        uri=str(folder),
        spec=_spec(described, card),
        metrics=figures_in(folder, described),
        parameters=int(described.get("parameters", {}).get("total", 0)),
        bytes=file.stat().st_size,
    )


def _spec(described: Mapping[str, Any], card: ModelCard) -> VolumeSpec:
    dtype = described["input"].get("stored_as", "float32")
    return VolumeSpec(shape=card.shape, dtype=dtype, classes=card.classes, transforms=card.transforms)


def _of_run(workspace: Path, run: str, run_node: str) -> TrainedModel:
    """The model that a run made. Raises `UsageError` when it made none, or several."""
    from engine.store.runs import RunStore
    from engine.workspace import Workspace

    store = RunStore(Workspace(workspace))
    try:
        models = {
            task.node: dataset
            for task in store.tasks(store.run(run).run_id)
            for dataset in task.outputs.values()
            if isinstance(dataset, TrainedModel) and run_node in ("", task.node)
        }
    finally:
        store.close()
    if len(models) == 1:
        return next(iter(models.values()))
    if models:
        raise UsageError(
            f"run {run} made several models", hint=f"Choose one of {', '.join(models)}.", parameter="run_node"
        )
    raise UsageError(
        f"run {run} made no model{f' in the node {run_node}' if run_node else ''}",
        hint="`voxelflow runs show` shows what it made.",
        parameter="run",
    )


def _link(source: Path, target: Path, pattern: str = "**/*") -> None:
    """Link the files of a folder into another, or copy them where that is not possible; doing it again is harmless."""
    from engine.storage.files import flush_many
    from engine.storage.hard_link import link_or_copy

    made = []
    for file in sorted(source.glob(pattern)):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(file, place, "link")
            made.append(place)
    flush_many(made)


@load_model.from_workspace
def _from_workspace(params: Mapping[str, Any]) -> FromWorkspace:
    return "runs" if params.get("run") else "mlflow" if params.get("registered") else ""


@load_model.revision
def _version(params: Mapping[str, Any]) -> int:
    """The model of a folder has its figures since 2; an alias stays what it was looked up to be."""
    return 2 if params.get("folder") else 1


@load_model.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """What the folder's description says."""
    found = look.paths.get("folder")
    if found is None or not found.count:
        return {}
    from engine.errors import VoxelflowError
    from nodes.prediction.inputs import read_card
    from nodes.training.trained_model import DESCRIPTION

    folder = Path(found.path)
    try:
        card = read_card(folder)
    except VoxelflowError as exc:
        return {"problem": exc.message, "hint": exc.hint}
    if not (folder / DESCRIPTION).is_file():
        return {}
    try:
        return {"model": _in_place(folder, card).model_dump(mode="json")}
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as exc:
        return {"problem": f"the figures of the model in {folder} cannot be read: {exc}", "hint": _CHOOSE}


@load_model.preview
def _preview(look: CheckContext) -> Preview:
    chosen = [name for name in ("folder", "run", "registered") if look.params.get(name)]
    if len(chosen) != 1:
        look.report(NotOneModel, _not_one(chosen), hint=_ONE, parameter=chosen[1] if chosen else "folder")
    if "problem" in look.facts:
        look.report(NoModelThere, look.facts["problem"], hint=look.facts["hint"], parameter="folder")
    if "@" in (look.params.get("registered") or ""):
        look.report(
            AliasIsKept,
            f"{look.params['registered']} is looked up when this node runs; then its result stays that version",
            hint="Run this node again (--from) when the alias has moved, or name the version.",
            parameter="registered",
        )
    model = TrainedModel.model_validate(look.facts["model"]) if "model" in look.facts else None
    uri, spec = look.params.get("folder") or None, None if model is None else model.spec
    return Preview(kind="TrainedModel", uri=uri, spec=spec, dataset=model)


_CHOOSE = "Choose the folder of another model, or train it again."
_ONE = "Give one of folder, run and registered."


def _not_one(chosen: list[str]) -> str:
    return f"{' and '.join(chosen)} name a model each" if chosen else "no model is named"


# --- what it reports before a run ----------------------------------------------------------------


class NotOneModel(Rule):
    """LoadModel takes one model: of a folder, of a run, or of MLflow's registry. None of them is given, or several are.

    What to do: give one of `folder`, `run` and `registered`, and clear the others.
    """

    code = "VF550"
    severity = "error"
    title = "no model, or several"


class NoModelThere(Rule):
    """The folder that LoadModel is given holds no model that can be read. The message has the reason.

    What to do: give the folder of a model that TrainResNet3D made (with model.json), or of one in MLflow's format (with
    MLmodel).
    """

    code = "VF551"
    severity = "error"
    title = "a folder without a usable model"


class AliasIsKept(Rule):
    """LoadModel is given an alias of MLflow's registry, such as models:/brains@champion. It looks up which version that
    is when it runs, and its result is that version's model for good: a later run finds the result, and does not ask
    MLflow whether the alias has moved.

    What to do: run the node again when the alias has moved (`voxelflow run PIPELINE --from NODE`), or name the version.
    """

    code = "VF552"
    severity = "info"
    title = "an alias that is looked up once"
