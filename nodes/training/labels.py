"""What the labels of the training rows mean: classes, or numbers that a regression learns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from engine.errors import DataError
from engine.text import label_text, plural
from nodes.splitting.missing_labels import class_name, of_classes, one_class_only

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Task = Literal["classification", "regression"]
IMBALANCE = 10
"""A class with so many times the volumes of another is worth a warning."""
_WHOLE = re.compile("-?[0-9]{1,15}")


@dataclass(frozen=True)
class Classes:
    """`counts[k]` training volumes have label k, whose name is `names[k]`."""

    names: tuple[str, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    def balanced_weights(self) -> tuple[float, ...]:
        """A weight for each class by which all classes count alike; its mean over the training volumes is 1.

        Classes without a volume have weight 0.
        """
        present = sum(count > 0 for count in self.counts)
        return tuple(sum(self.counts) / (present * count) if count else 0.0 for count in self.counts)

    def counted(self, labels: NDArray[np.float32]) -> tuple[int, ...]:
        """How many of the labels, which number these classes, each class has."""
        import numpy as np

        return tuple(np.bincount(labels.astype(np.int64), minlength=len(self)).tolist())

    def remarks(self) -> list[str]:
        """What a person should know before hours of training."""
        if not self.names:
            return []
        shown = ", ".join(f"{name}: {count:,}" for name, count in zip(self.names, self.counts, strict=True))
        if len(shown) > 300:
            shown = f"{shown[:300]} ..."
        if min(self.counts) == 0:
            return [f"some classes have no training volume ({shown}): a model never says them"]
        if max(self.counts) > IMBALANCE * min(self.counts):
            return [f"the classes are very unequal, accuracy will flatter the largest ({shown})"]
        return []


NO_CLASSES = Classes((), ())
"""Of a regression."""


def find_classes(
    training: NDArray[np.float32],
    validation: NDArray[np.float32],
    *,
    classes: int,
    names: tuple[str, ...],
    where: str,
    table: NDArray[np.float32] | None = None,
) -> Classes:
    """The classes from the labels of training and validation rows, which are some of those of the whole `table`.

    There are `classes` of them, or as many as there are `names`, or, when neither is known, labels.
    Raises `DataError` when labels are not 0, 1, ... n - 1 or the training rows have fewer than two
    different ones.
    """
    import numpy as np  # late: parameters of nodes import this module

    every = np.concatenate([training, validation])
    found = np.unique(every)
    odd = found[(found < 0) | (found != np.rint(found)) | ~np.isfinite(found)]
    if len(odd):
        raise DataError(
            f"{where} has the label {label_text(odd[0])}, which is no class number",
            hint="Labels for training are 0, 1, ... for the classes, or class names in the label table. To learn"
            " numbers, set task to regression.",
        )
    if len(np.unique(training)) < 2:
        raise _one_label(training, every if table is None else table, names, where, "a classifier needs two classes")
    count = classes or len(names) or len(found)
    if found[-1] >= count and not classes and not names and table is not None:
        # The part lacks a class in between, which other volumes of the table are of.
        whole = np.unique(table[np.isfinite(table)])
        count = len(whole) if np.array_equal(whole, np.arange(len(whole))) else count
    if found[-1] >= count:
        shown = ", ".join(label_text(label) for label in found[:10])
        raise DataError(
            f"{where} has the labels {shown}{' ...' if len(found) > 10 else ''}, which do not fit {count} classes",
            hint=f"Number the classes 0 to {count - 1}, or set classes to {int(found[-1]) + 1}. To learn numbers,"
            " such as an age, set task to regression.",
            parameter="classes",
        )
    # A class without a name, as one that no volume is of yet, has its number, unless another one is called so.
    unnamed = (f"class {number}" if str(number) in names else str(number) for number in range(len(names), count))
    names = (*names[:count], *unnamed)
    counts = np.bincount(training.astype(np.int64), minlength=count)
    return Classes(names, tuple(counts.tolist()))


def renumbered(labels: NDArray[np.float32], own: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
    """Labels that number the classes `own`, in the numbers of `classes`; NaN for one that these do not know.

    Names that are whole numbers, as those of folders 1, 2 and 3, mean these numbers: labels without names, or classes
    without them, go by them. Otherwise, where one side names no classes, or `classes` are mere numbers 0, 1, ..., the
    numbers mean the same.
    """
    import numpy as np

    if tuple(own) == tuple(classes):
        return labels
    ours, theirs = _whole_numbers(classes), _whole_numbers(own)
    numbered = list(classes) == [str(number) for number in range(len(classes))]
    if not own:
        if ours is None or numbered:
            return labels
        different, places = np.unique(labels, return_inverse=True)
        return _table(different.tolist(), ours)[:-1][places]
    if theirs is None and (not classes or (numbered and set(own).isdisjoint(classes))):
        return labels
    if not classes:
        table = np.array([*(theirs or ()), np.nan], np.float32)
    else:
        table = _table(own, classes) if ours is None or theirs is None else _table(theirs, ours)
    known = (labels >= 0) & (labels < len(own)) & (labels == np.rint(labels))
    return table[np.where(known, labels, len(own)).astype(np.int64)]


def names_without_numbers(own: Sequence[str], classes: Sequence[str]) -> bool:
    """Whether only one side names classes, and by other names than whole numbers: a regression cannot compare them."""
    return bool(own) != bool(classes) and _whole_numbers(own or classes) is None


def unknown_classes(labels: Iterable[float], own: Sequence[str], classes: Sequence[str]) -> list[str]:
    """The names of those of the labels, which number the classes `own`, that `classes` do not know."""
    import numpy as np

    each = np.unique(np.array([*labels], np.float32))
    unknown = each[np.isnan(renumbered(each, own, classes)) & ~np.isnan(each)].tolist()
    return [own[int(k)] if 0 <= k < len(own) and k.is_integer() else label_text(k) for k in unknown]


def _whole_numbers(names: Sequence[str]) -> tuple[float, ...] | None:
    """The numbers that the names are, as labels have them; None where one is none, or two are the same."""
    import numpy as np

    if not names or not all(map(_WHOLE.fullmatch, names)):
        return None
    numbers = tuple(float(np.float32(int(name))) for name in names)
    return numbers if len(set(numbers)) == len(numbers) else None


def _table(own: Sequence[object], classes: Sequence[object]) -> NDArray[np.float32]:
    """The place of each of `own` among the classes, NaN where it has none; and NaN after them."""
    import numpy as np

    places = {each: float(place) for place, each in enumerate(classes)}
    return np.array([*(places.get(each, np.nan) for each in own), np.nan], np.float32)


class Target(NamedTuple):
    """The labels of a regression: their mean and standard deviation over the training rows, in the labels' units."""

    mean: float
    deviation: float


