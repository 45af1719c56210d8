import { describe, expect, test } from 'vitest';

import { EMPTY } from '../document/ops';
import type { Doc, DocNode, FieldInfo, JsonValue, NodeTypeInfo } from '../protocol';
import { docNode } from '../testing';
import { declared } from './declared';
import { choicesOf, limits } from './fields';
import { reference, references, wholeReference } from '../document/references';
import { fieldAt, fieldOf, usesOf, withoutValue } from './parameters';

const node = (type: string, params: Record<string, JsonValue>, order = 0) => docNode({ type, params, order });
const type = (name: string, fields: FieldInfo[]): NodeTypeInfo => ({
  ...{ type: name, version: 1, category: '', summary: '', description: '', origin: '', backends: [] },
  ...{ light: '#000000', dark: '#ffffff', icon: 'M3 12h18', keywords: [] },
  ...{ inputs: [], outputs: [], fields },
});
const TYPES = {
  Train: type('Train', [
    declared({ low: 1, high: 100, unit: 'epochs' }),
    declared({ name: 'jit', type: 'bool', widget: 'switch' }),
  ]),
  Tune: type('Tune', [declared({ name: 'rounds', low: 5 }), declared({ name: 'rate', type: 'float' })]),
};
const doc = (nodes: Record<string, DocNode>, value: JsonValue = 3): Doc => ({
  ...EMPTY,
  parameters: { n: { value, help: '' } },
  nodes,
});

test('references in values, escaped ones left out', () => {
  expect(references('${a}/${b}/${a}')).toEqual(['a', 'b']);
  expect(references('$${a}${b}')).toEqual(['b']);
  expect(references('$$${a}')).toEqual([]);
  expect(references(['${a}', 3, ['${b}']])).toEqual(['a', 'b']);
  expect([references(5), references(null), references(undefined)]).toEqual([[], [], []]);
});

test('a whole reference is one and nothing else', () => {
  expect(['${a}', 'x${a}', '${a}${b}', '$${a}', ''].map(wholeReference)).toEqual(['a', null, null, null, null]);
  expect(wholeReference(reference('constructor'))).toBe('constructor');
});

test('uses of a parameter, whole or in part', () => {
  const used = doc({ a: node('Train', { epochs: '${n}' }, 1), b: node('Tune', { where: 'x/${n}', other: '${m}' }, 0) });
  expect(usesOf(used, 'n')).toEqual([
    { node: 'b', field: 'where', whole: false },
    { node: 'a', field: 'epochs', whole: true },
  ]);
});

test('parameters without a value', () => {
  const parameters = { b: { value: null, help: '' }, a: { value: null, help: '' }, c: { value: 0, help: '' } };
  expect(withoutValue({ ...EMPTY, parameters })).toEqual(['a', 'b']);
});

describe('the field of a parameter', () => {
  test('is that of the node field that takes it', () => {
    const field = fieldOf(doc({ a: node('Train', { epochs: '${n}' }) }), TYPES, 'n');
    expect(field).toMatchObject({ name: 'n', title: 'n', type: 'int', unit: 'epochs' });
    expect(limits(field)).toBe('1 to 100 epochs');
    expect(field).toMatchObject({ required: false, optional: true, default: null, help: 'passes over the volumes.' });
  });

  test('has the tightest limits of all that take it', () => {
    const both = doc({ a: node('Train', { epochs: '${n}' }), b: node('Tune', { rounds: '${n}' }) });
    expect(limits(fieldOf(both, TYPES, 'n'))).toBe('5 to 100 epochs');
  });

  test('takes anything when they disagree, take it in part, or are not known', () => {
    const apart = doc({ a: node('Train', { epochs: '${n}' }), b: node('Tune', { rate: '${n}' }) });
    const inPart = doc({ a: node('Train', { epochs: '1${n}' }) });
    const unknown = doc({ a: node('constructor', { epochs: '${n}' }) });
    for (const each of [apart, inPart, unknown, doc({})]) expect(fieldOf(each, TYPES, 'n').type).toBe('any');
  });

  test('of a switch has two choices: without a value it is neither', () => {
    const field = fieldOf(doc({ a: node('Train', { jit: '${n}' }) }), TYPES, 'n');
    expect([field.widget, choicesOf(field)]).toEqual(['choice', [true, false]]);
  });
});

test('the field that a sweep varies, by a parameter of the pipeline or of a node', () => {
  const used = doc({ a: node('Train', { epochs: '${n}' }), lost: node('Unknown', {}) });
  expect(fieldAt(used, TYPES, 'n')).toMatchObject({ name: 'n', type: 'int', unit: 'epochs' });
  expect(fieldAt(used, TYPES, 'a.jit')).toMatchObject({ name: 'jit', widget: 'switch' });
  const none = ['', 'a', 'a.', 'a.rounds', 'b.jit', 'lost.jit', 'constructor', 'constructor.name'];
  expect(none.map((name) => fieldAt(used, TYPES, name))).toEqual(none.map(() => null));
});
