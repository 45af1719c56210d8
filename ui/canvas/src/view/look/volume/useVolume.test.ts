import { afterEach, expect, test, vi } from 'vitest';

import { bytesOf, headers } from '../../../volume/testing';
import { arrive } from './useVolume';

afterEach(() => {
  vi.unstubAllGlobals();
});

const LARGE = { size: [64, 64, 65], channels: 1 } as const;
const COARSE = { size: [4, 3, 2], channels: 1 } as const;
const [WHOLE, PREVIEW] = [bytesOf(LARGE), bytesOf(COARSE)];
const HALF = WHOLE.length / 2;
/** On a busy machine. */
const PATIENCE = { timeout: 4_000 };

/** Parts of a volume that the test sends itself. */
class Sending {
  private readonly way = new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 99 });
  private readonly writer = this.way.writable.getWriter();

  constructor(private readonly wanted: typeof LARGE | typeof COARSE) {}

  readonly response = () => new Response(this.way.readable, { headers: [...headers(this.wanted)] });
  readonly send = (part: Uint8Array) => this.writer.write(part);
  readonly end = () => this.writer.close();
  readonly breakOff = () => this.writer.abort(new Error('The connection was lost.'));
}

/** Until all that waits has been done. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

function begin() {
  const [whole, coarse] = [new Sending(LARGE), new Sending(COARSE)];
  vi.stubGlobal('fetch', (url: string) => Promise.resolve((url === 'whole' ? whole : coarse).response()));
  const told: string[] = [];
  const done = arrive('whole', 'coarse', new AbortController().signal, ({ volume, share }) => {
    told.push(`${share}${volume?.preview ? ', with a preview' : ''}`);
  });
  done.catch((error: unknown) => told.push(String(error)));
  return { whole, coarse, told };
}

test('a large volume is seen by its preview while it arrives', async () => {
  const { whole, coarse, told } = begin();
  void whole.send(WHOLE.subarray(0, HALF));
  void coarse.send(PREVIEW);
  void coarse.end();
  await vi.waitFor(() => {
    expect(told).toEqual(['0.5, with a preview']);
  }, PATIENCE);
  void whole.send(WHOLE.subarray(0, HALF));
  void whole.end();
  await vi.waitFor(() => {
    expect(told.at(-1)).toBe('1');
  }, PATIENCE);
});

test('a preview that comes after the volume was cut off does not take the place of the reason', async () => {
  const { whole, coarse, told } = begin();
  void whole.send(WHOLE.subarray(0, HALF));
  await settled();
  void whole.breakOff();
  await vi.waitFor(() => {
    expect(told).toEqual(['Error: The connection was lost.']);
  }, PATIENCE);
  void coarse.send(PREVIEW);
  void coarse.end();
  await settled();
  expect(told).toHaveLength(1);
});
