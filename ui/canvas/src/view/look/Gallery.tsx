/** Volumes as thumbnails. */

import { Dices } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';

import type { Choices, GalleryItem, PanelInfo, Picked } from '../../protocol';
import { count } from '../../rules/figures';
import { stem } from '../../rules/paths';
import { useViewing } from '../../state/viewing';
import type { Colours } from '../../volume/colours';
import { address, useAsked, type Asked } from '../parts/ask';
import { canShuffle, ChoiceList, inQuery } from './Choices';
import { ChannelField, ColourField } from '../parts/Fields';
import { choosing, MOST, PAGE, scrollOf, scrollToTop, useScrollBack, type Move, type Place } from './place';
import type { Opened } from './volume/VolumeViewer';
import { Waiting } from '../parts/Waiting';

interface Props {
  dataset: string;
  panel: PanelInfo;
  place: Place;
  onMove: Move;
  onOpen: (volume: Opened) => void;
}

export function Gallery(props: Props) {
  const { dataset, panel, place } = props;
  const { chosen, seed, shown, offset } = place;
  const asked = useAsked<Picked>(
    address(dataset, panel.name, 'content', { offset, count: shown, seed, ...inQuery(chosen) }),
  );
  // They may take a look at all rows, which the first thumbnails must not wait for.
  const begun = asked.answer !== null || asked.problem !== null;
  const choices = useAsked<Choices>(begun ? address(dataset, panel.name, 'choices') : null);
  return <Volumes {...props} asked={asked} choices={choices.answer?.choices ?? []} />;
}

interface VolumesProps extends Props {
  asked: Asked<Picked>;
  choices: Choices['choices'];
}

export function Volumes({ dataset, panel, place, onMove, onOpen, asked, choices }: VolumesProps) {
  const { chosen, seed, channel } = place;
  const list = useRef<HTMLUListElement>(null);
  const colours = useViewing((s) => s.colours);
  useScrollBack(list, place, onMove);
  const channels = channelsOf(panel.shape);
  const items = asked.answer?.items ?? [];
  const total = asked.answer?.total ?? null;
  const answered = { ...place, ...whereOf(asked.of, place) };
  return (
    <>
      <div className="look-bar">
        <ChoiceList
          choices={choices}
          chosen={chosen}
          onChoose={(next) => {
            onMove(choosing(next));
          }}
        />
        <button
          type="button"
          className="btn"
          disabled={!canShuffle(choices, chosen)}
          onClick={() => {
            onMove({ seed: seed + 1, offset: 0 });
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
          {asked.answer && shownText(answered.offset, items.length, total)}
        </span>
      </div>
      {asked.answer === null ? (
        <Waiting
          asked={asked}
          as="gallery"
          onBack={
            place.offset > 0
              ? () => {
                  onMove({ offset: 0 });
                }
              : undefined
          }
        />
      ) : (
        <>
          {items.length === 0 && <p className="quiet">{answered.offset === 0 ? 'No volumes.' : 'No more volumes.'}</p>}
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
          <Further
            place={answered}
            found={items.length}
            total={total}
            onMove={(to) => {
              if (to.offset !== undefined) scrollToTop(list.current);
              onMove(to);
            }}
          />
        </>
      )}
    </>
  );
}

/** Which volumes an answer has: while others are awaited, not those of the place that is gone to. */
function whereOf(url: string | null, { offset, shown }: Place): Pick<Place, 'offset' | 'shown'> {
  const asked = new URLSearchParams(url?.split('?')[1]);
  const [from, most] = [asked.get('offset'), asked.get('count')];
  return { offset: from === null ? offset : Number(from), shown: most === null ? shown : Number(most) };
}

/** `48 of 2,000`, on a further page `193 to 384 of 2,000`; without the total where it is unknown. */
export function shownText(offset: number, found: number, total: number | null): string {
  const which = offset === 0 || found === 0 ? count(found) : `${count(offset + 1)} to ${count(offset + found)}`;
  return total === null ? `${which} shown` : `${which} of ${count(total)}`;
}

interface FurtherProps {
  place: Place;
  /** How many volumes there are on this page, and in all: null where that is unknown. */
  found: number;
  total: number | null;
  onMove: Move;
}

/** The way on, and back: more on this page, then further pages in the same order. */
export function Further({ place: { shown, offset }, found, total, onMove }: FurtherProps) {
  const left = total === null ? MOST : total - offset - found;
  const more = found >= shown && left > 0;
  if (!more && offset === 0) return null;
  return (
    <div className="look-more">
      {offset > 0 && (
        <button
          type="button"
          className="btn"
          onClick={() => {
            onMove({ offset: Math.max(0, offset - MOST), shown: MOST });
          }}
        >
          Previous {count(Math.min(MOST, offset))}
        </button>
      )}
      {more && shown < MOST && (
        <button
          type="button"
          className="btn"
          onClick={() => {
            onMove({ shown: Math.min(MOST, shown + PAGE) });
          }}
        >
          Show more
        </button>
      )}
      {more && shown >= MOST && (
        <button
          type="button"
          className="btn"
          onClick={() => {
            onMove({ offset: offset + MOST });
          }}
        >
          Next {count(Math.min(MOST, left))}
        </button>
      )}
    </div>
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
