// Made from ui/protocol/ by `npm run types`. Do not edit.

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
export type Notice =
  | Welcome
  | Library
  | Opened
  | Edited
  | FileState
  | Checked
  | RunForecast
  | RunShown
  | StatusChanged
  | LogLines
  | Listing
  | Exported
  | Versions
  | VersionRead
  | SweepForecast
  | Message
  | Others;
export type Command =
  | Hello
  | Seen
  | OpenDocument
  | NewDocument
  | MakeEdit
  | Save
  | SaveAs
  | Rename
  | Duplicate
  | Delete
  | Revert
  | Import
  | Export
  | ExportCode
  | ListVersions
  | ReadVersion
  | KeepDraft
  | AllowFolder
  | StartRun
  | StartSweep
  | ForecastSweep
  | CancelRun
  | ResumeRun
  | Watch
  | Browse
  | Choose
  | Recheck;

/**
 * Let the workspace's pipelines use a folder or URL outside it: a path as a document has it, from now on.
 */
export type AllowFolder = {
  type: 'allow-folder';
  path: string;
};
/**
 * List a folder; None lists the folders that the workspace may use, and where else one may look.
 */
export type Browse = {
  type: 'browse';
  request: number;
  path: string | null;
};
/**
 * Cancel a run.
 */
export type CancelRun = {
  type: 'cancel';
  run_id: string;
};
/**
 * A few volumes of the panel `panel`, for a card; none where there are none.
 */
export type CardPicture = {
  panel: string;
  items: GalleryItem[];
};
/**
 * One volume of a gallery. `row` is what `Gallery.volume` takes; `label` is None while it is not known.
 */
export type GalleryItem = {
  row: number;
  id: string;
  label: string | null;
  note: string;
};
/**
 * What became of a node or a wire from one document to another; `detail` says what of a node is otherwise.
 */
export type Change = {
  change: 'added' | 'removed' | 'changed';
  detail: string;
};
/**
 * Numbers to draw.
 *
 * "bars": one bar for each of `x`, of a height in the only series. "histogram": the same, `x` are the edges of the
 * bins, one more than values. "lines": series over `x`. "matrix": series are rows, `x` the columns. "scatter": a point
 * for each of `x`, at a height in the only series; both are of one quantity, so the axes have the same range, and a
 * line is where they are equal.
 */
export type Chart = {
  title: string;
  kind: 'bars' | 'histogram' | 'lines' | 'matrix' | 'scatter';
  x: (number | string)[];
  series: {
    [k: string]: (number | null)[];
  };
  x_title: string;
  y_title: string;
  note: string;
};
/**
 * The charts of a panel, in their order.
 */
export type Charts = {
  charts: Chart[];
};
/**
 * The problems of revision `rev`. By `node.port`: `previews` says in words what is known to come out, and `views`
 * has the keys of what is there already and can be looked at. By node: `does` says what it does, where it says so.
 * `listed` once all folders have been listed: until then there may be more to look at.
 */
export type Checked = {
  type: 'checked';
  document: string;
  rev: number;
  problems: Problem[];
  previews: {
    [k: string]: string;
  };
  views: {
    [k: string]: string;
  };
  does: {
    [k: string]: string;
  };
  listed: boolean;
};
/**
 * A diagnostic, as `engine.diagnostics.rule.Diagnostic`.
 */
export type Problem = {
  code: string;
  severity: 'error' | 'warning' | 'info';
  message: string;
  hint: string;
  node: string | null;
  port: string | null;
  parameter: string | null;
};
/**
 * A question that a panel asks the person; the first of the `options` is taken until another one is chosen.
 */
export type Choice = {
  name: string;
  title: string;
  options: Option[];
};
/**
 * One answer to a `Choice`: its value, and the words for it.
 */
export type Option = {
  value: string;
  text: string;
};
/**
 * The questions of a panel.
 */
export type Choices = {
  choices: Choice[];
};
/**
 * The compute profile that the tab's next run will take: problems and forecasts are those for it.
 */
export type Choose = {
  type: 'choose';
  profile: string;
};
/**
 * A dataset type: `light` and `dark` are the colours (`#rrggbb`) of its ports and wires in either theme, `pictured`
 * whether cards show thumbnails of it.
 */
