/** A volume that is here: its pictures, and beside them what they are drawn with and what lies at the crosshair. */

import { useMemo, useState } from 'react';

import { size } from '../../../rules/wording';
import { useViewing } from '../../../state/viewing';
import type { Layout } from '../../../volume/arrangement';
import type { Form } from '../../../volume/arrival';
import { isSigned, mapFor, type Colours } from '../../../volume/colours';
import type { View } from '../../../volume/planes';
import { aboutZero, ranges, type Range, type Ranges } from '../../../volume/ranges';
import { centre, inside, isWhole, storedPlace, valueAt, type Place, type Volume } from '../../../volume/volume';
import { ChannelField, ColourField, SelectField } from '../../parts/Fields';
import { figure } from './figure';
import { Stage } from './Stage';
import { WHOLE_BYTES } from './useVolume';
import { WindowFields } from './WindowFields';

const LAYOUTS: Readonly<Record<Layout, string>> = {
  planes: 'Planes',
  all: 'Planes and 3-D',
  rendering: '3-D',
  x: 'Plane across X',
  y: 'Plane across Y',
  z: 'Plane across Z',
};

interface Props {
  volume: Volume;
  form: Form;
  share: number;
  channel: number;
  /** Another volume was asked for, and nothing of it is here yet. */
  waiting: boolean;
  onChannel: (channel: number) => void;
}

/** The colour map, and the ranges of its window: about zero where its middle stands for zero. */
function drawn(colours: Colours, found: Ranges) {
  const map = mapFor(colours, found.twoSided);
  const signed = isSigned(map);
  const usual = signed ? aboutZero(found.usual) : found.usual;
  return { map, signed, usual, all: signed ? aboutZero(found.all) : found.all };
}

export function OpenedVolume({ volume, form, share, channel, waiting, onChannel }: Props) {
  const colours = useViewing((s) => s.colours);
  const layout = useViewing((s) => s.layout);
  const chooseLayout = useViewing((s) => s.chooseLayout);
  const [place, setPlace] = useState<Place>(() => centre(volume));
  const [view, setView] = useState<View>(() => ({ zoom: 1, centre: centre(volume) }));
  // A window that the person has set holds for one channel and one kind of colours.
  const [chosen, setChosen] = useState<{ of: string; window: Range } | null>(null);
  const [density, setDensity] = useState(0.35);
  const [cut, setCut] = useState(false);
  // While it arrives all its states share one preview, and what is known of that.
  const judged = isWhole(volume) ? volume : (volume.preview ?? volume);
  const found = useMemo(() => ranges(judged, channel), [judged, channel]);
  const { map, signed, usual, all } = useMemo(() => drawn(colours, found), [colours, found]);
  const of = `${channel} ${signed ? 'signed' : ''}`;
  const window = chosen?.of === of ? chosen.window : usual;
  const there = inside(volume, place);
  const in3D = layout === 'all' || layout === 'rendering';
  const reduced = volume.steps.some((step) => step > 1);
  return (
    <div className="volume-body" data-waiting={waiting || undefined} data-whole={isWhole(volume) || undefined}>
      <Stage
        shown={{ volume, channel, map, usual, window, place: there, view }}
        layout={layout}
        density={density}
        cut={cut}
        share={share}
        onPlace={setPlace}
        onView={setView}
        onWindow={(next) => {
          setChosen({ of, window: next });
        }}
      />
      <div className="volume-side">
        <SelectField
          label="Layout"
          value={layout}
          options={Object.entries(LAYOUTS)}
          onChange={(value) => {
            chooseLayout(value as Layout);
          }}
        />
        {volume.channels > 1 && <ChannelField channel={channel} channels={volume.channels} onChange={onChannel} />}
        <ColourField />
        <WindowFields
          map={map}
          window={window}
          all={all}
          chosen={window !== usual}
          onChange={(next) => {
            setChosen(next === null ? null : { of, window: next });
          }}
        />
        {in3D && (
          <>
            <label className="look-choice">
              <span>Density</span>
              <input
                type="range"
                min={0.02}
                max={1}
                step={0.01}
                value={density}
                onChange={(event) => {
                  setDensity(Number(event.currentTarget.value));
                }}
              />
            </label>
            <label className="look-check">
              <input
                type="checkbox"
                checked={cut}
                onChange={(event) => {
                  setCut(event.currentTarget.checked);
                }}
              />
              Cut open at the crosshair
            </label>
          </>
        )}
        <dl className="facts">
          <Fact name="Voxel">{storedPlace(volume, there).join(', ')}</Fact>
          <Fact name="Value">{figure(valueAt(volume, channel, there))}</Fact>
          <Fact name="Shape">{form.shape}</Fact>
          <Fact name="Type">{form.dtype}</Fact>
          {volume.spacing && (
            <Fact name="Spacing">{`${volume.spacing.map((mm) => figure(mm, 4)).join(' x ')} mm`}</Fact>
          )}
        </dl>
        {reduced && (
          <p className="quiet" role="note">
            Larger than the {size(WHOLE_BYTES)} that are sent whole: every {volume.steps.join(', ')}. voxel along X, Y,
            Z, {size(form.bytes)}. The NIfTI file has all of them.
          </p>
        )}
        {share < 1 && (
          <p className="quiet" role="status">
            {Math.round(100 * share)}% of {size(form.bytes)} is here; the rest is seen coarsely until then.
          </p>
        )}
        <details className="volume-help">
          <summary>Mouse and keys</summary>
          <dl>
            <dt>Drag</dt>
            <dd>crosshair; turns the 3-D picture</dd>
            <dt>Wheel, arrows</dt>
            <dd>plane before or behind</dd>
            <dt>Right drag</dt>
            <dd>window: wider, lower</dd>
            <dt>Ctrl wheel, + −</dt>
            <dd>zoom; 0 fits</dd>
            <dt>Shift drag</dt>
            <dd>moves the picture</dd>
            <dt>Page up, down</dt>
            <dd>other volumes</dd>
          </dl>
        </details>
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
