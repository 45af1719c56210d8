import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';

import type { Chart } from '../../protocol';
import { Figure } from './ChartPanel';
import { isOfCounts, isOfRates, namedBars, rangesOf, roomOf, spokenName } from './charts';

const FACIES = [
  'carbonate reef build-up (Devonian)',
  'channel sandstone, coarse grained',
  'evaporitic anhydrite and halite',
  'floodplain mudstone with rootlets',
  'metamorphic basement',
];
const ROC: Partial<Chart> = {
  title: 'ROC',
  x: [0, 0.5, 1],
  series: { lesion: [0.1, 0.9, 1] },
  x_title: 'false positive rate',
  y_title: 'true positive rate',
};

function chart(kind: Chart['kind'], rest: Partial<Chart>): Chart {
  return { title: 'Title', kind, x: [], series: {}, x_title: '', y_title: '', note: '', ...rest };
}

function matrix(names: readonly string[]): Chart {
  const rows = names.map((name, row) => [name, names.map((_, column) => row * column)] as const);
  return chart('matrix', { x: [...names], series: Object.fromEntries(rows), x_title: 'predicted', y_title: 'label' });
}

function bars(names: readonly string[], values: number[] = names.map((_, at) => at)): Chart {
  return chart('bars', { x: [...names], series: { volumes: values }, y_title: 'volumes' });
}

function drawn(of: Chart): string {
  return renderToStaticMarkup(createElement(Figure, { chart: of }));
}

/** The ticks of both axes: first those of y, then of x. */
function ticks(of: Chart): string[] {
  return [...drawn(of).matchAll(/<text class="chart-tick"[^>]*>([^<]*)</g)].map((found) => found[1] ?? '');
}

test.each<[string, boolean, Partial<Chart>]>([
  ['a ROC curve', true, ROC],
  ['curves over epochs', false, { x: [1, 2, 3], series: { training: [0.1, 0.5, 1] } }],
  ['losses over a part of the training', false, { x: [0, 0.5, 1], series: { training: [0.1, 2, 1] } }],
  ['rates of which none is known', false, { x: [0, 1], series: { lesion: [null, null] } }],
])('%s: whether both axes go from 0 to 1 is %s', (_, expected, rest) => {
  expect(isOfRates(chart('lines', rest))).toBe(expected);
});

test('a ROC curve has the whole range of both rates, whatever its first point', () => {
  const whole = ['0', '0.2', '0.4', '0.6', '0.8', '1'];
  expect(ticks(chart('lines', ROC))).toEqual([...whole, ...whole]);
});

test.each([
  [
    [1, 2],
    ['0', '1', '2'],
  ],
  [
    [1, 1],
    ['0', '1'],
  ],
  [
    [0.5, 2],
    ['0', '0.5', '1', '1.5', '2'],
  ],
])('of %j only counts have no tick between whole numbers', (values, expected) => {
  expect(ticks(bars(['a', 'b'], values)).slice(0, -2)).toEqual(expected);
  expect(isOfCounts(chart('lines', { series: { loss: values } }))).toBe(false);
});

test('the title of y stands above the drawing and the title of x below it', () => {
  expect(drawn(chart('lines', ROC)).replace(/<svg.*<\/svg>/, '<svg>')).toContain(
    '<p class="chart-y-title quiet">true positive rate</p><svg><p class="chart-x-title quiet">false positive rate</p>',
  );
  expect(drawn(chart('lines', { ...ROC, y_title: '' }))).not.toContain('chart-y-title');
});

test('a screen reader is told what is drawn over what', () => {
  expect(drawn(chart('lines', ROC))).toContain(
    'role="img" aria-label="ROC: true positive rate over false positive rate"',
  );
  expect(spokenName(chart('lines', { title: 'Loss', x_title: '' }))).toBe('Loss');
  expect(drawn(bars(FACIES))).toContain('<table class="bars" aria-label="Title: volumes">');
  expect(drawn(matrix(FACIES))).toContain('<table class="matrix" aria-label="Title">');
});

