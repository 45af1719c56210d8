"""The engine's own rules, in the order of their codes; those of a node (VF4xx, VF5xx) are in the node's file.

    VF10x, VF11x  the graph: nodes, ports and wires
    VF15x         the catalogue of node types, and the compute profiles
    VF2xx         parameters and secrets
    VF3xx         files, disk and backends; most need an `Observation`

`voxelflow explain CODE` prints a docstring of this file. A code is never given to another rule.
"""

from __future__ import annotations

from engine.diagnostics.rule import Rule

# --- the graph -------------------------------------------------------------------------------------


class UnknownNodeType(Rule):
    """The pipeline has a node of a type that is not in the catalogue: the name is misspelled, the package that
    brings it is not installed, or it is one of the workspace's own and could not be loaded.

    What to do: compare the name with `voxelflow nodes`, and install the package or trust the workspace
    (`voxelflow nodes --trust`) if the type is missing there.
    """

    code = "VF101"
    severity = "error"
    title = "an unknown node type"


class WireToNowhere(Rule):
    """A wire begins or ends at a node that the pipeline does not have, often because the node was renamed or
    removed in the JSON and the wire was not.

    What to do: remove the wire from `edges`, or correct the node's id in it. Ids are case-sensitive.
    """

    code = "VF102"
    severity = "error"
    title = "a wire to a node that does not exist"


class NoSuchPort(Rule):
    """A wire names a port that the node's type does not have. A node with a single output calls it `out`.

    What to do: use one of the ports that the message lists; `voxelflow nodes TYPE` says what each is for.
    """

    code = "VF103"
    severity = "error"
    title = "a port that the node does not have"


class KindsDoNotFit(Rule):
    """A wire leads from an output to an input that takes another kind of dataset. Kinds are never converted
    silently: a folder of .npy files becomes a table by NumpyToParquet and ParquetToDelta.

    What to do: put the nodes that the message names between the two, or wire an output of the right kind.
    """

    code = "VF104"
    severity = "error"
    title = "a wire between kinds that do not fit"


class InputWiredTwice(Rule):
    """Two wires end at the same input. An input takes one dataset, so it would be chance which one is used.

    What to do: remove one of the two wires.
    """

    code = "VF105"
    severity = "error"
    title = "an input with two wires"


class InputNotWired(Rule):
    """The node needs a dataset at this input, and no wire leads there. Inputs that may stay open are marked
    "optional" in `voxelflow nodes TYPE`.

    What to do: wire an output of a kind that the message names to the input, or remove the node.
    """

    code = "VF106"
    severity = "error"
    title = "an input without a wire"


class Cycle(Rule):
    """The wires lead in a circle, or follow one: each of these nodes would have to run before itself.

    What to do: remove a wire of the circle, so that data flows one way. What repeats, like the epochs of a
    training, is done inside a node.
    """

    code = "VF107"
    severity = "error"
    title = "a cycle of nodes"


class EmptyPipeline(Rule):
    """The pipeline has no node, so there is nothing to run.

    What to do: add a node, or start from a template with `voxelflow new NAME`.
    """

    code = "VF108"
    severity = "error"
    title = "a pipeline without nodes"


class OtherVersionInstalled(Rule):
    """The pipeline was saved with another version of this node type than the one that is installed, which is used
    instead. Versions differ when the same input would give another result.

    What to do: look through the node's parameters, then save the pipeline; or install the package's version that
    has the node's.
    """

    code = "VF110"
    severity = "warning"
    title = "another version of a node type"


class TableChangedTwice(Rule):
    """Two nodes change the same table in place, with nothing that says which comes first. Side by side they could
    double or lose rows.

    What to do: put one after the other: wire the second to the output of the first.
    """

    code = "VF112"
    severity = "error"
    title = "a table that two nodes change"


class NodeLeftOut(Rule):
    """The node takes no part in a run: it is disabled or bypassed, or it needs a node that is. Results that it made
    before are kept, and are used again when it takes part.

    What to do: nothing, if that is meant. Else enable the node in the editor, or remove `"mode"` from it in the JSON. A
    bypassed node passes on what is wired to one of its inputs, to those whose input takes that kind.
    """

    code = "VF114"
    severity = "info"
    title = "a node that is left out"


class OnePlaceForTwo(Rule):
    """Two parameters name the same place to write to. The later result would overwrite or mix with the earlier.

    What to do: give one of them another place.
    """

    code = "VF113"
    severity = "error"
    title = "two results at one place"


# --- the catalogue ---------------------------------------------------------------------------------


