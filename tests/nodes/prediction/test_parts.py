"""Parts, labels and latency, without TensorFlow."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from delta_tables import context
from file_handles import none_left
from hypothesis import given
from hypothesis import strategies as st
from prediction_parts import card, make_predictions, of_the_sum, work
from volume_sets import flip_a_bit, labels_for, make_delta, make_files, make_parquet, some_volumes

from engine.declare.datasets import Predictions
from engine.errors import DataError, ExecutionError, TableConflict
from engine.storage.io_errors import number_of
from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation
from nodes.evaluation.report import write_report
from nodes.prediction.few_files import ask
from nodes.prediction.inputs import ModelCard, open_rows, read_card
from nodes.prediction.part_process import Died, Job, make_in_process, write_job
from nodes.prediction.parts import Division, Ledger, PartWork, Record, latency
from nodes.prediction.predictions_table import commit, problem_with, read_predictions
from nodes.prediction.table_folder import ChosenTable, choose_table, clear_others, version_of
from nodes.table.commit import table_writer
from nodes.training.labels import Task
from nodes.training.labels import renumbered as in_numbers_of

VOLUMES = some_volumes(23, (3, 4, 2))
LABELS = labels_for(VOLUMES, unlabelled=3)


def begun(folder: Path, identity: str = "one", base: int = -1) -> Ledger:
    ledger = Ledger(folder)
    ledger.begin(identity, lambda: ChosenTable(base))
    return ledger


@given(st.integers(1, 40), st.integers(1, 100), st.integers(1, 500))
def test_parts_are_whole_batches_and_hold_every_row_once(batch: int, per_part: int, count: int) -> None:
    division = Division.of(batch, per_part)
    rows = np.arange(count)
    parts = [division.part(rows, number) for number in range(division.parts(count))]
    assert np.concatenate(parts).tolist() == rows.tolist()
    assert all(len(part) % batch == 0 for part in parts[:-1])
    assert [len(part) for part in parts] == [division.size(count, number) for number in range(len(parts))]
    assert per_part <= division.rows < per_part + batch


def test_labels_in_the_models_numbers() -> None:
    labels = np.array([0, 1, 2, np.nan, 7], np.float32)

    def moved(own: tuple[str, ...], classes: tuple[str, ...]) -> list[float | None]:
        return [None if np.isnan(x) else float(x) for x in in_numbers_of(labels, own, classes)]

    assert moved(("a", "b", "c"), ("c", "a")) == [1, None, 0, None, None]
    same = [0, 1, 2, None, 7]
    assert moved((), ("a", "b")) == moved(("a", "b", "c"), ("a", "b", "c")) == same
    assert moved(("a", "b", "c"), ("0", "1", "2")) == moved(("a", "b"), ()) == same
    # Folders that are called 1 and 2, of which the model was trained on one more.
    assert moved(("1", "2"), ("0", "1", "2")) == [1, 2, None, None, None]
    assert moved(("1",), ("0", "1")) == [1, None, None, None, None]
    # One that the model does not know has no label, and the others keep theirs.
    assert moved(("1", "2", "5"), ("0", "1", "2")) == [1, 2, None, None, None]
    assert moved(("1", "2"), ("0", "1")) == [1, None, None, None, None]
    # Labels without names are the numbers by which the model calls its classes.
    assert moved((), ("1", "2", "7")) == [None, 0, 1, None, 2]
    assert moved((), ("01", "02")) == [None, 0, 1, None, None]
    assert moved((), ("0", "1", "2")) == moved((), ("1", "2", "more")) == moved((), ("1", "01")) == same
    assert moved(("02", "01"), ("1", "2")) == [1, 0, None, None, None]
    assert moved(("4", "5"), ("0", "1")) == [None] * 5
    # Classes without names are numbers.
    assert moved(("1", "7"), ()) == [1, 7, None, None, None]
    assert [*in_numbers_of(np.array([1.5, -1], np.float32), (), ("-1", "1"))] == [pytest.approx(np.nan, nan_ok=True), 0]


@pytest.mark.parametrize(
    ("classes", "learned", "expected"),
    [
        (("2", "7"), (), [0, 0, None]), ((), ("2", "5"), [0, 0, 1]), ((), ("2", "7"), [0, 0, None]),
        ((), (), [2, 2, 5]), ((), None, [0, 0, 1]),
    ],
)  # fmt: skip
def test_labels_of_folders_are_the_models(
    tmp_path: Path, classes: tuple[str, ...], learned: tuple[str, ...] | None, expected: list[float | None]
) -> None:
    """A regression of names has learned their places, one of numbers these."""
    volumes = {name: np.ones((3, 4, 2), np.float32) for name in ("2/a.npy", "2/b.npy", "5/c.npy")}
    files = make_files(tmp_path, volumes, dict.fromkeys(volumes))
    (tmp_path / "files" / "labels.csv").unlink()
    task: Task = "classification" if classes else "regression"
    own = dataclasses.replace(card(tmp_path, classes), task=task, learned=learned)
    with open_rows(files, own, cores=1) as opened:
        assert [None if np.isnan(x) else x for x in opened.labels.tolist()] == expected
        assert opened.unknown == expected.count(None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "zstd"])
def test_every_row_has_the_scores_of_its_own_volume(tmp_path: Path, kind: str) -> None:
    make = make_delta if kind == "delta" else lambda *a: make_parquet(*a, compression="ZSTD")
    data = make(tmp_path / "data", VOLUMES, LABELS)
    ctx = context(tmp_path)
    ledger = Ledger(ctx.scratch / "prediction")
    plan = ledger.begin("one", lambda: ChosenTable(version_of(ctx.out / "t")))
    assert work(tmp_path, data, ledger) == 23
    made = commit(ctx.out / "t", ledger, [*ledger.done().values()], plan.base, card(tmp_path), "digest", ctx)
    found = {row["id"]: row for batch in read_predictions(made, ["id", "scores", "label"]) for row in batch.to_pylist()}
    assert {i: row["label"] for i, row in found.items()} == LABELS
    for volume, array in VOLUMES.items():
        assert found[volume]["scores"] == of_the_sum(array[None].astype(np.float32))[0].tolist()
    assert (made.count, made.labelled, made.files, made.version) == (23, 20, 3, 1)
    assert problem_with({"out": made}) == ""
    # Once more, as after a kill: nothing changes.
    assert commit(ctx.out / "t", ledger, [*ledger.done().values()], plan.base, card(tmp_path), "digest", ctx) == made
    with none_left(), pytest.raises(Exception) as caught:
        problem_with({"out": made})
    assert number_of(caught.value) == errno.EMFILE, "a shortage of file handles is no damage"
    next((ctx.out / "t").glob("*.parquet")).unlink()
    assert "is gone" in problem_with({"out": made})


@pytest.mark.slow
@pytest.mark.parametrize("column", ["scores", "label"])
def test_a_flipped_bit_in_a_prediction_is_found(tmp_path: Path, column: str) -> None:
    made = make_predictions(tmp_path, VOLUMES, LABELS)
    flip_a_bit(next(Path(made.uri).glob("*.parquet")), column)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_predictions(made, ["id", column]))


def test_a_record_that_no_handle_is_left_for_is_no_missing_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part left out then would be rows that the table lacks without a word."""
    data = make_delta(tmp_path, VOLUMES, LABELS)
    ledger = begun(tmp_path / "ledger")
    work(tmp_path, data, ledger)
    assert [record.number for record in ledger.complete(3)] == [0, 1, 2]
    whole = Path.read_bytes

    def read_bytes(path: Path, number: int) -> bytes:
        if path.name == "part-00001.json":
            raise OSError(number, os.strerror(number), str(path))
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", lambda path: read_bytes(path, errno.EMFILE))
    with pytest.raises(OSError, match="part-00001"):
        ledger.complete(3)
    monkeypatch.setattr(Path, "read_bytes", lambda path: read_bytes(path, errno.EIO))
    with pytest.raises(ExecutionError, match=r"lacks 1 part$"):
        ledger.complete(3)
    assert work(tmp_path, data, ledger) > 0  # what cannot be read is made again