test.each<[string, readonly string[], number | null]>([
  ['names that fit', ['constant', 'ordinary', 'with gaps'], 1],
  ['long names', FACIES, null],
  ['many names', Array.from({ length: 12 }, (_, at) => `class ${at}`), null],
  ['few numbers', ['0', '1', '2'], 1],
  ['many numbers', Array.from({ length: 40 }, (_, at) => String(at / 8)), 5],
])('below or beside bars, %s are whole', (_, names, each) => {
  expect(namedBars(names)).toBe(each);
  const markup = drawn(bars(names));
  names.forEach((name, at) => {
    if (each === null) expect(markup).toContain(`<span class="chart-name" title="${name}">${name}</span>`);
    else if (at % each === 0) expect(markup).toContain(`>${name}</text>`);
  });
  expect(markup).not.toContain('…');
});

test('every count stands beside a bar that lies, the longest bar as wide as there is room', () => {
  const markup = drawn(bars(FACIES, [80, 40, 0, 1200, 1]));
  expect(markup).toContain('style="--share:1"><span class="bars-bar"></span>1,200<');
  expect(markup).toContain('<th scope="col">volumes</th>');
});

test.each<[string, Chart, string]>([
  ['two classes', matrix(['healthy tissue without any lesion', 'tissue with a metastatic lesion']), 'one'],
  ['long names', matrix(FACIES), 'two'],
  ['forty classes', matrix(Array.from({ length: 40 }, (_, at) => `class ${at}`)), 'all'],
  ['bars', bars(FACIES), 'one'],
  ['bars of a name without a gap', bars(['north.npy/x00000-y00000-z00000', 'b']), 'two'],
  ['lines', chart('lines', ROC), 'one'],
])('how many columns a chart takes: %s', (_, of, room) => {
  expect(roomOf(of)).toBe(room);
  expect(drawn(of)).toContain(`data-room="${room}"`);
});

test('the whole name of a class is the title of its row and of its column', () => {
  expect(drawn(matrix(FACIES)).split(`title="${FACIES[0]}">`)).toHaveLength(3);
});

test('what mere chance would reach is dashed beside the curves, and a curve never', () => {
  const roc = chart('lines', { ...ROC, series: { lesion: [0.1, 0.9, 1], chance: [0, 0.5, 1] } });
  expect(drawn(roc).match(/data-series="[^"]*"/g)).toEqual([
    'data-series="0"',
    'data-series="reference"',
    'data-series="0"',
    'data-series="reference"',
  ]);
  expect(drawn(chart('lines', { ...ROC, series: { lesion: [0, 0.5, 1] } }))).not.toContain('reference');
});

const SCATTER = chart('scatter', {
  x: [0, 4, 10],
  series: { volumes: [-2, null, 5] },
  x_title: 'label',
  y_title: 'predicted',
});

test('both axes of a scatter have one range, and its line goes from corner to corner', () => {
  expect(rangesOf(SCATTER)).toEqual({ x: [-2, 10], y: [-2, 10] });
  const own = ticks(SCATTER);
  expect(own.slice(0, own.length / 2)).toEqual(own.slice(own.length / 2));
  const [, wide, high] = /viewBox="0 0 (\d+) (\d+)"/.exec(drawn(SCATTER))?.map(Number) ?? [];
  const line = /data-series="reference" class="chart-line"><polyline points="([^"]*)"/.exec(drawn(SCATTER))?.[1];
  const [x1, y1, x2, y2] = line?.split(/[ ,]/).map(Number) as [number, number, number, number];
  expect(x2 - x1).toBe(y1 - y2);
  expect([x1 > 0, x2 < (wide ?? 0), y1 < (high ?? 0), y2 > 0]).toEqual([true, true, true, true]);
});

test('a scatter has a point for each value that is known, which says what it is', () => {
  expect([...drawn(SCATTER).matchAll(/<title>([^<]*)</g)].map((found) => found[1])).toEqual([
    'label 0, predicted -2',
    'label 10, predicted 5',
  ]);
  expect(drawn(SCATTER)).toContain('aria-label="Title: predicted over label"');
  expect(drawn(SCATTER)).not.toContain('chart-legend');
});

test.each([
  ['one point', [3], [3]],
  ['none', [], []],
  ['points that are all alike', [7, 7], [7, 7]],
])('a scatter of %s is drawn', (_, x, y) => {
  const markup = drawn(chart('scatter', { x, series: { volumes: y } }));
  expect(markup).not.toMatch(/NaN|Infinity/);
  expect(markup.split('<circle')).toHaveLength(x.length + 1);
});
