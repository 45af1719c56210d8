"""The rows that a training uses, of tables that are leased while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Selection, VolumeDelta, VolumeFiles, VolumeParquet
from engine.errors import DataError
from engine.storage.urls import is_url
from engine.text import plural
from nodes.loaders import LoaderName, open_source
from nodes.loaders.interface import Source
from nodes.loaders.row_groups import FASTER, RowGroupSource
from nodes.training.labels import Task, names_without_numbers, renumbered, unknown_classes
from nodes.training.leakage import Part, report_leaks, rows_of_both
from nodes.transforms.remaining import same_way, told_apart

SPLIT_SALT = "voxelflow.validation"
"""Of the hash that holds rows back for validation; not that of any other node, so that splits of splits are fair."""


@dataclass(frozen=True)
class Parts:
    """The rows to train on, to validate on and to test with; of the last two there may be none."""

    training: Part
    validation: Part | None
    test: Part | None


@contextmanager
def leased(ctx: TaskContext, *datasets: Dataset | None) -> Iterator[None]:
    """Keep a vacuum from deleting files of these table versions while the block runs. Enter it before opening them.

    Reports a table's folder that this process may not write in, where that cannot be promised. Tables in object
    storage have no leases.
    """
    from nodes.table.lease import hold_version
    from nodes.table.snapshot import local_folder

    with ExitStack() as stack:
        versions = {(data.uri, data.version) for data in datasets if isinstance(data, VolumeDelta)}
        for uri, version in sorted(versions):
            if is_url(uri):
                continue
            if not stack.enter_context(hold_version(local_folder(uri), version, ctx.is_cancelled)):
                ctx.info(f"{uri} cannot be written, so nothing keeps a vacuum elsewhere from deleting files of it")
        yield


@contextmanager
def open_parts(
    data: Dataset,
    validation: Dataset | None,
    test: Dataset | None = None,
    *,
    loader: LoaderName,
    share: float,
    ctx: TaskContext,
    group: str = "",
    verify: bool = True,
    task: Task = "classification",
) -> Iterator[Parts]:
    """The rows of a training; the sources are closed at the end.

    Until then the versions that are read are leased.

    Without `validation`, the `share` of the data whose ids have the smallest hashes is held back; with `group`, a
    column, whole groups are, and without it those that SplitDataset kept together. Volumes and groups that are on both
    sides are reported with their number.
    The labels of `validation` and `test` become those of the training's classes of the same names; in a regression,
    which learns numbers, classes that are called by whole numbers stand for these.
    `verify`: see `nodes.loaders.open_source`. Raises `DataError` when they are of different kinds, or there is no such
    column.
    """
    with leased(ctx, data, validation, test), ExitStack() as opened:
        sources: list[tuple[Dataset, Source]] = []

        def source_of(dataset: Dataset) -> Source:
            """Parts of one dataset share a source."""
            for known, source in sources:
                if _same_rows(known, dataset):
                    return source
            opening = open_source(loader, dataset, cores=ctx.resources.cores, verify=verify)
            source = opened.enter_context(closing(opening))
            sources.append((dataset, source))
            return source

        def part(dataset: Dataset) -> Part:
            source = source_of(dataset)
            return Part(source, source.rows_in(*_selections(dataset)))

        others: list[tuple[Part, str]] = []
        source = source_of(data)
        if isinstance(source, RowGroupSource):
            ctx.warn(f"{source.reason}; reading is several times slower. {FASTER}")
        if validation is None:
            own, by = _selections(data), grouping(data, group)
            held, trained = held_back(share, by)
            with _column_of(group):
                training = Part(source, source.rows_in(*own, trained))
                held_out = Part(source, source.rows_in(*own, held))
            if by and share and not group:
                ctx.info(f"whole groups of {', '.join(by)} are held back for validation, as SplitDataset keeps them")
            report_leaks(training, held_out, "validated on", grouping(data), ctx)
        else:
            training, held_out = part(data), part(validation)
            others.append((held_out, "validated on"))
        if not len(held_out.rows):
            ctx.warn("no volume is held back for validation")
        tested = part(test) if test is not None else None
        if tested is not None:
            others.append((tested, "tested with"))
        for other, verb in others:
            _check_other(training, other, verb, ctx)
            _check_classes(training, other, task)
        # Only now: selections by label, of another part of the same table too, go by the labels that are stored.
        for other, _ in others:
            _go_by_names(training, other)
        for other, verb in others:
            report_leaks(training, other, verb, grouping(data, group), ctx)
        if tested is not None and not len(tested.rows):
            raise DataError(
                f"no volume of {tested.source.where} has a label, so there is nothing to test with",
                hint="Check the labels that NumpyToParquet found, or the split; or wire nothing to test.",
            )
        both = len(rows_of_both(held_out, tested)) if tested is not None else 0
        if both:
            ctx.warn(
                f"{plural(both, 'volumes')} {'is' if both == 1 else 'are'} validated and tested with: what is chosen by"
                " the validation, such as the best epoch, flatters the test's figures too"
            )
        yield Parts(training, held_out if len(held_out.rows) else None, tested)


def held_back(share: float, by: tuple[str, ...] = ()) -> tuple[Selection, Selection]:
    """The volumes that a training holds back for validation, and those that it trains on; groups of `by` are whole."""
    return Selection(salt=SPLIT_SALT, low=0, high=share, by=by), Selection(salt=SPLIT_SALT, low=share, high=1, by=by)


@contextmanager
def _column_of(group: str) -> Iterator[None]:
    """Let an error of a selection's column name the parameter that gave it: the node has no `column`."""
    try:
        yield
    except DataError as exc:
        if exc.parameter != "column":
            raise
        raise DataError(exc.message, hint=exc.hint, parameter="validation_group" if group else None) from exc


