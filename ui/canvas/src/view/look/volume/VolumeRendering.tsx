/**
 * The volume in three dimensions. A drag or the arrow keys turn it, the wheel or + and - bring it closer, a click moves the
 * crosshair to what one sees there. While it moves it is drawn as finely as is quick here, then once as it should be.
 */

import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import { isSigned, palette } from '../../../volume/colours';
import { NotDrawn, Rendering } from '../../../volume/gl/rendering';
import type { Box } from '../../../volume/arrangement';
import {
  directions,
  FIRST_LOOK,
  picked,
  pointOf,
  project,
  reach,
  sides,
  type Camera,
  type Opacity,
} from '../../../volume/rays';
import { AXES, isWhole, type Axis, type Place, type Triple } from '../../../volume/volume';
import type { Shown } from './settings';

interface Props {
  box: Box;
  shown: Shown;
  density: number;
  cut: boolean;
  onPlace: (place: Place) => void;
}

/** A picture that follows the hand takes no longer, and one that is looked at. */
const QUICK_MS = 40;
const PATIENT_MS = 1500;
const SETTLED_MS = 180;

const TURNS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-0.1, 0],
  ArrowRight: [0.1, 0],
  ArrowUp: [0, 0.1],
  ArrowDown: [0, -0.1],
};

const NEARER: Readonly<Record<string, number>> = { '+': 1.25, '=': 1.25, '-': 0.8 };

/** How far the making of a rendering has come. */
interface Making {
  /** What was to be made: another volume, channel or window makes it another one. */
  readonly of: object;
  readonly share: number;
  readonly problem: string;
}

export function VolumeRendering({ box, shown, density, cut, onPlace }: Props) {
  const { volume, channel, usual, map, window, place } = shown;
  const canvas = useRef<HTMLCanvasElement>(null);
  const rendering = useRef<Rendering | null>(null);
  const [making, setMaking] = useState<Making | null>(null);
  // The browser may take the graphics card away: then all is made anew.
  const [attempt, setAttempt] = useState(0);
  const [camera, setCamera] = useState<Camera>(FIRST_LOOK);
  const colours = useMemo(() => palette(map), [map]);
  const opacity = useMemo<Opacity>(() => ({ density, signed: isSigned(map) }), [density, map]);
  // The window at first, by its numbers: another object with the same ones must not send all voxels again.
  const { low, high } = usual;
  const wanted = useMemo(
    () => (isWhole(volume) ? { volume, channel, usual: { low, high }, attempt } : null),
    [volume, channel, low, high, attempt],
  );
  const known = making?.of === wanted ? making : null;
  const done = known?.share === 1;

  useEffect(() => {
    if (!wanted) return undefined;
    const control = new AbortController();
    const tell = (share: number, problem = '') => {
      if (!control.signal.aborted) setMaking({ of: wanted, share, problem });
    };
    Rendering.of(wanted.volume, wanted.channel, wanted.usual, control.signal, tell)
      .then((made) => {
        if (control.signal.aborted) made?.close();
        else rendering.current = made;
        tell(1);
      })
      .catch((error: unknown) => {
        tell(0, error instanceof NotDrawn ? error.message : 'The 3-D picture could not be made.');
      });
    return () => {
      control.abort();
      rendering.current?.close();
      rendering.current = null;
    };
  }, [wanted]);

  const pace = useRef({ cost: 0 });
  const draw = useCallback(
    (quick: boolean) => {
      const element = canvas.current;
      const context = element?.getContext('2d');
      const drawn = rendering.current;
      if (!element || !context || !drawn) return;
      if (drawn.isLost) {
        setAttempt((before) => before + 1);
        return;
      }
      const dense = globalThis.devicePixelRatio || 1;
      const [width, height] = [Math.max(1, Math.round(box.width * dense)), Math.max(1, Math.round(box.height * dense))];
      // `cost` is what a point takes with one step a voxel: of a quick picture it is known when the next is drawn.
      const budget = quick ? QUICK_MS : PATIENT_MS;
      const fine = quick ? 1 : 2;
      const affordable = pace.current.cost > 0 ? Math.sqrt(budget / (pace.current.cost * width * height * fine)) : 0.25;
      const scale = Math.max(0.08, Math.min(1, affordable));
      const size = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))] as const;
      const begun = performance.now();
      const picture = drawn.draw(...size, fine, true, { camera, window, colours, opacity, cut: cut ? place : null });
      if (element.width !== width || element.height !== height) {
        element.width = width;
        element.height = height;
      }
      context.clearRect(0, 0, width, height);
      context.imageSmoothingQuality = 'high';
      context.drawImage(picture, 0, 0, width, height);
      const spent = performance.now() - begun;
      pace.current.cost = spent / (size[0] * size[1] * fine);
      frameIn(context, volume, camera, place, width, height, dense);
      element.dataset.drawn = quick ? 'quick' : 'fine';
    },
    [volume, camera, window, colours, opacity, cut, place, box.width, box.height],
  );
  useEffect(() => {
    if (!done) return undefined;
    const frame = requestAnimationFrame(() => {
      draw(true);
    });
    const settled = setTimeout(() => {
      draw(false);
    }, SETTLED_MS);
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(settled);
    };
  }, [draw, done]);

  const turn = (azimuth: number, elevation: number) => {
    setCamera((before) => ({
      ...before,
      azimuth: before.azimuth + azimuth,
      elevation: Math.max(-Math.PI / 2, Math.min(Math.PI / 2, before.elevation + elevation)),
    }));
  };
  const closer = (by: number) => {
    setCamera((before) => ({ ...before, zoom: Math.max(0.5, Math.min(12, before.zoom * by)) }));
  };
  const wheel = useRef(closer);
  useEffect(() => {
    wheel.current = closer;
  });
  useEffect(() => {
    const element = canvas.current;
    const turned = (event: WheelEvent) => {
      event.preventDefault();
      wheel.current(Math.exp(-event.deltaY / 500));
    };
    element?.addEventListener('wheel', turned, { passive: false });
    return () => {
      element?.removeEventListener('wheel', turned);
    };
  }, []);

  const pressed = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const pick = (event: { clientX: number; clientY: number }) => {
    const bounds = canvas.current?.getBoundingClientRect();
    if (!bounds) return;
    const half = Math.min(bounds.width, bounds.height) / 2;
    const at = [
      (event.clientX - bounds.left - bounds.width / 2) / half,
      (bounds.top + bounds.height / 2 - event.clientY) / half,
    ] as const;
    const level = (value: number) => Math.max(0, Math.min(1, (value - window.low) / (window.high - window.low)));
    const found = picked(volume, channel, camera, at, level, opacity, cut ? place : null);
    if (found) onPlace(found);
  };
  return (
    <div className="rendering" style={{ left: box.left, top: box.top, width: box.width, height: box.height }}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label="Volume in 3-D, turned by the arrow keys"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          pressed.current = { x: event.clientX, y: event.clientY, moved: false };
        }}
        onPointerMove={(event) => {
          const from = pressed.current;
          if (!from || event.buttons === 0) return;
          if (Math.hypot(event.clientX - from.x, event.clientY - from.y) > 3) from.moved = true;
          if (from.moved) turn(-event.movementX / 120, event.movementY / 120);
        }}
        onPointerUp={(event) => {
          if (pressed.current?.moved === false && event.button === 0) pick(event);
          pressed.current = null;
        }}
        onDoubleClick={() => {
          setCamera(FIRST_LOOK);
        }}
        onKeyDown={(event) => {
          const by = TURNS[event.key];
          const nearer = NEARER[event.key];
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (by) turn(...by);
          else if (nearer !== undefined) closer(nearer);
          else if (event.key === '0') setCamera(FIRST_LOOK);
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      {!done && (
        <p className="rendering-state" role={known?.problem ? 'alert' : 'status'}>
          {known?.problem ||
            (wanted
              ? `Making the 3-D picture, ${percent(known?.share ?? 0)}`
              : 'The 3-D picture waits for all of the volume.')}
        </p>
      )}
    </div>
  );
}

