/** A node's state, live. While it runs the clock goes on between two words from Python. */

import { useEffect, useState } from 'react';

import { own } from '../../document/own';
import { compared, isActive, light, recorded, unlit, type Light } from '../../rules/lights';
import { outOf } from '../../rules/modes';
import { pinnedTo } from '../../rules/problems';
import { useCanvas } from '../../state/hooks';
import { usePicture } from '../../state/picture';

const TICK_MS = 1000;

export function useLight(id: string): Light {
  const status = useCanvas((s) => own(s.status, id));
  const forecast = useCanvas((s) => own(s.forecasts, id));
  const run = useCanvas((s) => s.run);
  const blocker = useCanvas((s) => pinnedTo(s.problems, id).find(({ severity }) => severity === 'error')?.message);
  const now = useNow(status?.state === 'running');
  const word = useCanvas((s) => outOf(s.doc, s.problems, id)?.word);
  const detail = useCanvas((s) => outOf(s.doc, s.problems, id)?.detail ?? '');
  const picture = usePicture();
  if (picture?.changes) return compared(own(picture.changes, id));
  if (picture) return recorded(status, run, now);
  // One that is at work in a run is shown so until that ends.
  if (word !== undefined && !(status && isActive(run))) return unlit(word, detail);
  return light(status, forecast, run, now, blocker);
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
