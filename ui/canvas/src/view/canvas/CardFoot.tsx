/** The foot of a card: the node's state, always in two lines, so that a run never moves anything. */

import { CircleAlert } from 'lucide-react';
import { createElement, useCallback, type ReactNode } from 'react';

import type { Light, LightState } from '../../rules/lights';
import { useCanvas } from '../../state/hooks';
import { STATE_ICONS } from '../parts/state_icons';
import { figureOf } from './CardStrip';
import { useTip } from './tips';
import { useLight } from './use_light';

export function CardFoot({ id, light }: { id: string; light: Light }) {
  const { state, word, time, full, share, blocked } = light;
  const main = useCanvas((s) => figureOf(s, id)?.name ?? null);
  // The strip below shows it large.
  const detail = main === null ? light.detail : without(light.detail, main);
  const tip = useTip(
    useCallback(() => <FootTip id={id} />, [id]),
    'bottom',
  );
  return (
    <div className="card-foot" {...tip}>
      <div className="card-state">
        <span className="card-light" aria-hidden="true">
          {createElement(blocked ? CircleAlert : STATE_ICONS[state], { size: 12, strokeWidth: 2.25 })}
        </span>
        <span className="card-word">{word}</span>
        <span className="card-time">{time}</span>
      </div>
      <div className="card-detail" dir="auto">
        {/* From a distance the letters are larger, and the first line has no space for the time. */}
        <span className="card-time-below">{time !== '' && detail !== '' ? `${time} · ` : time}</span>
        {figures(state, detail)}
      </div>
      {state === 'running' && <Progress share={share} full={full} />}
    </div>
  );
}

/** The figures in `detail` but the one of this name. */
export function without(detail: string, name: string): string {
  const more = / and \d+ more$/.exec(detail)?.[0] ?? '';
  const figures = detail.slice(0, detail.length - more.length).split(', ');
  const others = figures.filter(
    (figure) => !(figure.startsWith(`${name} `) && isNumber(figure.slice(name.length + 1))),
  );
  return others.length === 0 ? more.replace(/^ and /, '') : others.join(', ') + more;
}

function isNumber(text: string): boolean {
  return text !== '' && Number.isFinite(Number(text.replace(/,/g, '')));
}

/** What a node made, figure by figure: what does not fit goes whole, behind what matters more, and no figure is cut. */
function figures(state: LightState, detail: string): ReactNode {
  if (state !== 'done' && state !== 'cached' && state !== 'fresh') return detail;
  return (
    <span className="card-figures">
      {detail.split(', ').map((figure, index) => (
        <span key={index}>{figure}</span>
      ))}
    </span>
  );
}

function FootTip({ id }: { id: string }) {
  return useLight(id).full;
}

function Progress({ share, full }: { share: number | null; full: string }) {
  const percent = share === null ? undefined : Math.round(share * 100);
  return (
    <div
      className="card-progress"
      role="progressbar"
      aria-label="Progress"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      aria-valuetext={full}
      data-open={share === null || undefined}
    >
      <div style={share === null ? undefined : { transform: `scaleX(${share})` }} />
    </div>
  );
}
