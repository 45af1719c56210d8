/** Asking about datasets, over the route of the app's own server (`ui/views/route.py`). */

import { useEffect, useState } from 'react';

import { VIEW_PATH } from '../../protocol';

/** Where this file comes from, which may be below any path. */
const BASE = import.meta.url.replace(/_stcore\/.*/, '');

export type Query = Readonly<Record<string, string | number>>;

export function address(key: string, panel = '', what = '', query: Query = {}): string {
  const parts = [VIEW_PATH, key, ...(panel === '' ? [] : [encodeURIComponent(panel), what])];
  const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${parts.join('/')}${text === '' ? '' : `?${text}`}`;
}

/** Why there is no answer, for a person. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly hint: string,
    /** Whether the same question may have an answer in a moment. */
    readonly passing = false,
  ) {
    super(message);
  }
}

export async function ask(url: string, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { signal, credentials: 'same-origin' });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refusal('The app does not answer.', 'Is it still running?', true);
  }
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { message?: string; hint?: string };
  const message = said.message ?? `The app answered with status ${response.status}.`;
  throw new Refusal(message, said.hint ?? '', response.status >= 500);
}

export interface Asked<T> {
  /** The latest answer; while another one is on its way that of before. */
  readonly answer: T | null;
  /** The address that it is of. */
  readonly of: string | null;
  readonly problem: Refusal | null;
  readonly waiting: boolean;
  /** Ask once more, as after a problem. */
  readonly again: () => void;
}

interface Found<T> {
  readonly url: string | null;
  readonly answer: T | null;
  readonly problem: Refusal | null;
}

/** The JSON at an address; nothing is asked while that is null. */
export function useAsked<T>(url: string | null): Asked<T> {
  const [found, setFound] = useState<Found<T>>({ url: null, answer: null, problem: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (url === null) return undefined;
    const control = new AbortController();
    ask(url, control.signal)
      .then((response) => response.json() as Promise<T>)
      .then((answer) => {
        setFound({ url, answer, problem: null });
      })
      .catch((error: unknown) => {
        if (!control.signal.aborted) setFound({ url, answer: null, problem: refusalOf(error) });
      });
    return () => {
      control.abort();
    };
  }, [url, turn]);
  const again = () => {
    setFound({ url: null, answer: null, problem: null });
    setTurn(turn + 1);
  };
  const waiting = url !== null && found.url !== url;
  return { answer: found.answer, of: found.url, problem: found.problem, waiting, again };
}

export function refusalOf(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(error instanceof Error ? error.message : String(error), '');
}
