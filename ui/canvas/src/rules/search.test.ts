import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { nodeType } from '../document/arbitraries';
import type { NodeTypeInfo } from '../protocol';
import { byCategory, findTypes, score } from './search';

function named(type: string, category: string, summary = ''): NodeTypeInfo {
  return { ...nodeType(type, [], []), category, summary };
}

const TYPES = [
  named('TrainResNet3D', 'Training', 'Train a 3-D ResNet to tell the classes of volumes apart.'),
  named('ParquetToDelta', 'Storage', 'Make a Delta table of Parquet files.'),
  named('NumpyToParquet', 'Storage', 'Pack many small files into few large Parquet files.'),
  named('OptimizeDelta', 'Storage', 'Compact a Delta table.'),
  named('VolumeFolder', 'Sources', 'Take the volumes of a folder.'),
  named('Blur', 'My nodes'),
];

const found = (query: string) => findTypes(TYPES, query).map(({ type }) => type);

describe('findTypes', () => {
  test.each([
    ['parquet', ['ParquetToDelta', 'NumpyToParquet']],
    ['NumpyToParquet', ['NumpyToParquet']],
    ['ntp', ['NumpyToParquet']],
    ['storage', ['NumpyToParquet', 'OptimizeDelta', 'ParquetToDelta']],
    ['compact', ['OptimizeDelta']],
    ['to delta', ['ParquetToDelta']],
    ['zzz', []],
  ])('%s', (query, first) => {
    expect(found(query).slice(0, first.length)).toEqual(first);
    if (first.length === 0) expect(found(query)).toEqual([]);
  });

  test('gives all by name for nothing', () => {
    expect(found('  ')).toEqual([...TYPES.map(({ type }) => type)].sort());
  });

  test('finds every type by its own name first, in any case', () => {
    fc.assert(
      fc.property(fc.constantFrom(...TYPES), fc.boolean(), ({ type }, upper) => {
        expect(found(upper ? type.toUpperCase() : type.toLowerCase())[0]).toBe(type);
      }),
    );
  });

  test('more typed never finds what less typed did not, for a name being typed', () => {
    fc.assert(
      fc.property(fc.constantFrom(...TYPES), fc.nat(20), ({ type }, length) => {
        expect(found(type.slice(0, length))).toContain(type);
      }),
    );
  });
});

test('a better match scores more', () => {
  const steps = [
    score('delta', 'zzz'),
    score('dlt', 'delta'),
    score('elta', 'delta'),
    score('delta', 'ToDelta'),
    score('del', 'delta'),
    score('delta', 'delta'),
  ];
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(new Set(steps).size).toBe(steps.length);
});

test('categories come in the order they are worked through, others after them', () => {
  expect(byCategory(TYPES).map(([category, types]) => [category, types.length])).toEqual([
    ['Sources', 1],
    ['Storage', 3],
    ['Training', 1],
    ['My nodes', 1],
  ]);
});
