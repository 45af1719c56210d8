/** A volume on its way: its numbers in parts, and a coarse one before them where there are many. */

import { useEffect, useState } from 'react';

import { Arrival, formOf, type Form } from '../../../volume/arrival';
import type { Volume } from '../../../volume/volume';
import { address, ask, refusalOf, type Refusal } from '../../parts/ask';

/** What is sent whole; of a larger volume every n-th voxel comes. So much of the browser's memory it may take. */
export const WHOLE_BYTES = 512 << 20;
/** A volume above this size comes coarse first. */
const COARSE_BYTES = 1 << 20;
/** Between two looks at what has arrived. */
const LOOK_MS = 120;

export interface Loaded {
  /** Of which row all this is. */
  readonly row: number;
  readonly form: Form | null;
  /** As far as it has arrived; null until there is something to see of it. */
  readonly volume: Volume | null;
  /** How much of it, from 0 to 1. */
  readonly share: number;
  readonly problem: Refusal | null;
}

const NOTHING: Loaded = { row: -1, form: null, volume: null, share: 0, problem: null };

/** The volume of a row; while another one is on its way and nothing of it is there, that of before. */
export function useVolume(dataset: string, panel: string, row: number): Loaded {
  const [found, setFound] = useState<Loaded>(NOTHING);
  useEffect(() => {
    const control = new AbortController();
    const url = address(dataset, panel, 'voxels', { row, limit: WHOLE_BYTES });
    const coarse = address(dataset, panel, 'voxels', { row, limit: COARSE_BYTES });
    arrive(url, coarse, control.signal, (now) => {
      setFound({ ...now, row, problem: null });
    }).catch((error: unknown) => {
      if (control.signal.aborted) return;
      const problem = refusalOf(error instanceof RangeError ? new Error('The browser has no memory for it.') : error);
      setFound({ ...NOTHING, row, problem });
    });
    return () => {
      control.abort();
    };
  }, [dataset, panel, row]);
  return found;
}

/** Loads the volume at `url`, and calls `tell` with what has arrived so far. */
export async function arrive(
  url: string,
  coarse: string,
  signal: AbortSignal,
  tell: (now: Pick<Loaded, 'form' | 'volume' | 'share'>) => void,
): Promise<void> {
  const response = await ask(url, signal);
  const form = formOf(response.headers);
  const arrival = new Arrival(form);
  const seen: { preview: Volume | null; at: number; over: boolean } = { preview: null, at: 0, over: false };
  const say = () => {
    seen.at = performance.now();
    tell({ form, volume: arrival.volume(seen.preview), share: arrival.share });
  };
  if (form.bytes > COARSE_BYTES) {
    void taken(coarse, signal)
      .then((volume) => {
        // All of it is there, or why it is not has been told.
        if (seen.over) return;
        seen.preview = volume;
        say();
      })
      // It would only have bridged the time until the whole one.
      .catch(() => undefined);
  }
  try {
    for await (const part of parts(response)) {
      arrival.take(part);
      if (seen.preview && performance.now() - seen.at > LOOK_MS) say();
    }
    arrival.end();
  } finally {
    seen.over = true;
  }
  seen.preview = null;
  if (!signal.aborted) say();
}

/** A small volume, all of it. */
async function taken(url: string, signal: AbortSignal): Promise<Volume> {
  const response = await ask(url, signal);
  const arrival = new Arrival(formOf(response.headers));
  for await (const part of parts(response)) arrival.take(part);
  arrival.end();
  return arrival.volume(null);
}

async function* parts(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) return;
    yield part.value;
  }
}
