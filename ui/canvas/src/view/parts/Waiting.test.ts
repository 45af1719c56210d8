import { createElement } from 'react';
import { expect, test } from 'vitest';

import { markup, texts } from './testing';
import { Refusal, type Asked } from './ask';
import { Waiting } from './Waiting';

function asked(problem: Refusal | null): Asked<unknown> {
  return { answer: null, of: null, problem, waiting: problem === null, again: () => undefined };
}

test('a problem can be asked about again, and a page that is not there left', () => {
  const refused = asked(new Refusal('x.parquet is damaged', 'Run it again.'));
  expect(texts(markup(createElement(Waiting, { asked: refused, as: 'gallery' })))).toEqual([
    'x.parquet is damaged',
    'Run it again.',
    'Try again',
  ]);
  const back = { asked: refused, as: 'gallery' as const, onBack: () => undefined };
  expect(texts(markup(createElement(Waiting, back))).at(-1)).toBe('First page');
});

test('what is awaited has no buttons', () => {
  expect(markup(createElement(Waiting, { asked: asked(null), as: 'table' }))).not.toContain('button');
});

test('in the place of what is awaited there is its outline', () => {
  for (const [as, part] of [
    ['dataset', 'class="tabs"'],
    ['gallery', 'class="thumbs"'],
    ['table', 'class="look-table'],
    ['charts', 'class="charts"'],
    ['document', 'skeleton-rest'],
  ] as const) {
    const drawn = markup(createElement(Waiting, { asked: asked(null), as }));
    expect(drawn).toContain(part);
    expect(drawn).toContain('aria-label="Loading"');
    expect(texts(drawn)).toEqual([]);
  }
});
