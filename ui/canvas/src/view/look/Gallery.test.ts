import { createElement } from 'react';
import { expect, test } from 'vitest';

import type { GalleryItem } from '../../protocol';
import { markup, texts } from '../testing';
import { Tile } from './Gallery';

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
