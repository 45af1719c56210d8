import { expect, test } from 'vitest';

import type { Problem } from '../protocol';
import { declared } from './declared';
import { notesOf } from './notes';

const problem = (change: Partial<Problem>): Problem => ({
  ...{ code: 'VF301', severity: 'error', message: 'x does not exist', hint: 'Check the spelling.' },
  ...{ node: 'a', port: null, parameter: 'epochs' },
  ...change,
});

test('what the browser sees comes at once, and Python does not say it again', () => {
  const late = problem({ code: 'VF203', message: "must be a whole number, not 'abc'" });
  expect(notesOf(declared(), 'abc', [late]).map(({ text }) => text)).toEqual(['Must be a whole number.']);
});

test('what only Python sees is added, of this field alone', () => {
  const notes = notesOf(declared(), 7, [problem({}), problem({ parameter: 'depth' }), problem({ parameter: null })]);
  expect(notes).toEqual([{ severity: 'error', text: 'X does not exist.', hint: 'Check the spelling.' }]);
});

test('other problems of Python stand beside what the browser sees', () => {
  const notes = notesOf(declared({ required: true, default: null }), undefined, [
    problem({ code: 'VF202', message: 'has no value' }),
    problem({ severity: 'warning', message: 'slow' }),
  ]);
  expect(notes.map(({ severity, text }) => `${severity} ${text}`)).toEqual(['error Needs a value.', 'warning Slow.']);
});

test('a hint that only repeats the help is left out, and so is the same note twice', () => {
  const same = problem({ hint: declared().help });
  expect(notesOf(declared(), 7, [same, same])).toEqual([{ severity: 'error', text: 'X does not exist.', hint: '' }]);
});
