import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { FieldInfo, JsonValue } from '../protocol';
import { declared } from './declared';
import {
  isChanged,
  isOn,
  limits,
  objection,
  inForce,
  placeholder,
  refers,
  sameValue,
  shown,
  stepped,
  valueOf,
  written,
} from './fields';

const REQUIRED = { required: true, default: null };

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
    fc.constant(declared({ ...REQUIRED, type: 'int', many: true, widget: 'list' })),
    fc.array(fc.maxSafeInteger(), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'float', many: true, widget: 'list' })),
    fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'bool', many: true, widget: 'list' })),
    fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'any' })),
    fc.oneof(fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<JsonValue>, fc.constantFrom('5', '[1]', 'true', '"x"')),
  ),
  fc.tuple(
    fc.constant(declared({ ...REQUIRED, type: 'str', many: true, widget: 'list' })),
    fc.array(word, { minLength: 1, maxLength: 4 }),
  ),
);

test('what is shown of a good value means the value again', () => {
  fc.assert(
    fc.property(fieldAndValue, ([field, value]) => {
      fc.pre(shown(value).trim() !== '');
      // A whole number of more digits than a browser holds stays text.
      fc.pre(!Number.isInteger(value) || Number.isSafeInteger(value));
      // JSON knows no -0.
      expect(valueOf(field, written(field, value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('whatever is typed, what it means is shown so that it means the same', () => {
  const types = ['int', 'float', 'bool', 'str', 'any'] as const;
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.constantFrom(
          '1.',
          '1e3',
          '-0',
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
          '""',
          '"  "',
        ),
      ),
      fc.constantFrom(...types),
      fc.boolean(),
      fc.boolean(),
      (text, type, many, optional) => {
        const field = declared({ type, many: many && type !== 'any', optional, default: null });
        const once = valueOf(field, text);
        // JSON knows no -0.
        const stored = once === undefined ? once : (JSON.parse(JSON.stringify(once)) as JsonValue);
        expect(valueOf(field, written(field, once))).toEqual(stored);
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
    [
      'nothing, of a list: its default',
      declared({ type: 'int', many: true, widget: 'list', default: [1] }),
      '',
      undefined,
    ],
    ['nothing, where nothing is possible: none', declared({ optional: true }), ' ', null],
    ['nothing, where none is the default', declared({ optional: true, default: null }), '', undefined],
    ['nothing, of a text with a default: no text', declared({ type: 'str', default: 'x' }), '', ''],
    ['nothing, of a text that must be given', declared({ ...REQUIRED, type: 'str' }), '', undefined],
    ['nothing, of a path that has a default', declared({ type: 'str', default: '', widget: 'secret' }), '', undefined],
    ['a reference', int, '${epochs}', '${epochs}'],
    ['a list of references and numbers', declared({ type: 'int', many: true, widget: 'list' }), '${a}, 3', '${a}, 3'],
    ['a list with a comma too many', declared({ type: 'int', many: true, widget: 'list' }), '8, 8,', [8, 8]],
    ['a list as Python writes it', declared({ type: 'int', many: true, widget: 'list' }), '(8, 8)', [8, 8]],
    ['a choice', declared({ choices: [18, 34], default: 18 }), '34', 34],
    ['no choice', declared({ choices: [18, 34], default: 18 }), '20', '20'],
    ['yes', declared({ type: 'bool', default: false }), 'true', true],
    ['JSON, where anything goes', declared({ type: 'any', default: null }), '[1, "a"]', [1, 'a']],
    ['JSON with a reference', declared({ type: 'any', default: null }), '["${p}", 1]', ['${p}', 1]],
    ['JSON with a key like one', declared({ type: 'any', default: null }), '{"${": null}', { '${': null }],
    ['a reference, where anything goes', declared({ type: 'any', default: null }), '${p}', '${p}'],
    ['no JSON, where anything goes', declared({ type: 'any', default: null }), '/data/x', '/data/x'],
  ])('%s', (_, field, text, meant) => {
    expect(valueOf(field, text)).toEqual(meant);
  });
});

// What is said of which value is in ui/protocol/cases/fields.json, which Python's checks are held to as well.
test('where anything goes nothing is wrong', () => {
  for (const value of [[1], 'x', 5, true, null, undefined])
    expect(objection(declared({ type: 'any', optional: true }), value)).toBe('');
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
    expect(isChanged(declared({ type: 'int', many: true, widget: 'list', default: [1] }), [1])).toBe(false);
    expect(sameValue([1], [1, 2])).toBe(false);
  });

  test('a default is shown as a value, and none as such', () => {
    const list = declared({ type: 'int', many: true, widget: 'list', default: [8, 8] });
    expect(inForce(declared(), undefined)).toBe(5);
    expect(inForce(declared(), 7)).toBe(7);
    expect(written(list, inForce(list, undefined))).toBe('8, 8');
    expect(inForce(declared({ optional: true }), null)).toBe(null);
    expect(inForce(declared({ ...REQUIRED, default: 5 }), undefined)).toBe(undefined);
    expect(placeholder(declared({ optional: true, default: null }))).toBe('none');
    expect(placeholder(declared({ ...REQUIRED, placeholder: 'NAME' }))).toBe('NAME');
    expect(placeholder(declared())).toBe('');
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
    // Text of a document counts for the number that it is to Python.
    expect([stepped(declared(), '1_000', 1), stepped(declared(), '0x10', 1)]).toEqual([1001, 1]);
    expect(stepped(declared(), 123456789012345, 1)).toBe(123456789012346);
    expect(stepped(declared({ type: 'float', step: 0.1 }), 0.7, 1)).toBe(0.8);
  });
});
