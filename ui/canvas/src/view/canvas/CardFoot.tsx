/** The foot of a card: how the node stands, always in two lines, so that a run never moves anything. */

import {
  Ban,
  Check,
  CircleAlert,
  CircleCheckBig,
  CircleDashed,
  Clock,
  DatabaseZap,
  Hourglass,
  LoaderCircle,
  Play,
  SkipForward,
  X,
  type LucideIcon,
} from 'lucide-react';
import { createElement, useCallback } from 'react';

import type { Light, LightState } from '../../rules/lights';
import { useTip } from './tips';
import { useLight } from './use_light';

const ICONS: Readonly<Record<LightState, LucideIcon>> = {
  idle: CircleDashed,
  fresh: Check,
  stale: Play,
  queued: Clock,
  waiting: Hourglass,
  running: LoaderCircle,
  done: CircleCheckBig,
  cached: DatabaseZap,
  failed: X,
  cancelled: Ban,
  skipped: SkipForward,
};

export function CardFoot({ id, light }: { id: string; light: Light }) {
  const { state, word, time, detail, full, share, blocked } = light;
  const tip = useTip(
    useCallback(() => <FootTip id={id} />, [id]),
    'bottom',
  );
  return (
    <div className="card-foot" {...tip}>
      <div className="card-state">
        <span className="card-light" aria-hidden="true">
          {createElement(blocked ? CircleAlert : ICONS[state], { size: 12, strokeWidth: 2.25 })}
        </span>
        <span className="card-word">{word}</span>
        <span className="card-time">{time}</span>
      </div>
      <div className="card-detail" dir="auto">
        {/* From a distance the letters are larger, and the first line has no room for the time. */}
        <span className="card-time-below">{time !== '' && detail !== '' ? `${time} · ` : time}</span>
        {detail}
      </div>
      {state === 'running' && <Progress share={share} full={full} />}
    </div>
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
