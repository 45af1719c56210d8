/** What a sweep will run, how long that takes and what it costs, before it is started: Python plans its trials. */

import { useEffect, useState } from 'react';

import { orderedNodes } from '../../document/ops';
import type { SweepForecast } from '../../protocol';
import { nameOf } from '../../rules/ports';
import { forecastOf, isComplete, timesText, type Sweep } from '../../rules/sweep';
import { plural, sentence } from '../../rules/wording';
import { chosenProfile } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { usePanels } from '../../state/panels';
import { WithCode } from '../parts/WithCode';
import { TimeAndCost } from './Estimate';

/** Typing is over by then; a longer pause would be felt. */
const PAUSE_MS = 400;

export interface SweepOutlook {
  /** The latest answer, also while another one is on its way. */
  readonly found: SweepForecast | null;
  readonly waiting: boolean;
}

/** What Python says of the sweep as it is typed, up to the node `end`; nothing is asked of one that cannot start. */
export function useSweepOutlook(sweep: Sweep | null, end: string | null): SweepOutlook {
  const app = useApp();
  const document = useCanvas((s) => s.document);
  const rev = useCanvas((s) => s.rev);
  usePanels((p) => p.profile);
  const profile = chosenProfile(app);
  const question =
    document === null || profile === null || sweep === null || !isComplete(sweep)
      ? ''
      : JSON.stringify(forecastOf(sweep, document, profile, end));
  const [answer, setAnswer] = useState<{ question: string; rev: number; found: SweepForecast } | null>(null);
  useEffect(() => {
    if (question === '') return undefined;
    let wanted = true;
    const pause = setTimeout(() => {
      void app.forecastSweep(JSON.parse(question) as ReturnType<typeof forecastOf>).then((found) => {
        if (wanted) setAnswer({ question, rev, found });
      });
    }, PAUSE_MS);
    return () => {
      wanted = false;
      clearTimeout(pause);
    };
  }, [app, question, rev]);
  if (question === '') return { found: null, waiting: false };
  return { found: answer?.found ?? null, waiting: answer?.question !== question || answer.rev !== rev };
}

/** Beside the button that starts it. */
export function BriefOutlook({ outlook: { found, waiting } }: { outlook: SweepOutlook }) {
  if (found === null || waiting || found.problem !== '') return null;
  const time = found.expected[0]?.text ?? 'all up to date';
  return (
    <span className="quiet dialog-note" data-testid="sweep-takes">
      {plural(found.trials, 'runs')}: {time}
    </span>
  );
}

export function SweepForecastView({ outlook: { found, waiting } }: { outlook: SweepOutlook }) {
  const doc = useCanvas((s) => s.doc);
  if (found === null) {
    return waiting ? (
      <p className="quiet sweep-forecast" role="status">
        Looking at what it would run…
      </p>
    ) : null;
  }
  if (found.problem !== '') {
    return (
      <p className="note-error sweep-forecast" role="alert" aria-busy={waiting}>
        {sentence(found.problem)}
      </p>
    );
  }
  const order = orderedNodes(doc).map(([node]) => node);
  const nodes = [...found.nodes].sort((a, b) => order.indexOf(a.node) - order.indexOf(b.node));
  return (
    <section className="sweep-forecast" aria-label="What the sweep will run" aria-busy={waiting}>
      <h3>What will run</h3>
      <p role="status">
        {plural(found.trials, 'runs')}.{nodes.length === 0 && ' All of it is up to date.'}
      </p>
      <ul className="forecast sweep-nodes">
        {nodes.map(({ node, times }) => (
          <li key={node}>
            <span className="forecast-name" dir="auto">
              {nameOf(doc, node)}
            </span>
            <span className="quiet">{timesText(times, found.trials)}</span>
          </li>
        ))}
      </ul>
      {found.expected.length > 0 && (
        <TimeAndCost what="sweep" parts={found.expected}>
          {found.notes.map((note) => (
            <li key={note}>
              <WithCode text={sentence(note)} />
            </li>
          ))}
        </TimeAndCost>
      )}
    </section>
  );
}