def grouping(data: Dataset, group: str = "") -> tuple[str, ...]:
    """The columns whose values should be on one side: those asked for, else those that the data was split by."""
    if group:
        return (group,)
    return data.grouped_by if isinstance(data, VolumeDelta | VolumeFiles | VolumeParquet) else ()


def _selections(data: Dataset) -> tuple[Selection, ...]:
    return data.selections if isinstance(data, VolumeDelta) else ()


def _same_rows(data: Dataset, other: Dataset) -> bool:
    """Whether both are parts of one dataset, which then is opened once."""
    if isinstance(data, VolumeDelta) and isinstance(other, VolumeDelta):
        return (data.uri, data.version) == (other.uri, other.version)
    return data == other


def _check_other(training: Part, other: Part, verb: str, ctx: TaskContext) -> None:
    spec, where = training.source.spec, training.source.where
    others, elsewhere = other.source.spec, other.source.where
    if (spec.shape, spec.dtype) != (others.shape, others.dtype):
        raise DataError(
            f"the volumes of {elsewhere} are {others.describe()}, those of {where} {spec.describe()}",
            hint="Train, validate and test on volumes of the same shape and type.",
        )
    if not same_way(spec.transforms, others.transforms):
        ways = [way or "nothing" for way in told_apart(spec.transforms, others.transforms)]
        ctx.warn(
            f"the volumes trained on went through {ways[0]}, those {verb} through {ways[1]}: the figures may say little"
        )
    if both := len(rows_of_both(training, other)):
        ctx.warn(
            f"{plural(both, 'volumes')} {'is' if both == 1 else 'are'} trained on and {verb}: the figures will flatter"
            " the model"
        )


def _check_classes(training: Part, other: Part, task: Task) -> None:
    """Raise `DataError` for labels of `other` that would mean something else than the training's, or nothing."""
    ours, where = training.source.spec.classes, training.source.where
    own, elsewhere = other.source.spec.classes, other.source.where
    differing = own != ours and bool(own and ours)
    if task == "regression" and (differing or (len(other.labels) and names_without_numbers(own, ours))):
        theirs, mine = (f"for the classes {_listed(names)}" if names else "for themselves" for names in (own, ours))
        raise DataError(
            f"a regression learns numbers, and those of {elsewhere} stand {theirs}, those of {where} {mine}",
            hint="Give labels that are numbers, or convert both with the same classes.",
        )
    if unknown := unknown_classes(other.labels, own, ours):
        raise DataError(
            f"{elsewhere} has volumes of classes that {where} does not have: {_listed(unknown)}",
            hint="Leave these volumes out, or train on such volumes too.",
        )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:10])}{' ...' if len(names) > 10 else ''}"


def _go_by_names(training: Part, other: Part) -> None:
    """Let the labels of `other` be those of the training's classes of the same names."""
    ours, source = training.source.spec.classes, other.source
    labels = renumbered(source.rows.labels, source.spec.classes, ours)
    if labels is not source.rows.labels:
        source.relabel(labels, ours)
