/** The edge of a panel, to be dragged, or moved with the arrow keys. */

import { useRef, type KeyboardEvent, type PointerEvent } from 'react';

interface ResizerProps {
  label: string;
  /** Where the panel grows when its edge is moved that way. */
  direction: 'left' | 'up';
  value: number;
  least: number;
  most: number;
  onChange: (value: number) => void;
}

const STEP = 16;

export function Resizer({ label, direction, value, least, most, onChange }: ResizerProps) {
  const drag = useRef<{ from: number; value: number } | null>(null);
  const place = (event: PointerEvent) => (direction === 'left' ? event.clientX : event.clientY);
  const resize = (next: number) => {
    onChange(Math.round(Math.min(most, Math.max(least, next))));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const grow = direction === 'left' ? 'ArrowLeft' : 'ArrowUp';
    const shrink = direction === 'left' ? 'ArrowRight' : 'ArrowDown';
    if (event.key !== grow && event.key !== shrink) return;
    event.preventDefault();
    event.stopPropagation();
    resize(value + (event.key === grow ? STEP : -STEP));
  };
  return (
    // A separator that can be moved is a control: the ARIA pattern gives it a value and the focus.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <div
      className={`resizer resizer-${direction}`}
      role="separator"
      aria-label={label}
      aria-orientation={direction === 'left' ? 'vertical' : 'horizontal'}
      aria-valuenow={value}
      aria-valuemin={least}
      aria-valuemax={most}
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { from: place(event), value };
      }}
      onPointerMove={(event) => {
        if (drag.current) resize(drag.current.value + drag.current.from - place(event));
      }}
      onPointerUp={() => {
        drag.current = null;
      }}
      onLostPointerCapture={() => {
        drag.current = null;
      }}
    />
  );
}
