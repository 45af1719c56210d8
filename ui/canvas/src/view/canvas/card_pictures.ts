/** What cards show of their data, asked for a few at a time: a large graph must not keep a viewer waiting. */

import type { CardPicture } from '../../protocol';
import { ask, Refusal } from '../parts/ask';

const AT_ONCE = 2;
const KEPT = 500;
/** Until what could not be read for a moment is asked for again: the app is away, or the storage slow. */
const PAUSES_MS = [2000, 5000, 15_000, 60_000];

const known = new Map<string, Promise<CardPicture | null>>();
const queue: (() => void)[] = [];
let running = 0;

/** The picture at an address; null when there is none, or it cannot be read: the viewer says why. */
export function cardPicture(url: string): Promise<CardPicture | null> {
  const before = known.get(url);
  if (before) return before;
  const made = sought(url);
  known.set(url, made);
  const oldest = known.keys().next();
  if (known.size > KEPT && !oldest.done) known.delete(oldest.value);
  return made;
}

async function sought(url: string): Promise<CardPicture | null> {
  for (const pause of [...PAUSES_MS, null]) {
    await turn();
    try {
      return await fetched(url);
    } catch (error) {
      if (pause === null || !(error instanceof Refusal && error.passing)) break;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  known.delete(url);
  return null;
}

async function fetched(url: string): Promise<CardPicture> {
  try {
    const response = await ask(url, new AbortController().signal);
    return (await response.json()) as CardPicture;
  } finally {
    running -= 1;
    queue.shift()?.();
  }
}

/** Resolves when this one may ask. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      running += 1;
      resolve();
    };
    if (running < AT_ONCE) go();
    else queue.push(go);
  });
}
