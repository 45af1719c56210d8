import { expect, test } from 'vitest';

import { ago, plural, sentence, size, timeOfDay } from './wording';

test('counts of things', () => {
  expect([plural(1, 'volumes'), plural(2000, 'volumes'), plural(3, 'MB'), plural(1, 'MB'), plural(7, '')]).toEqual([
    '1 volume',
    '2,000 volumes',
    '3 MB',
    '1 MB',
    '7',
  ]);
  // As `engine.text.plural`.
  expect([plural(1, 'batches'), plural(1, 'patches')]).toEqual(['1 batch', '1 patch']);
});

test('sizes as on the command line', () => {
  expect([0, 999, 1000, 9940, 9960, 999_600, 720e6, 1.2e9, 5e15].map(size)).toEqual([
    '0 bytes',
    '999 bytes',
    '1.0 kB',
    '9.9 kB',
    '10 kB',
    '1.0 MB',
    '720 MB',
    '1.2 GB',
    '5,000 TB',
  ]);
});

test('how long ago', () => {
  const now = 1_750_000_000;
  const back = [-10, 20, 90, 3500, 3590, 7200, 86_000, 3 * 86_400];
  expect(back.map((seconds) => ago(now - seconds, now))).toEqual([
    'just now',
    'just now',
    '2 min ago',
    '58 min ago',
    '1 h ago',
    '2 h ago',
    '1 day ago',
    '3 days ago',
  ]);
  expect(ago(now - 40 * 86_400, now)).toMatch(/^2025-05-\d\d$/);
});

test('the time of day is local', () => {
  const moment = new Date(2026, 0, 2, 3, 4, 5).getTime() / 1000;
  expect(timeOfDay(moment)).toBe('03:04:05');
});

test('messages become sentences, and what is one stays', () => {
  expect(['has no value', 'Saved.', 'why?', '', ' x '].map(sentence)).toEqual([
    'Has no value.',
    'Saved.',
    'Why?',
    '',
    'X.',
  ]);
});
