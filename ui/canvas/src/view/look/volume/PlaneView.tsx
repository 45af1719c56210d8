/**
 * A plane through a volume with the crosshair. A drag moves the crosshair, the wheel and the arrow keys go through planes,
 * a drag with the right button sets the window, the wheel with Ctrl zooms, and a drag with Shift moves the picture.
 */

import { useEffect, useMemo, useRef, type PointerEvent } from 'react';

import { isSigned, palette } from '../../../volume/colours';
import { axesOf, panned, plane, placeIn, shownPart, zoomed } from '../../../volume/planes';
import { dragged } from '../../../volume/ranges';
import { AXES, moved, storedPlace, valueAt, type Axis, type Place } from '../../../volume/volume';
import type { Box } from '../../../volume/arrangement';
import { figure } from './figure';
import type { Changes, Shown } from './settings';

interface Props extends Changes {
  axis: Axis;
  box: Box;
  shown: Shown;
  /** The voxel under the pointer. */
  onPoint: (place: Place | null) => void;
}

/** What a drag does that has begun. */
type Drag = 'place' | 'window' | 'view';

const STEPS: Readonly<Record<string, number>> = {
  ArrowUp: 1,
  ArrowRight: 1,
  ArrowDown: -1,
  ArrowLeft: -1,
  Home: -Infinity,
  End: Infinity,
};

const CLOSER: Readonly<Record<string, number>> = { '+': 1.5, '=': 1.5, '-': 1 / 1.5 };

export function PlaneView({ axis, box, shown, onPlace, onWindow, onView, onPoint }: Props) {
  const { volume, channel, map, window, place, view } = shown;
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const drag = useRef<Drag | null>(null);
  const colours = useMemo(() => palette(map), [map]);
  const [right, up] = axesOf(axis);
  const at = place[axis];
  const drawn = useMemo(
    () => plane(volume, channel, axis, at, window, colours),
    [volume, channel, axis, at, window, colours],
  );
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context) return;
    if (element.width !== drawn.width) element.width = drawn.width;
    if (element.height !== drawn.height) element.height = drawn.height;
    context.putImageData(new ImageData(drawn.pixels, drawn.width, drawn.height), 0, 0);
  }, [drawn]);

  const share = (event: { clientX: number; clientY: number }): readonly [number, number] => {
    const bounds = frame.current?.getBoundingClientRect() ?? { left: 0, top: 0, width: 1, height: 1 };
    return [(event.clientX - bounds.left) / bounds.width, (event.clientY - bounds.top) / bounds.height];
  };
  const pointed = (event: { clientX: number; clientY: number }) => placeIn(volume, axis, place, view, ...share(event));
  const go = (by: number) => {
    onPlace(moved(volume, place, axis, by));
  };

  // React listens to the wheel without the right to keep the page from scrolling.
  const wheel = useRef<(event: WheelEvent) => void>(() => undefined);
  useEffect(() => {
    wheel.current = (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey)
        onView(zoomed(volume, axis, view, Math.exp(-event.deltaY / 200), ...share(event)));
      else if (event.deltaY !== 0) go(event.deltaY > 0 ? 1 : -1);
    };
  });
  useEffect(() => {
    const element = frame.current;
    const turn = (event: WheelEvent) => {
      wheel.current(event);
    };
    element?.addEventListener('wheel', turn, { passive: false });
    return () => {
      element?.removeEventListener('wheel', turn);
    };
  }, []);

  const begin = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    event.currentTarget.focus({ preventScroll: true });
    drag.current = event.button === 2 ? 'window' : event.button === 1 || event.shiftKey ? 'view' : 'place';
    if (drag.current === 'place') onPlace(pointed(event));
    event.preventDefault();
  };
  const move = (event: PointerEvent<HTMLDivElement>) => {
    onPoint(pointed(event));
    if (event.buttons === 0) return;
    if (drag.current === 'place') onPlace(pointed(event));
    else if (drag.current === 'window') onWindow(dragged(window, event.movementX, event.movementY, !isSigned(map)));
    else if (drag.current === 'view')
      onView(panned(volume, axis, view, event.movementX / box.width, event.movementY / box.height));
  };

  const across = shownPart(volume.size[right], view.zoom, view.centre[right]);
  const along = shownPart(volume.size[up], view.zoom, view.centre[up]);
  const line = (part: { begin: number; span: number }, of: Axis) =>
    `${100 * (part.begin + (part.span * (place[of] + 0.5)) / volume.size[of])}%`;
  const large = (box.width * view.zoom) / volume.size[right] >= 1;
  const stored = storedPlace(volume, place);
  const name = `Plane across ${AXES[axis]}`;
  return (
    <div className="plane" style={{ left: box.left, top: box.top, width: box.width }} data-axis={AXES[axis]}>
      <div
        ref={frame}
        className="plane-frame"
        style={{ height: box.height }}
        data-missing={drawn.missing || undefined}
        role="slider"
        tabIndex={0}
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={volume.size[axis] - 1}
        aria-valuenow={at}
        aria-valuetext={`${stored[axis]}, value ${figure(valueAt(volume, channel, place))} at ${stored.join(', ')}`}
        onPointerDown={begin}
        onPointerMove={move}
        onPointerUp={() => {
          drag.current = null;
        }}
        onPointerLeave={() => {
          onPoint(null);
        }}
        onContextMenu={(event) => {
          event.preventDefault();
        }}
        onKeyDown={(event) => {
          const step = STEPS[event.key];
          const closer = CLOSER[event.key];
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (step !== undefined) go(event.shiftKey ? 10 * step : step);
          else if (closer !== undefined) onView(zoomed(volume, axis, { ...view, centre: place }, closer, 0.5, 0.5));
          else if (event.key === '0') onView({ ...view, zoom: 1 });
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      >
        <canvas
          ref={canvas}
          data-large={large || undefined}
          style={{
            left: `${100 * across.begin}%`,
            bottom: `${100 * along.begin}%`,
            width: `${100 * across.span}%`,
            height: `${100 * along.span}%`,
          }}
        />
        <span className="plane-line plane-upright" data-axis={AXES[right]} style={{ left: line(across, right) }} />
        <span className="plane-line plane-level" data-axis={AXES[up]} style={{ bottom: line(along, up) }} />
        {(drawn.missing || drawn.infinite) && (
          <span className="plane-note">
            {[drawn.missing && 'hatched: no number', drawn.infinite && 'pink: infinite'].filter(Boolean).join(', ')}
          </span>
        )}
        <span className="plane-end plane-end-right" data-axis={AXES[right]} aria-hidden>
          {AXES[right]}
        </span>
        <span className="plane-end plane-end-up" data-axis={AXES[up]} aria-hidden>
          {AXES[up]}
        </span>
      </div>
      <label className="plane-foot">
        <span data-axis={AXES[axis]}>{AXES[axis]}</span>
        <input
          type="range"
          min={0}
          max={volume.size[axis] - 1}
          value={at}
          onChange={(event) => {
            go(Number(event.currentTarget.value) - at);
          }}
        />
        <output className="look-figure">{stored[axis]}</output>
      </label>
    </div>
  );
}
