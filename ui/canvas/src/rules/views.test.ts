import { expect, it } from 'vitest';

import type { NodeForecast, NodeStatus, OutputInfo } from '../protocol';
import { viewsOf } from './views';

const output = (port: string, view: string): OutputInfo => ({
  port,
  kind: 'K',
  uri: '',
  figures: '',
  view,
  headline: null,
});
const status = (...outputs: OutputInfo[]) => ({ a: { outputs } as NodeStatus });
const forecast = (...outputs: OutputInfo[]) => ({ a: { last: { outputs } } as NodeForecast });

it('shows what the run made, else what was made last, else what is there before any', () => {
  const views = { 'a.out': 'there' };
  expect(viewsOf({ status: {}, forecasts: {}, views }, 'a', ['out'])).toEqual([{ port: 'out', key: 'there' }]);
  expect(viewsOf({ status: {}, forecasts: forecast(output('out', 'last')), views }, 'a', ['out'])).toEqual([
    { port: 'out', key: 'last' },
  ]);
  const known = { status: status(output('out', 'now')), forecasts: forecast(output('out', 'last')), views };
  expect(viewsOf(known, 'a', ['out'])).toEqual([{ port: 'out', key: 'now' }]);
});

it('leaves out ports without anything to see, and keeps the order of the ports', () => {
  const known = { status: status(output('b', '2'), output('a', '1'), output('c', '')), forecasts: {}, views: {} };
  expect(viewsOf(known, 'a', ['a', 'b', 'c', 'd']).map(({ port }) => port)).toEqual(['a', 'b']);
  expect(viewsOf(known, 'other', ['a'])).toEqual([]);
});
