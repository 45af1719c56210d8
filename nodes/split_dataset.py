"""`SplitDataset`: train, validation and test parts of a table, without copying a byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, Selection, VolumeDelta
from engine.declare.node import CheckContext, node
from engine.declare.parameters import Added, Advanced, Range
from engine.diagnostics.rule import Rule
from engine.errors import UsageError
from nodes.splitting.groups import group_column


class Split(NamedTuple):
    """Three references to the same version of the same table; every volume is in exactly one."""

    train: VolumeDelta
    validation: VolumeDelta
    test: VolumeDelta


SplitBy = Literal["volume", "group", "label", "time", "blocks"]


@dataclass(frozen=True)
class SplitParameters:
    """The parameters of SplitDataset.

    Attributes:
        validation: share of volumes to check the training with; folds decide it where there are some.
        test: share of volumes to set aside for the end.
        seed: another seed gives another split.
        by: what is kept together. volume parts volumes one by one; group never parts volumes with the same value in a
            column (patient, survey, well); label gives each part its share of every label; time trains on the
            earliest and tests on the latest; blocks divides space, so that patches that overlap are never in two parts.
        column: the column with the group or time, or the columns with the positions (x,y,z), as the label file has
            them. Several columns are one group together.
        folds: divide all but the test volumes into so many parts, one of which is validated on; 0 for none.
        fold: which of them, counted from 1.
        block: with blocks, their length along each axis in the unit of the positions; 0 for eight volumes.
        gap: with blocks, how near volumes of two parts may lie; those nearer are left out. 0 for the volumes' size.
    """

    validation: Annotated[float, Range(0, 1)] = 0.2
    test: Annotated[float, Range(0, 1)] = 0.0
    seed: Annotated[int, Range(0)] = 0
    by: Annotated[SplitBy, Added()] = "volume"
    column: Annotated[str, Added()] = ""
    folds: Annotated[int, Range(0, 1_000), Added()] = 0
    fold: Annotated[int, Range(1, 1_000), Added()] = 1
    block: Annotated[float, Range(0), Advanced(), Added()] = 0.0
    gap: Annotated[float, Range(0), Advanced(), Added()] = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in `column`."""
        return tuple(filter(None, (name.strip() for name in self.column.split(","))))


@node(
    "SplitDataset",
    version=1,
    category="Dataset",
    icon="split",
    keywords=(
        "train test split",
        "validation",
        "holdout",
        "shuffle",
        "cross validation",
        "patient",
        "leakage",
        "folds",
    ),
    anywhere="only names rows",
)
def split_dataset(table: VolumeDelta, *, parameters: SplitParameters, ctx: TaskContext) -> Split:
    """Split a table into train, validation and test volumes.

    A volume's part follows from its id, or the value that keeps it together with others, and the seed alone: it stays
    where it is when others are added, when the table is compacted, and on every machine. The shares are met on
    average. By label they are met exactly, and by time the ends follow from the data: there volumes near an end may
    change sides when others are added. Volumes without a value in the column are parted one by one, by time trained on.

    Args:
        table: the volumes to split.
    """
    for problem in _problems(parameters):
        raise UsageError(problem.message, hint=problem.hint, parameter=problem.parameter)
    # A split of a split must not use the same hash again: its parts would be empty.
    salt = f"voxelflow.split.{parameters.seed}.{len(table.selections)}"
    folds = parameters.folds
    shares = (1 - (0 if folds else parameters.validation) - parameters.test, 1 - parameters.test)
    train, validation, test = _selections(table, salt, shares, parameters, ctx)
    held_out = (1 - parameters.test) / folds if folds else parameters.validation
    ctx.facts(
        train_share=1 - parameters.test - held_out if folds else shares[0],
        validation_share=held_out,
        test_share=parameters.test,
    )
    return Split(_selected(table, train), _selected(table, validation), _selected(table, test))


def _selected(table: VolumeDelta, selections: tuple[Selection, ...]) -> VolumeDelta:
    for selection in selections:
        table = table.select(selection)
    return table


def _selections(
    table: VolumeDelta, salt: str, ends: tuple[float, float], parameters: SplitParameters, ctx: TaskContext
) -> tuple[tuple[Selection, ...], tuple[Selection, ...], tuple[Selection, ...]]:
    from nodes.splitting import selections as splitting

    shares, folds = splitting.Shares(*ends), splitting.Folds(parameters.folds, parameters.fold)
    plain = Selection(salt=salt, low=0, high=1)
    if parameters.by == "volume":
        return splitting.by_hash(salt, shares, folds, plain)
    if parameters.by == "label":
        split = splitting.by_label(table, salt, shares, folds)
    elif parameters.by == "time":
        split = splitting.by_time(table, salt, shares, parameters.columns[0])
    else:
        like = plain.model_copy(update={"by": parameters.columns})
        if parameters.by == "blocks":
            like = splitting.blocks_of(table, parameters.columns, parameters.block, parameters.gap)
        split = splitting.by_hash(salt, shares, folds, like)
    counts = splitting.count_parts(table, split)
    wanted = (True, bool(folds.count or parameters.validation), bool(parameters.test))
    for name, count, is_wanted in zip(Split._fields, counts, wanted, strict=True):
        if is_wanted and not count:
            ctx.warn(
                f"{name} has no volumes: there are too few different values in {parameters.column or 'the labels'}"
            )
    ctx.info(", ".join(f"{count:,} {name}" for name, count in zip(Split._fields, counts, strict=True)))
    if parameters.by == "blocks":
        ctx.info("volumes within the gap between two parts are in neither of them")
    return split


