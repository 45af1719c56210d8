/** What the toolbar, menus and shortcuts do, where it takes more than one command or asks back first. */

import { opsBetween } from '../document/difference';
import type { Doc, GalleryItem, JsonValue, RunLimit, Welcome } from '../protocol';
import { isActive } from '../rules/lights';
import { limitOf } from '../rules/limit';
import { withoutValue } from '../rules/parameters';
import { nameOf } from '../rules/ports';
import { blocking, EVERYTHING, type Part } from '../rules/scope';
import { valuesOf, type Sweep } from '../rules/sweep';
import type { App } from './app';
import { openDialog, panels } from './panels';
import { viewsAt } from './views';

/** Save: a pipeline without a file asks for a name; one whose file others changed asks what to do. */
export function save(app: App): void {
  const { document, file } = app.state;
  if (document === null) return;
  if (file?.disk === 'new') openDialog({ kind: 'save-as' });
  else if (file?.disk === 'changed' || file?.disk === 'deleted') openDialog({ kind: 'overwrite' });
  else app.say({ type: 'save', document, overwrite: false });
}

/** Run a part of the pipeline: shows the problems that stand in the way, asks for parameters without a value. */
export function run(app: App, part: Part = EVERYTHING): void {
  const { document, doc, problems, run: newest, starting } = app.state;
  if (document === null || starting) return;
  if (isActive(newest)) {
    app.notify('info', 'This pipeline is running already.', 'Wait for its end, or cancel it.');
  } else if (blocking(problems, doc, part).length > 0) {
    panels.setState({ dock: 'problems' });
  } else if (withoutValue(doc).length > 0) {
    openDialog({ kind: 'run', ...part });
  } else {
    startRun(app, part, {});
  }
}

/** Start a run; `values` set pipeline parameters for it alone. Without a `limit` that of the profile counts. */
export function startRun(app: App, part: Part, values: Record<string, JsonValue>, limit: RunLimit | null = null): void {
  const { document } = app.state;
  const profile = chosenProfile(app);
  if (document === null || profile === null) return;
  app.say({ type: 'run', document, profile, ...part, values, limit });
}

/** Start a sweep of what the dialog holds, up to the node `end`. */
export function startSweep(app: App, end: string | null, sweep: Sweep): void {
  const { document } = app.state;
  const profile = chosenProfile(app);
  if (document === null || profile === null) return;
  const { jobs, search } = sweep;
  app.say({
    type: 'sweep',
    document,
    profile,
    end,
    values: valuesOf(sweep),
    jobs,
    search,
    limit: limitOf(sweep.limit),
  });
}

/** The profile that the next run takes: the one chosen last, if it is still there. */
export function chosenProfile(app: App): string | null {
  const names = (app.state.welcome?.profiles ?? []).map(({ name }) => name);
  const { profile } = panels.getState();
  return profile !== null && names.includes(profile) ? profile : (names[0] ?? null);
}

/** Problems and forecasts are those of the profile chosen here: Python gets it, and anew in each session. */
export function sendProfile(app: App): () => void {
  let session: Welcome | null = null;
  let sent: string | null = null;
  const send = () => {
    const { welcome } = app.state;
    if (welcome === null) return;
    if (welcome !== session) {
      session = welcome;
      // What Python takes before it gets another.
      sent = welcome.profiles[0]?.name ?? null;
    }
    const profile = chosenProfile(app);
    if (profile === null || profile === sent) return;
    sent = profile;
    app.say({ type: 'choose', profile });
  };
  const leave = [app.store.subscribe(send), panels.subscribe(send)];
  send();
  return () => {
    for (const each of leave) each();
  };
}

/** The file was changed by someone else: their version, after asking if there is anything to lose. */
export function takeTheirs(app: App): void {
  const { document, file, pending } = app.state;
  if (document === null) return;
  if (file?.dirty || pending.length > 0) openDialog({ kind: 'revert' });
  else app.say({ type: 'revert', document });
}

/** Show what a node made or has, as soon as folders have been listed; a node without anything says so. */
export function look(app: App, node: string, port: string | null = null, row: GalleryItem | null = null): void {
  if (opened(app, node, port, row)) return;
  if (app.state.listed) {
    app.notify('info', 'There is nothing to look at yet.', 'Run the node first.');
    return;
  }
  const { document, selection } = app.state;
  const leave = app.store.subscribe((state) => {
    // It does not open once something else was chosen.
    const elsewhere = state.document !== document || state.selection !== selection || panels.getState().dialog !== null;
    if (elsewhere) leave();
    else if (viewsAt(state, node).length > 0 || state.listed) {
      leave();
      look(app, node, port, row);
    }
  });
  app.notify('info', 'Its data is still being listed.', 'It opens as soon as that is done.');
}

/** Open what there is of a node, or of one port of it; false where there is nothing. */
function opened(app: App, node: string, port: string | null, row: GalleryItem | null): boolean {
  const views = viewsAt(app.state, node);
  const first = port === null ? views[0] : views.find((view) => view.port === port);
  if (first) openDialog({ kind: 'look', title: nameOf(app.state.doc, node), views, port: first.port, row });
  return first !== undefined;
}

/** Make a version the document again: one step of undo, saved as a new version; what was there is kept as one too. */
export function restore(app: App, version: Doc, saved: string): void {
  const { document, file } = app.state;
  if (document === null) return;
  app.say({ type: 'keep-draft', document });
  app.edit(`Restore the version of ${saved}`, opsBetween(app.state.doc, version));
  // A file that others changed meanwhile is theirs to keep or lose: the person is asked as for every save.
  if (file?.disk === 'same') app.say({ type: 'save', document, overwrite: false });
}

/** Write what the canvas shows over what the file holds. */
export function keepMine(app: App): void {
  const { document } = app.state;
  if (document !== null) app.say({ type: 'save', document, overwrite: true });
}