function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** Of the axes, as the planes have them. */
function axisColours(element: Element): readonly [string, string, string] {
  const style = getComputedStyle(element);
  const of = (axis: string) => style.getPropertyValue(`--axis-${axis}`).trim() || '#fff';
  return [of('x'), of('y'), of('z')];
}

/** The box's edges, its axes with their names, and the crosshair, over the picture. */
function frameIn(
  context: CanvasRenderingContext2D,
  volume: Shown['volume'],
  camera: Camera,
  place: Place,
  width: number,
  height: number,
  dense: number,
): void {
  const colours = axisColours(context.canvas);
  const box = sides(volume);
  const look = directions(camera);
  const far = reach(box, camera);
  const half = Math.min(width, height) / 2;
  const at = (point: Triple): readonly [number, number] => {
    const [x, y] = project(point, look, far);
    return [width / 2 + x * half, height / 2 - y * half];
  };
  const line = (from: Triple, to: Triple, colour: string, alpha: number) => {
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.beginPath();
    context.moveTo(...at(from));
    context.lineTo(...at(to));
    context.stroke();
  };
  context.lineWidth = dense;
  const corner = (x: number, y: number, z: number): Triple => [x * box[0], y * box[1], z * box[2]];
  const first = corner(-0.5, -0.5, -0.5);
  for (const axis of [0, 1, 2] as const) {
    const [one, other] = ([0, 1, 2] as Axis[]).filter((each) => each !== axis) as [Axis, Axis];
    for (const a of [-0.5, 0.5])
      for (const b of [-0.5, 0.5]) {
        const from: [number, number, number] = [0, 0, 0];
        from[one] = a * box[one];
        from[other] = b * box[other];
        const to: [number, number, number] = [...from];
        from[axis] = -0.5 * box[axis];
        to[axis] = 0.5 * box[axis];
        const named = a < 0 && b < 0;
        line(from, to, named ? colours[axis] : '#ffffff', named ? 0.9 : 0.16);
      }
    const end: [number, number, number] = [...first];
    end[axis] = 0.5 * box[axis] + 0.05;
    context.globalAlpha = 1;
    context.fillStyle = colours[axis];
    context.font = `600 ${12 * dense}px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(AXES[axis], ...at(end));
    const here = pointOf(volume, box, place);
    const [before, behind]: [[number, number, number], [number, number, number]] = [[...here], [...here]];
    before[axis] = -0.5 * box[axis];
    behind[axis] = 0.5 * box[axis];
    line(before, behind, colours[axis], 0.45);
  }
  context.globalAlpha = 1;
}
