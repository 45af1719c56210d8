from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from volume_sets import make_delta, some_volumes

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Selection, Transform, VolumeDelta, VolumeSpec
from engine.declare.workload import TrainingWork
from engine.workspace import Workspace, trust
from nodes.train_resnet3d import train_resnet3d
from nodes.training.architecture import parameter_count

SPEC = VolumeSpec(shape=(30, 30, 10, 10), dtype="float32")
CHANGED = SPEC.model_copy(update={"transforms": (Transform(name="clip", version=1, words="clip 0 to 1"),)})
FILES = Preview(kind="VolumeFiles", count=2000, labelled=2000, spec=CHANGED)
NAMED = SPEC.model_copy(update={"classes": ("a", "b")})
TABLE = Preview(kind="VolumeDelta", count=2000, labelled=2000, spec=SPEC)


def look(
    inputs: Mapping[str, Preview] | None = None, **params: Any
) -> tuple[Preview, list[tuple[str, str, str | None]]]:
    defaults = {p.name: p.default for p in train_resnet3d.parameters}
    seen = CheckContext(params=defaults | params, inputs={"data": TABLE} if inputs is None else inputs)
    assert train_resnet3d.preview_hook is not None
    out = train_resnet3d.preview_hook(seen)
    assert isinstance(out, Preview)
    assert all(problem.hint for problem in seen.problems)
    return out, [(p.code, p.severity, p.parameter or p.port) for p in seen.problems]


def spec(*shape: int) -> VolumeSpec:
    return VolumeSpec(shape=shape, dtype="int16")


def but(**update: Any) -> Preview:
    return TABLE.model_copy(update=update)


def test_nothing_to_say_about_a_good_table() -> None:
    out, problems = look()
    assert problems == []
    assert out.kind == "TrainedModel"
    assert out.spec == SPEC
    # The model, and weights with Adam's two moments to go on from.
    assert out.bytes == 4 * parameter_count(SPEC.shape) * 4


def test_a_regression_of_numbers_with_commas_is_an_error() -> None:
    """They are names of classes to a table of labels, which a regression would learn in the order of the alphabet."""
    commas = but(spec=SPEC.model_copy(update={"classes": ("0,5", "1", "1,25")}))
    assert look({"data": commas}, task="regression")[1] == [("VF425", "error", "task")]
    assert look({"data": commas})[1] == []
    assert look({"data": but(spec=NAMED)}, task="regression")[1] == [("VF521", "warning", "task")]


def classes(*names: str) -> VolumeSpec:
    return SPEC.model_copy(update={"classes": names})


SURE = but(spec=NAMED, labels_complete=True)
OF_C = but(spec=classes("c", "b"), labels=(0.0,))


@pytest.mark.parametrize(
    ("data", "other"),
    [
        (TABLE.model_copy(update={"labels_complete": True}), OF_C),
        (SURE, but(spec=classes("b"), labels=(0.0,))),
        (SURE, but(spec=classes("c", "b"), labels=(1.0,))),
        (SURE, but(spec=classes("c", "b"))),
        (SURE, OF_C.model_copy(update={"selected": 20})),
        (SURE, OF_C.model_copy(update={"count": None})),
        (but(spec=NAMED), OF_C),
        (but(spec=classes("1", "2"), labels_complete=True), but(labels=(1.0,))),
    ],
    ids=[
        "no names",
        "some",
        "not one of it",
        "not known",
        "a part",
        "a part of an unknown count",
        "a sample",
        "numbers",
    ],
)
def test_other_volumes_of_classes_that_may_be_known_are_no_matter(data: Preview, other: Preview) -> None:
    assert look({"data": data, "validation": other, "test": other})[1] == []


@pytest.mark.parametrize(
    ("data", "other"),
    [
        (SURE, OF_C),
        (but(spec=NAMED, dataset=VolumeDelta(uri="t", count=1, bytes=1, version=0, data_version=0, files=1)), OF_C),
        (but(spec=classes("1", "2"), labels_complete=True), but(labels=(0.0, 1.0))),
    ],
)
def test_classes_that_are_not_trained_on_are_reported(data: Preview, other: Preview) -> None:
    assert look({"data": data, "test": other})[1] == [("VF519", "error", "test")]
    found = look({"data": data, "test": other}, task="regression")[1]
    assert "VF519" not in [code for code, *_ in found]


