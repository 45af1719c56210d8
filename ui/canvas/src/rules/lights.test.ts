import { describe, expect, test } from 'vitest';

import type { NodeStatus, NodeForecast, RunInfo } from '../protocol';
import { count, rate } from './figures';
import { compared, light, lightState, reasonOf, recorded, whereItRuns } from './lights';

function status(state: NodeStatus['state'], rest: Partial<NodeStatus> = {}): NodeStatus {
  return {
    state,
    reason: '',
    attempt: 1,
    started: null,
    ended: null,
    progress: null,
    made: '',
    outputs: [],
    curve: [],
    failure: null,
    ...rest,
  };
}

function forecast(fresh: boolean, rest: Partial<NodeForecast> = {}): NodeForecast {
  return {
    fresh,
    reason: fresh ? '' : 'never run',
    backend: 'embedded',
    backend_reason: '',
    advice: '',
    requests: null,
    low_s: null,
    high_s: null,
    basis: '',
    last: null,
    ...rest,
  };
}

function run(state: RunInfo['state']): RunInfo {
  return {
    run_id: 'r',
    state,
    profile: 'local',
    error: '',
    created: 0,
    started: 0,
    ended: null,
    paused: 0,
    cancelling: false,
    changes: '',
    given: '',
    limit: '',
    limited: false,
    figures: [],
    against: '',
  };
}

const last = (run_id: string) => ({ run_id, created: 0, made: '5 volumes', outputs: [] });

describe('the state of a card', () => {
  test('without a run is what a run would do', () => {
    expect(lightState(undefined, undefined, null)).toBe('idle');
    expect(lightState(undefined, forecast(true), null)).toBe('fresh');
    expect(lightState(undefined, forecast(false), null)).toBe('stale');
  });

  test('is what the run does while it goes on', () => {
    for (const state of ['queued', 'waiting', 'running', 'done', 'cached', 'failed', 'cancelled', 'skipped'] as const) {
      expect(lightState(status(state), forecast(false), run('running'))).toBe(state);
      expect(lightState(status(state), undefined, run('starting'))).toBe(state);
    }
    expect(lightState(undefined, forecast(false), run('running'))).toBe('stale');
  });

  test('stays done after the run, until an edit makes it stale', () => {
    const before = forecast(false);
    expect(lightState(status('done'), before, run('done'))).toBe('done');
    expect(lightState(status('done'), forecast(true, { last: last('r') }), run('done'))).toBe('done');
    expect(lightState(status('done'), forecast(false, { last: last('r') }), run('done'))).toBe('stale');
    expect(lightState(status('cached'), forecast(false, { last: last('older') }), run('done'))).toBe('stale');
    expect(lightState(status('cached'), forecast(true), run('done'))).toBe('cached');
  });

  test('keeps what went wrong, and forgets what a lost run left under way', () => {
    expect(lightState(status('failed'), forecast(false), run('failed'))).toBe('failed');
    expect(lightState(status('skipped'), forecast(false), run('failed'))).toBe('skipped');
    expect(lightState(status('running'), forecast(false), run('lost'))).toBe('stale');
    expect(lightState(status('queued'), undefined, run('cancelled'))).toBe('idle');
  });
});

