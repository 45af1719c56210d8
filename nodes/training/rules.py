"""What `TrainResNet3D` reports before a training, in the order of the codes. `ProfileTraining` shares some."""

from __future__ import annotations

from engine.diagnostics.rule import Rule


class ShapeDoesNotFit(Rule):
    """The network is made of 3-D convolutions and needs three axes of voxels, and channels last if there are any.

    What to do: save the volumes with the axes X, Y, Z or X, Y, Z, channels, for example by adding an axis of
    length 1, and convert them again.
    """

    code = "VF501"
    severity = "error"
    title = "volumes that do not fit a 3-D network"


class LoaderDoesNotRead(Rule):
    """The chosen loader cannot read the kind of dataset that is wired in: `arrow` and `petastorm` read tables and
    Parquet files, `npy` reads folders.

    What to do: set `loader` to one that the message names, or wire another dataset; `arrow` on a Delta table is
    the fastest.
    """

    code = "VF502"
    severity = "error"
    title = "a loader that does not read this dataset"


class BadFilesStop(Rule):
    """Some of the sampled files cannot be read as volumes, or have another shape or dtype than most. A training that
    reads files, not a table, ends with an error at the first labelled one of them.

    What to do: convert the folder with NumpyToParquet, which sets bad files aside; make the shapes the same with
    TransformVolumes; or remove the files.
    """

    code = "VF516"
    severity = "warning"
    title = "files at which a training ends"


class BatchNotFilled(Rule):
    """There are fewer volumes to train on than one batch holds, so not a single step can be made. Volumes without a
    label and those held back for validation do not count.

    What to do: choose a smaller `batch_size`, or give more labelled volumes.
    """

    code = "VF503"
    severity = "error"
    title = "too few volumes for one batch"


class NothingToLearn(Rule):
    """No volume that is wired in has a label.

    What to do: give NumpyToParquet a label table, or folders or file names that tell the class; its parameter
    `labels` says where it looks.
    """

    code = "VF504"
    severity = "error"
    title = "training volumes without a label"


class EpochTooShort(Rule):
    """`steps_per_epoch` is larger than the number of full batches in the training volumes. An epoch ends when each
    volume was seen once, so it has fewer steps than you asked for.

    What to do: raise `epochs` for a longer training, and set `steps_per_epoch` to 0 to use all volumes.
    """

    code = "VF505"
    severity = "warning"
    title = "more steps than an epoch has"


class NothingHeldBack(Rule):
    """All volumes are trained on. The figures of the training volumes look good even for a model that has learned
    them by heart, so nothing says how it does on others.

    What to do: set `validation_share`, for example to 0.2, or wire a table to `validation`.
    """

    code = "VF506"
    severity = "warning"
    title = "a training without validation"


class GroupsMayBeParted(Rule):
    """Volumes are held back one by one, and the data says which patient, subject or survey each is of. Volumes of one
    patient are alike: a model that has seen some of them does better on the others than on new patients. Or a split
    kept them together by a column that a node after it left out.

    What to do: set `validation_group` to the column's name. Ignore it where each has one volume. Where the column is
    gone, wire the split's own validation part to `validation`, or let NumpyToParquet carry the columns.
    """

    code = "VF517"
    severity = "warning"
    title = "a validation that may share patients with the training"


class NoSuchGroup(Rule):
    """`validation_group` names a column by which whole groups are held back, and the data has no such column. Those of
    a table are the columns of the label file; a folder of files has none that a training reads.

    What to do: choose one of the columns that the message names, or add it to the label file; NumpyToParquet carries
    them all while its `columns` is all. Or clear `validation_group`.
    """

    code = "VF524"
    severity = "error"
    title = "a validation by a column that is not there"


class FormsDiffer(Rule):
    """The volumes of `validation` or `test`, or of `other` of ProfileTraining, have another shape or dtype than those
    of `data`. The network takes one shape.

    What to do: use volumes of the same shape and dtype, for example parts of one table by SplitDataset.
    """

    code = "VF507"
    severity = "error"
    title = "validation or test volumes of another form"


class UnknownToTraining(Rule):
    """The volumes of `validation` or `test` are of a class that those of `data` do not have. Classes are compared by
    their names, in any order, and names such as 1 and 2 with labels that are these numbers. A model has no answer that
    would be right for a class that it was not trained on.

    What to do: leave these volumes out, or train on some of the class too. Where the same class has two names, give it
    one.
    """

    code = "VF519"
    severity = "error"
    title = "validation or test volumes of unknown classes"


class ChangedDifferently(Rule):
    """The volumes of `validation` or `test` went through other transforms than those of `data`: they may be on another
    scale, and the figures would say little of the model.

    What to do: put the same TransformVolumes between the source and each of them, or split after it.
    """

    code = "VF514"
    severity = "warning"
    title = "validation or test volumes that went another way"


