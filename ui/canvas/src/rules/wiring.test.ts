import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { after, doc, nodeType, portsOf, TYPES, type Deed } from '../arbitraries';
import { addNode, connect } from '../document/edits';
import { end } from '../document/ends';
import { apply, EMPTY } from '../document/ops';
import { directed, isLoose, kindsAt, landing, opposite, portsOn, reasons } from './fits';
import { kindFrom, nameOf, shownPorts, spoken, typeOf } from './ports';
import { accepts, fitting, insertion, port, reaches, whyNot, type Side } from './wiring';

const add = (a: number): Deed => ({ do: 'add', a, b: 0, c: 0, text: '', value: 0 });
/** source, pass, pack, join, train: one of each, source -> pass -> pack. */
const loose = after(EMPTY, [add(0), add(1), add(2), add(3), add(4)]);
const some = [
  ['source.out', 'pass.in'],
  ['pass.out', 'pack.files'],
].reduce((made, [source, target]) => apply(made, connect(made, source!, target!)), loose);

describe('whyNot', () => {
  test.each([
    ['pack.table', 'train.data', ''],
    ['source.out', 'join.left', ''],
    ['source.out', 'train.data', 'Takes Table, not Files.'],
    ['pack.table', 'pass.in', 'Takes Files, not Table.'],
    ['join.rest', 'join.left', 'A node cannot feed itself.'],
    ['pass.out', 'pass.in', 'A node cannot feed itself.'],
    ['source.in', 'train.data', 'This port is not known.'],
    ['gone.out', 'train.data', 'This port is not known.'],
    ['constructor.out', 'train.data', 'This port is not known.'],
  ])('%s -> %s: %s', (source, target, why) => {
    expect(whyNot(some, TYPES, source, target)).toBe(why);
  });

  test('refuses a cycle', () => {
    const more = apply(some, addNode(some, TYPES.Pass!, { x: 0, y: 0 }).ops);
    const chained = apply(more, connect(more, 'pass.out', 'pass_2.in'));
    expect(whyNot(chained, TYPES, 'pass_2.out', 'pass.in')).toBe('That would be a cycle.');
  });
});

test('reaches follows wires over any distance, and ends on graphs with many ways', () => {
  expect(reaches(some, 'source', 'pack')).toBe(true);
  expect(reaches(some, 'pack', 'source')).toBe(false);
  expect(reaches(some, 'train', 'train')).toBe(true);
});

describe('fits', () => {
  test('says of every port what whyNot says', () => {
    fc.assert(
      fc.property(doc, fc.constantFrom<Side>('input', 'output'), fc.nat(), (made, side, at) => {
        const here = portsOf(made, side === 'output' ? 'outputs' : 'inputs');
        fc.pre(here.length > 0);
        const from = end(here[at % here.length]!);
        const found = reasons(made, TYPES, from, side);
        const there = portsOf(made, side === 'output' ? 'inputs' : 'outputs');
        expect([...found.keys()].sort()).toEqual(there.sort());
        for (const [other, why] of found) {
          const { source, target } = directed(from, side, end(other));
          expect(why).toBe(whyNot(made, TYPES, source, target));
        }
      }),
    );
  });

  test('lands on the first port that fits and is free', () => {
    expect(landing(some, TYPES, end('pack.table'), 'output', 'join')).toEqual({ port: 'left' });
    const taken = apply(some, connect(some, 'source.out', 'join.left'));
    expect(landing(taken, TYPES, end('pack.table'), 'output', 'join')).toEqual({ port: 'right' });
    expect(landing(taken, TYPES, end('source.out'), 'output', 'join')).toEqual({
      why: 'Every fitting input of Join is taken.',
    });
    expect(landing(some, TYPES, end('train.data'), 'input', 'join')).toEqual({ port: 'table' });
  });

  test('says why it lands nowhere', () => {
    expect(landing(some, TYPES, end('source.out'), 'output', 'train')).toEqual({ why: 'Takes Table, not Files.' });
    expect(landing(some, TYPES, end('pack.table'), 'output', 'source')).toEqual({ why: 'Source has no inputs.' });
    expect(landing(some, {}, end('pack.table'), 'output', 'join')).toEqual({ why: 'The node type Join is not known.' });
  });

  test('knows the kinds at a port, and what has no kinds', () => {
    expect(kindsAt(some, TYPES, end('join.left'), 'input')).toEqual(['Files', 'Table']);
    expect(kindsAt(some, TYPES, end('gone.left'), 'input')).toEqual([]);
    expect(isLoose(some, 'train')).toBe(true);
    expect(isLoose(some, 'pass')).toBe(false);
  });
});

