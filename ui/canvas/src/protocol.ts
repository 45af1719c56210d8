// Made from ui/protocol/ by `npm run types`. Do not edit.

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
export type Notice =
  | Welcome
  | Library
  | Opened
  | Edited
  | FileState
  | Checked
  | Foreseen
  | RunShown
  | StatusChanged
  | LogLines
  | Listing
  | Exported
  | Told
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
  | StartRun
  | CancelRun
  | ResumeRun
  | Watch
  | Browse
  | Choose
  | Recheck;

/**
 * List a folder inside the allowed roots; None lists the roots.
 */
export type Browse = {
  type: 'browse';
  request: number;
  path: string | null;
};
export type CancelRun = {
  type: 'cancel';
  run_id: string;
};
/**
 * The problems of revision `rev`. `previews` says by `node.port` what is known to come out, in words.
 */
export type Checked = {
  type: 'checked';
  document: string;
  rev: number;
  problems: Problem[];
  previews: {
    [k: string]: string;
  };
};
/**
 * A diagnostic, as `engine.diagnostics.Diagnostic`.
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
 * The compute profile that the tab's next run will take: problems and the outlook are told for it.
 */
export type Choose = {
  type: 'choose';
  profile: string;
};
export type Delete = {
  type: 'delete';
  document: string;
};
/**
 * A pipeline as the canvas edits it. Same content as `engine.pipeline.Pipeline`.
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
  ui: {
    [k: string]: JsonValue;
  };
};
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
 * Set what lies at `path` to `value`, or take it away with `remove`.
 *
 * Paths: ["description"], ["ui", key], ["parameters", name], ["edges", key], ["nodes", id] (a whole
 * `DocNode`), ["nodes", id, field] and ["nodes", id, "params" | "ui", key]. An op inside a node
 * that is no longer there does nothing.
 */
export type Op = {
  path: string[];
  value: JsonValue;
  remove: boolean;
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
export type Export = {
  type: 'export';
  document: string;
};
/**
 * The draft's canonical text, to be downloaded under `name`.
 */
export type Exported = {
  type: 'exported';
  name: string;
  text: string;
};
export type FailureInfo = {
  code: string;
  message: string;
  hint: string;
  parameter: string | null;
};
/**
 * One parameter as a form draws it. `type` is bool, int, float, str or `list of int` and the like.
 */
export type FieldInfo = {
  name: string;
  title: string;
  type: string;
  help: string;
  required: boolean;
  default: JsonValue;
  low: number | null;
  high: number | null;
  choices: JsonValue[];
  unit: string;
  path: PathInfo | null;
  secret: boolean;
  policy: boolean;
  extendable: boolean;
  advanced: boolean;
  optional: boolean;
};
export type PathInfo = {
  access: 'read' | 'write';
  kind: 'file' | 'folder';
  patterns: string[];
};
/**
 * How the draft stands to its file. `disk`: "new" has no file yet, "changed" and "deleted" by someone else.
 */
export type FileState = {
  type: 'file';
  document: string;
  path: string;
  dirty: boolean;
  disk: 'new' | 'same' | 'changed' | 'deleted';
};
/**
 * What a run of revision `rev` would do, by node.
 */
export type Foreseen = {
  type: 'foreseen';
  document: string;
  rev: number;
  nodes: {
    [k: string]: Outlook;
  };
};
/**
 * What a run would do with a node: nothing (`fresh`), or work, and why.
 *
 * `backend` is where it would work, with the reason when that is not this machine's as ever.
 */
export type Outlook = {
  fresh: boolean;
  reason: string;
  backend: string;
  backend_reason: string;
  last: Last | null;
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
 */
export type OutputInfo = {
  port: string;
  kind: string;
  uri: string;
  figures: string;
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
 * What Python says and the browser has not yet seen, oldest first: the component's `data`.
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
export type Posted = {
  n: number;
  notice: Notice;
};
/**
 * First word of a session. `types` is the catalogue, `problems` what is wrong with it.
 */
export type Welcome = {
  type: 'welcome';
  types: NodeTypeInfo[];
  problems: Problem[];
  profiles: ProfileInfo[];
  workspace: string;
  version: string;
};
export type NodeTypeInfo = {
  type: string;
  version: number;
  category: string;
  summary: string;
  description: string;
  origin: string;
  backends: string[];
  inputs: PortInfo[];
  outputs: PortInfo[];
  fields: FieldInfo[];
};
export type PortInfo = {
  name: string;
  kinds: string[];
  required: boolean;
  help: string;
};
export type ProfileInfo = {
  name: string;
  backend: string;
  description: string;
};
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
 * The newest run of the document, or none.
 */
export type RunShown = {
  type: 'run';
  document: string;
  run: RunInfo | null;
};
export type RunInfo = {
  run_id: string;
  state: 'starting' | 'running' | 'done' | 'failed' | 'cancelled' | 'lost';
  profile: string;
  error: string;
  created: number;
  started: number | null;
  ended: number | null;
  cancelling: boolean;
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
  failure: FailureInfo | null;
};
export type ProgressInfo = {
  done: number;
  total: number | null;
  unit: string;
  label: string;
  rate: number | null;
  seconds_left: number | null;
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
export type LogLine = {
  time: number | null;
  level: 'info' | 'warning' | 'error' | 'output';
  text: string;
};
/**
 * Answer to `Browse`. `parent` is None at a root; `problem` says why there is nothing.
 */
export type Listing = {
  type: 'listing';
  request: number;
  path: string | null;
  parent: string | null;
  entries: Entry[];
  truncated: boolean;
  problem: string;
};
/**
 * Something a person should read: the outcome of a command, a refusal with its hint.
 */
export type Told = {
  type: 'told';
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
export type OpenDocument = {
  type: 'open';
  document: string;
};
/**
 * What the browser has said and Python has not yet acknowledged, oldest first.
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
export type SaveAs = {
  type: 'save-as';
  document: string;
  name: string;
};
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
 * Run the draft: all of it, from or to a node; `values` set pipeline parameters for this run.
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
};
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
