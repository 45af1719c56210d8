import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { nodeType } from '../arbitraries';
import type { NodeTypeInfo } from '../protocol';
import { declared } from './declared';
import { byCategory, findTypes, score } from './search';

function named(type: string, category: string, summary = '', more: Partial<NodeTypeInfo> = {}): NodeTypeInfo {
  return { ...nodeType(type, [], []), category, summary, ...more };
}

const TYPES = [
  named('VolumeFolder', 'Sources', 'Take the volumes of a folder.'),
  named('NumpyToParquet', 'Conversion', 'Pack many small files into few large Parquet files.'),
  named('ParquetToDelta', 'Tables', 'Make a Delta table of Parquet files.'),
  named('OptimizeDelta', 'Tables', 'Compact a Delta table.'),
  named('TrainResNet3D', 'Training', 'Train a 3-D ResNet to tell the classes of volumes apart.', {
    description: 'The model normalises its input itself. It is saved as a\nplain Keras file.',
    keywords: ['augmentation', 'fine tuning'],
    fields: [
      declared({ name: 'quarter_turns', title: 'Quarter turns', help: 'rotate volumes at random' }),
      declared({ name: 'seed', title: 'Seed', help: 'of weights and order' }),
    ],
  }),
  named('Blur', 'My nodes'),
];

const found = (query: string) => findTypes(TYPES, query).map(({ type }) => type.type);

describe('findTypes', () => {
  test.each([
    ['parquet', ['ParquetToDelta', 'NumpyToParquet']],
    ['NumpyToParquet', ['NumpyToParquet']],
    ['ntp', ['NumpyToParquet']],
    ['tables', ['ParquetToDelta', 'OptimizeDelta']],
    ['compact', ['OptimizeDelta']],
    ['to delta', ['ParquetToDelta']],
    ['zzz', []],
  ])('%s', (query, first) => {
    expect(found(query).slice(0, first.length)).toEqual(first);
    if (first.length === 0) expect(found(query)).toEqual([]);
  });

  test.each([
    ['resnet', ''],
    ['augment', 'For: augmentation'],
    ['tuning fine', 'For: fine tuning'],
    ['quarter', 'Parameter: Quarter turns'],
    ['rotate', 'Parameter: Quarter turns'],
    ['seed', 'Parameter: Seed'],
    ['normalize', 'The model normalises its input itself.'],
    ['keras', '… a plain Keras file.'],
    ['apart', '… volumes apart.'],
  ])('%s is found, and said by what', (query, why) => {
    const [first] = findTypes(TYPES, query);
    expect([first?.type.type, first?.why]).toEqual(['TrainResNet3D', why]);
  });

  test('two letters are not looked for in help and descriptions', () => {
    expect(found('ke')).not.toContain('TrainResNet3D');
  });

  test('gives all as they come for nothing', () => {
    expect(found('  ')).toEqual(TYPES.map(({ type }) => type));
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

test('categories come in the order of a pipeline, as Python sends the types', () => {
  expect(byCategory(findTypes(TYPES, '')).map(([category, types]) => [category, types.length])).toEqual([
    ['Sources', 1],
    ['Conversion', 1],
    ['Tables', 2],
    ['Training', 1],
    ['My nodes', 1],
  ]);
});
