"""What is reported of a label table, and of the files to convert, before a run."""

from __future__ import annotations

from engine.diagnostics.rule import Rule


class BadLabelPattern(Rule):
    r"""The pattern that finds a label in a file's name is not a regular expression, or has no group named `label`.

    What to do: write the label's place as `(?P<label>...)`, for example `_(?P<label>[a-z]+)\.npy$` for files like
    scan_cat.npy and scan_dog.npy.
    """

    code = "VF411"
    severity = "error"
    title = "a label pattern that cannot be used"


class NoLabelTable(Rule):
    """`labels` is set to manifest, no `label_file` is given, and the folder has no labels.csv or labels.parquet.

    What to do: name the table in `label_file`: a CSV or Parquet file with the columns `file` and `label`.
    """

    code = "VF412"
    severity = "error"
    title = "a missing label table"


class TableNotTaken(Rule):
    """The folder holds a file that looks like a table of labels, such as Labels.CSV, participants.tsv or labels.xlsx,
    and only labels.csv and labels.parquet are taken without being named. So the volumes have no labels, or those of
    their sub-folders' names, which may be those of patients.

    What to do: name the table in `label_file`; one of a spreadsheet is first saved as CSV. If the labels are right
    without it, say where they come from: set `labels` to folders, or to none.
    """

    code = "VF427"
    severity = "warning"
    title = "a table in the folder that is not taken for labels"


class LabelsNotUsable(Rule):
    """Labels cannot be read from where they should come: the table cannot be read, lacks a column, or has an
    infinite number as a label; or a pattern takes too long. The message has the reason.

    What to do: correct the table, or choose another source in `labels`. A table needs a column `file` (or path, id,
    name) and a column `label` (or class, target, y).
    """

    code = "VF413"
    severity = "error"
    title = "labels that cannot be used"


class SampledWithoutLabel(Rule):
    """Some of the sampled files have no label, or several different ones. The first kind is kept without a label
    unless `unlabelled` says quarantine, and training leaves it out; the second is always quarantined.

    What to do: complete or correct the labels; nothing if the message counts the files that you expect.
    """

    code = "VF414"
    severity = "warning"
    title = "sampled files without a single label"


class LabelParameterNotUsed(Rule):
    """A label table or pattern is given, and labels come from elsewhere, so it has no effect.

    What to do: clear the parameter, or set `labels` to the source that you mean.
    """

    code = "VF415"
    severity = "warning"
    title = "a label parameter without effect"


class AllQuarantined(Rule):
    """`labels` is none, so no file gets a label, and `unlabelled` says to quarantine files without one: not a
    single volume would be converted.

    What to do: set `unlabelled` to keep, or choose where labels come from.
    """

    code = "VF416"
    severity = "error"
    title = "labels that are required and not looked for"


class TooManyBadFiles(Rule):
    """More files than `max_bad_files` are known to be left out: they cannot be read, differ in shape or dtype from
    most, have several labels, or none where `unlabelled` is quarantine. The run would stop at the first file too many.

    What to do: correct or remove the files, or raise `max_bad_files` if you can do without them.
    """

    code = "VF417"
    severity = "error"
    title = "more bad files than are allowed"


class LabelsWithoutFile(Rule):
    """The label table has rows that name none of the folder's files: the files are gone, or are called otherwise. These
    rows have no effect.

    What to do: name each file by its path below the folder, with or without `.npy`; nothing if the rows are of files
    that you left out. Compare the names in the message: a spreadsheet makes 7 of 0007.
    """

    code = "VF418"
    severity = "warning"
    title = "labels of files that do not exist"


class SeveralLabelsInOne(Rule):
    """A label such as `grey, left` looks like several. It becomes a class of its own, beside grey and left: a volume
    has one label, and exactly one class is right for it. Multi-label training is not supported. A table with grey;left
    or grey|left, or with `grey, left` beside a label grey, is refused.

    What to do: choose one label for each volume; or give each kind of label a column, convert once for each of them
    with `label_column`, and train a model for each.
    """

    code = "VF419"
    severity = "warning"
    title = "several labels in one"


class LabelsSpeltDifferently(Rule):
    """Two labels differ only as capital and small letters, blanks, hyphens and underscores do, or as numbers are
    written: Grey and grey, 1 and 1.0 in a column that has texts too. Each becomes a class of its own, so one class is
    trained as two.

    What to do: write them alike; nothing, if they mean different things.
    """

    code = "VF423"
    severity = "warning"
    title = "labels that differ in their spelling alone"


class NumbersWithCommas(Rule):
    """All values of a column of the label table are numbers, and some have a comma: 0,5 as spreadsheets write it in
    much of Europe, or 1,234 for a thousand. The file does not say which of the two it is, so the column stays text:
    labels become names of classes, nothing is sorted by value, and a regression has nothing to learn.

    What to do: write decimals with a point and thousands without a mark, in the spreadsheet's export or the table.
    """

    code = "VF426"
    severity = "warning"
    title = "numbers with commas, which stay text"


class AxesPointSeveralWays(Rule):
    """The files say where the axes of their volumes point to, and not all of them say the same: RAS has the right side
    of a body at the end of X, LAS the left one. A model cannot distinguish them in one table, so that it learns
    both sides mixed up.

    What to do: put TransformVolumes before NumpyToParquet and set its `orientation`, to RAS for example. Nothing, if
    sides mean nothing in your volumes.
    """

    code = "VF424"
    severity = "warning"
    title = "volumes whose axes point several ways"


class LabelColumnChosen(Rule):
    """The table of labels has several columns that are called as labels mostly are: label, class, target, y, in this
    order. The labels are those of the first; the others become columns of the volume table.

    What to do: nothing, if that is the right one; else name the column in `label_column`.
    """

    code = "VF428"
    severity = "info"
    title = "several columns that may be the labels"


class ColumnChanged(Rule):
    """A column of the label table does not come into the volume table as it is: its name is one that the table has
    itself (id, label, volume) or that Delta does not take, its values are lists, or the rows of one file differ in it.

    What to do: nothing, if that is well; else rename or correct the column in the table. Set to none, NumpyToParquet's
    `columns` leaves all of them out.
    """

    code = "VF420"
    severity = "info"
    title = "a column that is changed or left out"
