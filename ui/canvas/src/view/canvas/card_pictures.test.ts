import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { cardPicture } from './card_pictures';

const PICTURE = { panel: 'volumes', items: [{ row: 0, id: 'a', label: '', note: '' }] };

/** The app's answers, one after the other; a status without text is a refusal. */
function answering(...statuses: number[]): () => number {
  let asked = 0;
  vi.stubGlobal('fetch', () => {
    const status = statuses[asked] ?? 500;
    asked += 1;
    if (status === 0) return Promise.reject(new TypeError('Failed to fetch'));
    return Promise.resolve(new Response(status === 200 ? JSON.stringify(PICTURE) : '{}', { status }));
  });
  return () => asked;
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a picture that could not be read for a moment comes all the same', async () => {
  const asked = answering(0, 503, 200);
  const found = cardPicture('/away');
  await vi.runAllTimersAsync();
  expect(await found).toEqual(PICTURE);
  expect(asked()).toBe(3);
});

test('what cannot be read is asked for once, and what never comes has an end', async () => {
  const once = answering(422);
  expect(await cardPicture('/damaged')).toBeNull();
  expect(once()).toBe(1);
  const asked = answering();
  const found = cardPicture('/down');
  await vi.runAllTimersAsync();
  expect(await found).toBeNull();
  expect(asked()).toBeLessThan(10);
});

test('while one waits for its next turn, others are read', async () => {
  answering(503, 503, 200);
  const late = [cardPicture('/late-1'), cardPicture('/late-2')];
  expect(await cardPicture('/next')).toEqual(PICTURE);
  await vi.runAllTimersAsync();
  expect(await Promise.all(late)).toEqual([null, null]);
});
