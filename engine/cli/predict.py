"""`voxelflow predict`: what a model says of a few files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import Session, json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.cli.session import Answer

REGISTRY = "models:/"


@click.command("predict", short_help="Ask a trained model about .npy files.")
@click.argument("model")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE.npy ...")
@click.option("--node", metavar="NODE", help="The node of the run that made the model, where several did.")
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session, model: str, files: tuple[Path, ...], node: str | None, as_json: bool, root: Path | None
) -> int:
    """Print the class and the probabilities that MODEL gives for each FILE.npy.

    MODEL is the folder of a trained model, a run ("last" or an id) that trained one, or one in MLflow's registry
    (models:/NAME@ALIAS or models:/NAME/VERSION). The volumes must have the shape that the model was trained on.
    A file that cannot be a volume is told with its reason, the others are predicted; the exit status is then 1.
    """
    from engine.cli.screen import say_json

    with _folder(session, model, node, root) as folder:
        answers = session.ask_model(folder, files)
    if as_json:
        say_json({"model": model, "files": [_as_json(answer) for answer in answers]})
    else:
        _show(answers)
    return 1 if any(answer.error for answer in answers) else 0


@contextmanager
def _folder(session: Session, model: str, node: str | None, root: Path | None) -> Iterator[Path]:
    """Where the model's files are, for as long as the block lasts. Raises `UsageError`."""
    from engine.errors import UsageError

    if model.startswith(REGISTRY):
        from engine.tracking.registry import fetched

        with fetched(session.workspace_to_look_at(root), model) as folder:
            yield folder
        return
    place = Path(model).expanduser()
    if place.is_dir():
        yield place
        return
    if "/" in model or model in ("", "."):
        raise UsageError(f"there is no folder {model}", hint="Give the folder of a model, or a run.")
    yield _made_by_run(session, model, node, root)


def _made_by_run(session: Session, run: str, node: str | None, root: Path | None) -> Path:
    from engine.datasets import TrainedModel
    from engine.errors import UsageError

    _, store = session.workspace_with_runs(root)
    found = store.run(run)
    models = {
        task.node: dataset.uri
        for task in store.tasks(found.run_id)
        for dataset in task.outputs.values()
        if isinstance(dataset, TrainedModel) and node in (None, task.node)
    }
    if len(models) == 1:
        return Path(*models.values())
    where = f"run {found.run_id} of {found.pipeline}"
    if models:
        raise UsageError(f"{where} made several models", hint=f"Choose one with --node: {', '.join(models)}.")
    raise UsageError(
        f"{where} made no model{f' in the node {node}' if node else ''}",
        hint="`voxelflow runs show` tells what it made; a failed training can be resumed.",
    )


def _show(answers: Sequence[Answer]) -> None:
    from engine.cli.screen import table
    from engine.cli.wording import safe

    told = [answer for answer in answers if not answer.error]
    rows = [
        (
            str(answer.file),
            answer.name if answer.name is not None else "",
            ", ".join(f"{name} {score:.4f}" if name else f"{score:.6g}" for name, score in answer.scores.items()),
        )
        for answer in told
    ]
    if rows:
        named = any(answer.name is not None for answer in told)
        columns = ("file", "class", "probabilities") if named else ("file", "", "value")
        table(columns, rows)
    for answer in answers:
        if answer.error:
            print(f"error: {safe(str(answer.file))}: {safe(answer.error)}", file=sys.stderr)


def _as_json(answer: Answer) -> dict[str, object]:
    if answer.error:
        return {"file": str(answer.file), "error": answer.error}
    return {"file": str(answer.file), "class": answer.name, "scores": dict(answer.scores)}