@pytest.mark.slow
def test_parts_that_are_done_are_not_made_again(tmp_path: Path) -> None:
    data = make_delta(tmp_path, VOLUMES, LABELS)
    ledger = begun(tmp_path / "ledger")
    assert work(tmp_path, data, ledger) == 23
    assert work(tmp_path, data, ledger) == 0
    record = ledger.done()[1]
    (ledger.folder / record.file).write_bytes(b"cut short")
    assert sorted(ledger.done()) == [0, 2]
    assert work(tmp_path, data, ledger) == 8
    assert ledger.begin("one", lambda: ChosenTable(7)).base == -1
    assert sorted(ledger.done()) == [0, 1, 2]
    assert ledger.begin("another", lambda: ChosenTable(7)).base == 7
    assert ledger.done() == {}


@pytest.mark.slow
def test_a_table_that_somebody_else_writes_is_left_alone(tmp_path: Path) -> None:
    data = make_delta(tmp_path, VOLUMES, LABELS)
    ctx = context(tmp_path)
    ledger = begun(ctx.scratch / "prediction")
    work(tmp_path, data, ledger)
    made = commit(ctx.out / "t", ledger, [*ledger.done().values()], -1, card(tmp_path), "digest", ctx)
    stranger = dataclasses.replace(ctx, fingerprint="9" * 32)
    again = begun(tmp_path / "again", base=0)
    work(tmp_path, data, again)
    with pytest.raises(TableConflict, match="another program"):
        commit(ctx.out / "t", again, [*again.done().values()], 0, card(tmp_path), "digest", stranger)
    with table_writer(ctx.out / "t", ctx):
        assert version_of(ctx.out / "t") == made.version