export type DatasetTypeInfo = {
  kind: string;
  title: string;
  summary: string;
  light: string;
  dark: string;
  pictured: boolean;
};
/**
 * Move the document and its draft to the trash.
 */
export type Delete = {
  type: 'delete';
  document: string;
};
/**
 * A pipeline as the canvas edits it. Same content as `engine.document.pipeline.Pipeline`.
 */
export type Doc = {
  name: string;
  description: string;
  parameters: {
    [k: string]: DocParameter;
  };
  nodes: {
    [k: string]: DocNode;
  };
  edges: {
    [k: string]: DocEdge;
  };
  annotations: {
    [k: string]: DocAnnotation;
  };
  ui: {
    [k: string]: JsonValue;
  };
};
/**
 * A parameter of the pipeline.
 */
export type DocParameter = {
  value: JsonValue;
  help: string;
};
/**
 * A node; its id is its key in `Doc.nodes`. `order` is its place among the file's nodes.
 */
export type DocNode = {
  type: string;
  version: number | null;
  title: string;
  params: {
    [k: string]: JsonValue;
  };
  position: DocPosition;
  retries: number;
  timeout_s: number | null;
  mode: 'run' | 'disabled' | 'bypass';
  ui: {
    [k: string]: JsonValue;
  };
  order: number;
};
/**
 * The node's top left corner, in pixels at zoom 1.
 */
export type DocPosition = {
  x: number;
  y: number;
};
/**
 * A wire between two ends, each written `node.port`; its key in `Doc.edges` is `source->target`.
 */
export type DocEdge = {
  source: string;
  target: string;
  order: number;
};
/**
 * A frame or a note; its id is its key in `Doc.annotations`. `text` is the frame's title or the note's text.
 */
export type DocAnnotation = {
  kind: 'frame' | 'note';
  text: string;
  colour: 'grey' | 'blue' | 'green' | 'amber' | 'red' | 'violet';
  position: DocPosition;
  width: number;
  height: number;
  order: number;
};
/**
 * Copy the draft into a new document.
 */
export type Duplicate = {
  type: 'duplicate';
  document: string;
};
/**
 * An edit was applied, by this tab or another: `rev` counts them.
 */
export type Edited = {
  type: 'edited';
  document: string;
  rev: number;
  edit: string;
  ops: Op[];
};
/**
 * Set what lies at `path` to `value`, or delete it with `remove`.
 *
 * Paths: ["description"], ["ui", key], ["parameters", name] and ["parameters", name, "value" | "help"],
 * ["edges", key], ["nodes", id] (a whole `DocNode`), ["nodes", id, field] and ["nodes", id, "params" | "ui",
 * key], ["annotations", id] and ["annotations", id, field]. An op inside what is no longer there does
 * nothing. A node that is removed takes its wires along; a wire that is set takes the place of another in
 * its input, and is not made without both its nodes. None of that counts for the wires with the keys `exempt`:
 * what is undone or restored gets back also the wires that nobody could draw.
 */
export type Op = {
  path: string[];
  value: JsonValue;
  remove: boolean;
  exempt?: string[];
};
/**
 * A file or folder in the file browser. `bytes` of files, `items` of folders (None: not counted).
 */
export type Entry = {
  name: string;
  path: string;
  kind: 'file' | 'folder';
  bytes: number | null;
};
/**
 * What is expected of a sweep in words: its `name` is "time", "cost", "time and cost" or "not counted".
 */
export type ExpectedPart = {
  name: string;
  text: string;
};
/**
 * Ask for the draft's canonical text.
 */
export type Export = {
  type: 'export';
  document: string;
};
/**
 * Ask for the draft as a program, or as what a platform takes: what `voxelflow export --to TARGET` writes.
 */
export type ExportCode = {
  type: 'export-code';
  document: string;
  profile: string;
  target: 'python' | 'airflow' | 'databricks' | 'github' | 'kubernetes';
};
/**
 * The draft's canonical text or code, to be downloaded under `name`; with `packed`, a zip file as base64.
 */
export type Exported = {
  type: 'exported';
  name: string;
  text: string;
  packed: boolean;
};
/**
 * Why a task failed.
 */
export type FailureInfo = {
  code: string;
  message: string;
  hint: string;
  parameter: string | null;
};
/**
 * One parameter as a form draws it.
 *
 * `type` is that of the value, or with `many` of a list's items; "any" is JSON where the text is JSON, else text. The
 * value must keep all `rules`, in this order. `hint` is shown below the field after its help, `placeholder` in it
 * while it is empty and has no default. `step` is how far an arrow key moves a number (None: as far
 * as suits its size).
 */
