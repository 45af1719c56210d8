"""`SplitDataset`: train, validation and test parts of a table, without copying a byte."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Preview, Selection, VolumeDelta
from engine.declare.node import node
from engine.declare.parameters import Added, Advanced, Range
from engine.diagnostics.rule import Rule
from engine.errors import UsageError, VoxelflowError
from nodes.splitting.groups import group_column
from nodes.splitting.missing_labels import ClassMissing, is_soon_counted, lacking

if TYPE_CHECKING:
    from nodes.splitting.selections import Split as Divided


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
        source_column: with blocks, the column that says which survey or scan a position is in; each has blocks of its
            own then. Patches of CutVolumes have it as source.
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
    source_column: Annotated[str, Added()] = ""
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
    average. By label each label meets them to one volume, and by time the ends follow from the data: there volumes near
    an end may change sides when others are added. Volumes without a value in the column are parted one by one, by time
    trained on.

    Args:
        table: the volumes to split.
    """
    for problem in _problems(parameters):
        raise UsageError(problem.message, hint=problem.hint, parameter=problem.parameter)
    divided = _divide(table, parameters)
    counts: list[int] | None = None
    # By volume no column has to be read, so the parts of a large or distant table are counted on average only.
    if parameters.by != "volume" or is_soon_counted(table):
        from nodes.splitting.selections import count_parts, parted_copies

        counted = count_parts(table, divided)
        counts = [part.volumes for part in counted]
        for name in _empty(counts, parameters):
            ctx.warn(f"{name} has no volumes: {_too_few(parameters)}")
        classes = table.spec.classes if table.spec is not None else ()
        for text in _lacking([part.labels for part in counted], classes):
            ctx.warn(f"{text}. {_against_lacking(parameters)}")
        if copies := parted_copies(table, divided):
            ctx.warn(copies.words())
        ctx.info(", ".join(f"{count:,} {name}" for name, count in zip(Split._fields, counts, strict=True)))
    if parameters.by == "blocks":
        ctx.info("volumes within the gap between two parts are in neither of them")
        if not parameters.source_column.strip() and (sources := _sources(table)) > 1:
            ctx.warn(_one_space(sources))
    shares = _shares(parameters)
    ctx.facts(train_share=shares[0], validation_share=shares[1], test_share=shares[2])
    found = [
        table.select(*selections, selected=count)
        for selections, count in zip(divided, counts or (None, None, None), strict=True)
    ]
    return Split(*found)


def _divide(table: VolumeDelta, parameters: SplitParameters) -> Divided:
    """What to select for each part. By label and by time columns of the table are read for it."""
    from nodes.splitting import selections as splitting

    # A split of a split must not use the same hash again: its parts would be empty.
    salt = f"voxelflow.split.{parameters.seed}.{len(table.selections)}"
    validation = 0 if parameters.folds else parameters.validation
    shares = splitting.Shares(1 - validation - parameters.test, 1 - parameters.test)
    folds = splitting.Folds(parameters.folds, parameters.fold)
    like = Selection(salt=salt, low=0, high=1)
    if parameters.by == "label":
        return splitting.by_label(table, salt, shares, folds)
    if parameters.by == "time":
        return splitting.by_time(table, salt, shares, parameters.columns[0])
    if parameters.by == "blocks":
        source = parameters.source_column.strip()
        like = splitting.blocks_of(table, parameters.columns, source, parameters.block, parameters.gap)
    elif parameters.by == "group":
        like = like.model_copy(update={"by": parameters.columns})
    return splitting.by_hash(salt, shares, folds, like)


def _sources(table: VolumeDelta) -> int:
    from nodes.splitting.selections import count_sources

    return count_sources(table)


def _one_space(sources: int) -> str:
    """What a person should know of positions in several surveys that count as one space."""
    return (
        f"the positions of {sources:,} sources count as one space: patches of two of them at one place are always in"
        " one part, and those near to the other's patches of another part are left out"
    )


def _shares(parameters: SplitParameters) -> tuple[float, float, float]:
    """Which share of the volumes each part has on average, before any are left out between blocks."""
    rest = 1 - parameters.test
    if parameters.folds:
        held_out = rest / parameters.folds
        return rest - held_out, held_out, parameters.test
    return rest - parameters.validation, parameters.validation, parameters.test


def _empty(counts: Sequence[int], parameters: SplitParameters) -> Iterator[str]:
    """The parts without a volume that should have some."""
    for name, count, share in zip(Split._fields, counts, _shares(parameters), strict=True):
        if share > 0 and not count:
            yield name


