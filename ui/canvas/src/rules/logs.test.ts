import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { LogLine } from '../protocol';
import { asText, blocks, matching, sameBlock } from './logs';

const line = (text: string): LogLine => ({ time: null, level: 'output', text });
const lines = (count: number) => Array.from({ length: count }, (_, index) => line(`Line ${index}`));

test('blocks hold all lines in order, none more than a hundred', () => {
  fc.assert(
    fc.property(fc.nat(1000), fc.nat(10_000), (count, first) => {
      const all = lines(count);
      const cut = blocks(all, first);
      expect(cut.flatMap((block) => block.lines)).toEqual(all);
      expect(cut.every((block) => block.lines.length > 0 && block.lines.length <= 100)).toBe(true);
      cut.reduce((next, block) => {
        expect(block.first).toBe(next);
        return next + block.lines.length;
      }, first);
    }),
  );
});

test('as a log grows and is cut off before, blocks that are full stay the same', () => {
  const all = lines(1000);
  const before = blocks(all.slice(0, 640), 0);
  const after = blocks(all.slice(150, 700), 150);
  const kept = after.filter((block) => before.some((old) => sameBlock(old, block)));
  expect(kept.map(({ first }) => first)).toEqual([200, 300, 400, 500]);
});

test('searching minds no case; the copy is plain text', () => {
  const found = matching([line('Epoch 1'), line('loss'), line('EPOCH 2')], ' epoch ');
  expect(asText(found)).toBe('Epoch 1\nEPOCH 2');
  const all = lines(3);
  expect(matching(all, ' ')).toBe(all);
});
