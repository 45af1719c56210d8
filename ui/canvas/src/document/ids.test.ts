import fc from 'fast-check';
import { expect, test } from 'vitest';

import { end, written } from './ends';
import { freeId, idFromType, isId, marked, markOf } from './ids';

test.each([
  ['NumpyToParquet', 'numpy_to_parquet'],
  ['TrainResNet3D', 'train_res_net3d'],
  ['3DThing', '_3dthing'],
  ['my-node.v2', 'my_node_v2'],
  ['', '_'],
])('%s becomes %s', (type, id) => {
  expect(idFromType(type)).toBe(id);
});

test('a free id is fine, is not taken, and differs from the others in more than case', () => {
  fc.assert(
    fc.property(fc.string(), fc.array(fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_-]{0,9}$/)), (type, taken) => {
      const wanted = idFromType(type);
      const used = [...taken, wanted, wanted.toUpperCase()];
      const id = freeId(wanted, used);
      expect(isId(id)).toBe(true);
      expect(used.map((name) => name.toLowerCase())).not.toContain(id.toLowerCase());
    }),
  );
});

test('numbers go on from one another', () => {
  expect(freeId('a', [])).toBe('a');
  expect(freeId('a', ['a'])).toBe('a_2');
  expect(freeId('a_2', ['a', 'a_2'])).toBe('a_3');
  expect(freeId('a', ['A', 'a_2'])).toBe('a_3');
});

test('what two tabs add without knowing of each other has two ids', () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.array(fc.stringMatching(/^[a-z]{1,3}(_2)?$/)), (type, n, taken) => {
      const [one, two] = [markOf(`${n}`), markOf(`${n + 1}`)];
      fc.pre(one !== two);
      const [first, second] = [one, two].map((mark) => freeId(marked(idFromType(type), mark), taken));
      expect(first).not.toBe(second);
      expect(isId(first!)).toBe(true);
      // A copy of a copy does not pile marks up.
      expect(marked(first!, one)).toBe(first);
      expect(isId(freeId(marked(first!, two), [...taken, marked(first!, two)]))).toBe(true);
    }),
  );
  expect(marked('pack_3', '')).toBe('pack_3');
  expect(marked('pack_3', 'tabc')).toBe('pack_tabc');
  expect(marked('pack_tabc_2', 'tabc')).toBe('pack_tabc_2');
});

test('an end is a node and a port', () => {
  expect(end(written('node', 'port'))).toEqual({ node: 'node', port: 'port' });
  expect(end('node.a.b')).toEqual({ node: 'node', port: 'a.b' });
  expect(end('node')).toEqual({ node: 'node', port: '' });
});