@split_dataset.preview
def _preview(look: CheckContext) -> Mapping[str, Preview]:
    for problem in _problems(SplitParameters(**look.params)):
        look.report(problem.rule, problem.message, hint=problem.hint, parameter=problem.parameter)
    # A reference counts the volumes of its table, before any selection; so does its preview.
    given = look.inputs.get("table", Preview(kind="VolumeDelta"))
    wanted = SplitParameters(**look.params)
    if given.columns is not None and wanted.by in ("group", "time", "blocks"):
        for name in (name for name in wanted.columns if name not in given.columns):
            look.report(
                NoSuchColumn,
                f"the table has no column {name}; it has {', '.join(given.columns) or 'none besides id and label'}",
                hint="Choose a column that the label file has.",
                parameter="column",
            )
    if wanted.by in ("volume", "label") and (name := group_column(given.columns or ())):
        look.report(
            GroupsAreParted,
            f"volumes are parted {'one by one' if wanted.by == 'volume' else 'by their labels'}, and the table has a"
            f" column {name}: those of one {name} may be on both sides, which flatters the figures",
            hint=f"Set by to group, and column to {name}.",
            parameter="by",
        )
    return dict.fromkeys(Split._fields, given)


@split_dataset.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.table.check import problem_with

    return problem_with(outputs, for_change)


class _Problem(NamedTuple):
    rule: type[Rule]
    message: str
    hint: str
    parameter: str


def _problems(given: SplitParameters) -> Iterator[_Problem]:
    """What is wrong with the parameters alone."""
    validation = 0.0 if given.folds else given.validation
    if validation + given.test >= 1:
        text = f"a validation share of {validation:g} and a test share of {given.test:g} leave nothing to train on"
        yield _Problem(NothingToTrainOn, text, "Make validation and test together less than 1.", "validation")
    if given.folds == 1 or (given.folds and given.fold > given.folds):
        text = "one fold leaves nothing to train on" if given.folds == 1 else f"there is no fold {given.fold}"
        hint = "Take two or more folds, counted from 1, or 0 for none."
        yield _Problem(NotASplit, f"{text}: there are {given.folds}", hint, "folds" if given.folds == 1 else "fold")
    if given.by in ("group", "time", "blocks") and not given.columns:
        hint = "Name a column of the label file, which NumpyToParquet carries into the table."
        yield _Problem(NotASplit, f"to split by {given.by} takes a column", hint, "column")
    if given.by == "time" and len(given.columns) > 1:
        yield _Problem(NotASplit, "time is one column", "Name the column with the time.", "column")
    if given.by == "time" and given.folds:
        hint = "Set folds to 0, or split by something else."
        yield _Problem(NotASplit, "time has one order, so there are no folds of it", hint, "folds")
    if given.by in ("volume", "label") and given.columns:
        hint = "Set by to group, time or blocks, or clear the column."
        yield _Problem(ColumnNotUsed, f"is not used: the split goes by {given.by}", hint, "column")


# --- what it reports before a run ----------------------------------------------------------------


class NothingToTrainOn(Rule):
    """The shares for validation and test add up to 1 or more, so no volume is left in the output `train`.

    What to do: make `validation` and `test` together less than 1; 0.2 and 0.1 leave seven of ten volumes.
    """

    code = "VF441"
    severity = "error"
    title = "a split that leaves nothing to train on"


class NotASplit(Rule):
    """The parameters contradict each other: a fold that does not exist, a split by group, time or blocks without its
    column, or folds of time, which has only one order.

    What to do: what the message says. The columns that a table has are those of the label file.
    """

    code = "VF442"
    severity = "error"
    title = "a split that cannot be made"


class ColumnNotUsed(Rule):
    """A column is given, and volumes are parted one by one or by their labels, so that it has no effect: volumes of one
    patient may be in two parts.

    What to do: set `by` to group, time or blocks; or clear `column`.
    """

    code = "VF443"
    severity = "error"
    title = "a column that the split does not go by"


class NoSuchColumn(Rule):
    """The split goes by a column that the table does not have. Its columns are those of the label file.

    What to do: choose one of the columns that the message names, or add it to the label file; NumpyToParquet carries
    them all while its `columns` is all.
    """

    code = "VF444"
    severity = "error"
    title = "a split by a column that is not there"


class GroupsAreParted(Rule):
    """The table says which patient, subject or survey each volume is of, and the split does not go by it. Volumes of
    one patient are alike: a model that has seen some of them does better on the others than on new patients.

    What to do: set `by` to group and `column` to the column's name. Ignore it where each has one volume.
    """

    code = "VF445"
    severity = "warning"
    title = "a split that may part a patient's volumes"
