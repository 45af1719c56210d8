/** The run: where, what part of it, how it goes, how it ended. */

import { Ban, ChevronDown, History, Play, RotateCcw, SlidersHorizontal, Square, X } from 'lucide-react';
import { useEffect, useState } from 'react';

import type { RunInfo } from '../../protocol';
import { duration } from '../../rules/figures';
import { isActive } from '../../rules/lights';
import { nameOf } from '../../rules/ports';
import { canResume, elapsed, runAddress, RUN_MEANINGS, RUN_WORDS, tally } from '../../rules/runs';
import { blocking, EVERYTHING } from '../../rules/scope';
import { plural } from '../../rules/wording';
import type { App } from '../../state/app';
import { chosenProfile, run } from '../../state/commands';
import { useApp, useCanvas, useNow } from '../../state/hooks';
import { keep, openDialog, usePanels } from '../../state/panels';
import { printed } from '../canvas/shortcuts';
import { StateMark } from '../parts/StateMark';
import { Menu, type MenuGroups } from '../parts/Menu';

export function RunBar() {
  const shown = useCanvas((s) => s.run);
  const starting = useCanvas((s) => s.starting);
  const active = isActive(shown);
  return (
    <div className="toolbar-side run-bar" role="group" aria-label="Run">
      {shown && !starting && (active ? <Progress run={shown} /> : <Result run={shown} />)}
      <ProfileSelect />
      {shown && active ? <CancelButton run={shown} /> : <RunButton starting={starting} />}
    </div>
  );
}

function ProfileSelect() {
  const app = useApp();
  const profiles = useCanvas((s) => s.welcome?.profiles);
  usePanels((p) => p.profile);
  const chosen = chosenProfile(app);
  return (
    <select
      className="input select profile-select"
      aria-label="Compute profile"
      title={profiles?.find(({ name }) => name === chosen)?.description}
      value={chosen ?? ''}
      onChange={(event) => {
        keep({ profile: event.currentTarget.value });
      }}
    >
      {profiles?.map(({ name, backend }) => (
        <option key={name} value={name}>
          {name === backend ? name : `${name} (${backend})`}
        </option>
      ))}
    </select>
  );
}

function RunButton({ starting }: { starting: boolean }) {
  const app = useApp();
  const problems = useCanvas((s) => s.problems);
  const empty = useCanvas((s) => Object.keys(s.doc.nodes).length === 0);
  const stops = blocking(problems, app.state.doc, EVERYTHING).length;
  const why = empty ? 'Add a node first' : stops > 0 ? `${plural(stops, 'errors')} must be solved first` : '';
  return (
    <div className="split-button">
      <RunHint ready={why === '' && !starting} />
      <button
        type="button"
        className="btn btn-primary"
        aria-disabled={why !== '' || starting}
        title={why || `Run the pipeline (${printed('Ctrl+Enter')})`}
        onClick={() => {
          if (!starting) run(app);
        }}
      >
        <Play size={14} aria-hidden /> {starting ? 'Starting…' : 'Run'}
      </button>
      <Menu
        label="More ways to run"
        className={why ? 'btn' : 'btn btn-primary'}
        align="right"
        disabled={starting}
        groups={() => waysToRun(app)}
      >
        <ChevronDown size={14} aria-hidden />
      </Menu>
    </div>
  );
}

/** Beside Run, for somebody who has never run anything; a run or a click on it, and it is gone for good. */
function RunHint({ ready }: { ready: boolean }) {
  const never = useCanvas(({ welcome, run: shown }) => welcome?.ran === false && shown === null);
  const starting = useCanvas((s) => s.starting);
  const known = usePanels((p) => p.runKnown) === 1;
  useEffect(() => {
    if (starting) keep({ runKnown: 1 });
  }, [starting]);
  if (!ready || !never || known) return null;
  return (
    <div className="run-hint" role="note">
      <span>
        <strong>Press Run</strong> to try it. Each node then shows its progress and what it has made.
      </span>
      <button
        type="button"
        className="btn btn-icon btn-tiny"
        aria-label="Close the hint"
        onClick={() => {
          keep({ runKnown: 1 });
        }}
      >
        <X size={13} aria-hidden />
      </button>
    </div>
  );
}

function waysToRun(app: App): MenuGroups {
  const { selection, doc } = app.state;
  const [node, ...others] = selection.nodes;
  const single = node !== undefined && others.length === 0 ? node : null;
  const unavailable = single === null ? 'Select one node first' : '';
  const hint = single === null ? '' : shortened(nameOf(doc, single));
  return [
    [
      {
        label: 'Run all',
        icon: <Play size={14} />,
        hint: printed('Ctrl+Enter'),
        onSelect: () => {
          run(app);
        },
      },
      {
        label: 'Run from selected node',
        hint,
        unavailable,
        onSelect: () => {
          run(app, { ...EVERYTHING, start: single });
        },
      },
      {
        label: 'Run to selected node',
        hint,
        unavailable,
        onSelect: () => {
          run(app, { ...EVERYTHING, end: single });
        },
      },
      {
        label: 'Run everything fresh',
        icon: <RotateCcw size={14} />,
        onSelect: () => {
          run(app, { ...EVERYTHING, fresh: true });
        },
      },
    ],
    [
      {
        label: 'Run with parameters…',
        onSelect: () => {
          openDialog({ kind: 'run', ...EVERYTHING });
        },
      },
    ],
  ];
}

