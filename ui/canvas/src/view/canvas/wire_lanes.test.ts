import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { lanes, type Box, type Strand } from './wire_lanes';
import { WIDTH } from './size';

const COLUMN = 290;
const LINE = 220;
const HEIGHT = 132;

/** Cards in columns and rows; `tall` ones have pictures. */
function grid(places: Readonly<Record<string, readonly [column: number, row: number]>>, height = HEIGHT) {
  return new Map(
    Object.entries(places).map(([id, [column, row]]): [string, Box] => [
      id,
      { left: COLUMN * column, top: LINE * row, right: COLUMN * column + WIDTH, bottom: LINE * row + height },
    ]),
  );
}

/** `a.0>b.1`: from the first port of a card to the second of another. */
function wire(cards: ReadonlyMap<string, Box>, text: string): Strand {
  const [[source = '', out = ''] = [], [target = '', into = ''] = []] = text.split('>').map((end) => end.split('.'));
  const [a, b] = [cards.get(source), cards.get(target)];
  if (!a || !b) throw new Error(`no such cards: ${text}`);
  const y = (card: Box, port: string) => card.top + 55 + 22 * Number(port);
  const [from, to] = [
    { x: a.right, y: y(a, out) },
    { x: b.left, y: y(b, into) },
  ];
  return { id: text, source, target, from, to };
}

function routed(cards: ReadonlyMap<string, Box>, ...wires: string[]) {
  return lanes(
    cards,
    wires.map((text) => wire(cards, text)),
  );
}

describe('lanes', () => {
  it('are for wires that would run behind a card: the nearer way round it', () => {
    const cards = grid({ split: [0, 1], train: [1, 1], predict: [2, 1] });
    const found = routed(cards, 'split.0>train.0', 'train.0>predict.0', 'split.2>predict.1');
    expect([...found]).toEqual([['split.2>predict.1', { y: LINE + HEIGHT + 18, out: 20, into: 20 }]]);
  });

  it('go the other way round where the nearer one is closed, and no way where both are', () => {
    const cards = grid({ split: [0, 1], train: [1, 1], predict: [2, 1], below: [1, 2] }, 210);
    expect(routed(cards, 'split.2>predict.1').get('split.2>predict.1')?.y).toBe(LINE - 18);
    const closed = grid({ split: [0, 1], train: [1, 1], predict: [2, 1], below: [1, 2], above: [1, 0] }, 210);
    expect(routed(closed, 'split.2>predict.1').size).toBe(0);
  });

  it('back to another row pass just above the lower card, below the pictures of those before it', () => {
    const down = grid({ a: [3, 0], b: [0, 1] });
    expect(routed(down, 'a.0>b.0').get('a.0>b.0')?.y).toBe(LINE - 18);
    const up = grid({ a: [3, 1], b: [0, 0] });
    expect(routed(up, 'a.0>b.0').get('a.0>b.0')?.y).toBe(LINE - 18);
  });

  it('lie beside each other, those of one port upon each other', () => {
    const cards = grid({ files: [1, 1], table: [2, 0], petastorm: [2, 1], compare: [1, 2], other: [0, 2] });
    const found = routed(
      cards,
      ...['files.0>compare.0', 'table.0>compare.1', 'petastorm.0>compare.2', 'petastorm.0>other.0'],
    );
    const above = 2 * LINE - 18;
    expect(Object.fromEntries(found)).toEqual({
      'files.0>compare.0': { y: above, out: 20, into: 20 },
      'table.0>compare.1': { y: above - 8, out: 28, into: 28 },
      'petastorm.0>compare.2': { y: above - 16, out: 20, into: 36 },
      'petastorm.0>other.0': { y: above - 16, out: 20, into: 20 },
    });
  });

  it('go up and down beside each other, too, from cards that stand above each other', () => {
    const cards = grid({ upper: [1, 0], lower: [1, 1], compare: [0, 2] });
    const found = routed(cards, 'upper.0>compare.0', 'lower.0>compare.1');
    expect([...found.values()].map(({ out }) => out)).toEqual([28, 20]);
  });

  it('of different ports never run upon each other', () => {
    const places = Array.from({ length: 8 }, (_, index) => [index % 3, Math.floor(index / 3)] as const);
    const end = fc.integer({ min: 0, max: 3 * places.length - 1 });
    const drawn = fc.tuple(
      fc.shuffledSubarray(places, { minLength: 2 }),
      fc.array(fc.tuple(end, end), { maxLength: 4 }),
    );
    fc.assert(
      fc.property(drawn, ([chosen, ends]) => {
        const cards = grid(Object.fromEntries(chosen.map((at, index) => [`n${index}`, at])));
        const name = (n: number) => `n${Math.floor(n / 3) % chosen.length}.${n % 3}`;
        // What enters a port comes from one.
        const wires = new Map(ends.map(([a, b]) => [name(b), `${name(a)}>${name(b)}`]));
        const found = routed(cards, ...wires.values());
        const parts = [...found].flatMap(([id, { y, out, into }]) => {
          const { from, to, source } = wire(cards, id);
          const [a, b] = [from.x + out, to.x - into];
          const port = `${source} ${from.y}`;
          return [
            { port, at: `y ${y}`, begin: Math.min(a, b), end: Math.max(a, b) },
            { port, at: `from ${a}`, begin: Math.min(from.y, y), end: Math.max(from.y, y) },
            { port, at: `to ${b}`, begin: Math.min(to.y, y), end: Math.max(to.y, y) },
          ];
        });
        parts.forEach((one, index) => {
          for (const other of parts.slice(index + 1)) {
            const upon = one.at === other.at && one.begin < other.end && other.begin < one.end;
            expect(upon && one.port !== other.port).toBe(false);
          }
        });
      }),
    );
  });
});
