import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc, NodeTypeInfo } from '../protocol';
import { insertion, whyNot } from '../rules/wiring';
import { after, brokenLaw, canonical, deed, doc, opsOf, portsOf, TYPES, unlawful } from '../arbitraries';
import {
  addNode,
  changeId,
  connect,
  insertOnEdge,
  moveNodes,
  reconnect,
  removeItems,
  renamePipelineParameter,
  setParameter,
  setPipelineParameter,
  setPolicy,
  setTitle,
} from './edits';
import { end } from './ends';
import { isId } from './ids';
import { apply, EMPTY } from './ops';

function type(name: string): NodeTypeInfo {
  return TYPES[name]!;
}

/** source -> pack -> train */
const CHAIN = [['Source'], ['Pack', 'source.out', 'pack.files'], ['Train', 'pack.table', 'train.data']].reduce(
  (made, [name, source, target]) => {
    const next = apply(made, addNode(made, type(name!), { x: 0, y: 0 }).ops);
    return source && target ? apply(next, connect(next, source, target)) : next;
  },
  EMPTY,
);

describe('whatever a person does', () => {
  test('the laws of wires hold', () => {
    fc.assert(
      fc.property(fc.array(deed, { maxLength: 40 }), (deeds) => {
        expect(brokenLaw(after(EMPTY, deeds))).toBe('');
      }),
    );
  });

  test('doing the same twice changes nothing the second time, for what sets a value', () => {
    const settles = ['title', 'parameter', 'reset', 'policy', 'description', 'move', 'pipeline parameter'];
    fc.assert(
      fc.property(doc, deed, (start, step) => {
        fc.pre(settles.includes(step.do));
        expect(opsOf(apply(start, opsOf(start, step)), step)).toEqual([]);
      }),
    );
  });
});

describe('wires', () => {
  test('drawn in any order where whyNot allows them, make no cycle and no second wire into an input', () => {
    const ends = fc.array(fc.tuple(fc.nat(100), fc.nat(100)), { maxLength: 60 });
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...Object.keys(TYPES)), { maxLength: 12 }), ends, (names, wires) => {
        let made: Doc = names.reduce((d, name) => apply(d, addNode(d, type(name), { x: 0, y: 0 }).ops), EMPTY);
        const outputs = portsOf(made, 'outputs');
        const inputs = portsOf(made, 'inputs');
        fc.pre(outputs.length > 0 && inputs.length > 0);
        for (const [from, to] of wires) {
          const source = outputs[from % outputs.length]!;
          const target = inputs[to % inputs.length]!;
          if (whyNot(made, TYPES, source, target) === '') made = apply(made, connect(made, source, target));
          expect(brokenLaw(made)).toBe('');
        }
      }),
    );
  });

  test('into a taken input replace the one that was there, at its place in the file', () => {
    const two = apply(CHAIN, addNode(CHAIN, type('Pack'), { x: 0, y: 0 }).ops);
    const next = apply(two, connect(two, 'pack_2.table', 'train.data'));
    expect(Object.keys(next.edges).sort()).toEqual(['pack_2.table->train.data', 'source.out->pack.files']);
    expect(next.edges['pack_2.table->train.data']?.order).toBe(two.edges['pack.table->train.data']?.order);
  });

  test('that are there already are not drawn again', () => {
    expect(connect(CHAIN, 'source.out', 'pack.files')).toEqual([]);
    expect(reconnect(CHAIN, 'source.out->pack.files', 'source.out', 'pack.files')).toEqual([]);
    expect(reconnect(CHAIN, 'nothing->nowhere', 'source.out', 'pack.files')).toEqual([]);
  });

  test('taken by one end keep their place in the file', () => {
    const two = apply(CHAIN, addNode(CHAIN, type('Pack'), { x: 0, y: 0 }).ops);
    const next = apply(two, reconnect(two, 'source.out->pack.files', 'source.out', 'pack_2.files'));
    expect(Object.keys(next.edges)).toContain('source.out->pack_2.files');
    expect(Object.keys(next.edges)).not.toContain('source.out->pack.files');
    expect(next.edges['source.out->pack_2.files']?.order).toBe(two.edges['source.out->pack.files']?.order);
  });

  test('let a node in', () => {
    const two = apply(CHAIN, addNode(CHAIN, type('Pass'), { x: 0, y: 0 }).ops);
    const ports = insertion(two, TYPES, 'source.out->pack.files', type('Pass'));
    expect(ports).toEqual({ input: 'in', output: 'out' });
    const next = apply(two, insertOnEdge(two, 'source.out->pack.files', 'pass', 'in', 'out'));
    expect(Object.keys(next.edges).sort()).toEqual([
      'pack.table->train.data',
      'pass.out->pack.files',
      'source.out->pass.in',
    ]);
    expect(brokenLaw(next)).toBe('');
  });
});

