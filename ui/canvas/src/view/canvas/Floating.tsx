/** Something that floats above the editor beside a place on the screen, and never leaves the editor's frame. */

import { useLayoutEffect, useRef, useState, type HTMLAttributes } from 'react';

import type { Tip } from './stage';

export interface Anchor {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

interface Props extends HTMLAttributes<HTMLDivElement> {
  anchor: Anchor;
  side: Tip['side'] | 'corner';
}

const MARGIN = 8;

export function Floating({ anchor, side, children, ...rest }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<{ left: number; top: number } | null>(null);

  useLayoutEffect(() => {
    const element = box.current;
    const frame = element?.offsetParent;
    if (!element || !frame) return;
    const put = () => {
      const { left, top, width, height } = frame.getBoundingClientRect();
      const size = { width: element.offsetWidth, height: element.offsetHeight };
      const wanted = wish(anchor, side, size, { width, height, left, top });
      setPlace({
        left: between(MARGIN, wanted.left, width - size.width - MARGIN),
        top: between(MARGIN, wanted.top, height - size.height - MARGIN),
      });
    };
    put();
    const observer = new ResizeObserver(put);
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, [anchor, side]);

  return (
    // Not `visibility: hidden` until it is placed: what is hidden can't take the focus.
    <div {...rest} ref={box} style={place ?? { left: 0, top: 0, opacity: 0 }}>
      {children}
    </div>
  );
}

interface Size {
  width: number;
  height: number;
}

function wish(
  { left, top, right, bottom }: Anchor,
  side: Props['side'],
  size: Size,
  frame: Size & { left: number; top: number },
): { left: number; top: number } {
  const middle = {
    left: (left + right - size.width) / 2 - frame.left,
    top: (top + bottom - size.height) / 2 - frame.top,
  };
  const above = top - frame.top - size.height - MARGIN;
  const below = bottom - frame.top + MARGIN;
  const before = left - frame.left - size.width - MARGIN;
  const behind = right - frame.left + MARGIN;
  switch (side) {
    case 'corner':
      return { left: left - frame.left, top: top - frame.top };
    case 'top':
      return { left: middle.left, top: above < MARGIN ? below : above };
    case 'bottom':
      return { left: middle.left, top: below + size.height > frame.height - MARGIN ? above : below };
    case 'left':
      return { left: before < MARGIN ? behind : before, top: middle.top };
    case 'right':
      return { left: behind + size.width > frame.width - MARGIN ? before : behind, top: middle.top };
  }
}

function between(low: number, value: number, high: number): number {
  return Math.max(low, Math.min(value, high));
}