def test_patients_that_are_kept_together_are_no_matter() -> None:
    patients = but(columns=("patient",))
    assert look({"data": patients}, validation_group="patient")[1] == []
    assert look({"data": patients}, validation_group="label")[1] == []
    assert look({"data": patients, "validation": TABLE}, validation_group="survey")[1] == []
    assert look(validation_group="patient")[1] == [], "the columns are not known"
    assert look({"data": patients, "validation": TABLE})[1] == []
    assert look({"data": but(columns=("patient",), grouped_by=("patient",))})[1] == []
    assert look({"data": but(columns=("age", "patients_seen"))})[1] == []
    rows = FILES.model_copy(update={"columns": ("patient",)})
    assert look({"data": rows.model_copy(update={"grouped_by": ("patient",)})}, loader="npy", epochs=1)[1] == []
    warned = [("VF517", "warning", "validation_group")]
    assert look({"data": rows}, loader="npy", epochs=1)[1] == warned
    # What only the headers of files say takes a table.
    assert look({"data": rows.model_copy(update={"sample": ("a.dcm",)})}, loader="npy", epochs=1)[1] == warned


def test_what_is_transformed_once_is_no_matter() -> None:
    assert look({"data": FILES}, loader="npy", epochs=1)[1] == []
    assert look({"data": but(spec=CHANGED)}, epochs=50)[1] == []


def test_nothing_to_say_while_nothing_is_known() -> None:
    assert look({}) == (Preview(kind="TrainedModel"), [])
    assert look({"data": Preview(kind="VolumeDelta")}) == (Preview(kind="TrainedModel"), [])


def labels(*found: float, **update: Any) -> Preview:
    return but(labels=found, labels_complete=True, **update)


@pytest.mark.parametrize(
    ("inputs", "params"),
    [
        ({"data": labels(1.0, 2.0)}, {}),
        ({"data": labels(0.0, 2.0)}, {}),
        ({"data": labels(*map(float, range(20, 40)))}, {}),
        ({"data": labels(0.0, 1.0, 5.0)}, {"classes": 3}),
        ({"data": labels(0.0, 1.0, 2.0, spec=NAMED)}, {"classes": 2}),
        # Whatever a part of a table holds, and whatever the validation adds.
        ({"data": labels(1.0, 2.0, selected=500)}, {}),
        ({"data": labels(1.0, 2.0), "validation": labels(0.0, 2.0, 3.0)}, {"classes": 1}),
        ({"data": labels(1.0, 2.0), "validation": labels(1.0, 2.0)}, {}),
    ],
)
def test_labels_that_do_not_number_the_classes_are_an_error(inputs: dict[str, Preview], params: dict[str, Any]) -> None:
    where = "classes" if params else "data"
    assert look(inputs, **params)[1] == [("VF525", "error", where)]
    assert "VF525" not in [code for code, *_ in look(inputs, **params, task="regression")[1]]


@pytest.mark.parametrize(
    ("inputs", "params"),
    [
        ({"data": labels(0.0, 1.0)}, {}),
        ({"data": labels(0.0, 1.0, 2.0)}, {"classes": 5}),
        ({"data": labels(1.0, 2.0)}, {"classes": 3}),
        ({"data": but(labels=(1.0, 2.0))}, {}),
        ({"data": labels(1.0, 2.0, spec=classes("a", "b", "c"))}, {}),
        ({"data": labels(*map(float, range(20)))}, {}),
        # A part of the table may hold 0 and 1 alone; the validation may have what is missing.
        ({"data": labels(0.0, 1.0, 5.0, selected=500)}, {}),
        ({"data": labels(0.0, 2.0), "validation": labels(1.0, 2.0)}, {}),
        ({"data": labels(0.0, 2.0), "validation": TABLE}, {}),
    ],
)
def test_labels_that_may_number_the_classes_are_no_matter(inputs: dict[str, Preview], params: dict[str, Any]) -> None:
    assert look(inputs, **params)[1] == []


def seen_with(labels: list[list[tuple[float, int]]], inputs: dict[str, Preview], **params: Any) -> list[str]:
    """Codes and texts of what is reported where the scan has counted so many labels."""
    defaults = {p.name: p.default for p in train_resnet3d.parameters}
    seen = CheckContext(params=defaults | params, inputs=inputs, facts={"labels": labels})
    assert train_resnet3d.preview_hook is not None
    train_resnet3d.preview_hook(seen)
    return [f"{p.code} {p.parameter or p.port}: {p.message}" for p in seen.problems]


