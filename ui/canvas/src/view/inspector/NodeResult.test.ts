import { createElement } from 'react';
import { expect, test } from 'vitest';

import { nodeForecast, nodeStatus, runInfo } from '../../testing';
import { markup } from '../parts/testing';
import { NodeResult } from './NodeResult';

function titles(fresh: boolean, made_by: string): string[] {
  const last = { run_id: made_by, created: 1, made: 'auc 0.8', outputs: [] };
  const html = markup(createElement(NodeResult, { id: 'a' }), {
    run: runInfo({ run_id: 'this', state: 'done' }),
    status: { a: nodeStatus('done', { made: 'auc 0.7' }) },
    forecasts: { a: nodeForecast(fresh, { last }) },
  });
  return Array.from(html.matchAll(/<section aria-label="(.*?)"><h3>(.*?)<\/h3>/g), ([, name, title]) => {
    expect(name).toBe(title);
    return title!;
  });
}

test('a kept result of the values in the editor is not called the last one: this run may be later', () => {
  expect(titles(true, 'earlier')).toEqual(['In this run', 'In the next run', 'Result with these values']);
});

test('the last result is named where the values have none, and none is named twice', () => {
  expect(titles(false, 'later')).toEqual(['In this run', 'In the next run', 'Last result']);
  expect(titles(true, 'this')).toEqual(['In this run', 'In the next run']);
});
