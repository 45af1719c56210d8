import { createElement } from 'react';
import { expect, test } from 'vitest';

import type { Choices, GalleryItem, PanelInfo, Picked } from '../../protocol';
import { Refusal, type Asked } from '../parts/ask';
import { markup, texts } from '../parts/testing';
import { canShuffle } from './Choices';
import { Further, shownText, Tile, Volumes } from './Gallery';
import { MOST, PAGE, START } from './place';

function tile(item: Partial<GalleryItem>): string {
  return markup(
    createElement(Tile, {
      item: { row: 0, id: 'a/v00225.npy', label: '', note: '', ...item },
      onOpen: () => undefined,
    }),
  );
}

test('a tile names its volume and its class, the tooltip both in full', () => {
  const labelled = tile({ label: 'channel sandstone' });
  expect(labelled).toContain('title="a/v00225.npy, channel sandstone"');
  expect(texts(labelled).at(-1)).toBe('channel sandstone');
  expect(tile({ label: '1', note: 'says 1 (54%), is 0' })).toContain('title="a/v00225.npy, says 1 (54%), is 0"');
});

test('a volume without a label takes no line for one', () => {
  expect(tile({})).toContain('title="a/v00225.npy"');
  expect(tile({})).not.toContain('thumb-label');
});

function ways(shown: number, offset: number, found: number, total: number | null): string[] {
  const place = { ...START, shown, offset };
  return texts(markup(createElement(Further, { place, found, total, onMove: () => undefined })));
}

test('a gallery leads to all of its volumes, and back', () => {
  expect(ways(PAGE, 0, PAGE, 500)).toEqual(['Show more']);
  expect(ways(MOST, 0, MOST, 500)).toEqual(['Next 192']);
  expect(ways(MOST, MOST, MOST, 500)).toEqual(['Previous 192', 'Next 116']);
  expect(ways(MOST, 2 * MOST, 116, 500)).toEqual(['Previous 192']);
  expect(ways(MOST, 0, MOST, MOST)).toEqual([]);
  // The total of a split is unknown: its last page is the one that is not full.
  expect(ways(MOST, 0, MOST, null)).toEqual(['Next 192']);
  expect(ways(MOST, MOST, 3, null)).toEqual(['Previous 192']);
});

test('it says which of them are shown', () => {
  expect(shownText(0, 48, 2000)).toBe('48 of 2,000');
  expect(shownText(192, 192, 2000)).toBe('193 to 384 of 2,000');
  expect(shownText(192, 192, null)).toBe('193 to 384 shown');
});

const CHOICES: Choices['choices'] = [
  {
    name: 'show',
    title: 'Show',
    options: [
      { value: 'mistakes', text: 'Surest mistakes' },
      { value: 'random', text: 'Random' },
    ],
  },
  { name: 'label', title: 'Label', options: [{ value: '', text: 'Any' }] },
];

function volumes(asked: Partial<Asked<Picked>>, offset: number): string {
  const panel: PanelInfo = { name: 'volumes', title: 'Volumes', kind: 'gallery', shape: [4, 4, 4], dtype: 'float32' };
  return markup(
    createElement(Volumes, {
      dataset: 'key',
      panel,
      place: { ...START, shown: MOST, offset },
      asked: { answer: null, of: null, problem: null, waiting: false, again: () => undefined, ...asked },
      choices: CHOICES,
      onMove: () => undefined,
      onOpen: () => undefined,
    }),
  );
}

test('while a further page is awaited, what is said is true of the volumes that are still shown', () => {
  const items = Array.from({ length: MOST }, (_, row) => ({ row, id: `v${row}`, label: '', note: '' }));
  const before = { answer: { items, total: 300 }, of: `/key/volumes/content?offset=0&count=${MOST}`, waiting: true };
  const said = texts(volumes(before, MOST));
  expect(said).toContain('192 of 300');
  expect(said).toContain('Next 108');
  expect(said).not.toContain('Previous 192');
});

test('from a page that cannot be read there is a way back, by the first page and by another choice', () => {
  const lost = { problem: new Refusal('part-3.parquet is gone', 'Run it again.') };
  expect(texts(volumes(lost, MOST))).toContain('First page');
  expect(texts(volumes(lost, MOST))).toContain('Surest mistakes');
  expect(texts(volumes(lost, 0))).not.toContain('First page');
});

test('only a random order can be shuffled', () => {
  expect(canShuffle(CHOICES, {})).toBe(false);
  expect(canShuffle(CHOICES, { show: 'random' })).toBe(true);
  expect(canShuffle([], {})).toBe(true);
  expect(canShuffle(CHOICES.slice(1), {})).toBe(true);
});
