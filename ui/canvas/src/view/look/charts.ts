/** How a chart is drawn: its axes, what they are called, and how much room its names take. Pure. */

import type { Chart } from '../../protocol';
import { figureText } from '../../rules/runs';

/** The part of a drawing that its bars share, in the drawing's own pixels. */
export const BARS_WIDTH = 264;

/** Pixels of a letter of a name. */
const LETTER = 6.5;
const TICK_LETTER = 6;

/** What a cell has beside its text: padding and the gap to the next one. */
const BESIDE = 14;

/** As in look.css: the widest that a name gets above a column and beside a row. */
const COLUMN_NAME = 130;
const ROW_NAME = 200;

/** The room within one and two columns of charts where they are narrowest. */
const ONE = 304;
const TWO = 648;

/** The letters of a name that fit beside its bar, in one column of charts. */
const BAR_LETTERS = 28;

/** Whether a line chart's axes both go from 0 to 1, as those of a ROC curve: what is read then is a place between. */
export function isOfRates(chart: Chart): boolean {
  if (chart.kind !== 'lines') return false;
  const xs = chart.x.map(Number);
  const ys = valuesOf(chart);
  return Math.min(...xs) === 0 && Math.max(...xs) === 1 && ys.length > 0 && ys.every((y) => y >= 0 && y <= 1);
}

/** Whether a line is what others are held against: the last of several rates, and the diagonal. */
export function isReference(chart: Chart, at: number): boolean {
  const lines = Object.values(chart.series);
  if (lines.length < 2 || at !== lines.length - 1 || !isOfRates(chart)) return false;
  return lines[at]?.every((value, index) => value === chart.x[index]) ?? false;
}

/** Whether the heights are numbers of things: there is no volume and a half. */
export function isOfCounts(chart: Chart): boolean {
  return chart.kind !== 'lines' && chart.kind !== 'scatter' && valuesOf(chart).every(Number.isInteger);
}

export function valuesOf(chart: Chart): number[] {
  return Object.values(chart.series).flatMap((found) => found.filter((value) => value !== null));
}

/** The least and the greatest value that the axes of a plot have: of a scatter, the same ones along both. */
export function rangesOf(chart: Chart): { x: Range; y: Range } {
  const values = valuesOf(chart);
  const numbers = chart.x.filter((value) => typeof value === 'number');
  if (chart.kind === 'scatter') {
    const both = rangeOf([...numbers, ...values]);
    return { x: both, y: both };
  }
  const x: Range = [Math.min(...numbers, Infinity), Math.max(...numbers, -Infinity)];
  if (isOfRates(chart)) return { x, y: [0, 1] };
  return { x, y: chart.kind === 'lines' ? rangeOf(values) : [0, Math.max(...values, 1)] };
}

type Range = readonly [number, number];

function rangeOf(values: readonly number[]): Range {
  const low = Math.min(...values, Infinity);
  const high = Math.max(...values, -Infinity);
  return [Number.isFinite(low) ? low : 0, Number.isFinite(high) ? high : 1];
}

/** What a screen reader is told in place of the drawing. */
export function spokenName(chart: Chart): string {
  const axes = [chart.y_title, chart.x_title].filter((text) => text !== '').join(' over ');
  return axes === '' ? chart.title : `${chart.title}: ${axes}`;
}

/**
 * Each how many of the names below upright bars are written: none is cut. Null where the bars lie instead, each beside
 * its name: of names that are no numbers none may be left out.
 */
export function namedBars(names: readonly string[]): number | null {
  const width = Math.max(0, ...names.map((name) => name.length)) * TICK_LETTER;
  const each = Math.max(1, Math.ceil(width / (BARS_WIDTH / Math.max(1, names.length))));
  const numbers = names.every((name) => name.trim() !== '' && Number.isFinite(Number(name)));
  return each === 1 || numbers ? each : null;
}

/** How many columns of charts a chart needs for its names: one, two, or all there are. */
export function roomOf(chart: Chart): 'one' | 'two' | 'all' {
  if (chart.kind === 'bars') {
    const names = chart.x.map(String);
    return namedBars(names) === null && names.some((name) => longestWord(name) > BAR_LETTERS) ? 'two' : 'one';
  }
  if (chart.kind !== 'matrix') return 'one';
  const rows = Object.keys(chart.series);
  const figures = Math.max(0, ...valuesOf(chart).map((value) => figureText(value).length));
  const columns = chart.x.map((name) => Math.max(nameWidth(String(name), 3, COLUMN_NAME), figures * 8) + BESIDE);
  const row = Math.max(0, ...rows.map((name) => nameWidth(name, 2, ROW_NAME))) + BESIDE;
  const width = columns.reduce((sum, each) => sum + each, row);
  if (width <= ONE) return 'one';
  return width <= TWO ? 'two' : 'all';
}

/** The width of a name that is broken between its words into about so many lines. */
function nameWidth(name: string, lines: number, most: number): number {
  return Math.min(most, Math.max(longestWord(name), name.length / lines) * LETTER);
}

function longestWord(name: string): number {
  return Math.max(0, ...name.split(/\s+/).map((word) => word.length));
}