def _too_few(parameters: SplitParameters) -> str:
    if parameters.by == "volume":
        return "there are too few volumes"
    if parameters.by == "label":
        needed = math.ceil(1 / min(share for share in _shares(parameters) if share > 0) - 1e-9)
        return f"the labels have too few volumes each: to be in every part, a label needs about {needed:,}"
    return f"there are too few different values in {parameters.column}"


def _lacking(labels: Sequence[Mapping[float, int]], classes: Sequence[str]) -> Iterator[str]:
    """What is wrong with the labels of the parts train, validation and test."""
    train, validation, test = labels
    yield from lacking(train, {"validation": validation, "test": test}, classes)


def _against_lacking(parameters: SplitParameters) -> str:
    """What to do about a part that lacks a class."""
    if parameters.by == "volume":
        return "Split by label, take another seed, or give more volumes of the class."
    if parameters.by == "label":
        return "Give more volumes of the class, or choose larger shares."
    return f"Give more volumes of the class, of other values of {', '.join(parameters.columns)}, or split by label."


def _what_to_do(parameters: SplitParameters) -> tuple[str, str]:
    """Against a part without volumes, and the parameter that it is said of."""
    if parameters.by == "label":
        return "Choose larger shares, split by volume, or add volumes to the labels.", "by"
    if parameters.by == "time":
        return "Choose larger shares, or split by something that has more values.", "by"
    return "Choose another seed or larger shares, or split by something that has more values.", "seed"


@split_dataset.revision
def _version(params: Mapping[str, Any]) -> int:
    """By label the parts are others since their shares are met over all labels together."""
    return 2 if params.get("by") == "label" else 1


@split_dataset.scan
def _scan(look: CheckContext) -> Mapping[str, Any]:
    """Count the parts of a table that is there already, from its ids and columns."""
    given, parameters = look.inputs.get("table"), SplitParameters(**look.params)
    table = given.dataset if given is not None else None
    if not isinstance(table, VolumeDelta) or not is_soon_counted(table):
        return {}
    if any(_problems(parameters)):
        return {}
    from nodes.splitting.selections import count_parts, parted_copies

    try:
        divided = _divide(table, parameters)
        counted = count_parts(table, divided)
        copies = parted_copies(table, divided)
        sources = _sources(table) if parameters.by == "blocks" else 0
    except VoxelflowError as exc:
        return {"problem": exc.message, "hint": exc.hint, "parameter": exc.parameter or ""}
    parts = [[each.model_dump(mode="json") for each in selections] for selections in divided]
    said = copies.words() if copies is not None else ""
    counts, labels = [part.volumes for part in counted], [[*part.labels.items()] for part in counted]
    return {"counts": counts, "labels": labels, "parts": parts, "copies": said, "sources": sources}


@split_dataset.preview
def _preview(look: CheckContext) -> Mapping[str, Preview]:
    parameters = SplitParameters(**look.params)
    problems = tuple(_problems(parameters))
    for problem in problems:
        look.report(problem.rule, problem.message, hint=problem.hint, parameter=problem.parameter)
    given = look.inputs.get("table", Preview(kind="VolumeDelta"))
    missing = _check_columns(look, given, parameters)
    if "problem" in look.facts and not missing:
        facts = look.facts
        look.report(NotASplit, facts["problem"], hint=facts["hint"], parameter=facts["parameter"] or None)
    hint, parameter = _what_to_do(parameters)
    for name in _empty(look.facts.get("counts", ()), parameters) if "counts" in look.facts else ():
        look.report(PartIsEmpty, f"{name} has no volumes: {_too_few(parameters)}", hint=hint, parameter=parameter)
    if counted := look.facts.get("labels"):
        classes = given.spec.classes if given.spec is not None else ()
        for text in _lacking([dict(part) for part in counted], classes):
            look.report(ClassMissing, text, hint=_against_lacking(parameters), parameter="by")
    sources = look.facts.get("sources") or given.sources or 0
    if parameters.by == "blocks" and not parameters.source_column.strip() and sources > 1:
        look.report(
            SourcesAreMixed,
            _one_space(sources),
            hint="Set source_column to source, as CutVolumes names it.",
            parameter="source_column",
        )
    if copies := look.facts.get("copies"):
        look.report(
            CopiesAreParted,
            copies,
            hint="Set by to group and column to source_sha256, or remove the copies.",
            parameter="by",
        )
    if problems:
        return dict.fromkeys(Split._fields, given.model_copy(update={"dataset": None}))
    if parameters.by == "group":
        given = given.model_copy(update={"grouped_by": given.grouped_by or parameters.columns})
    return dict(zip(Split._fields, _parts(look, given, parameters), strict=True))