export type FieldInfo = {
  name: string;
  title: string;
  help: string;
  required: boolean;
  default: JsonValue;
  optional: boolean;
  type: ('bool' | 'int' | 'float' | 'str') | 'any';
  many: boolean;
  rules: RuleInfo[];
  widget: 'text' | 'number' | 'choice' | 'switch' | 'automatic' | 'list' | 'path' | 'secret';
  unit: string;
  step: number | null;
  path: PathInfo | null;
  hint: string;
  placeholder: string;
  policy: boolean;
  extendable: boolean;
  advanced: boolean;
};
/**
 * One thing that the value must be, as `engine.declare.field_rules.Rule`; `message` is said when it is not.
 */
export type RuleInfo = {
  check: 'list' | 'type' | 'filled' | 'one_of' | 'at_least' | 'at_most' | 'pattern';
  value: JsonValue;
  message: string;
};
/**
 * A path that a node reads or writes.
 */
export type PathInfo = {
  access: 'read' | 'write';
  kind: 'file' | 'folder';
  patterns: string[];
};
/**
 * How the draft compares with its file. `disk`: "new" has no file yet, "changed" and "deleted" by someone else.
 */
export type FileState = {
  type: 'file';
  document: string;
  path: string;
  dirty: boolean;
  disk: 'new' | 'same' | 'changed' | 'deleted';
};
/**
 * Ask what such a sweep of the draft would run, and what that would take.
 */
export type ForecastSweep = {
  document: string;
  profile: string;
  end: string | null;
  values: {
    [k: string]: string;
  };
  jobs: number;
  search: Search | null;
  type: 'forecast-sweep';
  request: number;
};
/**
 * A search of a sweep's values: so many trials, for the highest or the lowest of a figure such as `val_auc`.
 */
export type Search = {
  trials: number;
  figure: string;
  maximise: boolean;
};
/**
 * The figure that says most of how good a dataset is, by its name in words: `Validation AUC`.
 */
export type Headline = {
  name: string;
  value: number;
};
/**
 * The canvas is there, anew or again after the connection was lost; `document` is what it shows.
 */
export type Hello = {
  type: 'hello';
  document: string | null;
};
/**
 * A pipeline's JSON text from the person's computer; `name` is its file's name.
 */
export type Import = {
  type: 'import';
  name: string;
  text: string;
};
/**
 * What Python says, oldest first: what is new, and after a lost connection all that was not seen.
 *
 * `handled` is the number of the last command of `client` that was handled. A `session` the
 * browser does not know means a new link: it says Hello and sends again what is not handled.
 */
export type Inbox = {
  session: string;
  client: string;
  handled: number;
  posted: Posted[];
};
/**
 * A notice with its number.
 */
export type Posted = {
  n: number;
  notice: Notice;
};
/**
 * First word of a session. `types` and `datasets` are the catalogue, `problems` what is wrong with it; `ran` is
 * False in a workspace that has no runs.
 */
export type Welcome = {
  type: 'welcome';
  types: NodeTypeInfo[];
  datasets: DatasetTypeInfo[];
  problems: Problem[];
  profiles: ProfileInfo[];
  workspace: string;
  version: string;
  ran: boolean;
};
/**
 * A node type; `origin` is the module or file that declares it.
 *
 * `light` and `dark` are the colours (`#rrggbb`) of its category in either theme, `icon` the data of an SVG path,
 * drawn with a line of 2 on a square of 24. `keywords` find it as well as its texts do.
 */
export type NodeTypeInfo = {
  type: string;
  version: number;
  category: string;
  light: string;
  dark: string;
  icon: string;
  keywords: string[];
  summary: string;
  description: string;
  origin: string;
  backends: string[];
  inputs: PortInfo[];
  outputs: PortInfo[];
  fields: FieldInfo[];
};
/**
 * A port of a node type; `kinds` are the dataset types that fit.
 */
export type PortInfo = {
  name: string;
  kinds: string[];
  required: boolean;
  help: string;
};
/**
 * A compute profile.
 *
 * `price` is what an hour costs, None where that is not known; `priced` says where it is from and what is in
 * it, or why it is not known.
 * `stop_after` and `stop_at_cost` limit each run that is given no limit of its own; "" and None: they do not.
 */
