/**
 * Lanes for the wires that would run behind cards: such a wire goes round them at right angles, beside the others that do
 * so and never upon them. Wires of one port may share a lane: they carry the same.
 */

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** A wire: the cards that it joins, and where it leaves the one and enters the other. */
export interface Strand {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly from: Point;
  readonly to: Point;
}

/** Where a wire runs level, and how far before and behind the cards it goes up or down to there. */
export interface Lane {
  readonly y: number;
  readonly out: number;
  readonly into: number;
}

/** So far apart, two rows of cards have space for a wire between them. */
const ROW = 130;
/** From a card to the first lane above or below it: the cards above grow when they get pictures. */
const ASIDE = 18;
/** Between two lanes. */
const STEP = 8;
/** More lanes at one place would run into the next row: further wires share the last. */
const MOST = 5;
/** From a card to the first upright part. */
const UPRIGHT = 20;
/** A wire that only touches a card's edge is seen. */
const HIDDEN = 6;
/** In less there is no space for a card. */
const SHORT = 120;
/** A curve is looked at in steps of about so much. */
const SAMPLE = 40;

/** Whether a wire runs to a card further left, in another row. */
export function goesBack({ from, to }: Pick<Strand, 'from' | 'to'>): boolean {
  return to.x < from.x && Math.abs(to.y - from.y) >= ROW;
}

/** The lanes of those wires that need one, by wire. */
export function lanes(cards: ReadonlyMap<string, Box>, strands: readonly Strand[]): Map<string, Lane> {
  const boxes = [...cards];
  const routes = strands.flatMap((strand) => {
    const level = goesBack(strand) ? between(cards, strand) : around(boxes, strand);
    return level === null ? [] : [{ strand, ...level }];
  });
  // One that reaches further left, or a lower port, lies further away: it then crosses none that enters before it.
  routes.sort((a, b) => b.strand.to.x - a.strand.to.x || a.strand.to.y - b.strand.to.y || order(a.strand, b.strand));
  const placed = apart(routes);
  const out = uprights(placed, 'from');
  const into = uprights(placed, 'to');
  return new Map(
    placed.map(({ strand: { id }, y }) => [id, { y, out: out.get(id) ?? UPRIGHT, into: into.get(id) ?? UPRIGHT }]),
  );
}

interface Route {
  readonly strand: Strand;
  readonly y: number;
  /** To where there is more space: up or down. */
  readonly away: 1 | -1;
}

type Level = Omit<Route, 'strand'>;

/** Just above the lower of the two cards, if that is between the ports. */
function between(cards: ReadonlyMap<string, Box>, { source, target, from, to }: Strand): Level | null {
  const top = cards.get(to.y > from.y ? target : source)?.top;
  if (top === undefined || top - ASIDE <= Math.min(from.y, to.y)) return null;
  return { y: top - ASIDE, away: -1 };
}

/** Round the cards that the wire would run behind, on the nearer side on which there is space; null: there are none. */
function around(boxes: readonly (readonly [string, Box])[], strand: Strand): Level | null {
  const { source, target, from, to } = strand;
  if (to.x - from.x < SHORT) return null;
  const hiding = boxes.filter(([id, box]) => id !== source && id !== target && isBehind(box, from, to));
  if (hiding.length === 0) return null;
  const above = Math.min(...hiding.map(([, { top }]) => top)) - ASIDE;
  const below = Math.max(...hiding.map(([, { bottom }]) => bottom)) + ASIDE;
  const detour = (y: number) => Math.abs(y - from.y) + Math.abs(y - to.y);
  const ways: readonly Level[] = [
    { y: above, away: -1 },
    { y: below, away: 1 },
  ];
  const [nearest] = ways
    .filter(({ y }) => boxes.every(([id, box]) => !isInTheWay(box, strand, y, id)))
    .sort((a, b) => detour(a.y) - detour(b.y));
  return nearest ?? null;
}

