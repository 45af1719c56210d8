import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { FieldInfo, JsonValue } from '../protocol';
import { declared } from './declared';
import {
  control,
  isChanged,
  isOn,
  limits,
  objection,
  placeholder,
  refers,
  sameValue,
  shown,
  stepped,
  valueOf,
  written,
} from './fields';

const REQUIRED = { required: true, default: null };

describe('controls', () => {
  test.each<[string, Partial<FieldInfo>]>([
    ['switch', { type: 'bool' }],
    ['automatic', { type: 'bool', optional: true }],
    ['choice', { choices: [18, 34] }],
    ['choice', { type: 'bool', choices: [true, false] }],
    ['number', { type: 'int' }],
    ['number', { type: 'float' }],
    ['list', { type: 'list of int' }],
    ['path', { type: 'str', path: { access: 'read', kind: 'file', patterns: [] } }],
    ['secret', { type: 'str', secret: true }],
    ['text', { type: 'str' }],
    ['text', { type: 'any' }],
  ])('%s for %o', (wanted, change) => {
    expect(control(declared(change))).toBe(wanted);
  });
});

// --- text and values there and back ------------------------------------------------------------------

const word = fc.stringMatching(/^[a-z][a-z0-9 _./-]{0,10}[a-z0-9]$/);

const fieldAndValue: fc.Arbitrary<[FieldInfo, JsonValue]> = fc.oneof(
  fc.tuple(fc.constant(declared(REQUIRED)), fc.maxSafeInteger()),
  fc.tuple(fc.constant(declared({ ...REQUIRED, type: 'float' })), fc.double({ noNaN: true, noDefaultInfinity: true })),
  fc.tuple(fc.constant(declared({ ...REQUIRED, type: 'bool' })), fc.boolean()),
  fc.tuple(fc.constant(declared({ ...REQUIRED, type: 'str' })), fc.oneof(word, fc.string({ minLength: 1 }))),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'int', choices: [18, 34, 50] })),
    fc.constantFrom<JsonValue>(18, 34, 50),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'list of int' })),
    fc.array(fc.maxSafeInteger(), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'list of float' })),
    fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'list of bool' })),
    fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'any' })),
    fc.oneof(fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<JsonValue>, fc.constantFrom('5', '[1]', 'true', '"x"')),
  ),
  fc.tuple(fc.constant(declared({ ...REQUIRED, type: 'list of str' })), fc.array(word, { minLength: 1, maxLength: 4 })),
);

