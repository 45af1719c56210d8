"""`voxelflow predict`: what a model says of a few files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.session import Session, json_option, workspace_option
from engine.storage import expanded
from engine.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.cli.node_work import Answer, Asked

REGISTRY = "models:/"


@click.command("predict", short_help="Ask a trained model about volumes in files.")
@click.argument("model")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR ...")
@click.option("--node", metavar="NODE", help="The node of the run that made the model, where several did.")
@click.option(
    "--dataset",
    metavar="NAME",
    default="",
    help="The array to take, in files that hold several (HDF5, .npz).",
)
@click.option(
    "--out", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.csv", help="Write a table instead."
)
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    model: str,
    files: tuple[Path, ...],
    node: str | None,
    dataset: str,
    out: Path | None,
    as_json: bool,
    root: Path | None,
) -> int:
    """Print the class and the probabilities that MODEL gives for each FILE, and for those in each DIR.

    MODEL is the folder of a trained model, a run (an id, or "last": the newest that made a model), or one in MLflow's
    registry (models:/NAME@ALIAS or models:/NAME/VERSION). The volumes must have the shape that the model was trained
    on; other formats than .npy are read too, as VolumeFolder does. The slices of a DICOM series are one volume: give
    their DIR, or all of them. Of a DIR with .npy files only those are read, else the volumes of all formats in it.
    Unreadable files are reported and skipped; the exit status is then 1. A volume whose values are unlike those of the
    training, as in another unit or scale, is predicted with a warning.
    """
    from engine.cli.screen import say, say_json

    if out is not None and as_json:
        raise click.UsageError("--out and --json say the same in two ways. Choose one.")
    with _folder(session, model, node, root) as folder:
        asked = session.work.ask_model(folder, files, dataset=dataset)
        if out is not None:
            doubts = _Doubts()
            written, unread = _write(out, asked, doubts)
            say(f"wrote {out}: {plural(written, 'files')}" + (f", {unread:,} of them not predicted" if unread else ""))
            doubts.show()
            return 1 if unread else 0
        answers = list(asked.answers)
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
        from engine.tracking.models import fetched

        with fetched(session.workspace_to_look_at(root), model) as folder:
            yield folder
        return
    place = expanded(model)
    if place.is_dir():
        yield place
        return
    if "/" in model or model in ("", "."):
        raise UsageError(f"there is no folder {model}", hint="Give the folder of a model, or a run.")
    yield _made_by_run(session, model, node, root)


def _made_by_run(session: Session, run: str, node: str | None, root: Path | None) -> Path:
    from engine.cli.next_steps import models_of
    from engine.errors import UsageError

    _, store = session.workspace_with_runs(root)
    found = store.run(run)
    models = models_of(store.tasks(found.run_id), node)
    if run == "last" and not models:
        for older in store.runs(-1):
            if models := models_of(store.tasks(older.run_id), node):
                found = older
                break
    if len(models) == 1:
        return Path(*models.values())
    where = f"run {found.run_id} of {found.pipeline}"
    if models:
        raise UsageError(f"{where} made several models", hint=f"Choose one with --node: {', '.join(models)}.")
    raise UsageError(
        f"{where} made no model{f' in the node {node}' if node else ''}",
        hint="`voxelflow runs show` shows what it made; a failed training can be resumed.",
    )


class _Doubts:
    """Files whose answers may be wrong: the first is named, the others are counted, of which there may be many."""

    def __init__(self) -> None:
        self._first: Answer | None = None
        self._count = 0

    def add(self, answer: Answer) -> None:
        if answer.doubt:
            self._first = self._first or answer
            self._count += 1

    def show(self) -> None:
        from engine.text import safe

        if self._first is None:
            return
        print(f"warning: {safe(str(self._first.file))}: {safe(self._first.doubt)}", file=sys.stderr)
        if self._count > 1:
            print(f"warning: the same of {plural(self._count - 1, 'more files')}", file=sys.stderr)


def _write(path: Path, asked: Asked, doubts: _Doubts) -> tuple[int, int]:
    """A row for each file, as they are predicted; the file appears when all are. Gives rows, and those with errors."""
    import csv

    from engine.storage.files import whole_file

    written = unread = 0
    classes = list(asked.classes)
    scores = [f"probability_{name}" for name in classes] or ["value"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        whole_file(path.absolute(), durable=False) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        rows = csv.writer(file)
        rows.writerow(["file", *(["class"] if classes else []), *scores, "error", "warning"])
        for answer in asked.answers:
            found = [answer.scores.get(name, "") for name in classes or [""]]
            name = "" if answer.name is None else answer.name
            rows.writerow([answer.file, *([name] if classes else []), *found, answer.error, answer.doubt])
            doubts.add(answer)
            written, unread = written + 1, unread + bool(answer.error)
    return written, unread


def _show(answers: Sequence[Answer]) -> None:
    from engine.cli.screen import table
    from engine.text import safe

    good = [answer for answer in answers if not answer.error]
    rows = [
        (
            str(answer.file),
            answer.name if answer.name is not None else "",
            ", ".join(f"{name} {score:.4f}" if name else f"{score:.6g}" for name, score in answer.scores.items()),
        )
        for answer in good
    ]
    if rows:
        named = any(answer.name is not None for answer in good)
        columns = ("file", "class", "probabilities") if named else ("file", "", "value")
        table(columns, rows)
    doubts = _Doubts()
    for answer in answers:
        doubts.add(answer)
        if answer.error:
            print(f"error: {safe(str(answer.file))}: {safe(answer.error)}", file=sys.stderr)
    doubts.show()


def _as_json(answer: Answer) -> dict[str, object]:
    if answer.error:
        return {"file": str(answer.file), "error": answer.error}
    shown: dict[str, object] = {"file": str(answer.file), "class": answer.name, "scores": dict(answer.scores)}
    return shown | ({"warning": answer.doubt} if answer.doubt else {})
