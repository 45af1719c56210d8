import { createElement } from 'react';
import { expect, test } from 'vitest';

import type { NodeStatus, OutputInfo, RunInfo } from '../../protocol';
import type { State } from '../../state/state';
import { nodeForecast, nodeStatus, runInfo } from '../../testing';
import { markup, texts } from '../parts/testing';
import { CardStrip } from './CardStrip';

function output(value: number, name = 'AUC'): OutputInfo {
  return { port: 'out', kind: 'Report', uri: 'u', figures: '', headline: { name, value }, view: '' };
}

const KEPT = nodeForecast(false, { last: { run_id: 'earlier', created: 1, made: '', outputs: [output(0.786)] } });

function shown(status: NodeStatus | undefined, run: RunInfo | null = runInfo()): string {
  const state: Partial<State> = { run, status: status ? { a: status } : {}, forecasts: { a: KEPT } };
  return markup(createElement(CardStrip, { id: 'a' }), state);
}

test.each(['queued', 'waiting', 'running', 'failed', 'cancelled', 'skipped'] as const)(
  'a node that is %s shows no figure of an earlier run',
  (state) => {
    expect(shown(nodeStatus(state))).toBe('');
  },
);

test('a figure that is kept is shown before a run, and after one that was lost', () => {
  expect(texts(shown(undefined, null))).toEqual(['0.786', 'AUC']);
  expect(texts(shown(nodeStatus('queued'), runInfo({ state: 'lost' })))).toEqual(['0.786', 'AUC']);
});

test('what the run made comes before what is kept', () => {
  expect(texts(shown(nodeStatus('done', { outputs: [output(0.9)] })))).toEqual(['0.9', 'AUC']);
});

test('a curve beside the figure is labelled as the loss', () => {
  const made = { curve: [0.9, 0.5, 0.45], outputs: [output(0.825, 'Validation AUC')] };
  const html = shown(nodeStatus('done', made));
  expect(texts(html.replace(/<title>.*<\/title>/, ''))).toEqual(['0.825', 'Validation AUC', 'loss']);
  expect(html).toContain('aria-label="Loss, from 0.9 to 0.45"');
  // Where the loss itself is the figure, it is named there.
  const training = shown(nodeStatus('running', { curve: made.curve }));
  expect(texts(training.replace(/<title>.*<\/title>/, ''))).toEqual(['0.45', 'Loss']);
});