describe('nodes', () => {
  test('get ids that are fine and new, whatever their type is called', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 80 }), { maxLength: 10 }), (names) => {
        let made = EMPTY;
        for (const name of names) {
          const { id, ops } = addNode(made, { ...type('Pass'), type: name }, { x: 0.4, y: -0.6 });
          expect(isId(id)).toBe(true);
          expect(Object.hasOwn(made.nodes, id)).toBe(false);
          made = apply(made, ops);
          expect(Object.values(made.nodes[id]!.position).every(Number.isInteger)).toBe(true);
        }
        const orders = Object.values(made.nodes).map(({ order }) => order);
        expect(new Set(orders).size).toBe(names.length);
      }),
    );
  });

  test('take their wires with them when they go', () => {
    const next = apply(CHAIN, removeItems(CHAIN, ['pack'], []));
    expect(next.edges).toEqual({});
    expect(Object.keys(next.nodes).sort()).toEqual(['source', 'train']);
    expect(removeItems(CHAIN, ['gone'], ['gone'])).toEqual([]);
  });

  test('keep every wire, and their place in the file, under another id', () => {
    fc.assert(
      fc.property(fc.oneof(doc, unlawful), fc.nat(), (start, at) => {
        const ids = Object.keys(start.nodes);
        fc.pre(ids.length > 0);
        const id = ids[at % ids.length]!;
        const next = apply(start, changeId(start, id, 'fresh_id'));
        const back = (text: string) => (end(text).node === 'fresh_id' ? `${id}.${end(text).port}` : text);
        const wires = Object.values(next.edges).map((e) => ({ ...e, source: back(e.source), target: back(e.target) }));
        const order = (a: { order: number }, b: { order: number }) => a.order - b.order;
        expect(wires.sort(order)).toEqual(Object.values(start.edges).sort(order));
        expect(canonical(next.nodes.fresh_id)).toBe(canonical(start.nodes[id]));
        expect(brokenLaw(next) === '').toBe(brokenLaw(start) === '');
        expect(canonical(apply(next, changeId(next, 'fresh_id', id)).edges)).toBe(canonical(start.edges));
      }),
    );
  });

  test('do not take the id of another', () => {
    expect(changeId(CHAIN, 'source', 'pack')).toEqual([]);
    expect(changeId(CHAIN, 'source', 'source')).toEqual([]);
    expect(changeId(CHAIN, 'gone', 'x')).toEqual([]);
  });

  test('move to whole pixels, and not at all when they are there', () => {
    const ops = moveNodes(
      CHAIN,
      new Map([
        ['source', { x: 1.4, y: 2.6 }],
        ['pack', { x: 0.2, y: -0.2 }],
      ]),
    );
    expect(ops.map(({ path, value }) => [path[1], value])).toEqual([['source', { x: 1, y: 3 }]]);
    expect(moveNodes(CHAIN, new Map([['gone', { x: 1, y: 1 }]]))).toEqual([]);
  });

  test('that are gone take no title, parameter or policy', () => {
    expect(setTitle(CHAIN, 'gone', 'x')).toEqual([]);
    expect(setParameter(CHAIN, 'gone', 'p', 1)).toEqual([]);
    expect(setPolicy(CHAIN, 'gone', 'retries', 1)).toEqual([]);
    expect(setPolicy(CHAIN, 'source', 'retries', null)).toEqual([]);
  });

  test('forget a parameter that goes back to its default', () => {
    const set = apply(CHAIN, setParameter(CHAIN, 'source', 'count', 5));
    expect(set.nodes.source?.params).toEqual({ count: 5 });
    expect(setParameter(set, 'source', 'count', 5)).toEqual([]);
    expect(apply(set, setParameter(set, 'source', 'count', undefined)).nodes.source?.params).toEqual({});
    expect(setParameter(CHAIN, 'source', 'count', undefined)).toEqual([]);
  });
});

describe('parameters of the pipeline', () => {
  const start = ['${n}', ['${n}', 'x${n}y', 3], '$${n}', '${m} ${n}', 7].reduce<Doc>(
    (made, value, index) => apply(made, setParameter(made, 'source', `p${index}`, value)),
    apply(CHAIN, setPipelineParameter(CHAIN, 'n', 1, 'how many')),
  );

  test('are followed by their uses under another name, and only by those', () => {
    const next = apply(start, renamePipelineParameter(start, 'n', 'count'));
    expect(next.parameters).toEqual({ count: { value: 1, help: 'how many' } });
    expect(next.nodes.source?.params).toEqual({
      p0: '${count}',
      p1: ['${count}', 'x${count}y', 3],
      p2: '$${n}',
      p3: '${m} ${count}',
      p4: 7,
    });
  });

  test('do not take the name of another, or of none', () => {
    const two = apply(start, setPipelineParameter(start, 'm', 2, ''));
    expect(renamePipelineParameter(two, 'n', 'm')).toEqual([]);
    expect(renamePipelineParameter(two, 'none', 'x')).toEqual([]);
    expect(apply(two, renamePipelineParameter(two, 'n', 'constructor')).parameters).toHaveProperty('constructor');
  });
});