def _one_label(
    training: NDArray[np.float32], table: NDArray[np.float32], names: Sequence[str], where: str, needs: str
) -> DataError:
    """The error of training labels of which no two differ; `table` are the labels of all volumes."""
    import numpy as np

    others = np.unique(table[np.isfinite(table) & (table != training[0])]) if len(training) else training
    if len(others):
        count = int(np.isin(table, others).sum())
        return DataError(
            f"all {plural(len(training), 'training volumes')} of {where} have the label"
            f" {class_name(training[0], names)}, and {count:,} in other parts have others; {needs}",
            hint="Split by label with SplitDataset, hold back another share, or add volumes with other labels.",
        )
    only = f"only the label {class_name(training[0], names)}" if len(training) else "no labels"
    return DataError(
        f"the training volumes of {where} have {only}; {needs}",
        hint="Check the labels that NumpyToParquet found, or the split.",
    )


def validation_remarks(classes: Classes, validation: NDArray[np.float32]) -> list[str]:
    """What a person should know of the labels of the validation volumes, which are of these classes."""
    if not classes.names:
        return []
    counts = classes.counted(validation)
    present = [number for number, count in enumerate(counts) if count]
    unseen = [number for number in present if not classes.counts[number]]
    out = []
    if unseen:
        count = sum(counts[number] for number in unseen)
        out.append(
            f"no training volume is of {of_classes(unseen, classes.names)}, and {plural(count, 'validation volumes')}"
            f" {'is' if count == 1 else 'are'}: split by label with SplitDataset, or add volumes"
        )
    if len(present) == 1:
        text = one_class_only("validation", classes.names[present[0]], len(validation))
        out.append(f"{text}. Split by label with SplitDataset, or hold back more")
    return out


def find_target(
    training: NDArray[np.float32],
    validation: NDArray[np.float32],
    *,
    where: str,
    table: NDArray[np.float32] | None = None,
) -> Target:
    """Mean and deviation of the training labels (n,), which are some of those of the whole `table`.

    Raises `DataError` when a label is not finite, or the training rows have fewer than two different ones.
    """
    import numpy as np

    if not np.isfinite(training).all() or not np.isfinite(validation).all():
        raise DataError(
            f"{where} has a label that is not finite",
            hint="Give every volume a number, or leave its label empty: then the volume is left out.",
        )
    if len(training) == 0 or training.min() == training.max():
        every = np.concatenate([training, validation]) if table is None else table
        raise _one_label(training, every, (), where, "a regression needs different ones")
    exact = training.astype(np.float64)
    return Target(float(exact.mean()), float(exact.std()))
