/** One volume of a gallery, those before and after it, and its file. */

import { ArrowLeft, ChevronLeft, ChevronRight, Download } from 'lucide-react';
import { useEffect, useRef } from 'react';

import type { GalleryItem, PanelInfo } from '../../../protocol';
import { address } from '../../parts/ask';
import { Problem } from '../../parts/Waiting';
import { OpenedVolume } from './OpenedVolume';
import { useVolume } from './useVolume';

/** A volume that is opened, and those beside it. */
export interface Opened {
  readonly panel: string;
  readonly items: readonly GalleryItem[];
  readonly at: number;
  readonly channel: number;
}

interface Props {
  dataset: string;
  panel: PanelInfo;
  opened: Opened;
  onChange: (opened: Opened) => void;
  onClose: () => void;
}

export function VolumeViewer({ dataset, panel, opened, onChange, onClose }: Props) {
  const { items, at, channel } = opened;
  const item = items[at];
  const row = item?.row ?? 0;
  const loaded = useVolume(dataset, panel.name, row);
  const step = (by: number) => {
    const next = at + by;
    if (next >= 0 && next < items.length) onChange({ ...opened, at: next });
  };
  const head = useRef<HTMLDivElement>(null);
  useEffect(() => {
    head.current?.querySelector('button')?.focus();
  }, []);
  return (
    // PageUp and PageDown go from volume to volume wherever the focus is, but in a field.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- the buttons do the same
    <div
      className="volume"
      role="group"
      aria-label="Volume"
      onKeyDown={(event) => {
        if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
        if (event.key === 'PageDown') step(1);
        else if (event.key === 'PageUp') step(-1);
        else return;
        event.preventDefault();
      }}
    >
      <div className="look-bar" ref={head}>
        <button type="button" className="btn" onClick={onClose}>
          <ArrowLeft size={14} aria-hidden /> All volumes
        </button>
        <button
          type="button"
          className="btn btn-icon"
          aria-label="Volume before"
          disabled={at === 0}
          onClick={() => {
            step(-1);
          }}
        >
          <ChevronLeft size={16} aria-hidden />
        </button>
        <span className="look-figure">
          {at + 1} of {items.length}
        </span>
        <button
          type="button"
          className="btn btn-icon"
          aria-label="Next volume"
          disabled={at + 1 >= items.length}
          onClick={() => {
            step(1);
          }}
        >
          <ChevronRight size={16} aria-hidden />
        </button>
        <strong className="volume-name" dir="auto">
          {item?.id}
        </strong>
        {item && <span className="quiet">{item.note || (item.label ? `label ${item.label}` : '')}</span>}
        <a
          className="btn look-count"
          href={address(dataset, panel.name, 'volume', { row })}
          download={`volume-${row}.nii`}
        >
          <Download size={14} aria-hidden /> NIfTI
        </a>
      </div>
      {loaded.problem && <Problem problem={loaded.problem} />}
      {loaded.volume && loaded.form && (
        <OpenedVolume
          key={panel.name}
          volume={loaded.volume}
          form={loaded.form}
          share={loaded.share}
          channel={Math.min(channel, loaded.volume.channels - 1)}
          waiting={loaded.row !== row}
          onChannel={(next) => {
            onChange({ ...opened, channel: next });
          }}
        />
      )}
      {!loaded.volume && !loaded.problem && <Coming />}
    </div>
  );
}

/** As large as the volume will be, with what stands beside it. */
function Coming() {
  return (
    <div className="volume-body" role="status" aria-label="Loading">
      <div className="volume-stage" />
      <div className="volume-side">
        <span className="skeleton skeleton-wide" />
        <span className="skeleton skeleton-wide" />
        <span className="skeleton" />
      </div>
    </div>
  );
}