export type ProfileInfo = {
  name: string;
  backend: string;
  description: string;
  price: number | null;
  currency: string;
  priced: string;
  stop_after: string;
  stop_at_cost: number | null;
};
/**
 * The pipelines of the workspace, and the templates.
 */
export type Library = {
  type: 'library';
  pipelines: PipelineInfo[];
  templates: TemplateInfo[];
};
/**
 * A pipeline of the workspace. `unsaved` means a draft differs from the file (or there is no file yet).
 */
export type PipelineInfo = {
  document: string;
  name: string;
  description: string;
  modified: number | null;
  unsaved: boolean;
  problem: string;
};
/**
 * A pipeline to begin with; `nodes` is how many it has.
 */
export type TemplateInfo = {
  template: string;
  name: string;
  description: string;
  nodes: number;
};
/**
 * The tab now shows this document. `edits` are the ids of the latest edits that `doc` holds already.
 */
export type Opened = {
  type: 'opened';
  document: string;
  rev: number;
  doc: Doc;
  edits: string[];
};
/**
 * What a run of revision `rev` would do, by node.
 */
export type RunForecast = {
  type: 'forecast';
  document: string;
  rev: number;
  nodes: {
    [k: string]: NodeForecast;
  };
};
/**
 * What a run would do with a node: nothing (`fresh`), or work, and why.
 *
 * `backend` is where it would work, with the reason when that is not this machine's as ever. `advice` says of a
 * training how long it takes under the profile and where it would be better; "" of other nodes. All of the node's work
 * takes `low_s` to `high_s` seconds, None where that is not known; `basis` says how it is known, or why not.
 * `requests` is what a training pays for requests to object storage; None where its volumes lie here.
 */
export type NodeForecast = {
  fresh: boolean;
  reason: string;
  backend: string;
  backend_reason: string;
  advice: string;
  low_s: number | null;
  high_s: number | null;
  basis: string;
  requests: RequestCostInfo | null;
  last: Last | null;
};
/**
 * What a training's requests to a container cost, or cost at most; `amount` is None where that is not known.
 */
export type RequestCostInfo = {
  place: string;
  amount: number | null;
  currency: string;
  at_most: boolean;
};
/**
 * What a node last made, whichever run it was. `made` sums its outputs up in words.
 */
export type Last = {
  run_id: string;
  created: number;
  made: string;
  outputs: OutputInfo[];
};
/**
 * A dataset that a node made: its figures in words, and where it lies.
 *
 * `view` is the key under which it can be looked at; "" when there is nothing to see.
 */
export type OutputInfo = {
  port: string;
  kind: string;
  uri: string;
  figures: string;
  view: string;
  headline: Headline | null;
};
/**
 * The newest run of the document, or none.
 */
export type RunShown = {
  type: 'run';
  document: string;
  run: RunInfo | null;
};
/**
 * The run that is shown. Times are seconds since the epoch; `paused` is the number of seconds between its attempts.
 *
 * `changes` says how the document differs by now from what the run runs, or ran; "" when it does not. `given` are the
 * values that it alone was given and that the document has otherwise, such as `volumes = 160`; "" without any.
 * `limit` is the time or the cost at which it is stopped, in words, "" without one; `limited`: it was stopped there.
 * `figures` are those of a run that is done, compared with the run of the id `against` ("" for none); of a run that
 * has trained nothing, those of the table that it made.
 */
export type RunInfo = {
  run_id: string;
  state: 'starting' | 'running' | 'stuck' | 'done' | 'failed' | 'cancelled' | 'lost';
  profile: string;
  error: string;
  created: number;
  started: number | null;
  ended: number | null;
  paused: number;
  cancelling: boolean;
  changes: string;
  given: string;
  limit: string;
  limited: boolean;
  figures: RunFigure[];
  against: string;
};
/**
 * A figure of what a run made. `title` is the node's name, `before` the figure in the run before; `better` is None
 * when it is the same or there was none. `unit` says what is counted where that is no mere number.
 */
export type RunFigure = {
  node: string;
  title: string;
  name: string;
  value: number;
  before: number | null;
  better: boolean | null;
  unit: '' | 'bytes';
};
/**
 * States of nodes in a run: those that changed, or with `whole` all of them.
 */
