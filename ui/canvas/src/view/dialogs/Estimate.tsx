/** How long a run takes and what it costs, before it is started: the range, how it is known, what is not in it. */

import { Clock } from 'lucide-react';
import { Children, Fragment, type ReactNode } from 'react';

import { own } from '../../document/own';
import { briefTime, estimateOf, expectedParts, rangeOf, requestsText } from '../../rules/estimate';
import { between } from '../../rules/figures';
import { nameOf } from '../../rules/ports';
import type { ExpectedPart } from '../../protocol';
import type { Part, Step } from '../../rules/scope';
import { capitalised, sentence } from '../../rules/wording';
import { chosenProfile } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { usePanels } from '../../state/panels';
import { WithCode } from '../parts/WithCode';
import { useSteps } from './steps';

/** Beside the button that starts it, where one sees it without scrolling. */
export function BriefEstimate({ part }: { part: Part }) {
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const { steps } = useSteps(part);
  const takes = briefTime(estimateOf(doc, forecasts, steps));
  if (takes === null) return null;
  return (
    <span className="quiet dialog-note" data-testid="run-takes">
      {sentence(takes)}
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
    <TimeAndCost what="run" parts={expectedParts(found, profile, name)}>
      {works.map(({ node }) => {
        const known = own(forecasts, node);
        const range = rangeOf(known);
        return (
          <li key={node}>
            <b dir="auto">{name(node)}</b> {range === null ? 'unknown' : between(range.low, range.high)}
            {known?.basis && (
              <span className="quiet">
                : <WithCode text={known.basis} />
              </span>
            )}
            {known?.requests && <>; {requestsText(known.requests)}</>}
          </li>
        );
      })}
      {profile && profile.price !== null && <li>The machine costs its time by the price: {profile.priced}.</li>}
    </TimeAndCost>
  );
}

interface TimeAndCostProps {
  what: 'run' | 'sweep';
  parts: readonly ExpectedPart[];
  /** List items: how it is known. */
  children: ReactNode;
}

export function TimeAndCost({ what, parts, children }: TimeAndCostProps) {
  const title = `Time and cost of this ${what}`;
  return (
    <section className="run-estimate" aria-label={title}>
      <h3>
        <Clock size={14} aria-hidden /> {title}
      </h3>
      <dl data-testid={`${what}-estimate`}>
        {parts.map(({ name, text }) => (
          <Fragment key={name}>
            <dt>{capitalised(name)}</dt>
            <dd>{text}</dd>
          </Fragment>
        ))}
      </dl>
      {Children.count(children) > 0 && (
        <details>
          <summary>How this is known</summary>
          <ul>{children}</ul>
        </details>
      )}
    </section>
  );
}
