/** A node's state, live. While it runs the clock goes on between two words from Python. */

import { useEffect, useState } from 'react';

import { own } from '../../document/own';
import { light, type Light } from '../../rules/lights';
import { pinnedTo } from '../../rules/pinned';
import { useCanvas } from '../../state/hooks';

const TICK_MS = 1000;

export function useLight(id: string): Light {
  const status = useCanvas((s) => own(s.status, id));
  const outlook = useCanvas((s) => own(s.outlook, id));
  const run = useCanvas((s) => s.run);
  const blocker = useCanvas((s) => pinnedTo(s.problems, id).find(({ severity }) => severity === 'error')?.message);
  const now = useNow(status?.state === 'running');
  return light(status, outlook, run, now, blocker);
}

function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => {
      setNow(Date.now() / 1000);
    }, TICK_MS);
    return () => {
      clearInterval(timer);
    };
  }, [ticking]);
  return now;
}
