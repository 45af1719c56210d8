import { expect, test } from 'vitest';

import { TYPES } from '../arbitraries';
import { addNode, connect, setMode } from '../document/edits';
import { apply, EMPTY } from '../document/ops';
import type { Doc, Problem } from '../protocol';
import { leftOut, outOf, whyNoBypass } from './modes';

const CHAIN = ['Source', 'Pass', 'Pack', 'Train'].reduce<Doc>((doc, type) => {
  const ids = Object.keys(doc.nodes);
  const { id, ops } = addNode(doc, TYPES[type]!, { x: 0, y: 0 });
  const next = apply(doc, ops);
  const last = ids.at(-1);
  const input = TYPES[type]!.inputs[0]?.name;
  if (last === undefined || input === undefined) return next;
  const output = TYPES[next.nodes[last]!.type]!.outputs[0]!.name;
  return apply(next, connect(next, `${last}.${output}`, `${id}.${input}`));
}, EMPTY);

test('a node can be bypassed when what it is given fits where it went', () => {
  expect(whyNoBypass(CHAIN, TYPES, 'pass')).toBe('');
  expect(whyNoBypass(CHAIN, TYPES, 'pack')).toBe('Pack has no input that Train could take instead.');
  expect(whyNoBypass(CHAIN, TYPES, 'source')).toContain('no input');
  expect(whyNoBypass(CHAIN, TYPES, 'train')).toBe('');
});

test('what takes no part says why: by its mode at once, by what it needs when the engine has said so', () => {
  const off = apply(CHAIN, setMode(CHAIN, ['pack'], 'disabled'));
  const message = 'takes no part in a run: it needs pack, which is disabled';
  const problem: Problem = {
    code: 'VF114',
    severity: 'info',
    message,
    hint: '',
    node: 'train',
    port: null,
    parameter: null,
  };
  expect(outOf(off, [], 'pack')?.word).toBe('Disabled');
  expect(outOf(off, [], 'train')).toBeNull();
  expect(outOf(off, [problem], 'train')).toEqual({ word: 'Left out', detail: 'needs pack, which is disabled' });
  expect(leftOut(off, [problem])).toEqual(new Set(['pack', 'train']));
});