export type StatusChanged = {
  type: 'status';
  run_id: string;
  whole: boolean;
  nodes: {
    [k: string]: NodeStatus;
  };
};
/**
 * A node's task in the run that is shown. Times are seconds since the epoch.
 *
 * `curve` is the loss of a training so far, a few points.
 */
export type NodeStatus = {
  state: 'queued' | 'waiting' | 'running' | 'done' | 'cached' | 'failed' | 'cancelled' | 'skipped';
  reason: string;
  attempt: number;
  started: number | null;
  ended: number | null;
  progress: ProgressInfo | null;
  made: string;
  outputs: OutputInfo[];
  curve: number[];
  failure: FailureInfo | null;
};
/**
 * A task's progress: `rate` in units a second.
 *
 * `seconds_left` and `share` (0 to 1) are those of the whole task, where they are known; the others count within
 * `phase`, when there is one. `counts`: there is something to count.
 */
export type ProgressInfo = {
  done: number;
  total: number | null;
  unit: string;
  label: string;
  rate: number | null;
  seconds_left: number | null;
  phase: string;
  share: number | null;
  counts: boolean;
};
/**
 * Further lines of the watched node's log; with `reset` they replace what stood there.
 */
export type LogLines = {
  type: 'log';
  run_id: string;
  node: string;
  reset: boolean;
  lines: LogLine[];
};
/**
 * A line of a log; `time` is seconds since the epoch.
 */
export type LogLine = {
  time: number | null;
  level: 'info' | 'warning' | 'error' | 'output';
  text: string;
};
/**
 * Answer to `Browse`. `parent` is None at the top; `problem` says why there is nothing.
 *
 * `allowed`: pipelines of this workspace may use the folder. `elsewhere` is where one may look outside of what they
 * may use; empty when the app shows nothing of that.
 */
export type Listing = {
  type: 'listing';
  request: number;
  path: string | null;
  parent: string | null;
  entries: Entry[];
  truncated: boolean;
  allowed: boolean;
  elsewhere: Entry[];
  problem: string;
};
/**
 * Answer to `ListVersions`, the newest first.
 */
export type Versions = {
  type: 'versions';
  request: number;
  versions: VersionInfo[];
};
/**
 * What a save wrote, `saved` in seconds since the epoch. `unsaved`: a draft that a restored version replaced.
 */
export type VersionInfo = {
  version: string;
  saved: number;
  unsaved: boolean;
  nodes: number;
  problem: string;
};
/**
 * Answer to `ReadVersion`: the document, or the `problem` with it.
 */
export type VersionRead = {
  type: 'version';
  request: number;
  doc: Doc | null;
  problem: string;
};
/**
 * Answer to `ForecastSweep`: how many trials there would be, the nodes that run, the time and cost of all (nothing
 * where nothing runs), and how these are known. `problem` says why there can be no such sweep.
 */
export type SweepForecast = {
  type: 'sweep-forecast';
  request: number;
  trials: number;
  nodes: SweepNode[];
  expected: ExpectedPart[];
  notes: string[];
  problem: string;
};
/**
 * A node that runs in a sweep: in how many of its trials; None: not all of them were planned.
 */
export type SweepNode = {
  node: string;
  times: number | null;
};
/**
 * Something a person should read: the outcome of a command, a refusal with its hint.
 */
export type Message = {
  type: 'message';
  level: 'info' | 'success' | 'warning' | 'error';
  text: string;
  hint: string;
  node: string | null;
  parameter: string | null;
};
/**
 * How many other tabs have this document open.
 */
export type Others = {
  type: 'others';
  document: string;
  count: number;
};
/**
 * Keep the draft as a version: another one is about to take its place.
 */
export type KeepDraft = {
  type: 'keep-draft';
  document: string;
};
/**
 * List what each save of the document wrote.
 */
export type ListVersions = {
  type: 'list-versions';
  request: number;
  document: string;
};
/**
 * A button that opens the dataset with the key `view`, as the editor does; `title` says what it is.
 */
export type Look = {
  view: string;
  title: string;
};
/**
 * Datasets to look at within a page of the app: the component's `data` there.
 */
export type LookAt = {
  look: PortView[];
};
/**
 * A dataset at an output port, and the key to look at it.
 */
