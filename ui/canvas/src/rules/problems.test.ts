import { describe, expect, test } from 'vitest';

import type { Problem } from '../protocol';
import { pinnedTo, ofField, ofNode, ofPort, sorted, worst } from './problems';

function problem(severity: Problem['severity'], node: string | null, rest: Partial<Problem> = {}): Problem {
  return { code: 'c', severity, message: severity, hint: '', node, port: null, parameter: null, ...rest };
}

const PROBLEMS = [
  problem('warning', 'a', { parameter: 'x' }),
  problem('error', 'a', { port: 'in' }),
  problem('info', 'b'),
  problem('error', null),
  problem('error', 'constructor'),
];

describe('problems', () => {
  test('are found where they belong', () => {
    expect(ofNode(PROBLEMS, 'a')).toHaveLength(2);
    expect(ofField(PROBLEMS, 'a', 'x')).toEqual([PROBLEMS[0]]);
    expect(ofPort(PROBLEMS, 'a', 'in')).toEqual([PROBLEMS[1]]);
    expect(ofPort(PROBLEMS, 'b', 'in')).toEqual([]);
  });

  test('pinned to a node are the same list again, so that a card does not redraw', () => {
    for (const node of ['a', 'b', 'constructor', 'toString']) {
      expect(pinnedTo(PROBLEMS, node)).toEqual(ofNode(PROBLEMS, node));
      expect(pinnedTo(PROBLEMS, node)).toBe(pinnedTo(PROBLEMS, node));
    }
  });

  test('are as bad as the worst', () => {
    expect(worst(PROBLEMS)).toBe('error');
    expect(worst([PROBLEMS[2]!, PROBLEMS[0]!])).toBe('warning');
    expect(worst([])).toBeNull();
  });

  test('are sorted errors first, without changing the order among equals', () => {
    expect(sorted(PROBLEMS).map(({ severity, node }) => [severity, node])).toEqual([
      ['error', 'a'],
      ['error', null],
      ['error', 'constructor'],
      ['warning', 'a'],
      ['info', 'b'],
    ]);
    expect(PROBLEMS[0]?.severity).toBe('warning');
  });
});