describe('what fits at a loose end', () => {
  test('has a port that takes the wire', () => {
    const names = (kinds: string[], side: Side) => fitting(TYPES, kinds, side).map((f) => [f.type.type, f.port.name]);
    expect(names(['Table'], 'input')).toEqual([
      ['Join', 'left'],
      ['Train', 'data'],
    ]);
    expect(names(['Files'], 'output')).toEqual([
      ['Source', 'out'],
      ['Pass', 'out'],
      ['Join', 'rest'],
    ]);
    expect(names(['Nothing'], 'input')).toEqual([]);
  });

  test('can always be wired', () => {
    fc.assert(
      fc.property(doc, fc.nat(), fc.nat(), (made, at, which) => {
        const outputs = portsOf(made, 'outputs');
        fc.pre(outputs.length > 0);
        const from = end(outputs[at % outputs.length]!);
        const offered = fitting(TYPES, kindsAt(made, TYPES, from, 'output'), opposite('output'));
        fc.pre(offered.length > 0);
        const { type, port: input } = offered[which % offered.length]!;
        const { id, ops } = addNode(made, type, { x: 0, y: 0 });
        const next = apply(made, ops);
        const { source, target } = directed(from, 'output', { node: id, port: input.name });
        expect(whyNot(next, TYPES, source, target)).toBe('');
      }),
    );
  });

  test('goes into a wire only when both ends fit', () => {
    expect(insertion(some, TYPES, 'source.out->pass.in', TYPES.Pass!)).toEqual({ input: 'in', output: 'out' });
    expect(insertion(some, TYPES, 'source.out->pass.in', TYPES.Join!)).toEqual({ input: 'left', output: 'rest' });
    expect(insertion(some, TYPES, 'source.out->pass.in', TYPES.Pack!)).toBeNull();
    expect(insertion(some, TYPES, 'source.out->pass.in', TYPES.Source!)).toBeNull();
    expect(insertion(some, TYPES, 'toString', TYPES.Pass!)).toBeNull();
  });
});

describe('ports', () => {
  test('are those of the type, then those that only wires know', () => {
    const { inputs, outputs } = shownPorts(TYPES.Pass, { inputs: ['in', 'old'], outputs: [] });
    expect(inputs.map(({ name, wired, known }) => [name, wired, known])).toEqual([
      ['in', true, true],
      ['old', true, false],
    ]);
    expect(outputs.map(({ name, wired }) => [name, wired])).toEqual([['out', false]]);
    expect(shownPorts(undefined, { inputs: ['x'], outputs: ['y'] })).toMatchObject({
      inputs: [{ name: 'x', known: false }],
      outputs: [{ name: 'y', known: false }],
    });
  });

  test('are found by side', () => {
    expect(port(some, TYPES, 'pass', 'input', 'in')?.name).toBe('in');
    expect(port(some, TYPES, 'pass', 'output', 'in')).toBeUndefined();
    expect(portsOn(TYPES.Join!, 'output').map(({ name }) => name)).toEqual(['table', 'rest']);
    expect(accepts(TYPES.Join!.inputs[0]!, TYPES.Source!.outputs[0]!)).toBe(true);
  });

  test('have names for a screen reader', () => {
    const [input] = shownPorts(TYPES.Join, { inputs: [], outputs: [] }).inputs;
    expect(spoken('input', input!, 'Join')).toBe('input left of Join, Files or Table, required, not connected');
    const [output] = shownPorts(TYPES.Pack, { inputs: [], outputs: ['table'] }).outputs;
    expect(spoken('output', output!, 'Pack')).toBe('output table of Pack, Table, connected');
  });

  test('show the kind of what flows', () => {
    expect(kindFrom(some, TYPES, 'pack.table')).toBe('Table');
    expect(kindFrom(some, TYPES, 'gone.table')).toBe('');
    expect(typeOf(some, TYPES, 'constructor')).toBeUndefined();
    expect(nameOf(some, 'gone')).toBe('gone');
  });

  test('of a type called like what every object has are found all the same', () => {
    const odd = { constructor: nodeType('constructor', [], TYPES.Source!.outputs) };
    const made = apply(EMPTY, addNode(EMPTY, odd.constructor, { x: 0, y: 0 }).ops);
    expect(kindFrom(made, odd, 'constructor.out')).toBe('Files');
    expect(kindFrom(made, {}, 'constructor.out')).toBe('');
  });
});
