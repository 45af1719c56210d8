"""What an evaluation says of uneven classes, and thresholds that are chosen on other volumes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from prediction_parts import make_predictions, of_the_sum
from volume_sets import Labels, Volumes, labels_for, some_volumes

from engine.declare.datasets import Predictions
from engine.errors import DataError
from nodes.evaluation.figures import ClassEvaluation, NumberEvaluation, Tally
from nodes.evaluation.report import write_report
from nodes.reporting.classification_metrics import Calibration, ClassFigures, best_threshold, confusion_matrix

VOLUMES = some_volumes(40, (3, 4, 2))
LABELS: Labels = labels_for(VOLUMES, unlabelled=4)
OTHERS = {f"other-{name}": volume for name, volume in some_volumes(24, (3, 4, 2)).items()}


def _made(folder: Path, volumes: Volumes, labels: Labels) -> Predictions:
    folder.mkdir()
    return make_predictions(folder, volumes, labels)


@pytest.fixture
def judged(tmp_path: Path) -> Predictions:
    return _made(tmp_path / "judged", VOLUMES, LABELS)


@pytest.mark.slow
def test_thresholds_come_from_the_validation_alone(tmp_path: Path, judged: Predictions) -> None:
    own = labels_for(OTHERS)
    evaluated = ClassEvaluation.of(judged, 10, _made(tmp_path / "validation", OTHERS, own))
    chosen = evaluated.thresholds
    assert chosen is not None
    scores = np.array([of_the_sum(volume[None].astype(np.float32))[0] for volume in OTHERS.values()])
    expected = [best_threshold(scores[:, k], np.array([own[i] == k for i in OTHERS])) for k in (0, 1)]
    assert chosen.values == expected
    assert chosen.shared == 0
    figures, plots = write_report(evaluated, tmp_path)
    assert figures["threshold yes"] == expected[1]
    assert figures["f1_at_thresholds"] == chosen.figures.macro()["f1"]
    assert "thresholds.png" in [plot.name for plot in plots]
    page = (tmp_path / "evaluation.html").read_text()
    assert "Thresholds, chosen on the validation" in page
    assert "f1 at threshold" in page
    (first, _) = json.loads((tmp_path / "evaluation.json").read_text())["classes"]
    assert first["threshold"] == expected[0]


@pytest.mark.slow
def test_thresholds_are_not_chosen_on_what_is_judged(tmp_path: Path, judged: Predictions) -> None:
    with pytest.raises(DataError, match="would be chosen on the volumes that they are judged by"):
        ClassEvaluation.of(judged, 10, judged)
    part = dict(list(VOLUMES.items())[:20])
    evaluated = ClassEvaluation.of(judged, 10, _made(tmp_path / "part", part, {i: LABELS[i] for i in part}))
    labelled = sum(LABELS[i] is not None for i in part)
    assert evaluated.thresholds is not None
    assert evaluated.thresholds.shared == labelled
    assert any(f"{labelled} of 36 volumes took part in the choice" in remark for remark in evaluated.remarks())
    other = judged.model_copy(update={"classes": ("a", "b")})
    with pytest.raises(DataError, match="are predictions of different models"):
        ClassEvaluation.of(judged, 10, other)
    own = _made(tmp_path / "validation", OTHERS, labels_for(OTHERS))
    with pytest.raises(DataError, match="are predictions of different models"):
        ClassEvaluation.of(judged, 10, own.model_copy(update={"model": "another"}))


@pytest.mark.slow
def test_uneven_classes_are_reported(tmp_path: Path, judged: Predictions) -> None:
    assert list(ClassEvaluation.of(judged, 10).remarks()) == []
    uneven: Labels = {name: float(at == 0) for at, name in enumerate(VOLUMES)}
    evaluated = ClassEvaluation.of(_made(tmp_path / "uneven", VOLUMES, uneven), 10)
    assert list(evaluated.remarks()) == [
        "no has 39 volumes, yes 1: to answer no always would be right for 97.5%, so look at f1 and the recall of each"
        " class, not at accuracy"
    ]
    figures, _ = write_report(evaluated, tmp_path)
    assert (figures["imbalance"], figures["majority_share"]) == (39.0, 0.975)
    page = (tmp_path / "evaluation.html").read_text()
    assert "No has 39 volumes, yes 1" in page
    # Figures by their names and in few digits first; where they come from stands at the end.
    assert "<h1>Evaluation</h1>" in page
    assert "<td>Majority share</td><td>0.975</td>" in page
    assert page.index(str(tmp_path / "uneven")) > page.index("What was evaluated") > page.index("Majority share")
    alone = ClassEvaluation.of(_made(tmp_path / "alone", VOLUMES, dict.fromkeys(VOLUMES, 0.0)), 10)
    assert list(alone.remarks()) == [
        "the judged volumes are all of class no (40): accuracy says little of a model then, and there is no AUC."
        " Evaluate volumes of other classes too"
    ]
    assert "auc" not in alone.summary()
    assert alone.summary()["imbalance"] == 1.0


@pytest.mark.slow
def test_how_far_probabilities_are_from_how_often_they_are_right_is_a_figure_and_a_picture(
    tmp_path: Path, judged: Predictions
) -> None:
    known = [name for name in VOLUMES if LABELS[name] is not None]
    scores = np.array([of_the_sum(VOLUMES[name][None].astype(np.float32))[0] for name in known])
    sure, right = scores.max(axis=1), scores.argmax(axis=1) == [LABELS[name] for name in known]
    of = np.minimum((sure * 5).astype(int), 4)
    apart = [abs(right[of == k].mean() - sure[of == k].mean()) * (of == k).sum() for k in range(5) if (of == k).any()]
    evaluated = ClassEvaluation.of(judged, 5)
    figures, plots = write_report(evaluated, tmp_path)
    assert figures["calibration_error"] == pytest.approx(sum(apart) / len(known), abs=1e-6)
    assert figures["calibration_error"] > 0
    assert "calibration.png" in [plot.name for plot in plots]
    assert "Calibration error" in (tmp_path / "evaluation.html").read_text()


def test_a_model_that_gives_no_finite_score_is_reported_as_such(tmp_path: Path) -> None:
    lost: Volumes = {name: np.full((3, 4, 2), np.nan, np.float32) for name in VOLUMES}
    made = _made(tmp_path / "lost", lost, LABELS)
    with pytest.raises(DataError, match=r"gave none of the 36 labelled volumes in .* a finite score") as caught:
        ClassEvaluation.of(made, 10)
    assert "learning rate" in caught.value.hint


def test_numbers_that_are_off_read_so() -> None:
    predictions = Predictions(uri="p", count=2, bytes=1, version=1, model="m")
    worst = [(432.0, "a", 1234567.0, 1234999.0), (0.33, "b", 2345.61, 2345.94)]
    evaluated = NumberEvaluation(predictions, Tally(), np.zeros(2), np.zeros(2), worst)
    ((_, _, lines),) = evaluated.tables()
    assert list(lines) == [("a", "1234567", "1234999"), ("b", "2345.61", "2345.9")]


def test_of_many_classes_the_page_says_what_it_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.evaluation.figures._CLASSES_SHOWN", 10)
    names = tuple(f"c{n}" for n in range(30))
    predictions = Predictions(uri="p", count=5, bytes=1, version=1, model="m", labelled=5, classes=names)
    labels = np.array([0, 0, 0, 1, 1], np.int64)
    scores = np.eye(30, dtype=np.float32)[labels]
    counts = confusion_matrix(labels, labels, 30)
    sure = Calibration.of(scores[:, 0], labels == 0, 10)
    evaluated = ClassEvaluation(
        predictions, Tally(evaluated=5), scores, labels, counts, ClassFigures.of(counts), [None] * 30, sure, 0.0, []
    )
    (remark,) = evaluated.remarks()
    assert remark.endswith(" c20, c21 and 8 more: nothing is known of these classes")
    ((title, _, rows),) = evaluated.tables()
    assert title == "Classes, the first 10 of 30 classes; all are in evaluation.json"
    assert len(list(rows)) == 10
