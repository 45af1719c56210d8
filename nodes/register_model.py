"""`RegisterModel`: a model into MLflow's registry, and the alias to it if it is the best one."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, Report, TrainedModel
from engine.declare.figures import lower_is_better
from engine.declare.node import node
from engine.declare.node_type import FromWorkspace
from engine.declare.parameters import Added, Advanced
from engine.diagnostics.rule import Rule
from engine.errors import DataError, UsageError
from engine.storage.files import write_whole
from engine.text import number

if TYPE_CHECKING:
    from engine.tracking.models import Candidate, Registered

_NAME = re.compile(r"[^/:%.'\"`\x00-\x1f][^/:%'\"`\x00-\x1f]*")
_ALIAS = re.compile(r"(?!v\d+$)(?!latest$)[A-Za-z0-9_-]+", re.IGNORECASE)
_SIGNED = "mean_error"
_UNSIGNED = "Choose mae or rmse, or set better."
_HELD_BACK = "val_"


# MLflow takes seconds to import: they pass while the node before is at work.
@node(
    "RegisterModel",
    version=1,
    category="Deployment",
    icon="tag",
    keywords=("mlflow", "registry", "publish", "production", "alias", "deploy"),
    imports=("mlflow.tracking",),
    needs=("mlflow",),
    anywhere="talks to MLflow",
)
def register_model(
    model: TrainedModel,
    evaluation: Report | None = None,
    *,
    name: str = "volumes",
    alias: str = "champion",
    metric: str = "accuracy",
    better: Annotated[Literal["auto", "higher", "lower"], Advanced()] = "auto",
    threshold: Annotated[float | None, Added()] = None,
    ctx: TaskContext,
) -> Report:
    """Keep the model in MLflow's registry, and point the alias at it if it is better than the one before.

    The model becomes a version of the registered model `name`, once, however often this runs. The
    alias moves only when no version has it, or the metric, which every version keeps as a tag, is better
    than that of the version that has it. So the first version gets it whatever its figure is, unless `threshold` says
    what it has to reach. Anyone can then load `models:/NAME@ALIAS`, and `voxelflow predict models:/NAME@ALIAS` asks it.

    Args:
        model: the model to register.
        evaluation: the report of EvaluateModel, for figures of volumes that the training never saw;
            without it the figure of the validation is taken.
        name: of the registered model; versions of one name are compared.
        alias: what the best version is called.
        metric: the figure that decides, as the report or the training calls it (auc, accuracy, f1 ...).
        better: whether higher or lower is better. Auto takes lower for losses and errors.
        threshold: the alias is only for a model whose metric is at least this, or at most, where lower is better.
            Without a value the first version gets it in any case.
    """
    from engine.tracking.models import Candidate, register
    from engine.workspace import Workspace
    from nodes.prediction.inputs import read_card
    from nodes.training.trained_model import MLFLOW_MODEL

    _check_names(name, alias)
    higher = _is_higher_better(metric, better)
    digest = read_card(Path(model.uri)).digest()
    measured, value = _figure(model, evaluation, metric, digest)
    data = str(evaluation.figures.get("data", "")) if evaluation else ""
    tags = {"voxelflow.run_id": ctx.run_id, "voxelflow.node": ctx.node_id, "voxelflow.data": data}
    candidate = Candidate(
        name=name,
        alias=alias,
        folder=Path(model.uri) / MLFLOW_MODEL,
        digest=digest,
        metric=measured,
        value=value,
        higher_is_better=higher,
        threshold=threshold,
        tags={key: text for key, text in tags.items() if text},
    )
    workspace = None if ctx.workspace is None else Workspace(ctx.workspace)
    registered, location = register(workspace, candidate, ctx.commit_point)
    if registered.aliased and (reason := _no_better_than_guessing(measured, value, evaluation)):
        ctx.warn(f"the alias {alias} is now that of a model which may only guess: {reason}")
    if not registered.aliased and registered.previous and registered.previous_value is None and candidate.reaches:
        ctx.warn(
            f"version {registered.previous} has the alias {alias} and no figure for {measured}: the alias stays;"
            " move it by hand in MLflow if this version is better"
        )
    if registered.previous_data and data and registered.previous_data != data:
        ctx.warn(f"version {registered.previous} was measured on other volumes than this one")
    path, figures = _write_registration(ctx.out, candidate, registered, location)
    ctx.facts(**figures)
    ctx.info(_in_words(candidate, registered))
    return Report(uri=str(path), figures=figures)


def _figure(model: TrainedModel, evaluation: Report | None, metric: str, digest: str) -> tuple[str, float]:
    """The metric's own name, and its value. Raises `DataError` when it was not measured, or of another model."""
    if evaluation is not None:
        of = evaluation.figures.get("model")
        if of is None:
            # Such as that of a cross-validation: its accuracy is that of the volumes trained on.
            raise DataError(
                "the evaluation is no report of EvaluateModel", hint="Wire one of this model's predictions."
            )
        if of != digest:
            raise DataError(
                "the evaluation is that of another model", hint="Wire the report of this model's own predictions."
            )
        measured: Mapping[str, float | int | str] = evaluation.figures
        name = metric
    else:
        # Of what the model was trained on any figure flatters.
        measured = {key: figure for key, figure in model.metrics.items() if key.startswith(_HELD_BACK)}
        name = metric if metric.startswith(_HELD_BACK) else f"{_HELD_BACK}{metric}"
    value = measured.get(name)
    if isinstance(value, (int, float)) and math.isfinite(value):
        return name, float(value)
    known = ", ".join(sorted(k for k, v in measured.items() if isinstance(v, (int, float)) and math.isfinite(v))[:20])
    raise DataError(
        f"{name} was not measured, or is not finite",
        hint=f"Choose one of: {known}."
        if known
        else "Train with validation volumes, or wire a report of EvaluateModel into evaluation.",
        parameter="metric",
    )


