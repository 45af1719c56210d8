/** A state as sign and word: never told by colour alone. */

import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleX,
  Clock,
  Hourglass,
  LoaderCircle,
  SkipForward,
  Zap,
  type LucideIcon,
} from 'lucide-react';

import type { NodeStatus } from '../../protocol';

type Shown = NodeStatus['state'] | 'fresh' | 'stale';

const SIGNS: Readonly<Record<Shown, readonly [LucideIcon, string]>> = {
  queued: [Clock, 'Queued'],
  waiting: [Hourglass, 'Waiting'],
  running: [LoaderCircle, 'Running'],
  done: [CircleCheck, 'Done'],
  cached: [Zap, 'Cached'],
  failed: [CircleX, 'Failed'],
  cancelled: [Ban, 'Cancelled'],
  skipped: [SkipForward, 'Skipped'],
  fresh: [CircleCheck, 'Up to date'],
  stale: [CircleDashed, 'Will run'],
};

export function StateMark({ state }: { state: Shown }) {
  const [Sign, word] = SIGNS[state];
  return (
    <span className="state-mark" data-state={state}>
      <Sign size={14} aria-hidden />
      {word}
    </span>
  );
}
