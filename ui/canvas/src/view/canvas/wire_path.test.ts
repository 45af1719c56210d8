import { describe, expect, it } from 'vitest';

import { wirePath } from './wire_path';

const from = { sourceX: 500, sourceY: 50 };

describe('the path of a wire', () => {
  it('is a curve without a lane', () => {
    const [path] = wirePath({ ...from, targetX: 600, targetY: 400 }, undefined);
    expect(path).toContain('C');
  });

  it('runs along its lane, level and upright, with round corners', () => {
    const lane = { y: 202, out: 20, into: 28 };
    const [path, x, y] = wirePath({ ...from, targetX: 100, targetY: 270 }, lane);
    expect([x, y]).toEqual([(520 + 72) / 2, 202]);
    expect(path).toBe(
      'M500 50L510 50Q520 50 520 60L520 188Q520 202 506 202L86 202Q72 202 72 216L72 256Q72 270 86 270L100 270',
    );
  });

  it('has corners as round as there is space', () => {
    const [path] = wirePath({ ...from, targetX: 900, targetY: 60 }, { y: 50, out: 20, into: 20 });
    expect(path).toMatch(/L875 50Q880 50 880 55L880 55Q880 60 885 60L900 60$/);
  });

  it('goes back between the rows before the cards are measured', () => {
    const [path, x, y] = wirePath({ ...from, targetX: 100, targetY: 270 }, undefined);
    expect(path).not.toContain('C');
    expect([x, y]).toEqual([300, 160]);
    expect(wirePath({ ...from, targetX: 100, targetY: 100 }, undefined)[0]).toContain('C');
  });
});
