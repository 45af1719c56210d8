import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc, JsonValue } from '../protocol';
import { docNode } from '../testing';
import { declared } from '../rules/declared';
import { plain, references } from '../document/references';
import { doc as anyDoc } from '../arbitraries';
import { apply, EMPTY } from './ops';
import { bindToNew, removeAndKeepValues, unbind } from './parameters';

const node = (params: Record<string, JsonValue>) => docNode({ type: 'Train', params });
const doc = (params: Record<string, JsonValue>, parameters: Doc['parameters'] = {}): Doc => ({
  ...EMPTY,
  parameters,
  nodes: { a: node(params) },
});
const FIELD = declared({ name: 'epochs', default: 5 });

describe('binding to a new parameter', () => {
  test('moves the value there', () => {
    const bound = apply(doc({ epochs: 7 }), bindToNew(doc({ epochs: 7 }), 'a', FIELD));
    expect(bound.parameters).toEqual({ epochs: { value: 7, help: FIELD.help } });
    expect(bound.nodes.a?.params).toEqual({ epochs: '${epochs}' });
  });

  test('takes the default where there is no value, and a free name', () => {
    const before = doc({}, { epochs: { value: 1, help: '' } });
    const bound = apply(before, bindToNew(before, 'a', FIELD));
    expect(bound.parameters.epochs_2?.value).toBe(5);
    expect(bound.nodes.a?.params.epochs).toBe('${epochs_2}');
  });

  test('makes the parameter that a field refers to in vain', () => {
    const before = doc({ epochs: '${rounds}' });
    const bound = apply(before, bindToNew(before, 'a', FIELD, 'rounds'));
    expect(bound.parameters).toEqual({ rounds: { value: 5, help: FIELD.help } });
    expect(bound.nodes.a?.params.epochs).toBe('${rounds}');
  });

  test('and back gives the value again', () => {
    const before = doc({ epochs: 7 });
    const bound = apply(before, bindToNew(before, 'a', FIELD));
    expect(apply(bound, unbind(bound, 'a', 'epochs', 'epochs')).nodes.a?.params).toEqual({ epochs: 7 });
  });

  test.each([['$${HOME}/data'], [['$${A}', 'b']], ['$${open'], ['$$${A}']])(
    'leaves what the node gets as it was: %j',
    (held) => {
      // A parameter's value is taken as it is: nothing in it refers to anything, nor is escaped.
      const before = doc({ epochs: held });
      const bound = apply(before, bindToNew(before, 'a', FIELD));
      expect(bound.parameters.epochs?.value).toEqual(plain(held));
      expect(apply(bound, unbind(bound, 'a', 'epochs', 'epochs')).nodes.a?.params).toEqual({ epochs: held });
    },
  );

  test('is nothing for a value that takes parameters already: that of a parameter takes none', () => {
    const before = doc({ epochs: '${root}/data' }, { root: { value: '/srv', help: '' } });
    expect(bindToNew(before, 'a', FIELD)).toEqual([]);
  });
});

test('a field freed of a parameter without value goes back to its default', () => {
  const bound = doc({ epochs: '${n}' }, { n: { value: null, help: '' } });
  expect(apply(bound, unbind(bound, 'a', 'epochs', 'n')).nodes.a?.params).toEqual({});
});

test('a field freed of a parameter whose value looks like a reference gets that text', () => {
  const bound = doc({ epochs: '${n}' }, { n: { value: '${HOME}/data', help: '' }, HOME: { value: '/srv', help: '' } });
  for (const ops of [unbind(bound, 'a', 'epochs', 'n'), removeAndKeepValues(bound, 'n')])
    expect(apply(bound, ops).nodes.a?.params).toEqual({ epochs: '$${HOME}/data' });
});

test('a parameter taken away leaves its value in the fields that were nothing but it', () => {
  fc.assert(
    fc.property(anyDoc, fc.nat(), (before, at) => {
      const names = Object.keys(before.parameters);
      fc.pre(names.length > 0);
      const name = names[at % names.length] ?? '';
      const after = apply(before, removeAndKeepValues(before, name));
      expect(Object.hasOwn(after.parameters, name)).toBe(false);
      for (const [id, { params }] of Object.entries(after.nodes)) {
        for (const [field, value] of Object.entries(params)) {
          const old = before.nodes[id]?.params[field];
          if (old !== `\${${name}}`) expect(value).toEqual(old);
          else expect([references(value), plain(value)]).toEqual([[], before.parameters[name]?.value]);
        }
      }
    }),
  );
});
