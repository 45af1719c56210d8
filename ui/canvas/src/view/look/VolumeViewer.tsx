/** One volume: its planes, its rendering, and what is shown of it. */

import { ArrowLeft, ChevronLeft, ChevronRight, Download } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';

import type { GalleryItem, PanelInfo } from '../../protocol';
import { size } from '../../rules/wording';
import { useViewing } from '../../state/viewing';
import { isSigned } from '../../volume/colours';
import {
  centre,
  ranges,
  readVolume,
  storedPlace,
  valueAt,
  type Place,
  type Range,
  type Volume,
} from '../../volume/nifti';
import type { Layout, SceneSettings } from '../../volume/scene';
import { address, ask, refusalOf, type Refusal } from './ask';
import { ChannelField, ColourField } from './Fields';
import { drawsInSoftware, hasWebGL2, NiiVueScene } from './NiiVueScene';
import { Slices } from './Slices';
import { Problem } from './Waiting';

/** A volume that is opened, and those beside it. */
export interface OpenedVolume {
  readonly panel: string;
  readonly items: readonly GalleryItem[];
  readonly at: number;
  readonly channel: number;
}

interface Props {
  dataset: string;
  panel: PanelInfo;
  opened: OpenedVolume;
  onChange: (opened: OpenedVolume) => void;
  onClose: () => void;
}

interface Loaded {
  readonly url: string;
  readonly volume: Volume | null;
  readonly shape: string;
  readonly dtype: string;
  readonly problem: Refusal | null;
}

export function VolumeViewer({ dataset, panel, opened, onChange, onClose }: Props) {
  const { items, at, channel } = opened;
  const item = items[at];
  const url = address(dataset, panel.name, 'volume', { row: item?.row ?? 0 });
  const loaded = useVolume(url);
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
        <a className="btn look-count" href={url} download={`volume-${item?.row ?? 0}.nii`}>
          <Download size={14} aria-hidden /> NIfTI
        </a>
      </div>
      {loaded.problem && <Problem problem={loaded.problem} />}
      {loaded.volume && (
        <Opened
          key={panel.name}
          volume={loaded.volume}
          shape={loaded.shape}
          dtype={loaded.dtype}
          channel={Math.min(channel, loaded.volume.channels - 1)}
          waiting={loaded.url !== url}
          onChannel={(next) => {
            onChange({ ...opened, channel: next });
          }}
        />
      )}
      {!loaded.volume && !loaded.problem && <div className="volume-stage" role="status" aria-label="Loading" />}
    </div>
  );
}

/** The volume at an address; while another one is on its way that of before. */
function useVolume(url: string): Loaded {
  const [found, setFound] = useState<Loaded>({ url: '', volume: null, shape: '', dtype: '', problem: null });
  useEffect(() => {
    const control = new AbortController();
    ask(url, control.signal)
      .then(async (response) => {
        const volume = readVolume(await response.arrayBuffer());
        const shape = (response.headers.get('X-Voxelflow-Shape') ?? '').replaceAll(',', ' x ');
        setFound({ url, volume, shape, dtype: response.headers.get('X-Voxelflow-Dtype') ?? '', problem: null });
      })
      .catch((error: unknown) => {
        if (!control.signal.aborted) {
          setFound({ url, volume: null, shape: '', dtype: '', problem: refusalOf(error) });
        }
      });
    return () => {
      control.abort();
    };
  }, [url]);
  return found;
}

const LAYOUTS: Readonly<Record<Layout, string>> = {
  all: 'Planes and 3-D',
  slices: 'Planes',
  z: 'Plane across Z',
  rendering: '3-D',
};

interface OpenedProps {
  volume: Volume;
  shape: string;
  dtype: string;
  channel: number;
  waiting: boolean;
  onChannel: (channel: number) => void;
}