def _check_columns(look: CheckContext, given: Preview, parameters: SplitParameters) -> bool:
    """Report columns that the split goes by and the table lacks, or the reverse; gives whether some are lacking."""
    missing: list[str] = []
    if given.columns is not None and parameters.by in ("group", "time", "blocks"):
        wanted = [*((name, "column") for name in parameters.columns)]
        if parameters.by == "blocks" and (source := parameters.source_column.strip()):
            wanted.append((source, "source_column"))
        missing = [name for name, _ in wanted if name not in given.columns]
        for name, parameter in wanted:
            if name not in missing:
                continue
            look.report(
                NoSuchColumn,
                f"the table has no column {name}; it has {', '.join(given.columns) or 'none besides id and label'}",
                hint="Choose a column that the label file has.",
                parameter=parameter,
            )
    if parameters.by in ("volume", "label") and (name := group_column(given.columns or ())):
        how = "one by one" if parameters.by == "volume" else "by their labels"
        look.report(
            GroupsAreParted,
            f"volumes are parted {how}, and the table has a column {name}: those of one {name} may be on both sides,"
            " which flatters the figures",
            hint=f"Set by to group, and column to {name}.",
            parameter="by",
        )
    return bool(missing)


def _parts(look: CheckContext, given: Preview, parameters: SplitParameters) -> Iterator[Preview]:
    """What each part holds: counted where the table is there already, else about its share."""
    if "counts" in look.facts and isinstance(given.dataset, VolumeDelta):
        for selections, count in zip(look.facts["parts"], look.facts["counts"], strict=True):
            part = given.dataset.select(*map(Selection.model_validate, selections), selected=count)
            yield given.model_copy(update={"selected": count, "selected_exactly": True, "dataset": part})
        return
    held = given.held
    for share in _expected_shares(look, given, parameters):
        selected = None if held is None or share is None else round(held * share)
        known = {"selected": selected, "selected_exactly": selected == 0 and 0 in (share, held), "dataset": None}
        yield given.model_copy(update=known)


def _expected_shares(look: CheckContext, given: Preview, parameters: SplitParameters) -> Iterator[float | None]:
    """The share of the volumes that each part will have; None where the gap between blocks is not known yet."""
    shares = _shares(parameters)
    if parameters.by != "blocks":
        yield from shares
        return
    from nodes.splitting.expected import clear_share
    from nodes.splitting.selections import gap_and_lengths
    from nodes.transforms.extent import extent_before

    try:
        extent = extent_before(given.spec) if given.spec is not None else ()
        gap, lengths = gap_and_lengths(extent, parameters.columns, parameters.block, parameters.gap)
    except UsageError as exc:
        if exc.parameter == "gap" and "problem" not in look.facts:
            look.report(NotASplit, exc.message, hint=exc.hint, parameter=exc.parameter)
        yield from (None, None, None)
        return
    train, validation, test = shares
    if parameters.folds:
        aside = clear_share(lengths, gap, test)
        yield train * aside * clear_share(lengths, gap, 1 / parameters.folds)
        yield validation * aside
    else:
        yield train * clear_share(lengths, gap, validation + test)
        yield validation * clear_share(lengths, gap, test)
    yield test


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
    if given.by != "blocks" and given.source_column.strip():
        hint = "Set by to blocks, or clear it."
        yield _Problem(ColumnNotUsed, f"is not used: the split goes by {given.by}", hint, "source_column")


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
    column, or by one of another kind, such as positions that are no numbers; folds of time, which has only one order;
    or blocks of patches that were resampled since they were cut, with no gap between the parts.

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


class PartIsEmpty(Rule):
    """A part of the table that is there already would have no volumes, though it should have a share of them: the
    values that the split goes by are too few, and all of them fall on other sides; by label, the labels have too few
    volumes each.

    What to do: take another seed or larger shares, or split by something that has more different values. A table with
    one patient cannot be split by patient. By label, and by time, another seed does not help.
    """

    code = "VF446"
    severity = "warning"
    title = "a part of a split without volumes"


class SourcesAreMixed(Rule):
    """The split goes by blocks of space, and the table has patches of several surveys or scans, whose positions are
    counted from the corner of each. Without `source_column` all of them lie in one space: a block has the patches of
    every survey at that place, so there are fewer blocks to part, and more is lost in the gaps between them.

    What to do: set `source_column` to the column that names the survey: source, of patches of CutVolumes.
    """

    code = "VF447"
    severity = "warning"
    title = "blocks that mix the positions of several sources"


class CopiesAreParted(Rule):
    """Files of different names hold the same, to the last byte, as the column `source_sha256` shows, and volumes of
    them are in several parts: a model is then judged by volumes that it was trained on.

    What to do: set `by` to group and `column` to source_sha256, which never parts copies; or remove the copies and
    convert again. Volumes of `.npy` files have the column where NumpyToParquet's `hash_sources` is on.
    """

    code = "VF448"
    severity = "warning"
    title = "a split that parts copies of a file"
