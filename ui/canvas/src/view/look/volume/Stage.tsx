/** The pictures of a volume, as large as there is room, and what lies under the pointer. */

import { Maximize, ZoomIn, ZoomOut, type LucideIcon } from 'lucide-react';
import { useMemo, useRef, useState } from 'react';

import { arrange, type Layout } from '../../../volume/arrangement';
import { zoomed } from '../../../volume/planes';
import { extent, inside, storedPlace, valueAt, type Place } from '../../../volume/volume';
import { figure } from './figure';
import { PlaneView } from './PlaneView';
import type { Changes, Shown } from './settings';
import { useBox } from './useBox';
import { VolumeRendering } from './VolumeRendering';

interface Props extends Changes {
  shown: Shown;
  layout: Layout;
  density: number;
  cut: boolean;
  /** How much of the volume is there, from 0 to 1. */
  share: number;
}

export function Stage({ shown, layout, density, cut, share, ...changes }: Props) {
  const { volume, channel, place, view } = shown;
  const pictures = useRef<HTMLDivElement>(null);
  const { width, height } = useBox(pictures);
  const [pointed, setPointed] = useState<Place | null>(null);
  const { planes, rendering } = useMemo(
    () => arrange(layout, extent(volume), width, height),
    [layout, volume, width, height],
  );
  const under = pointed && inside(volume, pointed);
  const zoom = (by: number) => {
    changes.onView(zoomed(volume, 2, { ...view, centre: view.zoom > 1 ? view.centre : place }, by, 0.5, 0.5));
  };
  return (
    <div className="volume-stage">
      <div className="volume-pictures" ref={pictures}>
        {width > 0 &&
          planes.map(({ axis, box }) => (
            <PlaneView key={axis} axis={axis} box={box} shown={shown} onPoint={setPointed} {...changes} />
          ))}
        {width > 0 && rendering && (
          <VolumeRendering box={rendering} shown={shown} density={density} cut={cut} onPlace={changes.onPlace} />
        )}
      </div>
      {share < 1 && (
        <div
          className="volume-arrives"
          role="progressbar"
          aria-label="Volume on its way"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(100 * share)}
        >
          <span style={{ width: `${100 * share}%` }} />
        </div>
      )}
      {layout !== 'rendering' && (
        <div className="volume-bar">
          {under && (
            <p className="volume-under" data-under>
              {storedPlace(volume, under).join(', ')} <strong>{figure(valueAt(volume, channel, under))}</strong>
            </p>
          )}
          <div className="volume-zoom">
            <ZoomButton
              title="Zoom out"
              icon={ZoomOut}
              disabled={view.zoom <= 1}
              onClick={() => {
                zoom(1 / 1.5);
              }}
            />
            <ZoomButton
              title="Zoom in"
              icon={ZoomIn}
              onClick={() => {
                zoom(1.5);
              }}
            />
            <ZoomButton
              title="Fit"
              icon={Maximize}
              disabled={view.zoom <= 1}
              onClick={() => {
                changes.onView({ ...view, zoom: 1 });
              }}
            />
          </div>
        </div>
      )}
    </div>
  );
}

interface ZoomButtonProps {
  title: string;
  icon: LucideIcon;
  disabled?: boolean;
  onClick: () => void;
}

function ZoomButton({ title, icon: Icon, disabled = false, onClick }: ZoomButtonProps) {
  return (
    <button
      type="button"
      className="btn btn-icon"
      aria-label={title}
      title={title}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon size={15} aria-hidden />
    </button>
  );
}