export type PortView = {
  port: string;
  key: string;
};
/**
 * One step of the person's. `edit` names it, so that it is applied once however often it is sent.
 */
export type MakeEdit = {
  type: 'edit';
  document: string;
  edit: string;
  ops: Op[];
};
/**
 * A new pipeline, empty or from a template.
 */
export type NewDocument = {
  type: 'new';
  template: string | null;
};
/**
 * Show another document in this tab.
 */
export type OpenDocument = {
  type: 'open';
  document: string;
};
/**
 * What the browser says, oldest first: what is new, and after a lost connection all that was not handled.
 *
 * `client` names the page (a reload is a new one), `session` the link that `seen` belongs to,
 * `seen` is the number of the last notice that arrived.
 */
export type Outbox = {
  client: string;
  session: string;
  seen: number;
  sent: Sent[];
};
/**
 * A command with its number.
 */
export type Sent = {
  n: number;
  command: Command;
};
/**
 * Nothing to say, but `Outbox.seen` has moved on.
 */
export type Seen = {
  type: 'seen';
};
/**
 * Write the draft to its file. Refused when the file was changed by someone else, unless `overwrite`.
 */
export type Save = {
  type: 'save';
  document: string;
  overwrite: boolean;
};
/**
 * Write the draft to a new file under another name.
 */
export type SaveAs = {
  type: 'save-as';
  document: string;
  name: string;
};
/**
 * Give the document another name; its file follows.
 */
export type Rename = {
  type: 'rename';
  document: string;
  name: string;
};
/**
 * Drop the draft and take what the file holds.
 */
export type Revert = {
  type: 'revert';
  document: string;
};
/**
 * Ask for one of these versions.
 */
export type ReadVersion = {
  type: 'read-version';
  request: number;
  document: string;
  version: string;
};
/**
 * Run the draft: all of it, from or to a node; `values` set pipeline parameters for this run.
 *
 * `limit` is the run's own; None: that of the profile.
 */
export type StartRun = {
  type: 'run';
  document: string;
  profile: string;
  start: string | null;
  end: string | null;
  fresh: boolean;
  values: {
    [k: string]: JsonValue;
  };
  limit: RunLimit | null;
};
/**
 * A run, or a whole sweep, is stopped after a time such as `3h`, or at a cost; "" and None: it is not.
 */
export type RunLimit = {
  stop_after: string;
  stop_at_cost: number | null;
};
/**
 * Run the draft with these values. `limit` is that of all trials together; that of the profile is each trial's.
 */
export type StartSweep = {
  document: string;
  profile: string;
  end: string | null;
  values: {
    [k: string]: string;
  };
  jobs: number;
  search: Search | null;
  type: 'sweep';
  limit: RunLimit | null;
};
/**
 * Go on with a run that did not end well.
 */
export type ResumeRun = {
  type: 'resume';
  run_id: string;
};
/**
 * Stream the log of this node's task (None: of none).
 */
export type Watch = {
  type: 'watch';
  node: string | null;
};
/**
 * Look again at folders, tables and the cache.
 */
export type Recheck = {
  type: 'recheck';
  document: string;
};
/**
 * A panel as the editor gets it. `shape` and `dtype` are those of a gallery's volumes.
 */
export type PanelInfo = {
  name: string;
  kind: 'gallery' | 'table' | 'charts' | 'document';
  title: string;
  shape: number[];
  dtype: string;
};
/**
 * Volumes to show; `total` counts all that the choices leave, None when they were not counted.
 */
export type Picked = {
  items: GalleryItem[];
  total: number | null;
};
/**
 * The graph of `doc` with the states of a run, or with `changes` by node and by wire.
 *
 * `types` are those that the document's nodes have. `names` are what is compared, the former first; `chosen` is the
 * node that the page speaks of.
 */
export type Picture = {
  doc: Doc;
  types: NodeTypeInfo[];
  datasets: DatasetTypeInfo[];
  run: RunInfo | null;
  status: {
    [k: string]: NodeStatus;
  };
  changes: {
    [k: string]: Change;
  } | null;
  names: string[];
  chosen: string | null;
};
/**
 * A column of a table. `unit` "bytes" and "time" (seconds since the epoch) are shown as such.
 */
export type TableColumn = {
  title: string;
  unit: string;
};
/**
 * Rows of a table from `offset` on; `total` counts all of them.
 */