def test_a_class_that_the_training_lacks_is_reported_where_the_table_is_there() -> None:
    data, both = {"data": but(spec=NAMED)}, {"data": but(spec=NAMED), "validation": but(spec=NAMED)}
    every: list[tuple[float, int]] = [(0.0, 90), (1.0, 10)]
    text = "VF513 {}: the 80 volumes to train on all have the label a, and 10 in other parts have others"
    assert seen_with([[(0.0, 80)], [(0.0, 10), (1.0, 10)], every], data) == [text.format("validation_share")]
    assert seen_with([[(0.0, 80)], [(0.0, 10), (1.0, 10)], every], both) == [text.format("data")]
    assert seen_with([[(0.0, 80), (1.0, 10)], [(0.0, 10)], every], data) == [
        "VF449 validation_share: the validation volumes are all of class a (10): accuracy says little of a model then,"
        " and there is no AUC"
    ]
    # A split has said that already, and a regression has no classes.
    assert seen_with([[(0.0, 80), (1.0, 10)], [(0.0, 10)], every], both) == []
    assert seen_with([[(0.0, 80), (1.0, 10)], [(0.0, 10)], every], {"data": TABLE}, task="regression") == []
    three = [(0.0, 40), (1.0, 1), (2.0, 59)]
    assert seen_with([[(0.0, 30), (2.0, 50)], [(0.0, 10), (1.0, 1), (2.0, 9)], three], {"data": TABLE}) == [
        "VF449 validation_share: no training volume is of class 1, and 1 other is: a model cannot learn it"
    ]
    ages = [(20.0, 30), (40.0, 30), (60.0, 40)]
    assert seen_with([[(20.0, 30), (40.0, 30)], [(60.0, 40)], ages], {"data": TABLE}) == []
    assert seen_with([[(0.0, 90)], [(0.0, 10)], [(0.0, 100)]], data) == []


def test_the_labels_of_a_table_that_is_there_are_counted(tmp_path: Path) -> None:
    volumes = some_volumes(30)
    table = make_delta(tmp_path, volumes, {name: float(number < 3) for number, name in enumerate(volumes)})
    low, high = Selection(salt="x", low=0, high=0.5), Selection(salt="x", low=0.5, high=1)
    scan = train_resnet3d.scan_hook
    assert scan is not None

    def counted(**parts: VolumeDelta) -> list[dict[float, int]]:
        inputs = {name: Preview(kind="VolumeDelta", dataset=part) for name, part in parts.items()}
        defaults = {p.name: p.default for p in train_resnet3d.parameters}
        return [dict(part) for part in scan(CheckContext(params=defaults, inputs=inputs)).get("labels", ())]

    training, held, every = counted(data=table)
    assert every == {0.0: 27, 1.0: 3}
    assert {label: training.get(label, 0) + held.get(label, 0) for label in every} == every
    assert 0 < sum(held.values()) < sum(training.values())
    part, _, every = counted(data=table.select(low), validation=table.select(high))
    assert every == {0.0: 27, 1.0: 3}
    assert 0 < sum(part.values()) < 30
    assert counted(data=table.select(Selection(salt="x", low=0, high=1, by=("patient",)))) == []
    assert counted(data=table.model_copy(update={"uri": "s3://bucket/t"})) == []


