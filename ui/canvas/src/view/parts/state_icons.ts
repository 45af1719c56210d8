/** A sign for each state of a node: never shown by colour alone. */

import {
  Ban,
  Check,
  CircleCheckBig,
  CircleDashed,
  CircleMinus,
  CircleOff,
  CirclePlus,
  Clock,
  DatabaseZap,
  Equal,
  Hourglass,
  LoaderCircle,
  Pencil,
  Play,
  SkipForward,
  X,
  type LucideIcon,
} from 'lucide-react';

import type { LightState } from '../../rules/lights';

export const STATE_ICONS: Readonly<Record<LightState, LucideIcon>> = {
  idle: CircleDashed,
  off: CircleOff,
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
  'left-out': CircleDashed,
  added: CirclePlus,
  removed: CircleMinus,
  changed: Pencil,
  same: Equal,
};
