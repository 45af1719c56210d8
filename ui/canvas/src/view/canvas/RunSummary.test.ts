import { createElement } from 'react';
import { expect, test } from 'vitest';

import type { RunFigure } from '../../protocol';
import { markup, texts } from '../parts/testing';
import { Figures } from './RunSummary';

function figure(rest: Partial<RunFigure>): RunFigure {
  return { node: 'train', title: 'Train', name: 'Accuracy', value: 0.5, before: null, better: null, unit: '', ...rest };
}

test('figures of several nodes stand below the name of theirs, and are not cut for it', () => {
  const figures = [figure({}), figure({ name: 'Validation accuracy', value: 0.25 })];
  expect(texts(markup(createElement(Figures, { figures, titled: true })))).toEqual([
    'Train',
    'Accuracy',
    '0.5',
    'Validation accuracy',
    '0.25',
  ]);
  expect(texts(markup(createElement(Figures, { figures, titled: false })))).not.toContain('Train');
});
