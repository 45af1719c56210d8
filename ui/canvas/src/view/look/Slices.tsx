/** Three planes of a volume, drawn without WebGL; a click or drag moves the crosshair, the wheel goes through planes. */

import { useEffect, useMemo, useRef, type PointerEvent } from 'react';

import { palette } from '../../volume/colours';
import type { Place, Volume } from '../../volume/nifti';
import { AXES, axesOf, moved, placeIn, plane, type Axis } from '../../volume/planes';
import type { SceneSettings } from '../../volume/scene';

interface Props {
  volume: Volume;
  settings: SceneSettings;
  place: Place;
  onPlace: (place: Place) => void;
}

export function Slices(props: Props) {
  return (
    <div className="slices">
      {([2, 1, 0] as const).map((axis) => (
        <Slice key={axis} axis={axis} {...props} />
      ))}
    </div>
  );
}

function Slice({ axis, volume, settings, place, onPlace }: Props & { axis: Axis }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useMemo(() => palette(settings.colours), [settings.colours]);
  const [right, up] = axesOf(axis);
  const at = place[axis];
  useEffect(() => {
    const drawn = plane(volume, settings.channel, axis, at, settings.window, colours);
    const context = canvas.current?.getContext('2d');
    if (!canvas.current || !context) return;
    canvas.current.width = drawn.width;
    canvas.current.height = drawn.height;
    context.putImageData(new ImageData(drawn.pixels, drawn.width, drawn.height), 0, 0);
  }, [volume, settings.channel, settings.window, axis, at, colours]);
  const go = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    onPlace(
      placeIn(volume, axis, place, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height),
    );
  };
  return (
    <div className="slice">
      <div
        className="slice-picture"
        style={{ aspectRatio: `${volume.size[right]} / ${volume.size[up]}` }}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          go(event);
        }}
        onPointerMove={(event) => {
          if (event.buttons === 1) go(event);
        }}
        onWheel={(event) => {
          onPlace(moved(volume, place, axis, event.deltaY > 0 ? 1 : -1));
        }}
      >
        <canvas ref={canvas} aria-label={`Plane across ${AXES[axis]}`} />
        <span className="slice-across" style={{ left: `${(100 * (place[right] + 0.5)) / volume.size[right]}%` }} />
        <span className="slice-along" style={{ bottom: `${(100 * (place[up] + 0.5)) / volume.size[up]}%` }} />
      </div>
      <label className="look-choice">
        <span>{AXES[axis]}</span>
        <input
          type="range"
          min={0}
          max={volume.size[axis] - 1}
          value={at}
          onChange={(event) => {
            onPlace(moved(volume, place, axis, Number(event.currentTarget.value) - at));
          }}
        />
        <output className="look-figure">{Math.round(at * volume.steps[axis])}</output>
      </label>
    </div>
  );
}
