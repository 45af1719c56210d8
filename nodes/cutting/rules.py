"""What CutVolumes reports before a run."""

from __future__ import annotations

from engine.diagnostics.rule import Rule


class BadCutParameter(Rule):
    """A parameter of CutVolumes cannot be used as it is written: size and stride take three numbers; the names of files
    are written with {cube} and {channel}; keep is written as class=share; a source of labels needs its file.

    What to do: correct it as the message says.
    """

    code = "VF481"
    severity = "error"
    title = "a parameter of a cut that cannot be used"


class FilesDoNotFit(Rule):
    """The folder's files do not make volumes as the parameters of CutVolumes say: no file is named like the pattern, a
    volume lacks a channel that others have, or the label file cannot be read or does not fit the volumes. Or the files
    are in object storage, from which patches are not cut.

    What to do: look at the files' names, and write the pattern with {cube} for the part that the files of one volume
    share, and {channel} for the part that differs. For labels the message gives the line or the value.
    """

    code = "VF482"
    severity = "error"
    title = "files that do not fit a cut"


class PatchTooLarge(Rule):
    """Every volume that was looked at is smaller than a patch along some axis, so not a single patch would be cut.

    What to do: choose a smaller `size`, or set `edges` to zeros or repeat, which fills what is beyond the volume.
    """

    code = "VF483"
    severity = "error"
    title = "a patch larger than the volumes"


class VolumesCannotBeCut(Rule):
    """Some volumes cannot be read, differ from most in channels or type, have channels of different shapes, or labels
    of another shape than their own. The run would stop at them.

    What to do: repair or remove them, or set `bad_volumes` to leave them out.
    """

    code = "VF484"
    severity = "error"
    title = "volumes that cannot be cut"


class VolumesLeftOut(Rule):
    """Some volumes cannot be cut, and `bad_volumes` says to leave them out. They are listed in quarantine.csv.

    What to do: repair them if you need their patches; nothing otherwise.
    """

    code = "VF485"
    severity = "warning"
    title = "volumes that will be left out"


class VolumesTooSmall(Rule):
    """Some volumes are smaller than a patch along some axis and give no patches.

    What to do: choose a smaller `size`, or set `edges` to zeros or repeat; nothing if you can do without them.
    """

    code = "VF486"
    severity = "warning"
    title = "volumes smaller than a patch"


class VolumesWithoutLabels(Rule):
    """Labels come from volumes of labels, and some volumes have none. Their patches have no label, and training leaves
    them out.

    What to do: complete the files, write `label_volume` so that it fits them, or set `keep` to unlabelled=0.
    """

    code = "VF487"
    severity = "warning"
    title = "volumes without labels"


class NothingKept(Rule):
    """Some patches were labelled, and `keep` keeps none of them.

    What to do: raise the share of some class. Classes are named as the message names them.
    """

    code = "VF488"
    severity = "error"
    title = "a cut that keeps no patch"


class CutParameterNotUsed(Rule):
    """A parameter about labels is given, and labels come from elsewhere, so it has no effect.

    What to do: clear it, or set `labels` to the source that you mean.
    """

    code = "VF489"
    severity = "warning"
    title = "a parameter of a cut without effect"


class FilesOfNoVolume(Rule):
    """Files of the folder fit neither `channels_from` nor the volumes that `label_volume` has labels for. Nothing is
    cut from them, and they are not put aside either.

    What to do: nothing if they do not belong to the volumes. Else correct the parameters, or the files' names.
    """

    code = "VF491"
    severity = "warning"
    title = "files that belong to no volume"


class TableDoesNotMatch(Rule):
    """The table in `columns_file` has no row for some volumes, or rows that name none of them. Patches of the former
    have empty columns, and a split by such a column does not know where they belong.

    What to do: name each volume as its file is named, by the path below the folder, with or without the ending. Where
    several files are one volume, name it by what {cube} stands for.
    """

    code = "VF492"
    severity = "warning"
    title = "a table that does not match the volumes"


class TableNotUsed(Rule):
    """A labels.csv or labels.parquet lies beside the volumes. CutVolumes takes no label from it, since a patch has its
    own, and its columns only where `columns_file` names it.

    What to do: name it in `columns_file` if the patches should have its columns (patient, age, site ...). Nothing
    otherwise.
    """

    code = "VF493"
    severity = "info"
    title = "a table beside the volumes that is not used"


class CutAfterTransforms(Rule):
    """The input of CutVolumes comes from TransformVolumes. Patches are cut from the files themselves, a slab at a time,
    and steps such as a normalisation are done to whole volumes, so the run would stop.

    What to do: wire VolumeFolder to CutVolumes, and TransformVolumes after CutVolumes: it takes the patches.
    """

    code = "VF490"
    severity = "error"
    title = "a cut after transforms"
