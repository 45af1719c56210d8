/** Volumes as thumbnails. */

import { Dices } from 'lucide-react';
import { useState } from 'react';

import type { PanelInfo, Picked } from '../../protocol';
import { count } from '../../rules/figures';
import { stem } from '../../rules/paths';
import { useViewing } from '../../state/viewing';
import type { Colours } from '../../volume/colours';
import { address, useAsked } from './ask';
import { ChoiceFields, inQuery, type Chosen } from './Choices';
import { ChannelField, ColourField } from './Fields';
import type { Opened } from './volume/VolumeViewer';
import { Waiting } from './Waiting';

const PAGE = 48;
const MOST = 192;

interface Props {
  dataset: string;
  panel: PanelInfo;
  onOpen: (volume: Opened) => void;
}

export function Gallery({ dataset, panel, onOpen }: Props) {
  const [chosen, setChosen] = useState<Chosen>({});
  const [seed, setSeed] = useState(0);
  const [channel, setChannel] = useState(0);
  const [shown, setShown] = useState(PAGE);
  const colours = useViewing((s) => s.colours);
  const asked = useAsked<Picked>(address(dataset, panel.name, 'content', { count: shown, seed, ...inQuery(chosen) }));
  const channels = channelsOf(panel.shape);
  const items = asked.answer?.items ?? [];
  const total = asked.answer?.total ?? null;
  const more = items.length >= shown && shown < MOST && (total === null || total > items.length);
  return (
    <>
      <div className="look-bar">
        {/* They may take a look at all rows, which the first thumbnails must not wait for. */}
        {asked.answer !== null && (
          <ChoiceFields
            dataset={dataset}
            panel={panel.name}
            chosen={chosen}
            onChoose={(next) => {
              setChosen(next);
              setShown(PAGE);
            }}
          />
        )}
        <button
          type="button"
          className="btn"
          disabled={chosen.order === 'stored'}
          onClick={() => {
            setSeed(seed + 1);
          }}
        >
          <Dices size={14} aria-hidden /> Shuffle
        </button>
        {channels > 1 && <ChannelField channel={channel} channels={channels} onChange={setChannel} />}
        <ColourField />
        <span className="quiet look-count" role="status">
          {asked.answer &&
            (total === null ? `${count(items.length)} shown` : `${count(items.length)} of ${count(total)}`)}
        </span>
      </div>
      {asked.answer === null ? (
        <Waiting asked={asked} />
      ) : (
        <>
          {items.length === 0 && <p className="quiet">No volumes.</p>}
          <ul className="thumbs" data-waiting={asked.waiting || undefined}>
            {items.map((item, at) => (
              <li key={item.row}>
                <button
                  type="button"
                  className="thumb"
                  title={item.id}
                  onClick={() => {
                    onOpen({ panel: panel.name, items, at, channel });
                  }}
                >
                  <Thumbnail dataset={dataset} panel={panel.name} row={item.row} channel={channel} colours={colours} />
                  <span className="thumb-id">
                    <bdi>{stem(item.id)}</bdi>
                  </span>
                  <span className={item.note ? 'thumb-label thumb-note' : 'thumb-label'}>
                    {item.note || item.label}
                  </span>
                </button>
              </li>
            ))}
          </ul>
          {more && (
            <div className="look-more">
              <button
                type="button"
                className="btn"
                onClick={() => {
                  setShown(Math.min(MOST, shown + PAGE));
                }}
              >
                Show more
              </button>
            </div>
          )}
        </>
      )}
    </>
  );
}

interface ThumbnailProps {
  dataset: string;
  panel: string;
  row: number;
  channel: number;
  colours: Colours;
  /** Pixels, at most. */
  size?: number;
}

/** The middle plane of a volume. What it shows is said beside it. */
export function Thumbnail({ dataset, panel, row, channel, colours, size = 160 }: ThumbnailProps) {
  const [lost, setLost] = useState(false);
  if (lost) return <span className="thumb-lost">Cannot be read</span>;
  return (
    <img
      alt=""
      loading="lazy"
      draggable={false}
      src={address(dataset, panel, 'thumbnail', { row, channel, map: colours, size })}
      onError={() => {
        setLost(true);
      }}
    />
  );
}

/** The fourth and further axes are channels, as in `axes_of` of engine/viewing/pictures.py. */
export function channelsOf(shape: readonly number[]): number {
  return shape.slice(3).reduce((product, length) => product * length, 1);
}
