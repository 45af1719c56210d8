import { expect, test } from 'vitest';

import { MAX_NAME } from '../protocol';
import { refused, remark } from './names';

test('a name that is taken, empty or too long is refused', () => {
  expect(refused(' alpha ', ['alpha'])).toBe('There is a pipeline called alpha already: choose another name.');
  expect(refused('alpha 2', ['alpha'])).toBe('');
  expect(refused(' ', [])).toBe('Needs a name.');
  expect(refused('🙂'.repeat(MAX_NAME), [])).toBe('');
  expect(refused('x'.repeat(MAX_NAME + 1), [])).toContain('Too long');
});

test('a name that differs only by case can be used, and its file gets a number', () => {
  expect(refused('Alpha', ['alpha'])).toBe('');
  expect(remark(' Alpha', ['alpha'])).toContain('There is one called alpha');
  expect(remark('beta', ['alpha'])).toBe('');
});