@pytest.mark.parametrize(
    ("inputs", "params", "expected"),
    [
        ({"data": but(spec=spec(8, 8))}, {}, ("VF501", "error", "data")),
        ({"data": but(spec=spec(8, 8, 8, 1, 1))}, {}, ("VF501", "error", "data")),
        ({"data": TABLE}, {"loader": "npy"}, ("VF502", "error", "loader")),
        ({"data": but(kind="VolumeFiles")}, {}, ("VF502", "error", "loader")),
        ({"data": TABLE}, {"batch_size": 2001}, ("VF503", "error", "batch_size")),
        ({"data": TABLE}, {"batch_size": 1700}, ("VF511", "warning", "batch_size")),
        ({"data": but(labelled=20)}, {}, ("VF503", "error", "batch_size")),
        # A part of a table: expected, counted, and too small whatever it is.
        ({"data": but(selected=25)}, {}, ("VF511", "warning", "batch_size")),
        ({"data": but(selected=25, selected_exactly=True)}, {}, ("VF503", "error", "batch_size")),
        ({"data": but(selected=1000, labelled=30)}, {}, ("VF503", "error", "batch_size")),
        ({"data": but(selected=1000)}, {"steps_per_epoch": 26}, ("VF505", "warning", "steps_per_epoch")),
        ({"data": but(labelled=0)}, {}, ("VF504", "error", "data")),
        ({"data": but(labels=(0.5, 1.0))}, {}, ("VF512", "error", "data")),
        ({"validation": but(labels=(-1.0,))}, {}, ("VF512", "error", "validation")),
        ({"data": but(labels=(0.0, float("inf")))}, {}, ("VF512", "error", "data")),
        ({"data": but(labels=(1.0,), labels_complete=True)}, {}, ("VF513", "error", "data")),
        ({"data": TABLE}, {"steps_per_epoch": 51}, ("VF505", "warning", "steps_per_epoch")),
        ({"data": TABLE}, {"validation_share": 0.0}, ("VF506", "warning", "validation_share")),
        ({"data": but(columns=("age", "patient_id"))}, {}, ("VF517", "warning", "validation_group")),
        ({"data": but(groups_lost=("inline",))}, {}, ("VF517", "warning", "validation_group")),
        ({"data": but(columns=("age",))}, {"validation_group": "patient"}, ("VF524", "error", "validation_group")),
        ({"data": but(columns=())}, {"validation_group": "patient"}, ("VF524", "error", "validation_group")),
        (
            {"data": but(kind="VolumeFiles", columns=("patient",), sample=("a.dcm",))},
            {"validation_group": "patient", "loader": "npy"},
            ("VF524", "error", "validation_group"),
        ),
        ({"data": TABLE}, {"workers": 5}, ("VF508", "error", "workers")),
        ({"data": but(spec=spec(8, 9, 9))}, {"quarter_turns": True}, ("VF520", "error", "quarter_turns")),
        (
            {"data": but(spec=SPEC.model_copy(update={"classes": ("a", "b")}))},
            {"task": "regression"},
            ("VF521", "warning", "task"),
        ),
        ({"data": TABLE}, {"task": "regression", "class_weights": "balanced"}, ("VF523", "error", "class_weights")),
        ({"data": TABLE}, {"task": "regression", "keep": "best", "best_by": "val_auc"}, ("VF523", "error", "best_by")),
        ({"data": TABLE}, {"workers": 64, "batch_size": 32}, ("VF508", "error", "workers")),
        ({"data": TABLE}, {"workers": 2, "jit": True}, ("VF509", "warning", "jit")),
        ({"data": TABLE}, {"jit": True}, ("VF518", "warning", "jit")),
        ({"data": FILES}, {"loader": "npy", "epochs": 2}, ("VF515", "warning", "data")),
        ({"data": but(kind="VolumeFiles", refused=3)}, {"loader": "npy"}, ("VF516", "warning", "data")),
        ({"data": TABLE, "validation": but(spec=CHANGED)}, {}, ("VF514", "warning", "validation")),
        ({"data": TABLE, "test": but(spec=spec(30, 30, 10))}, {}, ("VF507", "error", "test")),
        ({"data": TABLE, "validation": but(spec=spec(30, 30, 10, 10))}, {}, ("VF507", "error", "validation")),
    ],
)
def test_problems_are_reported_before_anything_runs(
    inputs: dict[str, Preview], params: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert look(inputs, **params)[1] == [expected]


def test_the_size_of_other_models_is_foreseen() -> None:
    small = look(stem="small", width=16, depth=34, optimizer="sgd")[0]
    assert small.bytes == 4 * parameter_count(SPEC.shape, stem="small", width=16, depth=34) * 3
    assert look(task="regression", classes=7)[0].bytes == look()[0].bytes
    assert look(model_file="/w/my_models/net.py")[0] == Preview(kind="TrainedModel", spec=SPEC)


def test_an_own_model_that_may_not_run_is_reported_beforehand(workspace: Workspace) -> None:
    """The file's text is read; that nothing of it runs, `test_own_model` shows."""
    file = workspace.root / "my_models" / "net.py"
    file.parent.mkdir()
    file.write_text("def build(shape, outputs): ...\n")
    params = {p.name: p.default for p in train_resnet3d.parameters} | {"model_file": str(file)}
    assert train_resnet3d.scan_hook is not None
    assert train_resnet3d.preview_hook is not None
    facts = train_resnet3d.scan_hook(CheckContext(params=params))
    seen = CheckContext(params=params, inputs={"data": TABLE}, facts=facts)
    train_resnet3d.preview_hook(seen)
    assert [(p.code, p.parameter) for p in seen.problems] == [("VF522", "model_file")]
    assert "not trusted" in seen.problems[0].message
    trust(workspace)
    assert train_resnet3d.scan_hook(CheckContext(params=params)) == {}


@pytest.mark.parametrize(
    "params",
    [{"keep": "best"}, {"schedule": "plateau"}, {"early_stopping_epochs": 3}],
    ids=lambda params: next(iter(params)),
)
def test_what_needs_volumes_to_validate_on(params: dict[str, Any]) -> None:
    (name,) = params
    assert look(**params)[1] == []
    problems = look(validation_share=0.0, **params)[1]
    assert problems == [("VF510", "error", name), ("VF506", "warning", "validation_share")]
    assert look({"data": TABLE, "validation": TABLE}, validation_share=0.0, **params)[1] == []


def test_other_inputs_with_their_loader() -> None:
    files = but(kind="VolumeFiles", labelled=None)
    assert look({"data": files}, loader="npy")[1] == []
    parquet = but(kind="VolumeParquet")
    assert look({"data": parquet, "validation": TABLE}, loader="petastorm")[1] == []
    assert look({"data": but(spec=spec(9, 9, 9))})[1] == []


def test_workers_that_share_a_batch_evenly() -> None:
    assert look(workers=4)[1] == []
    assert look(workers=32)[1] == []


def test_what_enters_the_fingerprint() -> None:
    by_name = {p.name: p for p in train_resnet3d.parameters}
    assert [n for n, p in by_name.items() if p.extendable] == ["epochs"]
    saving = ["checkpoint_every_s", "checkpoint_every_steps", "keep_checkpoints"]
    assert [n for n, p in by_name.items() if p.policy] == ["verify", "workers", "jit", "deterministic", *saving]
    assert by_name["depth"].choices == (18, 34, 50, 101, 152)
    assert train_resnet3d.inputs[1].required is False


def work(data: Preview | None = TABLE, **params: Any) -> TrainingWork | None:
    hook = train_resnet3d.workload_hook
    assert hook is not None
    defaults = {p.name: p.default for p in train_resnet3d.parameters}
    return hook(CheckContext(params=defaults | params, inputs={} if data is None else {"data": data}))


def test_what_a_training_has_to_do() -> None:
    found = work(epochs=7, workers=2)
    assert found is not None
    assert (found.volumes, found.validation, found.steps, found.epochs, found.workers) == (1600, 400, 50, 7, 2)
    assert found.network.parameters == parameter_count(SPEC.shape) - 513
    assert (found.volume_bytes, found.kind, found.exact_network) == (360_000, "VolumeDelta", True)
    # Two threads read where there is one core, and four at most; an object store gets eight requests at a time.
    assert [found.access["files"].on(cores) for cores in (1, 3, 16)] == [2, 3, 4]
    assert found.access["remote table"].on(1) == 8
    assert found.access["files"].on(4, workers=2) == 4

    limited, own = work(steps_per_epoch=10), work(model_file="my_models/net.py")
    assert limited is not None
    assert (limited.volumes, limited.steps) == (320, 10)
    assert own is not None
    assert not own.exact_network


def test_a_part_of_a_table_is_the_work_of_its_volumes() -> None:
    found = work(but(selected=500), epochs=1)
    assert found is not None
    assert (found.volumes, found.validation) == (400, 100)
    # All of the table lies in the storage, and is paid for there.
    assert found.kept_bytes == 2000 * SPEC.volume_bytes
    half = work(but(selected=500, labelled=1000), validation_share=0.0)
    assert half is not None
    assert half.volumes == 250


@pytest.mark.parametrize("data", [None, but(spec=None), but(count=None, labelled=None), but(spec=spec(4, 4))])
def test_of_unknown_volumes_nothing_is_known(data: Preview | None) -> None:
    assert work(data) is None