class TransformedEachEpoch(Rule):
    """The volumes come straight from TransformVolumes, which stores nothing: each of them is read and transformed again
    in every epoch, on the processor that the training needs too. A table that NumpyToParquet makes after the
    transforms holds the result, and is read several times as fast (`python -m benchmarks chain` measures it).

    What to do: wire NumpyToParquet, and mostly ParquetToDelta, between TransformVolumes and the training, and set
    `loader` to arrow. For a single epoch, or volumes that do not fit on the disk again, leave it.
    """

    code = "VF515"
    severity = "warning"
    title = "volumes that are transformed again in every epoch"


class BatchNotShared(Rule):
    """Every worker takes the same part of each batch, which is needed for the same result with any number of them.

    What to do: set `batch_size` to a multiple of `workers`, or choose another number of workers.
    """

    code = "VF508"
    severity = "error"
    title = "a batch that workers cannot share evenly"


class JitHasNoEffect(Rule):
    """XLA cannot compile the communication between workers, so with more than one of them `jit` is ignored.

    What to do: set `jit` to false or leave it empty, or train with one worker.
    """

    code = "VF509"
    severity = "warning"
    title = "XLA with several workers"


class JitIsSlow(Rule):
    """With XLA, a GPU has hardly any repeatable way to compute the gradients of a 3-D convolution, and a slow one:
    4.7 s for a step of 32 volumes instead of 26 ms on an NVIDIA H200 (TensorFlow 2.21, ResNet-18).

    What to do: set `jit` to false; or `deterministic`, with which XLA is faster than without it.
    """

    code = "VF518"
    severity = "warning"
    title = "XLA with repeatable results"


class NothingToJudgeBy(Rule):
    """The best epoch, early stopping and the schedule `plateau` follow the figures of validation volumes, and there
    are none.

    What to do: raise `validation_share`, wire labelled volumes to `validation`, or do without the parameter that
    the message names.
    """

    code = "VF510"
    severity = "error"
    title = "a decision without validation volumes"


class BatchMayNotBeFilled(Rule):
    """The volumes that remain after the validation share may just be too few for one batch. Which side a volume is
    on is decided by the hash of its id, so the number is known only when the training starts; it may fail then.

    What to do: choose a smaller `batch_size` or `validation_share`, or give more labelled volumes.
    """

    code = "VF511"
    severity = "warning"
    title = "hardly enough volumes for one batch"


class LabelIsNoClass(Rule):
    """A classification numbers its classes 0, 1, ... and a label that is negative or has decimals is none of them. The
    training would stop at once.

    What to do: number the classes, or give them names in the label table; to learn numbers, set `task` to regression.
    """

    code = "VF512"
    severity = "error"
    title = "a label that is no class number"


class LabelsDoNotFit(Rule):
    """A classification numbers its classes 0, 1, ... and leaves no number out: labels 1 and 2, or ages, are no such
    numbers. The training would stop at once.

    What to do: number the classes from 0, or give them names in the label table; set `classes` where some classes have
    no volume yet. To learn numbers such as an age, set `task` to regression.
    """

    code = "VF525"
    severity = "error"
    title = "labels that do not number the classes"


class OneLabelOnly(Rule):
    """All labelled volumes have the same label, so a classifier has nothing to learn. The training would stop at once.

    What to do: add volumes with other labels; or look whether the right column, folders or pattern gives the labels.
    """

    code = "VF513"
    severity = "error"
    title = "one label only"


class CannotTurn(Rule):
    """A quarter turn exchanges X and Y, so with different lengths the volume would have another shape.

    What to do: set `quarter_turns` to false and use `flips`, which fit every shape; or cut the volumes to equal X
    and Y.
    """

    code = "VF520"
    severity = "error"
    title = "volumes that cannot be turned by a quarter"


class ClassesInRegression(Rule):
    """The labels are names of classes, numbered in sorted order. A regression would learn these numbers as if class
    2 were twice class 1.

    What to do: set `task` to classification, or give NumpyToParquet labels that are numbers.
    """

    code = "VF521"
    severity = "warning"
    title = "a regression of class names"


class TargetsWithCommas(Rule):
    """A regression learns numbers, and the labels are numbers with commas, as 0,5: a table of labels takes them for
    text, and text for names of classes. The training would learn 0, 1, 2 ... in the order of the names.

    What to do: write the labels with a point, as 0.5, and thousands without a mark; then convert again.
    """

    code = "VF425"
    severity = "error"
    title = "a regression of numbers with commas"


class OwnModelNotUsable(Rule):
    """The file in `model_file` cannot be used: it does not exist, is not in a trusted workspace's `my_models/`, has
    a syntax error, or has no function `build(shape, outputs)`. It is not run before the training.

    What to do: correct what the message names; nodes/README.md has an example under "A model of your own".
    """

    code = "VF522"
    severity = "error"
    title = "a model file that cannot be used"


class ForClassesOnly(Rule):
    """The parameter has a meaning for classes only, and a regression has none: there is nothing to weight, and
    accuracy, AUC and F1 are not defined.

    What to do: set the parameter back to its default, for `best_by` val_loss; or set `task` to classification.
    """

    code = "VF523"
    severity = "error"
    title = "a parameter for classes in a regression"