class WorkspaceNotTrusted(Rule):
    """The workspace has node types of its own in `my_nodes/`. They are code that may do anything, so they are not
    loaded until you say so, and their types are missing.

    What to do: read the files, then run `voxelflow nodes --trust` once.
    """

    code = "VF150"
    severity = "warning"
    title = "node files that are not trusted"


class NodesNotLoaded(Rule):
    """A file of `my_nodes/` or an installed package failed when it was imported, so its node types or its volume
    formats are missing. All others are there. The message has the error and, for a file, its line.

    What to do: correct the file, or update or remove the package; then run `voxelflow nodes` to see it load.
    """

    code = "VF151"
    severity = "warning"
    title = "node types that could not be loaded"


class NodeTypeTwice(Rule):
    """Two places declare a node type of the same name and version. The first one is used: Voxelflow's own come
    before those of packages, and these before the workspace's.

    What to do: rename one, or give the newer one a higher `version`.
    """

    code = "VF152"
    severity = "warning"
    title = "a node type that is declared twice"


class PreviewFailed(Rule):
    """The function with which the node looks at its data before a run raised an error. The run may start, but what
    the node would have reported is unknown.

    What to do: report the message to the node's author; if you are the author, correct its `preview` function.
    """

    code = "VF153"
    severity = "warning"
    title = "a preview that failed"


class ProfileNotReadable(Rule):
    """`profiles.toml` of the workspace, or a profile in it, cannot be used. Pipelines still run with the others.

    What to do: correct the file at the place that the message names; `voxelflow profiles` shows when it is right.
    """

    code = "VF155"
    severity = "warning"
    title = "a compute profile that cannot be read"


# --- parameters ------------------------------------------------------------------------------------


class UnknownParameter(Rule):
    """The node has a value for a parameter that its type does not have. It is refused because a misspelled name
    would leave the real parameter at its default.

    What to do: use one of the names that the message lists, or remove the value.
    """

    code = "VF201"
    severity = "error"
    title = "an unknown parameter of a node"


class ValueMissing(Rule):
    """The parameter has no default, and the pipeline gives it no value.

    What to do: give it a value in the node's form, or in `params` of the JSON.
    """

    code = "VF202"
    severity = "error"
    title = "a parameter without a value"


class BadValue(Rule):
    """The value is of another type than the parameter, outside its limits, or not among its choices.

    What to do: choose a value that fits; `voxelflow nodes TYPE` lists types, limits, units and choices.
    """

    code = "VF203"
    severity = "error"
    title = "a value that the parameter cannot have"


class UnknownReference(Rule):
    """A value refers to a parameter of the pipeline as `${name}`, and the pipeline has none of that name.

    What to do: add the name to the pipeline's `parameters`, or correct the reference.
    """

    code = "VF204"
    severity = "error"
    title = "a reference to an unknown pipeline parameter"


class ReferenceWithoutValue(Rule):
    """The node takes its value from a parameter of the pipeline that has none in the document: it must be given
    with each run.

    What to do: give it with `--set name=value` or in the editor's run bar, or save a value in the pipeline.
    """

    code = "VF205"
    severity = "error"
    title = "a pipeline parameter without a value"


class SecretNotSet(Rule):
    """The parameter names an environment variable that holds a secret, and the variable is not set. Documents and
    records hold the name alone.

    What to do: set the variable where Voxelflow is started, for the editor before `voxelflow studio`; then run again.
    """

    code = "VF206"
    severity = "error"
    title = "a secret that is not set"


class UnknownSetting(Rule):
    """A value was given with `--set`, or from a notebook, for a parameter that neither the pipeline nor the named node
    has. `name=value` sets a parameter of the pipeline, `node.parameter=value` one of a node.

    What to do: use one of the names that the message lists, or add a parameter to the pipeline and refer to it in
    the nodes that share it as `${name}`.
    """

    code = "VF207"
    severity = "error"
    title = "a setting that the pipeline does not have"


# --- files, disk and backends ----------------------------------------------------------------------


class PathMissing(Rule):
    """There is nothing at the path that the node is to read.

    What to do: check the spelling. A relative path starts at the folder in which the command was started.
    """

    code = "VF301"
    severity = "error"
    title = "a path that does not exist"


class PathNotReadable(Rule):
    """The file or folder is there and cannot be read; the message has the reason. For object storage that may be
    the access rights, the network, or a kind of URL that is not supported.

    What to do: correct what the message names: permissions of the path and the folders above it, or credentials.
    """

    code = "VF302"
    severity = "error"
    title = "a path that cannot be read"


class PlaceNotWritable(Rule):
    """A result cannot be written where it should be: no permission, a file where a folder must be made, or a
    storage root that is not reachable. Found now, it does not cost hours of work at the end.

    What to do: choose another place in the parameter, another `--workspace`, or another `storage_root` in the
    profile; or correct the permissions.
    """

    code = "VF303"
    severity = "error"
    title = "a place that cannot be written"