function shortened(text: string): string {
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}

function Progress({ run: shown }: { run: RunInfo }) {
  const status = useCanvas((s) => s.status);
  const now = useNow(true);
  const { finished, total, failed } = tally(status);
  const limit = shown.limit && `It is stopped at ${shown.limit}`;
  return (
    <span className="run-state" title={RUN_MEANINGS[shown.state]}>
      <StateMark
        state={shown.cancelling ? 'cancelling' : shown.state}
        sign={<span className="run-pulse" aria-hidden />}
      >
        <span role="status">{shown.cancelling ? 'Cancelling' : RUN_WORDS[shown.state]}</span>
      </StateMark>
      <span className="run-figure roomy-only" data-testid="run-elapsed" title={limit}>
        {duration(Math.floor(elapsed(shown, now)))}
      </span>
      {limit !== '' && (
        <span className="run-figure run-limit" title={limit}>
          limit {shown.limit}
        </span>
      )}
      {total > 0 && (
        <span className="run-figure" data-testid="run-tasks">
          {finished}/{total}
          <span className="wide-word"> nodes</span>
        </span>
      )}
      {failed > 0 && <span className="run-failed">{failed} failed</span>}
      <Older run={shown} />
      <OwnValues run={shown} />
      <a href={runAddress(shown.run_id)}>Open run</a>
    </span>
  );
}

/** Says of a run that it runs, or ran, the document as it was before it was edited. */
function Older({ run: shown }: { run: RunInfo }) {
  if (shown.changes === '') return null;
  const runs = isActive(shown) ? 'This run works on' : 'This run was of';
  return (
    <span className="run-older" title={`${runs} the pipeline as it was when it began. Since then: ${shown.changes}.`}>
      <History size={12} aria-hidden /> <span className="broad-word">older version</span>
    </span>
  );
}

/** Says of a run that some values were given for it alone, so that the cards show what the fields do not. */
function OwnValues({ run: shown }: { run: RunInfo }) {
  if (shown.given === '') return null;
  return (
    <span className="run-older" title={`Values for this run alone: ${shown.given}`}>
      <SlidersHorizontal size={12} aria-hidden /> <span className="broad-word">own values</span>
    </span>
  );
}

function CancelButton({ run: shown }: { run: RunInfo }) {
  const app = useApp();
  const session = useCanvas((s) => s.welcome);
  // A wish that the old session had is gone with it: then the button can be pressed again.
  const [asked, setAsked] = useState<{ run: string; session: unknown } | null>(null);
  // One that is stuck does not hear the wish; asked again, Python ends it.
  const heard = shown.state !== 'stuck';
  const cancelling = heard && (shown.cancelling || (asked?.run === shown.run_id && asked.session === session));
  return (
    <button
      type="button"
      className="btn btn-stop"
      disabled={cancelling}
      onClick={() => {
        setAsked({ run: shown.run_id, session });
        app.say({ type: 'cancel', run_id: shown.run_id });
      }}
    >
      {cancelling ? <Ban size={14} aria-hidden /> : <Square size={12} aria-hidden />}
      {cancelling ? (
        'Cancelling…'
      ) : (
        <span>
          Cancel<span className="wide-word"> run</span>
        </span>
      )}
    </button>
  );
}

function Result({ run: shown }: { run: RunInfo }) {
  const app = useApp();
  const { state, run_id, error, ended } = shown;
  return (
    <span className="run-state" title={error || RUN_MEANINGS[state]}>
      <StateMark state={state} sign={<span className="run-dot" aria-hidden />}>
        <span role="status">{RUN_WORDS[state]}</span>
      </StateMark>
      {ended !== null && <span className="run-figure roomy-only">{duration(elapsed(shown, ended))}</span>}
      <Older run={shown} />
      <OwnValues run={shown} />
      <a href={runAddress(run_id)}>Open run</a>
      {canResume(shown) && (
        <button
          type="button"
          className="btn btn-small"
          title={
            shown.limited
              ? 'Go on where its limit stopped it, for as much again'
              : 'Go on where it stopped: what was finished is kept'
          }
          onClick={() => {
            app.say({ type: 'resume', run_id });
          }}
        >
          <RotateCcw size={12} aria-hidden />
          <span>Resume{shown.limited && <span className="broad-word"> for another {shown.limit}</span>}</span>
        </button>
      )}
    </span>
  );
}
