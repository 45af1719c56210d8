"""What `TrainResNet3D` reports of labels before a training. `ProfileTraining` shares some."""

from __future__ import annotations

from collections.abc import Sequence

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Selection, VolumeDelta
from engine.errors import VoxelflowError
from engine.text import label_text
from nodes.splitting.missing_labels import ClassMissing, class_name, is_soon_counted, lacking
from nodes.training.labels import unknown_classes
from nodes.training.rules import LabelIsNoClass, LabelsDoNotFit, OneLabelOnly, UnknownToTraining


def check_labels(look: CheckContext, port: str, preview: Preview) -> None:
    """Report labels with which the training is sure to fail."""
    regression = look.params["task"] == "regression"
    odd = next((label for label in preview.labels if label < 0 or not float(label).is_integer()), None)
    if odd is not None and not regression and preview.spec is not None and not preview.spec.classes:
        look.report(
            LabelIsNoClass,
            f"the {port} volumes have the label {label_text(odd)}, which is no class number",
            hint="Number the classes 0, 1, ... or give them names. To learn numbers, set task to regression.",
            port=port,
        )
    elif port == "data" and preview.labels_complete and len(preview.labels) == 1:
        look.report(
            OneLabelOnly,
            f"all labelled volumes have the label {class_name(preview.labels[0], _classes(preview))}, so there is"
            " nothing to learn",
            hint="Add volumes with other labels, or choose another column or source of labels in NumpyToParquet.",
            port=port,
        )


def _classes(preview: Preview) -> tuple[str, ...]:
    return preview.spec.classes if preview.spec is not None else ()


def count_parts_by_label(look: CheckContext) -> list[list[tuple[float, int]]]:
    """For a scan: the labels, and how many volumes have each, of what is trained on, of what is held back for
    validation, and of the table that both are of. Empty where that is not a table that is there and soon read."""
    data, validation = look.inputs.get("data"), look.inputs.get("validation")
    table = data.dataset if data is not None else None
    if not isinstance(table, VolumeDelta) or not is_soon_counted(table):
        return []
    from nodes.splitting.selections import count_parts
    from nodes.training.rows import grouping, held_back

    trained: Sequence[Selection] = table.selections
    held: Sequence[Selection] = ()
    if validation is None:
        parts = held_back(look.params["validation_share"], grouping(table, look.params["validation_group"]))
        held, trained = ((*table.selections, part) for part in parts)
    try:
        counted = count_parts(table.model_copy(update={"selections": ()}), [trained, held, ()])
    except VoxelflowError:  # the training says it
        return []
    return [[*part.labels.items()] for part in counted]


def check_parts(look: CheckContext, data: Preview, validation: Preview | None) -> None:
    """Report what the parts of a table lack, as the scan has counted them by `count_parts_by_label`."""
    if not (counted := look.facts.get("labels")):
        return
    training, held, every = map(dict, counted)
    classes = _classes(data)
    if len(training) == 1 and len(every) > 1:
        ((label, count),) = training.items()
        text = (
            f"the {count:,} volumes to train on all have the label {class_name(label, classes)}, and"
            f" {sum(every.values()) - every[label]:,} in other parts have others"
        )
        if validation is None:
            hint = "Split by label with SplitDataset, choose another validation_share, or add volumes."
            look.report(OneLabelOnly, text, hint=hint, parameter="validation_share")
        else:
            hint = "Split by label with SplitDataset, take another seed of it, or add volumes."
            look.report(OneLabelOnly, text, hint=hint, port="data")
    elif validation is None and look.params["task"] != "regression":
        for text in lacking(training, {"validation": held}, classes):
            look.report(
                ClassMissing,
                text,
                hint="Split by label with SplitDataset, hold back another share, or add volumes of the class.",
                parameter="validation_share",
            )


def check_names(look: CheckContext, port: str, data: Preview, preview: Preview) -> None:
    """Report classes that the training is sure not to know."""
    if look.params["task"] == "regression" or data.spec is None or preview.spec is None:
        return
    # Of a sample, and of a table that others may be added to, the training's classes may be more.
    if not data.labels_complete and data.dataset is None:
        return
    # Which classes a part of a table has is known when it is read; where the count is open, it may be a part.
    if preview.selected is not None or preview.count is None:
        return
    if unknown := unknown_classes(preview.labels, preview.spec.classes, data.spec.classes):
        look.report(
            UnknownToTraining,
            f"the {port} volumes are of classes that the training volumes do not have: {', '.join(unknown[:10])}",
            hint="Leave these volumes out, or train on such volumes too.",
            port=port,
        )


def check_numbering(look: CheckContext, data: Preview, validation: Preview | None) -> None:
    """Report labels that are sure not to number the classes, as `find_classes` would: 1 and 2, or ages."""
    given = [data] if validation is None else [data, validation]
    known = all(each.labels_complete and each.spec is not None for each in given)
    if look.params["task"] == "regression" or not known:
        return
    names, classes = [each.spec.classes for each in given if each.spec is not None], look.params.get("classes", 0)
    # Numbers of names are put in order before they are compared.
    if (any(names) and not classes) or len(set(names)) > 1:
        return
    found = sorted({*data.labels, *(validation.labels if validation is not None else ())})
    if len(found) < 2 or any(label < 0 or not float(label).is_integer() for label in found):
        return  # reported already
    # Of many labels the least are named. So one that is left out before the last of these is not there at all.
    whole = validation is None and data.selected is None
    if found[-1] < (classes or len(found)) if whole else sum(label < (classes or 2) for label in found) >= 2:
        return
    shown = ", ".join(map(label_text, found[:10])) + (" ..." if len(found) > 10 else "")
    numbers = f"0 to {classes - 1}" if classes else "0, 1, ..."
    look.report(
        LabelsDoNotFit,
        f"the data volumes have the labels {shown}, and classes are numbered {numbers}"
        f"{'' if classes else ' without a gap'}",
        hint=f"Number the classes {numbers}{', raise classes,' if classes else ''} or give them names. To learn"
        " numbers, such as an age, set task to regression.",
        **{"parameter": "classes"} if classes else {"port": "data"},
    )
