"""Classes that a part of the data has no volume of: what a split, and a training that holds back a share, say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.declare.datasets import VolumeDelta
from engine.diagnostics.rule import Rule
from engine.storage import is_url
from engine.text import label_text

_MOST_COUNTED = 200_000
"""Volumes of a local table whose ids are read to count the parts, where the split does not read them anyway."""
_LISTED = 10


def is_soon_counted(table: VolumeDelta) -> bool:
    """Whether its ids and labels are read in about a second."""
    return not is_url(table.uri) and table.count <= _MOST_COUNTED


def class_name(label: float, classes: Sequence[str]) -> str:
    """What a label, a number, is called: its class where it numbers one, else the number."""
    known = float(label).is_integer() and 0 <= label < len(classes)
    return classes[int(label)] if known else label_text(label)


def of_classes(labels: Iterable[float], classes: Sequence[str]) -> str:
    """`class a`, or `the classes a, b`: the first ten of them."""
    names = [class_name(label, classes) for label in labels]
    if len(names) == 1:
        return f"class {names[0]}"
    return f"the classes {', '.join(names[:_LISTED])}{' ...' if len(names) > _LISTED else ''}"


def lacking(
    training: Mapping[float, int], others: Mapping[str, Mapping[float, int]], classes: Sequence[str]
) -> Iterator[str]:
    """What the parts lack, from their volumes of each label: a class to train on, or a second one to judge by.

    `others` are parts that judge, by their names, "validation". Nothing of labels that are sure to be no classes:
    measured numbers, or ages.
    """
    together = sorted({*training, *(label for counts in others.values() for label in counts)})
    if not classes and together != [float(number) for number in range(len(together))]:
        return
    if training and (missing := [label for label in together if label not in training]):
        count = sum(counts.get(label, 0) for counts in others.values() for label in missing)
        others_are = "1 other is" if count == 1 else f"{count:,} others are"
        yield (
            f"no training volume is of {of_classes(missing, classes)}, and {others_are}: a model cannot learn"
            f" {'it' if len(missing) == 1 else 'them'}"
        )
    for name, counts in others.items():
        if len(counts) == 1 and len(together) > 1:
            ((label, count),) = counts.items()
            yield one_class_only(name, class_name(label, classes), count)


def one_class_only(part: str, name: str, count: int) -> str:
    """What is wrong with the volumes of a part that judges, where all `count` are of one class."""
    return (
        f"the {part} volumes are all of class {name} ({count:,}): accuracy says little of a model then, and there is no"
        " AUC"
    )


class ClassMissing(Rule):
    """As a table that is there already is parted, no volume of some class is left to train on, or those to judge by are
    all of one class. A model never says a class that it was not trained on. Of volumes of one class, accuracy only says
    how many of these are found, whatever the model makes of all others; the area under the ROC curve is not defined.

    What to do: let SplitDataset split by label, which gives each part its share of every class; give more volumes of
    the class; or take another seed or larger shares. By patient or by place, whole groups stay together: add some.
    """

    code = "VF449"
    severity = "warning"
    title = "a part without volumes of a class"
