/** What the toolbar, menus and shortcuts do, where it takes more than one command or asks back first. */

import type { JsonValue, Welcome } from '../protocol';
import { isActive } from '../rules/lights';
import { withoutValue } from '../rules/parameters';
import { blocking, EVERYTHING, type Part } from '../rules/scope';
import type { App } from './app';
import { openDialog, panels } from './panels';

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
    app.tell('info', 'This pipeline is running already.', 'Wait for its end, or cancel it.');
  } else if (blocking(problems, doc, part).length > 0) {
    panels.setState({ dock: 'problems' });
  } else if (withoutValue(doc).length > 0) {
    openDialog({ kind: 'run', ...part });
  } else {
    startRun(app, part, {});
  }
}

/** Start a run; `values` set pipeline parameters for it alone. */
export function startRun(app: App, part: Part, values: Record<string, JsonValue>): void {
  const { document } = app.state;
  const profile = chosenProfile(app);
  if (document === null || profile === null) return;
  app.say({ type: 'run', document, profile, ...part, values });
}

/** The profile that the next run takes: the one chosen last, if it is still there. */
export function chosenProfile(app: App): string | null {
  const names = (app.state.welcome?.profiles ?? []).map(({ name }) => name);
  const { profile } = panels.getState();
  return profile !== null && names.includes(profile) ? profile : (names[0] ?? null);
}

/** Problems and the outlook are told for the profile chosen here: Python hears of it, and anew in each session. */
export function tellProfile(app: App): () => void {
  let session: Welcome | null = null;
  let told: string | null = null;
  const tell = () => {
    const { welcome } = app.state;
    if (welcome === null) return;
    if (welcome !== session) {
      session = welcome;
      // What Python takes before it hears of another.
      told = welcome.profiles[0]?.name ?? null;
    }
    const profile = chosenProfile(app);
    if (profile === null || profile === told) return;
    told = profile;
    app.say({ type: 'choose', profile });
  };
  const leave = [app.store.subscribe(tell), panels.subscribe(tell)];
  tell();
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

/** Write what the canvas shows over what the file holds. */
export function keepMine(app: App): void {
  const { document } = app.state;
  if (document !== null) app.say({ type: 'save', document, overwrite: true });
}