function Opened({ volume, shape, dtype, channel, waiting, onChannel }: OpenedProps) {
  const colours = useViewing((s) => s.colours);
  const [layout, setLayout] = useState<Layout>(() => (drawsInSoftware() ? 'slices' : 'all'));
  const [place, setPlace] = useState<Place>(() => centre(volume));
  // A window that the person has set holds for one channel and one kind of colours.
  const [chosen, setChosen] = useState<{ of: string; window: Range } | null>(null);
  const [plain, setPlain] = useState(() => !hasWebGL2(volume));
  const usual = useMemo(() => ranges(volume, channel, isSigned(colours)), [volume, channel, colours]);
  const of = `${channel} ${isSigned(colours) ? 'signed' : ''}`;
  const window = chosen?.of === of ? chosen.window : usual.window;
  const settings: SceneSettings = useMemo(
    () => ({ channel, colours, window, layout }),
    [channel, colours, window, layout],
  );
  const there = inside(volume, place);
  return (
    <div className="volume-body" data-waiting={waiting || undefined}>
      <div className="volume-stage" data-renderer={plain ? '2d' : 'niivue'}>
        {plain ? (
          <Slices volume={volume} settings={settings} place={there} onPlace={setPlace} />
        ) : (
          <NiiVueScene
            volume={volume}
            settings={settings}
            onPlace={setPlace}
            onLost={() => {
              setPlain(true);
            }}
          />
        )}
      </div>
      <div className="volume-side">
        {volume.channels > 1 && <ChannelField channel={channel} channels={volume.channels} onChange={onChannel} />}
        <ColourField />
        {!plain && (
          <label className="look-choice">
            <span>Layout</span>
            <select
              className="input select"
              value={layout}
              onChange={(event) => {
                setLayout(event.currentTarget.value as Layout);
              }}
            >
              {Object.entries(LAYOUTS).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
        )}
        <WindowFields
          window={window}
          all={usual.all}
          onChange={(next) => {
            setChosen(next === null ? null : { of, window: next });
          }}
        />
        <dl className="facts">
          <Fact name="Voxel">{storedPlace(volume, there).join(', ')}</Fact>
          <Fact name="Value">{figure(valueAt(volume, channel, there))}</Fact>
          <Fact name="Shape">{shape}</Fact>
          <Fact name="Type">{dtype}</Fact>
        </dl>
        {volume.steps.some((step) => step > 1) && (
          <p className="quiet">
            Too large to send whole: every {volume.steps.join(', ')}. voxel along X, Y, Z,{' '}
            {size(volume.file.byteLength)}.
          </p>
        )}
        {plain && <p className="quiet">This browser draws no 3-D here (no WebGL 2): planes only.</p>}
      </div>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd data-fact={name}>{children}</dd>
    </div>
  );
}

interface WindowProps {
  window: Range;
  all: Range;
  onChange: (window: Range | null) => void;
}

/** What the two ends of the colours stand for. */
function WindowFields({ window, all, onChange }: WindowProps) {
  const step = (all.high - all.low) / 200;
  const end = (name: 'low' | 'high', word: string) => (
    <label className="look-choice">
      <span>{word}</span>
      <input
        type="range"
        min={all.low}
        max={all.high}
        step={step}
        value={window[name]}
        onChange={(event) => {
          const value = Number(event.currentTarget.value);
          const next = { ...window, [name]: value };
          if (next.high - next.low >= step / 2) onChange(next);
        }}
      />
      <output className="look-figure">{figure(window[name])}</output>
    </label>
  );
  return (
    <>
      {end('low', 'Lowest')}
      {end('high', 'Highest')}
      <button
        type="button"
        className="btn btn-small"
        onClick={() => {
          onChange(null);
        }}
      >
        Reset window
      </button>
    </>
  );
}

/** The next volume may be smaller. */
function inside(volume: Volume, [x, y, z]: Place): Place {
  const [sx, sy, sz] = volume.size;
  return [Math.min(x, sx - 1), Math.min(y, sy - 1), Math.min(z, sz - 1)];
}

function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return Number.isInteger(value) ? value.toLocaleString('en-US') : String(Number(value.toPrecision(4)));
}