export type TablePage = {
  columns: TableColumn[];
  rows: TableRow[];
  offset: number;
  total: number;
  note: string;
};
/**
 * A row of a table, and what a click on it shows: `volume`, a row of the view's gallery, or `opens`, a `Dataset`
 * (in the browser its key).
 */
export type TableRow = {
  cells: (string | number | null)[];
  volume: number | null;
  opens: string | null;
};
/**
 * What the canvas connects with: the component's `data`.
 */
export type Ticket = {
  ticket: string;
};
/**
 * A view as the editor gets it: the dataset's kind, its place, and its figures in words.
 */
export type ViewInfo = {
  kind: string;
  title: string;
  uri: string;
  facts: {
    [k: string]: number | string;
  };
  panels: PanelInfo[];
};

/** Where the canvas connects. */
export const CANVAS_PATH: string = 'voxelflow/canvas';

/** Where datasets are looked at. */
export const VIEW_PATH: string = 'voxelflow/view';

/** Colours at equal distances from the least value to the greatest. */
export const COLOUR_MAPS: Readonly<Record<'grey' | 'seismic' | 'viridis', readonly string[]>> = {
  grey: ['#000000', '#ffffff'],
  seismic: ['#00004d', '#0000ff', '#ffffff', '#ff0000', '#800000'],
  viridis: [
    '#440154',
    '#482878',
    '#3e4989',
    '#31688e',
    '#26828e',
    '#1f9e89',
    '#35b779',
    '#6ece58',
    '#b5de2b',
    '#fde725',
  ],
};

/** Of the larger side of zero: from there on values have both signs. */
export const SMALLER_SIDE: number = 0.25;

/** Offered along with the ticket: unlike an address, it ends up in no log. */
export const SUBPROTOCOL: string = 'voxelflow';

/** Python sends something this often. */
export const HEARTBEAT_S: number = 20;

/** Commands that a new session is not sent again. */
export const NOT_RESENT: readonly Command['type'][] = [
  'hello',
  'seen',
  'export',
  'export-code',
  'list-versions',
  'read-version',
  'run',
  'sweep',
  'forecast-sweep',
  'cancel',
  'resume',
  'watch',
  'browse',
];

/** Ids of nodes, names of pipeline parameters. */
export const ID_PATTERN: string = '^[A-Za-z_][A-Za-z0-9_-]{0,63}$';

/** Characters in a pipeline's name. */
export const MAX_NAME: number = 300;

/** Said where a value is missing. */
export const NEEDS_A_VALUE: string = 'needs a value';

/** How a node is run, whatever it does. */
export const POLICY_FIELDS: Readonly<Record<'retries' | 'timeout_s', FieldInfo>> = {
  retries: {
    name: 'retries',
    title: 'Retries',
    help: 'how often to try again after a failure',
    required: false,
    default: 0,
    optional: false,
    type: 'int',
    many: false,
    rules: [
      { check: 'type', value: 'int', message: 'must be a whole number' },
      { check: 'at_least', value: 0, message: 'must be at least 0' },
      { check: 'at_most', value: 100, message: 'must be at most 100' },
    ],
    widget: 'number',
    unit: '',
    step: null,
    path: null,
    hint: '',
    placeholder: '',
    policy: false,
    extendable: false,
    advanced: false,
  },
  timeout_s: {
    name: 'timeout_s',
    title: 'Time limit',
    help: 'an attempt that takes longer is stopped',
    required: false,
    default: null,
    optional: true,
    type: 'float',
    many: false,
    rules: [
      { check: 'type', value: 'float', message: 'must be a number' },
      { check: 'at_least', value: 1, message: 'must be at least 1 s' },
    ],
    widget: 'number',
    unit: 's',
    step: null,
    path: null,
    hint: '',
    placeholder: '',
    policy: false,
    extendable: false,
    advanced: false,
  },
};

/** A parameter of the pipeline whose type no node says. */
export const FREE_FIELD: FieldInfo = {
  name: '',
  title: '',
  help: '',
  required: false,
  default: null,
  optional: true,
  type: 'any',
  many: false,
  rules: [],
  widget: 'text',
  unit: '',
  step: null,
  path: null,
  hint: '',
  placeholder: '',
  policy: false,
  extendable: false,
  advanced: false,
};
