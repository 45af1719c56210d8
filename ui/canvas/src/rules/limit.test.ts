import { expect, test } from 'vitest';

import type { ProfileInfo } from '../protocol';
import { limitOf, objections, textsOf } from './limit';

const PROFILE: ProfileInfo = {
  name: 'vm',
  backend: 'embedded',
  description: '',
  price: 0.4,
  currency: 'USD',
  priced: '',
  stop_after: '3h',
  stop_at_cost: 20,
};
const NO_PRICE: ProfileInfo = { ...PROFILE, price: null, stop_after: '', stop_at_cost: null };

test('the fields begin with the limit of the profile', () => {
  expect(textsOf(PROFILE)).toEqual({ after: '3h', cost: '20' });
  expect(textsOf(NO_PRICE)).toEqual({ after: '', cost: '' });
  expect(textsOf(undefined)).toEqual({ after: '', cost: '' });
});

test('fields that nobody touched leave the limit to the profile; emptied ones take it away', () => {
  expect(limitOf(null)).toBeNull();
  expect(limitOf({ after: '', cost: '' })).toEqual({ stop_after: '', stop_at_cost: null });
  expect(limitOf({ after: ' 90min ', cost: '2.5' })).toEqual({ stop_after: '90min', stop_at_cost: 2.5 });
});

test('what is no time, no amount, or a cost without a price is said at its field', () => {
  expect(objections({ after: '3h', cost: '20' }, PROFILE)).toEqual({ after: '', cost: '' });
  expect(objections({ after: '', cost: '' }, NO_PRICE)).toEqual({ after: '', cost: '' });
  expect(objections({ after: '3', cost: '-1' }, PROFILE)).toEqual({
    after: 'A time such as 3h, 90min or 1h30min.',
    cost: 'An amount above 0, such as 20.',
  });
  expect(objections({ after: '', cost: '20' }, NO_PRICE).cost).toContain('has no price');
});
