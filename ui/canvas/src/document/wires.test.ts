import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { reaches } from '../rules/wiring';
import { doc, TYPES } from '../arbitraries';
import { USUAL_SIZE } from './sizes';
import { addNode, connect, moveNodes } from './edits';
import { edgeInto, end } from './ends';
import { apply, EMPTY } from './ops';
import { downstream, upstream } from './reach';
import { GAP, spaceInWire } from './space';
import { readPorts, wiredPorts, wireInto } from './wires';

test('the index of wires says what a search says', () => {
  fc.assert(
    fc.property(doc, (start) => {
      for (const { target } of Object.values(start.edges)) {
        expect(wireInto(start.edges, target)).toBe(edgeInto(start, target)?.[0]);
      }
      for (const id of Object.keys(start.nodes)) {
        const { inputs, outputs } = readPorts(wiredPorts(start.edges, id));
        const wires = Object.values(start.edges);
        const ports = (side: 'source' | 'target') =>
          wires
            .map((e) => end(e[side]))
            .filter(({ node }) => node === id)
            .map(({ port }) => port);
        expect(new Set(inputs)).toEqual(new Set(ports('target')));
        expect(new Set(outputs)).toEqual(new Set(ports('source')));
        expect(outputs).toHaveLength(new Set(outputs).size);
      }
    }),
  );
});

test('a node without wires has none, whatever it is called', () => {
  expect(readPorts(wiredPorts({}, 'constructor'))).toEqual({ inputs: [], outputs: [] });
  expect(wireInto({}, 'toString')).toBeUndefined();
});

test('upstream and downstream are what reaches says', () => {
  fc.assert(
    fc.property(doc, (start) => {
      const ids = Object.keys(start.nodes);
      for (const id of ids) {
        expect(downstream(start, id)).toEqual(new Set(ids.filter((other) => reaches(start, id, other))));
        expect(upstream(start, id)).toEqual(new Set(ids.filter((other) => reaches(start, other, id))));
      }
    }),
  );
});

describe('space in a wire', () => {
  const made = (distance: number) => {
    let next = apply(EMPTY, addNode(EMPTY, TYPES.Source!, { x: 0, y: 0 }).ops);
    next = apply(next, addNode(next, TYPES.Pack!, { x: distance, y: 40 }).ops);
    next = apply(next, addNode(next, TYPES.Train!, { x: distance + 300, y: 40 }).ops);
    next = apply(next, connect(next, 'source.out', 'pack.files'));
    return apply(next, connect(next, 'pack.table', 'train.data'));
  };
  const edge = 'source.out->pack.files';

  test('is made by moving the nodes downstream, as far as needed', () => {
    const start = made(280);
    const { at, moved } = spaceInWire(start, edge, USUAL_SIZE, new Map())!;
    const next = apply(start, moveNodes(start, moved));
    expect(at.x).toBe(USUAL_SIZE.width + GAP);
    expect(next.nodes.pack?.position.x).toBe(at.x + USUAL_SIZE.width + GAP);
    expect(next.nodes.train!.position.x - next.nodes.pack!.position.x).toBe(300);
    expect(next.nodes.source).toBe(start.nodes.source);
  });

  test('is there already on a long wire: nothing moves, the node goes to the middle', () => {
    const { at, moved } = spaceInWire(made(1000), edge, USUAL_SIZE, new Map())!;
    expect(moved.size).toBe(0);
    expect(at).toEqual({ x: 500, y: 20 });
  });

  test('is not made on a wire that runs back', () => {
    expect(spaceInWire(made(-500), edge, USUAL_SIZE, new Map())?.moved.size).toBe(0);
  });

  test('is not there without a wire', () => {
    expect(spaceInWire(made(280), 'none', USUAL_SIZE, new Map())).toBeNull();
    expect(spaceInWire(EMPTY, 'toString', USUAL_SIZE, new Map())).toBeNull();
  });
});