def _is_higher_better(metric: str, better: str) -> bool:
    if problem := _metric_problem(metric, better):
        raise UsageError(problem, hint=_UNSIGNED, parameter="metric")
    return better == "higher" or (better == "auto" and not lower_is_better(metric))


def _metric_problem(metric: str, better: str) -> str:
    if better == "auto" and metric.endswith(_SIGNED):
        return f"{metric} has a sign: neither the highest nor the lowest is the best"
    return ""


def _check_names(name: str, alias: str) -> None:
    if problem := _name_problem(name, alias):
        raise UsageError(problem[1], hint=problem[2], parameter=problem[0])


def _name_problem(name: str, alias: str) -> tuple[str, str, str] | None:
    """(parameter, problem, hint), or None."""
    if not _NAME.fullmatch(name) or name != name.strip():
        return "name", f"MLflow takes no model called {name!r}", "Use letters, digits, blanks, - and _."
    if not _ALIAS.fullmatch(alias):
        hint = "Use letters, digits, - and _; latest and v1, v2, ... are MLflow's own."
        return "alias", f"MLflow takes no alias {alias!r}", hint
    return None


def _in_words(candidate: Candidate, registered: Registered) -> str:
    version, alias, before = registered.version, candidate.alias, registered.previous
    figure = f"{candidate.metric} {number(candidate.value)}"
    if registered.aliased:
        why = f" instead of version {before}" if before else "; no version had it, so nothing was compared"
        return f"version {version} ({figure}) is registered and has the alias {alias}{why}"
    why = f"{alias} stays with version {before}" if before else f"no version is {alias} yet"
    if not candidate.reaches:
        why += f": the threshold is {number(candidate.threshold or 0)}"
    return f"version {version} ({figure}) is registered; {why}"


def _no_better_than_guessing(metric: str, value: float, evaluation: Report | None) -> str:
    """Why the figure is no better than an answer that never looks at the volume would have; "" where it is."""
    figures: Mapping[str, float | int | str] = evaluation.figures if evaluation is not None else {}
    name, largest = metric.removeprefix(_HELD_BACK), figures.get("majority_share")
    if name == "accuracy" and isinstance(largest, float) and value <= largest:
        return f"its accuracy of {number(value)} is no more than that of always the largest class ({number(largest)})"
    if name == "auc" and value <= 0.5:
        return f"its {metric} of {number(value)} is that of chance (0.5) or below"
    if name == "r2" and value <= 0:
        return f"its r2 of {number(value)} is no more than that of always the mean (0)"
    return ""


@register_model.from_workspace
def _from_workspace(_: Mapping[str, Any]) -> FromWorkspace:
    return "mlflow"


@register_model.preview
def _preview(look: CheckContext) -> Preview:
    if problem := _name_problem(look.params["name"], look.params["alias"]):
        parameter, text, hint = problem
        look.report(NameNotTaken, text, hint=hint, parameter=parameter)
    if text := _metric_problem(look.params["metric"], look.params["better"]):
        look.report(NoBestFigure, text, hint=_UNSIGNED, parameter="metric")
    return Preview(kind="Report")


@register_model.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from engine.tracking.destination import ENVIRONMENT, shown

    now = os.environ.get(ENVIRONMENT, "").strip()
    for report in outputs.values():
        before = report.figures.get("location") if isinstance(report, Report) else None
        if now and before is not None and shown(now) != before:
            return f"it is registered at {before}, and MLflow is at {shown(now)} now"
    return ""


# --- what it reports before a run ----------------------------------------------------------------


class NameNotTaken(Rule):
    """MLflow's registry would refuse the name of the model or the alias, and that only after the training.

    What to do: use letters, digits, - and _ (a name may have blanks). latest and v1, v2, ... cannot be aliases,
    because MLflow uses them itself.
    """

    code = "VF541"
    severity = "error"
    title = "a name that MLflow does not take"


class NoBestFigure(Rule):
    """The figure that decides which version is the best has a sign: of a mean error neither the highest nor the lowest
    value is the best.

    What to do: choose mae or rmse as `metric`, or say in `better` what is meant.
    """

    code = "VF544"
    severity = "error"
    title = "a figure that has no best value"


def _write_registration(
    folder: Path, candidate: Candidate, registered: Registered, location: str
) -> tuple[Path, dict[str, float | int | str]]:
    """Write `registration.json` into the folder; gives its path and the figures in it."""
    figures: dict[str, float | int | str] = {
        "name": candidate.name,
        "version": registered.version,
        "alias": candidate.alias,
        "is_best": int(registered.aliased),
        "metric": candidate.metric,
        "value": candidate.value,
        "previous_version": registered.previous,
        "model": candidate.digest,
        "location": location,
    }
    if registered.previous_value is not None:
        figures["previous_value"] = registered.previous_value
    path = folder / "registration.json"
    write_whole(path, json.dumps(figures, indent=2, ensure_ascii=False) + "\n", durable=True)
    return path, figures