/** Whether the curve between two ports passes behind a card. */
function isBehind(box: Box, from: Point, to: Point): boolean {
  if (box.right < from.x || box.left > to.x) return false;
  if (box.top > Math.max(from.y, to.y) || box.bottom < Math.min(from.y, to.y)) return false;
  const samples = Math.ceil((to.x - from.x) / SAMPLE);
  for (let n = 1; n < samples; n += 1) {
    const t = n / samples;
    const x = from.x + (to.x - from.x) * (1.5 * t * (1 - t) + t ** 3);
    const y = from.y + (to.y - from.y) * (3 * t ** 2 - 2 * t ** 3);
    if (x > box.left && x < box.right && y > box.top + HIDDEN && y < box.bottom - HIDDEN) return true;
  }
  return false;
}

/** Whether a card stands where a wire with its lane at `y` would run. */
function isInTheWay(box: Box, { source, target, from, to }: Strand, y: number, id: string): boolean {
  const [start, end] = [from.x + UPRIGHT, to.x - UPRIGHT];
  const crosses = (x: number, one: number, other: number) =>
    x > box.left && x < box.right && Math.max(one, other) > box.top && Math.min(one, other) < box.bottom;
  const level = y > box.top - HIDDEN && y < box.bottom + HIDDEN && end > box.left && start < box.right;
  return level || (id !== source && crosses(start, from.y, y)) || (id !== target && crosses(end, to.y, y));
}

/** The same routes, moved away from each other. */
function apart(routes: readonly Route[]): Route[] {
  const placed: Route[] = [];
  for (const route of routes) {
    let { y } = route;
    for (let n = 1; n < MOST && placed.some((other) => overlap(route.strand, y, other)); n += 1) {
      y = route.y + route.away * STEP * n;
    }
    placed.push({ ...route, y });
  }
  return placed;
}

function overlap(strand: Strand, y: number, other: Route): boolean {
  if (Math.abs(y - other.y) >= STEP || samePort(strand, other.strand)) return false;
  const [left, right] = reach(strand);
  const [otherLeft, otherRight] = reach(other.strand);
  return left < otherRight && otherLeft < right;
}

function reach({ from, to }: Strand): readonly [number, number] {
  return [Math.min(from.x, to.x) - 2 * UPRIGHT, Math.max(from.x, to.x) + 2 * UPRIGHT];
}

function samePort(a: Strand, b: Strand): boolean {
  return a.source === b.source && a.from.y === b.from.y;
}

/**
 * How far from its card each wire goes up or down, by wire. Of ports above each other the one that is nearest to where
 * they go is innermost: so no wire crosses the way of another one to its port.
 */
function uprights(routes: readonly Route[], side: 'from' | 'to'): Map<string, number> {
  const goesUp = ({ strand, y }: Route) => y < strand[side].y;
  const innermost = [...routes].sort((a, b) => {
    if (goesUp(a) !== goesUp(b)) return goesUp(a) ? -1 : 1;
    return (a.strand[side].y - b.strand[side].y) * (goesUp(a) ? 1 : -1);
  });
  const outwards = side === 'from' ? 1 : -1;
  const placed: { x: number; top: number; bottom: number; port: string }[] = [];
  const found = new Map<string, number>();
  for (const { strand, y } of innermost) {
    const { x, y: start } = strand[side];
    const card = side === 'from' ? strand.source : strand.target;
    const upright = { top: Math.min(start, y), bottom: Math.max(start, y), port: `${card} ${start}` };
    const isTaken = (at: number) =>
      placed.some(
        (other) =>
          Math.abs(at - other.x) < STEP &&
          upright.port !== other.port &&
          upright.top < other.bottom &&
          other.top < upright.bottom,
      );
    let away = UPRIGHT;
    for (let n = 1; n < MOST && isTaken(x + outwards * away); n += 1) away = UPRIGHT + STEP * n;
    placed.push({ ...upright, x: x + outwards * away });
    found.set(strand.id, away);
  }
  return found;
}

function order(a: Strand, b: Strand): number {
  return a.id < b.id ? -1 : 1;
}