describe('what a card says', () => {
  const progress = {
    done: 1234,
    total: 2000,
    unit: 'volumes',
    label: 'part 3',
    rate: 512.4,
    seconds_left: 12.2,
    phase: '',
    share: 0.617,
    counts: true,
  };

  test('of a running node: how far, how fast, how long still', () => {
    const said = light(status('running', { started: 100, progress }), undefined, run('running'), 130);
    expect(said).toMatchObject({ word: '1,234 / 2,000 volumes', time: '12 s left', detail: '512/s · part 3' });
    expect(said.full).toBe('Running · 1,234 / 2,000 volumes · 512/s · 12 s left · part 3');
    expect(said.share).toBeCloseTo(0.617);
  });

  test('of a running node that failed before: which attempt it is', () => {
    const said = light(status('running', { attempt: 2, progress }), undefined, run('running'), 0);
    expect(said.detail).toBe('attempt 2 · 512/s · part 3');
  });

  test('of one that does not know how much there is', () => {
    const open = { ...progress, total: null, rate: null, seconds_left: null, share: null, label: '' };
    const said = light(status('running', { started: 100, progress: open }), undefined, run('running'), 165);
    expect(said).toMatchObject({ word: '1,234 volumes', time: '1 min 05 s', detail: '', share: null });
    expect(light(status('running'), undefined, run('running'), 0)).toMatchObject({ word: 'Running', time: '' });
  });

  test('of one with phases: which it is in, then how it goes in there', () => {
    const inside = { ...progress, phase: 'Epoch 2 of 3', label: 'loss 0.31', share: 0.5, seconds_left: 190 };
    const said = light(status('running', { started: 100, progress: inside }), undefined, run('running'), 130);
    expect(said).toMatchObject({ word: 'Epoch 2 of 3', time: '3 min 10 s left', share: 0.5 });
    expect(said.detail).toBe('loss 0.31 · 512/s · 1,234 / 2,000 volumes');
    expect(said.full).toBe('Running · Epoch 2 of 3 · 1,234 / 2,000 volumes · 512/s · 3 min 10 s left · loss 0.31');
  });

  test('of one that has begun a phase and counts nothing in it: its name and how long it takes already', () => {
    const begun = {
      done: 0,
      total: null,
      unit: '',
      label: '',
      rate: null,
      seconds_left: null,
      phase: 'Starting TensorFlow',
      share: null,
      counts: false,
    };
    const said = light(
      status('running', { started: 100, reason: 'why', progress: begun }),
      undefined,
      run('running'),
      104,
    );
    expect(said).toMatchObject({ word: 'Starting TensorFlow', time: '4.0 s', detail: '', share: null });
  });

  test('of a finished one: how long it took and what it made', () => {
    const done = status('done', { started: 10, ended: 210, made: '640 volumes' });
    expect(light(done, undefined, run('done'), 0)).toMatchObject({
      word: 'Done',
      time: '3 min 20 s',
      detail: '640 volumes',
    });
    const plain = light(status('done', { reason: 'never ran before', made: '' }), undefined, run('done'), 0);
    expect(plain.full).toBe('Done');
    const failure = { code: 'x', message: 'Disk full.', hint: 'Free some.', parameter: null };
    const failed = light(status('failed', { failure }), undefined, run('failed'), 0);
    expect(failed).toMatchObject({ word: 'Failed', detail: 'Disk full.', full: 'Failed · Disk full. · Free some.' });
    expect(light(status('skipped', { reason: 'make failed' }), undefined, run('failed'), 0).detail).toBe('make failed');
  });

  test('in a run: why it runs or was left, and nothing of that once it ran', () => {
    const why = { reason: 'never ran before' };
    expect(reasonOf(status('queued', why))).toBe('never ran before');
    expect(reasonOf(status('running', why))).toBe('never ran before');
    expect(reasonOf(status('skipped', { reason: 'make failed' }))).toBe('make failed');
    expect(reasonOf(status('done', why))).toBe('');
    const failure = { code: 'x', message: 'Disk full.', hint: '', parameter: null };
    expect(reasonOf(status('failed', { ...why, failure }))).toBe('');
    expect(reasonOf(status('failed', { reason: 'its log was lost' }))).toBe('its log was lost');
  });

  test('of one at rest: why it will run, or what it made last', () => {
    expect(light(undefined, forecast(false), null, 0)).toMatchObject({ word: 'Will run', detail: 'never run' });
    expect(light(undefined, forecast(true, { last: last('q') }), null, 0)).toMatchObject({
      word: 'Up to date',
      detail: '5 volumes',
    });
  });

  test('of one that a problem holds back: the problem, but not over what a run says', () => {
    expect(light(undefined, forecast(false), null, 0, 'Not wired.')).toMatchObject({
      word: 'Not ready',
      detail: 'Not wired.',
      blocked: true,
      state: 'stale',
    });
    expect(light(status('done'), undefined, run('done'), 0, 'Not wired.')).toMatchObject({
      word: 'Done',
      blocked: false,
    });
  });
});

describe('figures', () => {
  test.each([
    [0, '0'],
    [1234567, '1,234,567'],
    [12.34, '12.3'],
    [0.03123, '0.031'],
    [512.6, '513'],
  ])('count %d', (n, text) => {
    expect(count(n)).toBe(text);
  });

  test.each([
    [512.4, '512/s'],
    [0.05, '3/min'],
    [0, ''],
    [2.34, '2.3/s'],
  ])('rate %d', (n, text) => {
    expect(rate(n)).toBe(text);
  });
});

test('where a node runs is explained when there is something to explain', () => {
  const forecast = {
    ...{ fresh: false, reason: '', backend: 'embedded', backend_reason: '', advice: '', last: null },
    ...{ low_s: null, high_s: null, basis: '', requests: null },
  };
  expect(whereItRuns(forecast)).toBe('on embedded');
  expect(whereItRuns({ ...forecast, backend: 'spark', backend_reason: 'profile cluster' })).toBe(
    'on spark (profile cluster)',
  );
});

describe('a card in a picture', () => {
  test('shows what the run recorded, whatever a run would do today', () => {
    expect(recorded(status('queued', { reason: 'waits for a' }), run('failed'), 0)).toMatchObject({
      state: 'queued',
      detail: 'waits for a',
    });
    expect(recorded(status('done', { made: '5 volumes', started: 1, ended: 3 }), run('done'), 0)).toMatchObject({
      state: 'done',
      time: '2.0 s',
      detail: '5 volumes',
    });
    expect(recorded(undefined, run('done'), 0)).toMatchObject({ state: 'left-out', word: 'Left out' });
  });

  test('shows what differs between two documents', () => {
    expect(compared({ change: 'changed', detail: 'epochs 3 → 5' })).toMatchObject({
      state: 'changed',
      word: 'Changed',
      detail: 'epochs 3 → 5',
      full: 'Changed · epochs 3 → 5',
    });
    expect(compared(undefined)).toMatchObject({ state: 'same', word: 'Same', detail: '' });
  });
});