class DiskTooSmall(Rule):
    """The results that the pipeline will make are larger than the free disk space. Results that are up to date and
    tables made by hard link count as nothing.

    What to do: free some space (`voxelflow clean` lists what belongs to which node), or use a workspace or a
    profile's `storage_root` on another disk.
    """

    code = "VF304"
    severity = "error"
    title = "too little free disk space"


class WrongKindOfPath(Rule):
    """The node needs a folder and the path is a file, or the reverse.

    What to do: name the folder that holds the file, or the file itself.
    """

    code = "VF305"
    severity = "error"
    title = "a file in place of a folder, or the reverse"


class NothingMatches(Rule):
    """The folder is there, and no file in it matches the patterns that the node reads.

    What to do: choose the folder that holds such files, at any depth if the pattern begins with `**/`.
    """

    code = "VF306"
    severity = "error"
    title = "a folder without matching files"


class NotOnThisBackend(Rule):
    """The node's type has no variant for the backend of the chosen profile. It is not moved to one machine
    silently: that could take a cluster's data through a single process.

    What to do: use a node type or a profile that the message names. The author of the type can add a variant with
    `@my_node.on("spark")`, or declare `anywhere="..."` where one machine is enough.
    """

    code = "VF307"
    severity = "error"
    title = "a node that cannot run on the backend"


class OutsideAllowedFolders(Rule):
    """The document names a path outside the workspace and the current directory. Documents come from other people
    too, so they may read and write only where you allow it.

    What to do: give the path with `--set`, which allows it for this run, or list its folder under "data_roots" in
    workspace.json.
    """

    code = "VF308"
    severity = "error"
    title = "a path outside the allowed folders"


class OutsideStorageRoot(Rule):
    """A task on a cluster will read an earlier result that was made elsewhere than in the profile's storage root.
    Executors on other machines may not see it, and the run would fail there.

    What to do: nothing if all machines see the path; else run with `--from NODE` for the node that made it.
    """

    code = "VF309"
    severity = "warning"
    title = "an input outside the profile's storage"


class DiskMayBeTooSmall(Rule):
    """The results fit on the disk, but not if a table must be rewritten whole: the old files stay until no version
    in use needs them, so at worst the table takes its size twice. Most rewrites touch a part of the table.

    What to do: nothing if the table has few small files; else free some space (`voxelflow clean` lists what belongs
    to which node), or use a workspace on another disk.
    """

    code = "VF310"
    severity = "warning"
    title = "too little disk space for a whole rewrite"


class PackageMissing(Rule):
    """A node that will run, or the profile's backend, needs a package that is not installed. The base installs what
    the storage nodes need; extras bring the rest: `train`, `spark`, `petastorm`, `studio`, `mlflow`, or `all`.
    Nodes whose results are cached need nothing.

    What to do: run the command that the message gives, in the environment that Voxelflow runs in.
    """

    code = "VF311"
    severity = "error"
    title = "a package that is not installed"


class NotRunFromHere(Rule):
    """The chosen profile is a place that takes whole jobs: Databricks starts its clusters itself, and no run on this
    machine could use one as its executors.

    What to do: write the job with `voxelflow export PIPELINE --to databricks --profile NAME` (or Export in the
    editor's menu), and deploy it with Databricks' command line; or choose another profile.
    """

    code = "VF312"
    severity = "error"
    title = "a profile that takes jobs, not runs"


class PassedOver(Rule):
    """A folder holds what the node does not read, though it may belong to it: volumes of another format than the one
    that is taken, files whose ending mixes small letters and capitals (`.Nii`), or links that are not followed: their
    content was not fetched by git-annex or DVC, their target is missing or may not be opened, or they lead to
    themselves or to a folder around this one. It is neither converted nor put aside. There is one warning for each of
    these reasons.

    What to do: nothing where you know of it. Else what the warning says: it names the files and has the command, such
    as `git annex get`, `dvc pull`, `mv` or `rm`.
    """

    code = "VF313"
    severity = "warning"
    title = "files or links of a folder that are left out"


class ExecutorsChange(Rule):
    """Training needs its executors from the first step to the last, also with one worker: it is a barrier stage, whose
    tasks Spark starts all at once. Spark refuses such a stage while it adds and removes executors by itself (dynamic
    allocation), so the run would end there, after the nodes before it have done their work.

    What to do: choose a profile with a fixed number of executors (`spark.executor.instances`) for the node; what was
    converted on the other is used again. Or set `spark.dynamicAllocation.enabled` to false in the profile.
    """

    code = "VF314"
    severity = "error"
    title = "a training on executors that come and go"
