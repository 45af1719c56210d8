/** How long a run takes and what it costs, before it is started: the range, how it is known, what is not in it. */

import { Clock } from 'lucide-react';

import { own } from '../../document/own';
import { briefTime, costText, estimateOf, rangeOf, requestsText, timeText } from '../../rules/estimate';
import { between } from '../../rules/figures';
import { nameOf } from '../../rules/ports';
import type { Part, Step } from '../../rules/scope';
import { sentence } from '../../rules/wording';
import { chosenProfile } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { usePanels } from '../../state/panels';
import { useSteps } from './steps';

/** Beside the button that starts it, where one sees it without scrolling. */
export function BriefEstimate({ part }: { part: Part }) {
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const { steps } = useSteps(part);
  if (!steps.some(({ work }) => work)) return null;
  return (
    <span className="quiet dialog-note" data-testid="run-takes">
      {sentence(briefTime(estimateOf(doc, forecasts, steps)))}
    </span>
  );
}

export function Estimate({ steps }: { steps: readonly Step[] }) {
  const app = useApp();
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const profiles = useCanvas((s) => s.welcome?.profiles);
  usePanels((p) => p.profile);
  const profile = profiles?.find(({ name }) => name === chosenProfile(app));
  const works = steps.filter(({ work }) => work);
  if (works.length === 0) return null;
  const found = estimateOf(doc, forecasts, steps);
  const name = (node: string) => nameOf(doc, node);
  return (
    <section className="run-estimate" aria-label="Time and cost of this run">
      <h3>
        <Clock size={14} aria-hidden /> Time and cost of this run
      </h3>
      <dl data-testid="run-estimate">
        <dt>Time</dt>
        <dd>{timeText(found, name)}</dd>
        <dt>Cost</dt>
        <dd>{costText(found, profile, name)}</dd>
      </dl>
      <details>
        <summary>How this is known</summary>
        <ul>
          {works.map(({ node }) => {
            const known = own(forecasts, node);
            const range = rangeOf(known);
            return (
              <li key={node}>
                <b dir="auto">{name(node)}</b> {range === null ? 'unknown' : between(range.low, range.high)}
                {known?.basis && <span className="quiet">: {known.basis.replaceAll('`', '')}</span>}
                {known?.requests && <>; {requestsText(known.requests)}</>}
              </li>
            );
          })}
          {profile && profile.price !== null && <li>The machine costs its time by the price: {profile.priced}.</li>}
        </ul>
      </details>
    </section>
  );
}
