/** Volumes as thumbnails. */

import { Dices } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';

import type { GalleryItem, PanelInfo, Picked } from '../../protocol';
import { count } from '../../rules/figures';
import { stem } from '../../rules/paths';
import { useViewing } from '../../state/viewing';
import type { Colours } from '../../volume/colours';
import { address, useAsked } from './ask';
import { ChoiceFields, inQuery } from './Choices';
import { ChannelField, ColourField } from './Fields';
import { choosing, PAGE, scrollOf, useScrollBack, type Move, type Place } from './place';
import type { Opened } from './volume/VolumeViewer';
import { Waiting } from './Waiting';

const MOST = 192;

interface Props {
  dataset: string;
  panel: PanelInfo;
  place: Place;
  onMove: Move;
  onOpen: (volume: Opened) => void;
}

export function Gallery({ dataset, panel, place, onMove, onOpen }: Props) {
  const { chosen, seed, channel, shown } = place;
  const list = useRef<HTMLUListElement>(null);
  const colours = useViewing((s) => s.colours);
  const asked = useAsked<Picked>(address(dataset, panel.name, 'content', { count: shown, seed, ...inQuery(chosen) }));
  useScrollBack(list, place, onMove);
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
              onMove(choosing(next));
            }}
          />
        )}
        <button
          type="button"
          className="btn"
          disabled={chosen.order === 'stored'}
          onClick={() => {
            onMove({ seed: seed + 1 });
          }}
        >
          <Dices size={14} aria-hidden /> Shuffle
        </button>
        {channels > 1 && (
          <ChannelField
            channel={channel}
            channels={channels}
            onChange={(next) => {
              onMove({ channel: next });
            }}
          />
        )}
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
          <ul className="thumbs" ref={list} data-waiting={asked.waiting || undefined}>
            {items.map((item, at) => (
              <li key={item.row}>
                <Tile
                  item={item}
                  onOpen={() => {
                    onMove({ scroll: scrollOf(list.current) });
                    onOpen({ panel: panel.name, items, at, channel });
                  }}
                >
                  <Thumbnail dataset={dataset} panel={panel.name} row={item.row} channel={channel} colours={colours} />
                </Tile>
              </li>
            ))}
          </ul>
          {more && (
            <div className="look-more">
              <button
                type="button"
                className="btn"
                onClick={() => {
                  onMove({ shown: Math.min(MOST, shown + PAGE) });
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

/** A picture with what it is of: its name, and below it its label or what a model says. */
export function Tile({ item, onOpen, children }: { item: GalleryItem; onOpen: () => void; children?: ReactNode }) {
  const words = item.note || item.label;
  return (
    <button type="button" className="thumb" title={words ? `${item.id}, ${words}` : item.id} onClick={onOpen}>
      {children}
      <span className="thumb-id">
        <bdi>{stem(item.id)}</bdi>
      </span>
      {words && <span className="thumb-label">{words}</span>}
    </button>
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
  const src = address(dataset, panel, 'thumbnail', { row, channel, map: colours, size });
  // Another channel, or the same one later, may be read all the same.
  const [lost, setLost] = useState<string | null>(null);
  if (lost === src) return <span className="thumb-lost">Cannot be read</span>;
  return (
    <img
      alt=""
      loading="lazy"
      draggable={false}
      src={src}
      onLoad={() => {
        setLost(null);
      }}
      onError={() => {
        setLost(src);
      }}
    />
  );
}

/** The fourth and further axes are channels, as in `axes_of` of engine/viewing/pictures.py. */
export function channelsOf(shape: readonly number[]): number {
  return shape.slice(3).reduce((product, length) => product * length, 1);
}
