import { expect, test } from 'vitest';

import { choosing, moved, placeIn, START, type Places } from './place';

test('each panel keeps where one is in it, with all that was chosen before', () => {
  let places: Places = {};
  places = moved(places, 'volumes', { chosen: { label: '1', order: 'random' } });
  places = moved(places, 'volumes', { seed: 3 });
  places = moved(places, 'volumes', { shown: 96, scroll: 700 });
  places = moved(places, 'rows', { offset: 50 });
  expect(placeIn(places, 'volumes')).toEqual({
    ...START,
    chosen: { label: '1', order: 'random' },
    seed: 3,
    shown: 96,
    scroll: 700,
  });
  expect(placeIn(places, 'rows')).toEqual({ ...START, offset: 50 });
  expect(placeIn(places, 'constructor')).toBe(START);
});

test('another choice begins at the first volume of the same shuffle and channel', () => {
  const before = moved({}, 'volumes', { seed: 2, channel: 1, shown: 144, offset: 100 });
  const after = placeIn(moved(before, 'volumes', choosing({ label: '0' })), 'volumes');
  expect(after).toEqual({ ...START, seed: 2, channel: 1, chosen: { label: '0' } });
});
