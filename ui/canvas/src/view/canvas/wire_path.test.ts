import { describe, expect, it } from 'vitest';

import { wirePath } from './wire_path';

const from = { sourceX: 500, sourceY: 50 };

describe('the path of a wire', () => {
  it('is a curve forwards', () => {
    const [path] = wirePath({ ...from, targetX: 600, targetY: 400 });
    expect(path).toContain('C');
  });

  it('goes between the rows, backwards', () => {
    const [path, x, y] = wirePath({ ...from, targetX: 100, targetY: 270 });
    expect(path).not.toContain('C');
    expect([x, y]).toEqual([300, 160]);
  });

  it('passes just above the lower card, below the pictures of those before it', () => {
    for (const [sourceY, targetY] of [
      [50, 270],
      [270, 50],
    ] as const) {
      const [path, x, y] = wirePath({ sourceX: 500, sourceY, targetX: 100, targetY }, 220);
      expect(path).not.toContain('C');
      expect([x, y]).toEqual([300, 202]);
    }
  });

  it('is a curve where two rows leave it no space', () => {
    const [path] = wirePath({ ...from, targetX: 100, targetY: 100 });
    expect(path).toContain('C');
  });
});
