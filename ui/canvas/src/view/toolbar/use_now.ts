/** The time now, ticking only while somebody looks at something that runs. */

import { useEffect, useState } from 'react';

const TICK_MS = 1000;

/** Seconds since the epoch; new every second while `ticking`. */
export function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!ticking) return undefined;
    const tick = () => {
      setNow(Date.now() / 1000);
    };
    tick();
    const id = setInterval(tick, TICK_MS);
    return () => {
      clearInterval(id);
    };
  }, [ticking]);
  return now;
}