test('what is shown of a good value means the value again', () => {
  fc.assert(
    fc.property(fieldAndValue, ([field, value]) => {
      fc.pre(shown(value).trim() !== '');
      // JSON knows no -0.
      expect(valueOf(field, written(field, value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('whatever is typed, what it means is shown so that it means the same', () => {
  const types = ['int', 'float', 'bool', 'str', 'list of int', 'list of str', 'any'];
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.constantFrom(
          '1.',
          '1e3',
          '+5',
          ' 7 ',
          '${p}',
          '$${p}',
          '[1, 2]',
          '00',
          '1e999',
          'null',
          '[]',
          ',',
          '[(a), b]',
          '(a)',
        ),
      ),
      fc.constantFrom(...types),
      fc.boolean(),
      (text, type, optional) => {
        const field = declared({ type, optional, default: null });
        const once = valueOf(field, text);
        expect(valueOf(field, written(field, once))).toEqual(once);
      },
    ),
    { numRuns: 3000 },
  );
});

test('a value without objection is one that the declaration allows', () => {
  const value: fc.Arbitrary<JsonValue> = fc.oneof(
    fc.integer({ min: -20, max: 20 }),
    fc.double(),
    fc.stringMatching(/^[ex5${}. -]{0,5}$/),
    fc.boolean(),
  );
  fc.assert(
    fc.property(value, (given) => {
      const good = objection(declared({ low: 1, high: 10 }), given) === '';
      const number = typeof given === 'string' && /\d/.test(given) ? Number(given) : given;
      const allowed = typeof number === 'number' && Number.isInteger(number) && number >= 1 && number <= 10;
      expect(good).toBe(allowed || refers(given));
    }),
    { numRuns: 1000 },
  );
});

describe('what typed text means', () => {
  const int = declared();
  test.each<[string, FieldInfo, string, JsonValue | undefined]>([
    ['a number', int, ' 12 ', 12],
    ['a number with its thousands apart', int, '1_000', 1000],
    ['no number: the text, kept', int, '12 volumes', '12 volumes'],
    ['a number too long for a browser: its digits, kept', int, '12345678901234567890', '12345678901234567890'],
    ['the default: nothing of its own', int, '5', undefined],
    ['nothing, of a number: its default', int, '', undefined],
    ['nothing, of a list: its default', declared({ type: 'list of int', default: [1] }), '', undefined],
    ['nothing, where nothing is possible: none', declared({ optional: true }), ' ', null],
    ['nothing, where none is the default', declared({ optional: true, default: null }), '', undefined],
    ['nothing, of a text with a default: no text', declared({ type: 'str', default: 'x' }), '', ''],
    ['nothing, of a text that must be given', declared({ ...REQUIRED, type: 'str' }), '', undefined],
    ['nothing, of a path that has a default', declared({ type: 'str', default: '', secret: true }), '', undefined],
    ['a reference', int, '${epochs}', '${epochs}'],
    ['a list of references and numbers', declared({ type: 'list of int' }), '${a}, 3', '${a}, 3'],
    ['a list with a comma too many', declared({ type: 'list of int' }), '8, 8,', [8, 8]],
    ['a list as Python writes it', declared({ type: 'list of int' }), '(8, 8)', [8, 8]],
    ['a choice', declared({ choices: [18, 34], default: 18 }), '34', 34],
    ['no choice', declared({ choices: [18, 34], default: 18 }), '20', '20'],
    ['yes', declared({ type: 'bool', default: false }), 'true', true],
    ['JSON, where anything goes', declared({ type: 'any', default: null }), '[1, "a"]', [1, 'a']],
    ['no JSON, where anything goes', declared({ type: 'any', default: null }), '/data/x', '/data/x'],
  ])('%s', (_, field, text, meant) => {
    expect(valueOf(field, text)).toEqual(meant);
  });
});

describe('objections', () => {
  test.each<[string, FieldInfo, JsonValue | undefined]>([
    ['', declared(), undefined],
    ['Needs a value.', declared(REQUIRED), undefined],
    ['Needs a value.', declared(), null],
    ['', declared({ optional: true }), null],
    ['Must be a whole number.', declared(), 1.5],
    ['Must be a whole number.', declared(), true],
    ['Must be a number.', declared({ type: 'float' }), 'x'],
    ['', declared(), '12'],
    ['', declared(), '12345678901234567890'],
    ['Must be at least 1 MB.', declared({ low: 1, unit: 'MB' }), 0],
    ['Must be at least 1 volume.', declared({ low: 1, unit: 'volumes' }), 0],
    ['Must be at most 10,000 steps.', declared({ high: 10_000, unit: 'steps' }), 10_001],
    ['Must be at least 1e-9.', declared({ type: 'float', low: 1e-9 }), 0],
    ['Must be at least 0.0001.', declared({ type: 'float', low: 0.0001 }), 0],
    ['Must be at most 9.', declared({ high: 9 }), '10'],
    ['', declared({ high: 9 }), '${p}'],
    ['Must be a whole number.', declared(), '$${p}'],
    ['Must be one of 18, 34.', declared({ choices: [18, 34] }), 20],
    ['', declared({ choices: [18, 34] }), '18'],
    ['Must be a list, with commas.', declared({ type: 'list of int' }), 3],
    ['', declared({ type: 'list of int' }), '3, 4'],
    ['', declared({ type: 'list of int' }), ['${a}', 3]],
    ['Must be a whole number.', declared({ type: 'list of int' }), [3, 'x']],
    ['Must be at least 1.', declared({ type: 'list of int', low: 1 }), [3, 0]],
    ['Must be true or false.', declared({ type: 'bool' }), 'perhaps'],
    ['', declared({ type: 'bool' }), 'yes'],
    ['Must be text.', declared({ type: 'str' }), 3],
    ['Needs a value.', declared({ ...REQUIRED, type: 'str' }), '  '],
    ['', declared({ type: 'any' }), [1]],
  ])('"%s"', (said, field, value) => {
    expect(objection(field, value)).toBe(said);
  });
});

describe('the small things of a field', () => {
  test('references, escaped ones left out', () => {
    expect(['${a}', 'x/${a}', '${a}${b}', '$${a}${b}'].map(refers)).toEqual([true, true, true, true]);
    expect(['$${a}', '$a', '{a}', 5, ['${a}'], undefined].map((value) => refers(value))).toEqual(Array(6).fill(false));
  });

  test('a switch is on for yes in words too', () => {
    expect([true, 'true', 'Yes'].every(isOn)).toBe(true);
    expect([false, 'false', 'no', 1, null, undefined].some((value) => isOn(value))).toBe(false);
  });

  test('changed is what differs from the default', () => {
    expect(isChanged(declared(), undefined)).toBe(false);
    expect(isChanged(declared(), 5)).toBe(false);
    expect(isChanged(declared(), 6)).toBe(true);
    expect(isChanged(declared({ type: 'list of int', default: [1] }), [1])).toBe(false);
    expect(sameValue([1], [1, 2])).toBe(false);
  });

  test('the greyed text is the default', () => {
    expect(placeholder(declared(), undefined)).toBe('5');
    expect(placeholder(declared({ type: 'list of int', default: [8, 8] }), undefined)).toBe('8, 8');
    expect(placeholder(declared({ optional: true, default: null }), undefined)).toBe('none');
    expect(placeholder(declared({ optional: true }), null)).toBe('none');
    expect(placeholder(declared(REQUIRED), undefined)).toBe('');
  });

  test('limits in words', () => {
    expect(limits(declared({ low: 1, high: 4096, unit: 'MB' }))).toBe('1 to 4,096 MB');
    expect(limits(declared({ low: 1e-9, high: 10 }))).toBe('1e-9 to 10');
    expect(limits(declared({ low: 0 }))).toBe('at least 0');
    expect(limits(declared({ low: 1, high: 20, unit: 'volumes' }))).toBe('1 to 20 volumes');
    expect(limits(declared({ low: 1, unit: 'volumes' }))).toBe('at least 1 volume');
    expect(limits(declared({ low: 0.125, high: 0.5 }))).toBe('0.125 to 0.5');
    expect(limits(declared({ high: 1 }))).toBe('at most 1');
    expect(limits(declared())).toBe('');
  });

  test('steps: by one, or by the leading digit, and never beyond the limits', () => {
    expect(stepped(declared(), undefined, 1)).toBe(6);
    expect(stepped(declared({ high: 5 }), undefined, 1)).toBe(5);
    const float = declared({ type: 'float', default: 0.0003, low: 1e-9, high: 10 });
    expect(stepped(float, undefined, 1)).toBe(0.0004);
    expect(stepped(float, 0.001, -1)).toBe(0.0009);
    expect(stepped(float, 0.3, -1)).toBe(0.2);
    expect(stepped(float, 9.5, 1)).toBe(10);
    expect(stepped(declared({ type: 'float', default: 0 }), undefined, 1)).toBe(0.1);
    expect(stepped(declared(), 'no number', 1)).toBe(1);
  });
});