@pytest.mark.slow
def test_what_is_made_anew_of_a_damaged_table_does_not_build_on_it(tmp_path: Path) -> None:
    """When the damaged byte is back, no row is there twice."""
    data = make_delta(tmp_path, VOLUMES, LABELS)
    ctx = context(tmp_path)

    def predict(name: str) -> Predictions:
        ledger = Ledger(ctx.scratch / name)
        plan = ledger.begin(name, lambda: choose_table(ctx.out))
        work(tmp_path, data, ledger)
        task = dataclasses.replace(ctx, fingerprint=name * 32)
        records = [*ledger.done().values()]
        return commit(ctx.out / plan.table, ledger, records, plan.base, card(tmp_path), "digest", task)

    def ids(made: Predictions) -> list[str]:
        return sorted(row for batch in read_predictions(made, ["id"]) for row in batch["id"].to_pylist())

    assert choose_table(ctx.out) == ChosenTable()
    first = predict("a")
    again = predict("b")
    assert (again.uri, again.version) == (first.uri, 2), "a whole table gets another version"
    log = Path(first.uri) / "_delta_log" / f"{2:020d}.json"
    whole = log.read_bytes()
    for byte, other in ((b".parquet", b".tarquet"), (b'{"add"', b'{"adf"'), (b'"size":', b'"size":1')):
        line = whole.index(b'{"add"')
        at = whole.index(byte, line)
        log.write_bytes(whole[:at] + other + whole[at + len(byte) :])
        chosen = choose_table(ctx.out)
        assert (chosen.base, chosen.table) == (-1, "predictions-2"), byte
        assert str(first.uri) in chosen.damage
    anew = predict("c")
    assert (Path(anew.uri).name, anew.version) == ("predictions-2", 1)
    log.write_bytes(whole)
    assert ids(anew) == ids(again) == ids(first) == sorted(VOLUMES)
    clear_others(ctx.out, "predictions-2")
    assert problem_with({"out": again}) == f"there is no Delta table at {first.uri}"
    assert (problem_with({"out": anew}), ids(anew)) == ("", sorted(VOLUMES))
    assert choose_table(ctx.out) == ChosenTable(1, "predictions-2")
    Path(anew.uri, next(Path(anew.uri).glob("*.parquet"))).write_bytes(b"cut short")
    assert choose_table(ctx.out)[:2] == ChosenTable()[:2], "the empty folder is used again"


@pytest.mark.slow
def test_what_is_not_finite_has_no_class_and_evaluation_leaves_it_out(tmp_path: Path) -> None:
    odd = VOLUMES | {"0/v00000.npy": np.full((3, 4, 2), np.nan, np.float32)}
    ctx = context(tmp_path)
    ledger = begun(ctx.scratch / "prediction")
    work(tmp_path, make_delta(tmp_path, odd, LABELS), ledger)
    assert sum(record.not_finite for record in ledger.done().values()) == 1
    own = card(tmp_path, ("<no>", "$yes_2$"))
    made = commit(ctx.out / "t", ledger, [*ledger.done().values()], -1, own, "digest", ctx)
    evaluated = ClassEvaluation.of(made, 10)
    figures, plots = write_report(evaluated, ctx.out)
    assert (figures["volumes"], figures["unlabelled"], figures["not_finite"], figures["evaluated"]) == (23, 3, 1, 19)
    scores = {i: of_the_sum(v[None].astype(np.float32))[0] for i, v in odd.items() if LABELS[i] is not None}
    right = [LABELS[i] == s.argmax() for i, s in scores.items() if np.isfinite(s).all()]
    assert figures["accuracy"] == sum(right) / 19
    assert evaluated.confusion.sum() == 19
    assert len(evaluated.mistakes) == 19 - sum(right)
    sure = [mistake.score for mistake in evaluated.mistakes]
    assert sure == sorted(sure, reverse=True)
    page = (ctx.out / "evaluation.html").read_text()
    assert "&lt;no&gt;" in page
    assert "<no>" not in page
    assert page.count("data:image/png") == len(plots) == 4
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
def test_a_regression_is_evaluated_in_the_labels_units(tmp_path: Path) -> None:
    own = ModelCard(card(tmp_path).file, (3, 4, 2), (), "regression")
    data = make_delta(tmp_path, VOLUMES, {i: None if x is None else 10.5 * x for i, x in LABELS.items()})
    ctx = context(tmp_path)
    ledger = begun(ctx.scratch / "prediction")
    with open_rows(data, own, cores=2) as opened:
        PartWork(opened, Division.of(4, 100), own, "d", ledger, lambda v: v.mean(axis=(1, 2, 3))[:, None])(
            [0], lambda count: None
        )
    made = commit(ctx.out / "t", ledger, [*ledger.done().values()], -1, own, "d", ctx)
    rows = [row for batch in read_predictions(made, ["predicted", "class"]) for row in batch.to_pylist()]
    assert rows == [{"predicted": None, "class": None}] * 23
    figures, plots = write_report(NumberEvaluation.of(made), ctx.out)
    errors = np.array([VOLUMES[i].astype(np.float32).mean() - 10.5 * x for i, x in LABELS.items() if x is not None])
    assert figures["mae"] == pytest.approx(np.abs(errors).mean())
    assert figures["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert figures["r2"] == pytest.approx(1 - (errors**2).sum() / (20 * 5.25**2))
    assert (figures["evaluated"], figures["unlabelled"], len(plots)) == (20, 3, 1)
    assert "Farthest off" in (ctx.out / "evaluation.html").read_text()


@pytest.mark.parametrize("value", [np.nan, -3.4e38])
def test_values_that_a_network_does_not_show_have_no_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """Max pooling drops NaN."""
    monkeypatch.setattr("prediction_parts.of_the_sum", lambda volumes: np.full((len(volumes), 2), 0.5, np.float32))
    volumes = {name: volume.astype(np.float32) for name, volume in VOLUMES.items()}
    odd = sorted(volumes)[9]
    volumes[odd][0, 0, 0] = value
    made = make_predictions(tmp_path, volumes, LABELS)
    found = {row["id"]: row for batch in read_predictions(made, ["id", "scores", "class"]) for row in batch.to_pylist()}
    assert np.isnan(found[odd]["scores"]).all()
    assert [name for name, row in found.items() if row["class"] is None] == [odd]


@pytest.mark.slow
def test_nothing_to_evaluate_is_reported(tmp_path: Path) -> None:
    for labels, words in (
        (dict.fromkeys(VOLUMES), "no volume .* has a label"),
        (dict.fromkeys(VOLUMES, 5.0), "label 5"),
    ):
        ctx = context(tmp_path, words[:3])
        ledger = begun(ctx.scratch / "prediction")
        work(tmp_path, make_delta(tmp_path / words[:3], VOLUMES, labels), ledger)
        made = commit(ctx.out / "t", ledger, [*ledger.done().values()], -1, card(tmp_path), "digest", ctx)
        with pytest.raises(DataError, match=words):
            ClassEvaluation.of(made, 10)


def test_latency_by_hand() -> None:
    fixed = dict.fromkeys(("number", "rows", "bytes", "mtime_ms", "labelled", "not_finite"), 0)
    texts = dict.fromkeys(("file", "id_min", "id_max"), "")
    record = Record.model_validate(
        fixed | texts | {"label_min": None, "label_max": None, "batch_s": [0.4, 0.3], "batch_rows": [4, 2]}
        | {"part_s": 1, "waiting_s": 0.25}
    )  # fmt: skip
    found = latency([record])
    assert (found["batch_ms_p50"], found["volume_ms_p50"], found["volume_ms_p99"]) == (350, 100, 150)
    assert (found["volumes_per_s"], found["waiting_share"]) == (6, 0.25)


def test_cards(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no model"):
        read_card(tmp_path)
    (tmp_path / "model.json").write_text('{"class_names": ["a"], "input": {}}')
    with pytest.raises(DataError, match="is gone"):
        read_card(tmp_path)
    (tmp_path / "model.keras").touch()
    with pytest.raises(DataError, match="cannot be read"):
        read_card(tmp_path)
    (tmp_path / "model.json").write_text('{"task": "regression", "class_names": [], "input": {"shape": [2, 2, 2]}}')
    found = read_card(tmp_path)
    assert (found.shape, found.classes, found.scores, found.task) == ((2, 2, 2), (), 1, "regression")


def test_a_card_distinguishes_models(tmp_path: Path) -> None:
    first = card(tmp_path).digest()
    (tmp_path / "model.keras").write_bytes(b"another")
    assert ModelCard(tmp_path / "model.keras", (1,), ("a", "b")).digest() != first


@pytest.mark.slow
def test_a_process_that_sees_other_volumes_says_so(tmp_path: Path) -> None:
    data = make_delta(tmp_path, VOLUMES, LABELS)
    own = card(tmp_path)
    description = {"class_names": own.classes, "input": {"shape": own.shape}}
    (tmp_path / "model.json").write_text(json.dumps(description))
    ledger = begun(tmp_path / "ledger")
    job = Job(data=data, model=str(tmp_path), digest=own.digest(), batch_size=4, rows=8, identity="another", cores=1)
    write_job(ledger.folder, job)
    with pytest.raises(ExecutionError, match="sees other volumes"):
        make_in_process(ledger.folder, [0, 1], {})
    (ledger.folder / "job.json").write_text("{")
    with pytest.raises(Died, match="ValidationError: 1 validation error for Job"):
        make_in_process(ledger.folder, [0, 1], {})
    (ledger.folder / "job.json").unlink()
    with pytest.raises(Died, match=r"job.json: No such file or directory"):
        make_in_process(ledger.folder, [0, 1], {})
    assert ledger.done() == {}


def test_bad_files_are_reported_without_loading_the_model(tmp_path: Path) -> None:
    """Nothing here is a model: only a file that fits would be shown to it."""
    own = card(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"class_names": own.classes, "input": {"shape": own.shape}}))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], object))
    np.save(tmp_path / "shape.npy", np.zeros((2, 2)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "shape.npy").read_bytes()[:-3])
    (tmp_path / "text.npy").write_text("some text")
    names = ("pickle", "shape", "cut", "text", "missing")
    errors = [answer.error for answer in ask(tmp_path, [tmp_path / f"{name}.npy" for name in names]).answers]
    assert errors == [
        "holds Python objects, which are never unpickled",
        "is 2x2, the model takes 3x4x2",
        "has 157 bytes, its header promises 160",
        "does not start like a .npy file",
        "there is no such file",
    ]
    (tmp_path / "none").mkdir()
    folders = list(ask(tmp_path, [tmp_path, tmp_path / "none"]).answers)
    assert [answer.file.name for answer in folders] == ["cut.npy", "pickle.npy", "shape.npy", "text.npy", "none"]
    assert folders[-1].error == "there are no volumes in this folder"


def test_of_files_with_several_arrays_the_named_one_is_the_volume(tmp_path: Path) -> None:
    own = card(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"class_names": own.classes, "input": {"shape": own.shape}}))
    folder = tmp_path / "in"
    folder.mkdir()
    np.savez(folder / "a.npz", mask=np.zeros((3, 4)), scan=np.zeros((2, 2)))
    for named in (folder, folder / "a.npz"):
        (answer,) = ask(tmp_path, [named]).answers
        assert answer.error == "holds several arrays: mask, scan; name one with the parameter dataset"
        (answer,) = ask(tmp_path, [named], dataset="scan").answers
        assert answer.error == "is 2x2, the model takes 3x4x2"


def test_files_of_a_folder_that_are_not_predicted_are_reported(tmp_path: Path) -> None:
    own = card(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"class_names": own.classes, "input": {"shape": own.shape}}))
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.npy", "b.nii", "c.nii", "d.dcm", "notes.txt"):
        (folder / name).write_text("x")
    for link in ("lost.npy", "class"):
        (folder / link).symlink_to("nothing")
    errors = {answer.file.name: answer.error for answer in ask(tmp_path, [folder]).answers}
    assert errors == {
        "a.npy": "does not start like a .npy file",
        "lost.npy": "is a link: its target nothing is missing",
        "class": "is a link that is not followed: its target nothing is missing. What lay there is not read. "
        f"Put it back, or mount its disk; `rm {folder / 'class'}` ends this warning.",
        "in": "files of other formats are left out: 2 .nii, 1 .dcm; name them to predict them, too",
    }
    (folder / "a.npy").unlink()
    (folder / "lost.npy").unlink()
    errors = {answer.file.name: answer.error for answer in ask(tmp_path, [folder]).answers}
    assert errors.keys() == {"b.nii", "c.nii", "d.dcm", "class"}, "without .npy files those of all other formats"
    assert errors["d.dcm"] == "does not start like a DICOM file"
